"""Finding, weighing, pausing and killing the processes below one."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from waiting import eventually

from harness.isolation.mapped_code import Code, foreign_code
from harness.isolation.tree import (
    descendants,
    folder_bytes,
    kill_descendants,
    kill_tree,
    pause,
    pause_tree,
    resume_tree,
    weigh,
)

MIB = 1 << 20
FAMILY = "sleep 300 & (sleep 300 & sleep 300 & wait) & wait"


@pytest.fixture
def family() -> Iterator[subprocess.Popen[bytes]]:
    """A shell with four processes below it, two of them grandchildren."""
    with subprocess.Popen(["/bin/sh", "-c", FAMILY]) as process:
        assert eventually(lambda: len(descendants(process.pid)) == 4)
        yield process
        resume_tree(process.pid)
        kill_tree(process.pid)


def state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]


def test_descendants_are_found_parents_first(family: subprocess.Popen[bytes]) -> None:
    below = descendants(family.pid)
    parents = {pid: int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1]) for pid in below}
    assert sum(parent == family.pid for parent in parents.values()) == 2
    for place, pid in enumerate(below):
        assert parents[pid] == family.pid or parents[pid] in below[:place]
    assert family.pid in descendants(os.getpid())


def test_a_process_with_brackets_in_its_name_is_found(tmp_path: Path) -> None:
    program = tmp_path / "a) R 1 (b"
    program.symlink_to("/bin/sleep")
    with subprocess.Popen([program, "300"]) as process:
        assert eventually(lambda: Path(f"/proc/{process.pid}/comm").read_text().startswith("a)"))
        assert process.pid in descendants(os.getpid())
        process.kill()


def test_nobody_is_below_a_process_without_children_or_a_dead_one() -> None:
    with subprocess.Popen(["/bin/sleep", "300"]) as process:
        assert descendants(process.pid) == []
        assert kill_tree(process.pid) == 1
    assert process.returncode == -9
    assert descendants(process.pid) == []
    assert kill_descendants(process.pid) == 0


@pytest.mark.parametrize("known", [False, True])
def test_pausing_stops_all_and_resuming_wakes_them(family: subprocess.Popen[bytes], known: bool) -> None:
    everybody = [family.pid, *descendants(family.pid)]
    paused = pause_tree(family.pid, {*everybody[1:]} if known else None)
    assert eventually(lambda: all(state(pid) == "T" for pid in everybody))
    assert paused == {*everybody} - {family.pid}
    resume_tree(family.pid, paused if known else None)
    assert eventually(lambda: all(state(pid) == "S" for pid in everybody))


SPINNING = """
import threading
def spin():
    while True:
        pass
for _ in range(3):
    threading.Thread(target=spin).start()
"""


def test_a_process_that_is_paused_by_itself_stands_with_all_its_threads() -> None:
    with subprocess.Popen([sys.executable, "-I", "-S", "-c", SPINNING]) as process:
        assert eventually(lambda: len(states_of_threads(process.pid)) == 4)
        pause(process.pid)
        assert eventually(lambda: set(states_of_threads(process.pid)) == {"T"})
        resume_tree(process.pid, ())
        assert eventually(lambda: "T" not in states_of_threads(process.pid))
        process.kill()
    pause(process.pid)  # it has ended: nobody is stopped


@pytest.mark.parametrize("paused", [False, True])
def test_killing_leaves_nobody(family: subprocess.Popen[bytes], paused: bool) -> None:
    everybody = [family.pid, *descendants(family.pid)]
    if paused:
        pause_tree(family.pid)
    assert kill_tree(family.pid) == 5
    assert family.wait(10) == -9
    assert eventually(lambda: not any(Path(f"/proc/{pid}").exists() and state(pid) != "Z" for pid in everybody))


LEADERLESS = """
import ctypes, threading, time
hoard, counted = bytearray(b"x") * (40 << 20), open(COUNTED, "wb", 0)
def count():
    while True:
        counted.write(b"x")
        time.sleep(0.001)
