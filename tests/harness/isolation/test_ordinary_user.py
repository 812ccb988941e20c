"""The same as a user who is not root, where the kernel's rules differ: same-user access to /proc, process counts."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[3]
NOBODY = 65534
RUNNER = """
import json, os, signal, sys
from dataclasses import asdict
sys.path.insert(0, sys.argv[1])
from harness.isolation.policy import Access, Limits
from harness.isolation.process import run_isolated
from harness.isolation.tiers import why_unavailable
order = json.load(sys.stdin)
if reason := why_unavailable(order["tier"]):
    print(json.dumps({"skip": reason}))
else:
    victim = os.fork()
    if victim == 0:
        os.execve("/bin/sleep", ["sleep", "60"], {"SECRET": "the-secret"})
    argv = [part.replace("VICTIM", str(victim)) for part in order["argv"]]
    access, limits = Access(read=order["read"]), Limits(**order["limits"])
    completed = run_isolated(argv, cwd=order["cwd"], access=access, limits=limits, environment={}, tier=order["tier"])
    os.kill(victim, signal.SIGTERM)  # that it was killed before stands even where it had no core to end on yet
    victim_lives = os.WTERMSIG(os.waitpid(victim, 0)[1]) == signal.SIGTERM
    shown = {**asdict(completed), "stdout": completed.stdout.decode(), "stderr": completed.stderr.decode()}
    print(json.dumps({**shown, "victim_lives": victim_lives}))
"""


def _foreign_python() -> str | None:
    """An interpreter that every user may run: the one under test may lie in root's home."""
    for program in ("/usr/bin/python3", sys.executable):
        check = "import sys; sys.exit(sys.version_info < (3, 11))"
        command = [program, "-I", "-S", "-c", check]
        if Path(program).exists() and subprocess.run(command, user=NOBODY, cwd="/", check=False).returncode == 0:
            return program
    return None


@pytest.fixture
def home(attacks: Path) -> Iterator[Path]:
    """A folder of that user's with the package and the attacks in it."""
    if os.getuid() != 0:
        pytest.skip("only root can become another user; the other tests ran as an ordinary one")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        package = folder / "package" / "harness"
        shutil.copytree(ROOT / "harness" / "isolation", package / "isolation")
        shutil.copy(ROOT / "harness" / "__init__.py", package / "__init__.py")
        for room, modules in {"nouns": ("__init__", "errors", "tier"), "wire": ("__init__", "stopping")}.items():
            (package / room).mkdir()
            for module in modules:
                shutil.copy(ROOT / "harness" / room / f"{module}.py", package / room / f"{module}.py")
        shutil.copytree(attacks, folder / "attacks")
        (folder / "work").mkdir()
        for path in (folder, *folder.rglob("*")):
            os.chown(path, NOBODY, NOBODY)
        yield folder


@pytest.fixture(params=["bubblewrap", "landlock"])
def confined(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def attack(home: Path, tier: str, *argv: str, **limits: float) -> dict[str, Any]:
    python = _foreign_python()
    if python is None:
        pytest.skip("no Python 3.11 that another user may run")
    order = {
        "argv": [str(home / "attacks" / argv[0]), *argv[1:]],
        "cwd": str(home / "work"),
        "read": [str(home / "attacks")],
        "limits": {"wall_s": 20, **limits},
        "tier": tier,
    }
    completed = subprocess.run(
        [python, "-c", RUNNER, str(home / "package")],
        input=json.dumps(order),
        capture_output=True,
        text=True,
        timeout=60,
        user=NOBODY,
        group=NOBODY,
        extra_groups=[],
        cwd=home,
        env={"PATH": "/usr/bin:/bin", "HOME": str(home)},
    )
    assert completed.returncode == 0, completed.stderr
    answer: dict[str, Any] = json.loads(completed.stdout)
    if "skip" in answer:
        pytest.skip(f"{tier} does not work for an ordinary user here: {answer['skip']}")
    return answer


def test_a_command_runs(home: Path, confined: str) -> None:
    assert attack(home, confined, "daemon")["stdout"] == "achieved\n"


@pytest.mark.parametrize(
    "argv",
    [
        ("read_outside", "/proc/VICTIM/environ"),
        ("signal_outside", "VICTIM"),
        ("signal_outside", "parent"),
        ("read_outside", "parent"),
        ("pin_outside", "VICTIM"),
        ("trace_outside", "VICTIM"),
        ("new_namespace",),
        ("connect_tcp", "22"),
        ("connect_abstract", "VICTIM"),
        ("read_outside", "/proc/1/environ"),
        ("read_outside", "/etc/shadow"),
        ("write_outside", "/tmp/loot"),
        ("shared_memory",),
    ],
    ids=" ".join,
)
def test_an_attack_is_refused(home: Path, confined: str, argv: tuple[str, ...]) -> None:
    answer = attack(home, confined, *argv)
    assert answer["stdout"].startswith("refused: "), answer
    assert answer["victim_lives"]


def test_the_attacks_work_without_confinement(home: Path) -> None:
    assert "the-secret" in attack(home, "none", "read_outside", "/proc/VICTIM/environ")["stdout"]
    assert not attack(home, "none", "signal_outside", "VICTIM")["victim_lives"]


def test_the_supervisor_hides_what_it_holds_even_without_confinement(home: Path) -> None:
    """It stands outside the cage, as the same user: the kernel must not show its memory to anyone."""
    assert attack(home, "none", "read_outside", "parent")["stdout"].startswith("refused: open")


def test_a_write_beside_the_folder_is_refused(home: Path, confined: str) -> None:
    assert attack(home, confined, "write_outside", str(home / "loot"))["exit_code"] == 1
    assert not (home / "loot").exists()


def test_a_fork_bomb_is_held_by_the_kernel_or_stopped(home: Path, confined: str) -> None:
    answer = attack(home, confined, "fork_bomb", "12", processes=24, wall_s=1)
    assert answer["outcome"] in {"timed_out", "flooded"}  # the kernel refuses forks; or the watcher was first


@pytest.mark.parametrize(
    ("name", "limits", "outcome"),
    [
        ("crash", {}, "signalled"),
        ("hang", {"wall_s": 0.5}, "timed_out"),
        ("flood", {"output_bytes": 4096}, "flooded"),
        ("big_file", {"file_bytes": 8 << 20}, "exited"),
    ],
)
def test_what_breaks_or_takes_too_much_is_ended(
    home: Path, confined: str, name: str, limits: dict[str, float], outcome: str
) -> None:
    answer = attack(home, confined, name, "40", **limits)
    assert answer["outcome"] == outcome
    assert not (home / "work" / "big").exists() or (home / "work" / "big").stat().st_size == 8 << 20


def test_memory_of_all_processes_is_counted(home: Path, confined: str) -> None:
    answer = attack(home, confined, "memory_in_forks", "30", memory_bytes=100 << 20)
    assert answer["outcome"] == "out_of_memory"


def test_a_folder_shut_against_counting_ends_the_run(home: Path, confined: str) -> None:
    answer = attack(home, confined, "many_files", "shut", disk_bytes=100 << 20)
    assert (home / "work" / "many").stat().st_mode & 0o777 == 0
    assert (answer["outcome"], "in its folder" in answer["note"]) == ("flooded", True)


def test_memory_files_are_counted(home: Path, confined: str) -> None:
    answer = attack(home, confined, "memory_file", "150", memory_bytes=100 << 20)
    assert answer["outcome"] == "out_of_memory"
