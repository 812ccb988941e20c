"""The attacks of tests/hostile, compiled, and a way to run them in each tier that works on this machine."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from harness.isolation.policy import Access, Limits
from harness.isolation.process import Completed, run_isolated
from harness.isolation.tiers import why_unavailable
from harness.nouns.tier import Tier

HOSTILE = Path(__file__).resolve().parents[2] / "hostile"

Attack = Callable[..., Completed]


@pytest.fixture(scope="session")
def attacks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the compiled attacks, each named as its source."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler to build the attacks with")
    folder = tmp_path_factory.mktemp("attacks")
    for source in sorted(HOSTILE.glob("*.c")):
        subprocess.run([compiler, "-std=gnu11", "-O0", "-w", source, "-o", folder / source.stem], check=True)
    return folder


@pytest.fixture(params=["bubblewrap", "landlock"])
def tier(request: pytest.FixtureRequest) -> Tier:
    """Each tier that is meant to confine; skipped with the reason where it does not work."""
    return working(request.param)


@pytest.fixture(params=["bubblewrap", "landlock", "none"])
def any_tier(request: pytest.FixtureRequest) -> Tier:
    """The same, and running without confinement."""
    return working(request.param)


def working(chosen: Tier) -> Tier:
    """`chosen`, or a skipped test."""
    if reason := why_unavailable(chosen):
        pytest.skip(f"{chosen} does not work here: {reason}")
    return chosen


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """The folder that isolated processes work in; what lies beside it is out of their reach."""
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


@pytest.fixture
def attack(attacks: Path, work: Path) -> Iterator[Attack]:
    """Run `attack(name, *arguments, tier=..., limits=...)` in `work`; afterwards no attack may be alive."""

    def run(name: str, *arguments: object, tier: Tier, limits: Limits | None = None) -> Completed:
        return run_isolated(
            [str(attacks / name), *map(str, arguments)],
            cwd=work,
            access=Access(read=(str(attacks),)),
            limits=limits or Limits(wall_s=20),
            environment={},
            tier=tier,
        )

    yield run
    assert alive_below(attacks) == []


def alive_below(folder: Path) -> list[int]:
    """Processes whose program lies in `folder`, given two seconds to end."""
    deadline = time.monotonic() + 2
    while True:
        found = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit() and _runs(entry, folder)]
        if not found or time.monotonic() > deadline:
            return found


def _runs(process: Path, folder: Path) -> bool:
    try:
        return (process / "exe").readlink().is_relative_to(folder)
    except OSError:
        return False