threading.Thread(target=count).start()
ctypes.CDLL(None).syscall(END)
"""
END_OF_A_THREAD = {"x86_64": 60, "aarch64": 93}


def test_a_process_whose_first_thread_has_ended_is_none_that_has_ended(tmp_path: Path) -> None:
    """It is called a zombie; its other threads compute, hold memory and code, and are to be stopped."""
    counted = tmp_path / "counted"
    script = f"COUNTED, END = {str(counted)!r}, {END_OF_A_THREAD[os.uname().machine]}\n{LEADERLESS}"
    with subprocess.Popen([sys.executable, "-I", "-S", "-c", script]) as process:
        assert eventually(lambda: state(process.pid) == "Z" and counted.exists() and counted.stat().st_size > 0)
        assert process.pid in descendants(os.getpid())
        assert memory(process.pid) > 40 * MIB
        assert "code of" in foreign_code(process.pid, Code(frozenset()))
        pause_tree(process.pid)
        assert eventually(lambda: set(states_of_threads(process.pid)) == {"Z", "T"})
        resume_tree(process.pid)
        before = counted.stat().st_size
        assert eventually(lambda: counted.stat().st_size > before)
        assert kill_descendants(os.getpid()) >= 1
    assert not Path(f"/proc/{process.pid}").exists()


def states_of_threads(pid: int) -> list[str]:
    folders = Path(f"/proc/{pid}/task").iterdir()
    return [(folder / "stat").read_text().rsplit(")", 1)[1].split()[0] for folder in folders]


def memory(pid: int) -> int:
    """Bytes that a process and all below it hold."""
    return weigh([pid, *descendants(pid)]).memory_bytes


def test_memory_counts_pages_and_unmapped_memory_files() -> None:
    script = (
        "import os, sys; block = bytearray(b'x') * (40 << 20); file = os.memfd_create('hoard');"
        "os.write(file, block[: 20 << 20]); print('ready', flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-I", "-S", "-c", script]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert 60 * MIB < memory(process.pid) < 120 * MIB
        process.kill()
    assert memory(process.pid) == 0


def test_a_file_without_a_name_counts_once_however_many_hold_it(tmp_path: Path) -> None:
    """On disk and in memory alike; a file that has its name is the folder's affair."""
    script = (
        "import os, sys; os.chdir(sys.argv[1]); block = b'x' * (5 << 20);"
        "gone = open('gone', 'wb', 0); gone.write(block); os.unlink('gone'); again = os.dup(gone.fileno());"
        "there = open('there', 'wb', 0); there.write(block); hoard = os.memfd_create('hoard'); os.write(hoard, block);"
        "os.fork() or sys.stdin.read(); print('ready', flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-I", "-S", "-c", script, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert eventually(lambda: len(descendants(process.pid)) == 1)
        both = [process.pid, *descendants(process.pid)]
        assert eventually(lambda: weigh(both).unnamed_bytes > 0)
        held, alone = weigh(both), weigh(both[:1])
        assert 5 * MIB <= held.unnamed_bytes < 6 * MIB
        assert held.unnamed_bytes == alone.unnamed_bytes
        assert alone.memory_bytes >= 5 * MIB
        kill_tree(process.pid)
    assert weigh(both) == weigh([]), "who has ended holds nothing"


def test_a_folders_bytes_are_those_of_its_files_and_at_least_a_page_for_each(tmp_path: Path) -> None:
    (tmp_path / "deep" / "er").mkdir(parents=True)
    (tmp_path / "deep" / "er" / "file").write_bytes(b"x" * MIB)
    (tmp_path / "link").symlink_to("/usr")
    (tmp_path / "empty").touch()
    assert MIB + 4 * 4096 <= folder_bytes(str(tmp_path), 1 << 30) < 2 * MIB
    assert folder_bytes(str(tmp_path / "gone"), 1 << 30) == 0


def test_counting_ends_above_the_most_and_where_names_grow_too_long(tmp_path: Path) -> None:
    for number in range(100):
        (tmp_path / str(number)).touch()
    assert folder_bytes(str(tmp_path), 10 * 4096) <= 101 * 4096
    deep = os.open(tmp_path, os.O_DIRECTORY)
    for _ in range(20):
        os.mkdir("n" * 250, dir_fd=deep)
        below = os.open("n" * 250, os.O_DIRECTORY, dir_fd=deep)
        os.close(deep)
        deep = below
    os.close(deep)
    assert folder_bytes(str(tmp_path), 1 << 40) == (1 << 40) + 1
