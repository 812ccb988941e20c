"""The hostile kernels once more, judged by an ordinary user, whose rights and whose system's rules are others."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

import pytest

from harness.building.cpu_build import CpuToolchain
from harness.machine.system import cache_dir

ROOT = Path(__file__).resolve().parents[3]
NOBODY = 65534
SUITE = Path(__file__).with_name("test_hostile_kernels.py")
WITHIN_S = 280


@pytest.fixture(scope="module")
def home():
    """A folder of that user's: home, cache and work lie there. It begins with what any kernel's build needs."""
    if os.getuid() != 0:
        pytest.skip("only root can become another user; the other tests ran as an ordinary one")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        cache = cache_dir().absolute()
        for kept in (CpuToolchain().prelude().parent, cache / "machine"):
            if kept.is_dir():
                shutil.copytree(kept, folder / "cache" / kept.relative_to(cache))
        (folder / "work").mkdir()
        for path in (folder, *folder.rglob("*")):
            os.chown(path, NOBODY, NOBODY)
        yield folder


@pytest.fixture(scope="module")
def python(home):
    """An interpreter that every user may run, with our packages on its path: ours may lie in root's home."""
    wanted = "import sys, harness.judging.local, pytest; from importlib.util import find_spec; find_spec('torch').name"
    for program in (sys.executable, f"/usr/bin/python3.{sys.version_info.minor}", "/usr/bin/python3"):
        same = f"sys.exit(sys.version_info[:2] != {sys.version_info[:2]})"
        try:
            if as_user(home, program, "-c", f"{wanted}; {same}").returncode == 0:
                return program
        except OSError:
            continue
    return pytest.skip("another user may run no Python of this version, or may not read these packages")


def as_user(home, *command):
    folders = [str(ROOT), sysconfig.get_path("purelib"), os.environ.get("PYTHONPATH", "")]
    own = {
        "HOME": home,
        "CUTEGEN_CACHE": home / "cache",
        "TMPDIR": home / "work",
        "PATH": os.pathsep.join([sysconfig.get_path("scripts"), os.environ["PATH"]]),
        "PYTHONPATH": os.pathsep.join(filter(None, folders)),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    kept = {name: os.environ[name] for name in ("CXX",) if name in os.environ}
    return subprocess.run(
        [*map(str, command)],
        env=kept | {name: str(value) for name, value in own.items()},
        cwd=ROOT,
        user=NOBODY,
        group=NOBODY,
        extra_groups=[],
        capture_output=True,
        text=True,
        timeout=WITHIN_S,
    )


@pytest.mark.parametrize("tier", ["bubblewrap", "landlock"])
def test_the_same_holds_for_an_ordinary_user(home, python, tier):
    reason = f"from harness.isolation.tiers import why_unavailable; print(why_unavailable({tier!r}))"
    if missing := as_user(home, python, "-c", reason).stdout.strip():
        pytest.skip(f"{tier} does not work for another user: {missing}")
    options = ("-q", "-rs", "-p", "no:cacheprovider", "--basetemp", home / "work" / tier, "-k", tier)
    ran = as_user(home, python, "-m", "pytest", *options, SUITE)
    assert ran.returncode == 0, ran.stdout[-4000:] + ran.stderr[-2000:]
    assert " passed" in ran.stdout, ran.stdout
    assert (home / "cache" / "builds").stat().st_uid == NOBODY
