"""Running a command: what it gets, what comes back, and that it never outlives its owner."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from waiting import eventually, is_alive

from harness.isolation.policy import Access, Limits
from harness.isolation.process import Completed, IsolatedProcess, run_isolated, signal_name
from harness.isolation.start import interpreter_paths
from harness.isolation.tree import descendants
from harness.nouns.errors import MachineError
from harness.nouns.tier import Tier

SHELL = "/bin/sh"


def run(work: Path, tier: Tier, *argv: str, limits: Limits | None = None, **rest: object) -> Completed:
    settings: dict[str, object] = {"access": Access(), "environment": {}, **rest}
    return run_isolated(argv, cwd=work, limits=limits or Limits(wall_s=20), tier=tier, **settings)  # type: ignore[arg-type]


def open_files() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def test_streams_and_exit_code_come_back(work: Path, any_tier: Tier) -> None:
    completed = run(work, any_tier, SHELL, "-c", "echo out; echo err >&2; exit 7")
    assert (completed.outcome, completed.exit_code, completed.signal) == ("exited", 7, None)
    assert (completed.stdout, completed.stderr) == (b"out\n", b"err\n")
    assert (completed.strays, completed.note) == (0, "")
    assert completed.peak_memory_bytes > 0


def test_a_signal_comes_back_by_name(work: Path, any_tier: Tier) -> None:
    completed = run(work, any_tier, SHELL, "-c", "kill -ABRT $$")
    assert (completed.outcome, completed.exit_code, completed.signal) == ("signalled", None, "SIGABRT")
    assert signal_name(signal.SIGRTMIN + 1) == f"SIG{signal.SIGRTMIN + 1}"


def test_an_exit_code_above_128_is_no_signal(work: Path, any_tier: Tier) -> None:
    assert run(work, any_tier, SHELL, "-c", "exit 139").exit_code == 139


def test_the_environment_is_what_was_given(work: Path, any_tier: Tier, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "the-secret")
    completed = run(work, any_tier, "env", environment={"OMP_NUM_THREADS": "2", "HOME": "/nowhere"})
    assert dict(line.split("=", 1) for line in completed.stdout.decode().splitlines()) == {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "HOME": "/nowhere",
        "TMPDIR": str(work),
        "LANG": "C.UTF-8",
        "OMP_NUM_THREADS": "2",
    }


def test_it_works_in_its_folder(work: Path, any_tier: Tier) -> None:
    assert run(work, any_tier, SHELL, "-c", 'pwd; echo made > "$TMPDIR/file"').stdout == f"{work}\n".encode()
    assert (work / "file").read_text() == "made\n"


def test_access_opens_more(work: Path, tier: Tier, tmp_path: Path) -> None:
    shown, kept = tmp_path / "shown", tmp_path / "kept"
    for folder in (shown, kept):
        folder.mkdir()
        (folder / "file").write_text("text")
    access = Access(read=(str(shown),), write=(str(kept),))
    assert run(work, tier, "cat", str(shown / "file"), access=access).stdout == b"text"
    assert run(work, tier, SHELL, "-c", f"echo new > {kept}/file", access=access).exit_code == 0
    assert (kept / "file").read_text() == "new\n"
    assert run(work, tier, SHELL, "-c", f"echo new > {shown}/file", access=access).exit_code != 0
    assert (shown / "file").read_text() == "text"


def test_a_link_among_the_readable_paths_works(work: Path, tier: Tier, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "file").write_text("text")
    (tmp_path / "link").symlink_to("real")
    completed = run(work, tier, "cat", f"{tmp_path}/link/file", access=Access(read=(f"{tmp_path}/link",)))
    assert completed.stdout == b"text"


def test_a_path_inside_a_system_folder_may_be_named_again(work: Path, tier: Tier) -> None:
    links = (path for path in Path("/usr/bin").iterdir() if path.is_symlink() and path.readlink().is_absolute())
    link = next((path for path in links if path.exists()), None)
    if link is None:
        pytest.skip("no link with an absolute target in /usr/bin of this machine")
    access = Access(read=(str(link), "/usr/lib/no-such-folder"))
    assert run(work, tier, SHELL, "-c", f"ls {link} > /dev/null && echo there", access=access).stdout == b"there\n"


def test_python_runs_inside(work: Path, tier: Tier) -> None:
    completed = run(work, tier, sys.executable, "-c", "import numpy, sys; print(sys.prefix)")
    assert completed.stdout.decode().strip() == sys.prefix
    assert sys.prefix in interpreter_paths()


def test_stdin_is_delivered_and_need_not_be_read(work: Path, any_tier: Tier) -> None:
    text = b"x" * (1 << 20)
    assert run(work, any_tier, "wc", "-c", stdin=text).stdout.split() == [b"1048576"]
    assert run(work, any_tier, "true", stdin=text).exit_code == 0


def test_output_over_the_kept_part_is_cut(work: Path, any_tier: Tier) -> None:
    limits = Limits(wall_s=20, output_bytes=1000)
    completed = run(work, any_tier, "head", "-c", "9000", "/dev/zero", limits=limits)
    assert (completed.outcome, len(completed.stdout)) == ("exited", 1000)


@pytest.mark.parametrize("stream", [1, 2])
def test_a_stream_may_have_sixteen_times_what_is_kept_and_no_byte_more(work: Path, stream: int) -> None:
    limits = Limits(wall_s=20, output_bytes=1000)
    for size, outcome in ((16_000, "exited"), (16_001, "flooded")):
        done = run(work, "none", SHELL, "-c", f"head -c {size} /dev/zero >&{stream}", limits=limits)
        assert (done.outcome, len((done.stdout, done.stderr)[stream - 1])) == (outcome, 1000)
        assert len((done.stderr, done.stdout)[stream - 1]) == 0
        assert ("more than 16000 bytes on one stream" in done.note) == (outcome == "flooded")


def test_what_is_written_at_the_very_end_arrives(work: Path, any_tier: Tier) -> None:
    """Also from a process that the first one left behind with its streams."""
    done = run(work, any_tier, SHELL, "-c", "(sleep 300; echo never) & head -c 70000 /dev/zero; echo end >&2; exit 5")
    assert (done.outcome, done.exit_code, len(done.stdout), done.stderr) == ("exited", 5, 70_000, b"end\n")
    assert done.strays >= 1


def test_the_first_limit_that_is_broken_is_named(work: Path) -> None:
    spare = Limits(wall_s=20, memory_bytes=64 << 20, processes=8, disk_bytes=1 << 20)
    for script, outcome, words in (
        ("head -c 2000000 /dev/zero > file; sleep 300", "flooded", "1048576 bytes in its folder"),
        ("for each in 1 2 3 4 5 6 7 8 9 10 11 12; do sleep 300 & done; wait", "flooded", "8 processes"),
        ("python3 -c 'b = bytearray(b\"x\") * (40 << 20); import os; os.fork(); b[::4096] = b[::4096]; "
         "import time; time.sleep(300)'", "out_of_memory", "67108864 are allowed"),
    ):  # fmt: skip
        done = run(work, "none", SHELL, "-c", script, limits=spare)
        assert (done.outcome, words in done.note) == (outcome, True), done
        (work / "file").unlink(missing_ok=True)


def test_limits_hold_inside(work: Path, any_tier: Tier) -> None:
    limits = Limits(wall_s=20, memory_bytes=1 << 30, file_bytes=1 << 20, open_files=64)
    completed = run(work, any_tier, SHELL, "-c", "ulimit -d; ulimit -f; ulimit -n; ulimit -c", limits=limits)
    assert [int(value) for value in completed.stdout.split()] == [1 << 20, 2048, 64, 0]  # KiB, 512 bytes, files, blocks


def test_a_missing_command_is_a_failed_setup(work: Path, any_tier: Tier) -> None:
    completed = run(work, any_tier, "no-such-command")
    assert (completed.outcome, completed.exit_code) == ("setup_failed", None)
    assert "no-such-command" in completed.note


def test_a_missing_writable_folder_is_a_failed_setup(work: Path, tier: Tier, tmp_path: Path) -> None:
    completed = run(work, tier, "true", access=Access(write=(str(tmp_path / "missing"),)))
    assert completed.outcome == "setup_failed"
    assert str(tmp_path / "missing") in completed.note


def test_a_missing_bubblewrap_is_the_machines_fault(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(MachineError, match="not installed"):
        run(work, "bubblewrap", "/bin/true")


def test_no_descriptor_and_no_thread_stays(work: Path, any_tier: Tier) -> None:
    run(work, any_tier, "true")
    before = (open_files(), threading.active_count())
    for command in ("true", "no-such-command"):
        run(work, any_tier, command)
    run(work, any_tier, "sleep", "60", limits=Limits(wall_s=0.1))
    assert (open_files(), threading.active_count()) == before


# -- long-lived processes ----------------------------------------------------------------------------------------------


def begin(work: Path, tier: Tier, *argv: str, pass_fds: tuple[int, ...] = ()) -> IsolatedProcess:
    return IsolatedProcess(
        argv, cwd=work, access=Access(), limits=Limits(), environment={}, tier=tier, pass_fds=pass_fds
    )


def test_a_conversation_over_a_passed_socket(work: Path, any_tier: Tier) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs, begin(work, any_tier, "cat", pass_fds=(theirs.fileno(),)):
        pass  # cat reads an empty input: the descriptor alone must not keep anything open
    ours, theirs = socket.socketpair()
    script = f"import socket; s = socket.socket(fileno={theirs.fileno()}); s.send(s.recv(99).upper()); s.recv(99)"
    with ours, begin(work, any_tier, "python3", "-c", script, pass_fds=(theirs.fileno(),)) as process:
        theirs.close()
        ours.settimeout(20)
        ours.send(b"hello")
        assert ours.recv(99) == b"HELLO"
        assert process.running
        ours.shutdown(socket.SHUT_RDWR)
        assert process.wait(20).exit_code == 0
        assert not process.running


def test_killing_is_told_apart(work: Path, any_tier: Tier) -> None:
    with begin(work, any_tier, "sleep", "300") as process:
        completed = process.kill()
    assert (completed.outcome, completed.signal) == ("signalled", "SIGKILL")
    assert process.kill() is process.wait(1) is completed


def test_leaving_the_block_kills_the_tree(work: Path, any_tier: Tier) -> None:
    with begin(work, any_tier, SHELL, "-c", "sleep 300 & setsid sleep 300 & wait") as process:
        assert eventually(lambda: len(descendants(process.pid)) >= 3)
        tree = [process.pid, *descendants(process.pid)]
    assert not any(is_alive(pid) for pid in tree)


def test_the_end_of_the_starting_thread_changes_nothing(work: Path, any_tier: Tier) -> None:
    started: list[IsolatedProcess] = []
    thread = threading.Thread(target=lambda: started.append(begin(work, any_tier, "sleep", "300")))
    thread.start()
    thread.join()
    with started[0] as process:
        assert process.wait(0.3).outcome == "timed_out"


OWNER = """
import sys, time
from harness.isolation.policy import Access, Limits
from harness.isolation.process import IsolatedProcess
from harness.isolation.tree import pause_tree
process = IsolatedProcess(["/bin/sh", "-c", "sleep 300 & setsid sleep 300 & echo ready > ready; wait"], cwd=sys.argv[1],
                          access=Access(), limits=Limits(), environment={}, tier=sys.argv[2])
while not __import__("os").path.exists(sys.argv[1] + "/ready"):
    pass
if sys.argv[3] == "paused":
    pause_tree(process.pid)
print(process.pid, flush=True)
time.sleep(300)
"""


@pytest.mark.parametrize("state", ["running", "paused"])
def test_the_owners_sudden_death_ends_the_tree(work: Path, any_tier: Tier, state: str) -> None:
    command = [sys.executable, "-c", OWNER, str(work), any_tier, state]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as owner:
        assert owner.stdout is not None
        pid = int(owner.stdout.readline())
        tree = [pid, *descendants(pid)]
        assert len(tree) >= 4
        owner.kill()
    assert eventually(lambda: not any(is_alive(process) for process in tree))
