"""Attacks from tests/hostile: none reaches its aim in a confining tier, and none leaves anything behind."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from harness.isolation.policy import Limits
from harness.isolation.process import Completed
from harness.nouns.tier import Tier

Attack = Callable[..., Completed]

MIB = 1 << 20


def was_refused(completed: Completed) -> bool:
    """The attack ran, said why it could not, and ended by itself."""
    return completed.outcome == "exited" and completed.exit_code == 1 and completed.stdout.startswith(b"refused: ")


def was_achieved(completed: Completed) -> bool:
    return completed.exit_code == 0 and completed.stdout.endswith(b"achieved\n")


@pytest.fixture
def victim() -> Iterator[subprocess.Popen[bytes]]:
    """A process outside, of the same user, with a secret in its environment."""
    sleep = shutil.which("sleep") or "/bin/sleep"
    with subprocess.Popen([sleep, "300"], env={"SECRET": "the-secret"}) as process:
        yield process
        process.kill()


# -- what breaks by itself ---------------------------------------------------------------------------------------------


def test_a_crash_is_a_signal(attack: Attack, tier: Tier, work: Path) -> None:
    completed = attack("crash", tier=tier)
    assert (completed.outcome, completed.signal, completed.exit_code) == ("signalled", "SIGSEGV", None)
    assert not list(work.glob("core*"))


def test_a_hang_ends_at_the_wall_limit(attack: Attack, tier: Tier) -> None:
    completed = attack("hang", tier=tier, limits=Limits(wall_s=0.5))
    assert completed.outcome == "timed_out"
    assert 0.5 <= completed.wall_s < 3
    assert "0.5 s" in completed.note


# -- what takes too much -----------------------------------------------------------------------------------------------


def test_a_fork_bomb_is_stopped(attack: Attack, tier: Tier) -> None:
    completed = attack("fork_bomb", 11, tier=tier, limits=Limits(wall_s=20, processes=24))
    assert completed.outcome == "flooded"
    assert "24 processes" in completed.note


def test_memory_counts_over_all_processes(attack: Attack, tier: Tier) -> None:
    completed = attack("memory_in_forks", 30, tier=tier, limits=Limits(wall_s=20, memory_bytes=100 * MIB))
    assert completed.outcome == "out_of_memory"
    assert completed.peak_memory_bytes > 100 * MIB


def test_memory_of_one_process_is_refused_by_the_kernel(attack: Attack, tier: Tier) -> None:
    completed = attack("memory_in_forks", 200, tier=tier, limits=Limits(wall_s=1, memory_bytes=100 * MIB))
    assert completed.outcome == "timed_out"
    assert completed.stdout.count(b"refused: malloc") == 8


def test_memory_files_count_too(attack: Attack, tier: Tier) -> None:
    completed = attack("memory_file", 150, tier=tier, limits=Limits(wall_s=20, memory_bytes=100 * MIB))
    assert completed.outcome == "out_of_memory"


def test_a_file_does_not_grow_over_its_limit(attack: Attack, tier: Tier, work: Path) -> None:
    completed = attack("big_file", 40, tier=tier, limits=Limits(wall_s=20, file_bytes=8 * MIB))
    assert was_refused(completed)
    assert (work / "big").stat().st_size == 8 * MIB


@pytest.mark.parametrize("how", ["small", "unnamed"])
def test_many_files_count_together(attack: Attack, tier: Tier, how: str) -> None:
    completed = attack("many_files", how, tier=tier, limits=Limits(wall_s=20, disk_bytes=20 * MIB))
    assert completed.outcome == "flooded"
    assert f"{20 * MIB} bytes in its folder" in completed.note


def test_a_flood_of_output_ends_it(attack: Attack, tier: Tier) -> None:
    completed = attack("flood", tier=tier, limits=Limits(wall_s=20, output_bytes=4096))
    assert completed.outcome == "flooded"
    assert (len(completed.stdout), len(completed.stderr)) == (4096, 4096)


# -- what reaches out: each aim is reached without confinement, which shows that the attack is real --------------------


def test_no_write_beside_the_working_folder(attack: Attack, tier: Tier, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.write_text("before")
    assert was_refused(attack("write_outside", kept, tier=tier))
    assert was_refused(attack("write_outside", tmp_path / "new", tier=tier))
    assert was_refused(attack("write_outside", Path.home() / ".attack", tier=tier))
    assert kept.read_text() == "before"
    assert not (tmp_path / "new").exists()
    assert was_achieved(attack("write_outside", kept, tier="none"))


def test_no_removal_beside_the_working_folder(attack: Attack, tier: Tier, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.write_text("before")
    assert was_refused(attack("remove_outside", kept, tier=tier))
    assert kept.exists()
    assert was_achieved(attack("remove_outside", kept, tier="none"))


def test_a_private_key_is_not_read(attack: Attack, tier: Tier, tmp_path: Path) -> None:
    key = tmp_path / ".ssh" / "id_ed25519"
    key.parent.mkdir()
    key.write_text("the-secret")
    completed = attack("read_outside", key, tier=tier)
    assert was_refused(completed)
    assert b"the-secret" not in completed.stdout
    assert b"the-secret" in attack("read_outside", key, tier="none").stdout


def test_an_own_link_does_not_lead_out(attack: Attack, tier: Tier, work: Path) -> None:
    key = work.parent / "key"
    key.write_text("the-secret")
    (work / "innocent").symlink_to(key)
    assert was_refused(attack("read_outside", "innocent", tier=tier))


@pytest.mark.parametrize("entry", ["environ", "maps", "mem"])
def test_other_processes_keep_their_secrets(
    attack: Attack, tier: Tier, victim: subprocess.Popen[bytes], entry: str
) -> None:
    completed = attack("read_outside", f"/proc/{victim.pid}/{entry}", tier=tier)
    assert was_refused(completed)
    assert b"the-secret" not in completed.stdout
    if entry == "environ":
        assert b"the-secret" in attack("read_outside", f"/proc/{victim.pid}/{entry}", tier="none").stdout


def test_the_judge_itself_keeps_its_secrets(attack: Attack, tier: Tier) -> None:
    assert was_refused(attack("read_outside", f"/proc/{os.getpid()}/environ", tier=tier))
    assert was_refused(attack("trace_outside", os.getpid(), tier=tier))


def test_no_signal_reaches_another_process(attack: Attack, tier: Tier, victim: subprocess.Popen[bytes]) -> None:
    assert was_refused(attack("signal_outside", victim.pid, tier=tier))
    assert victim.poll() is None
    assert was_achieved(attack("signal_outside", victim.pid, tier="none"))
    assert victim.wait(timeout=5) == -9


def test_no_other_process_is_kept_on_one_core(attack: Attack, tier: Tier, victim: subprocess.Popen[bytes]) -> None:
    """A baseline that may use one core of many makes any kernel look fast."""
    cores = os.sched_getaffinity(victim.pid)
    assert was_refused(attack("pin_outside", victim.pid, tier=tier))
    assert os.sched_getaffinity(victim.pid) == cores
    assert was_achieved(attack("pin_outside", victim.pid, tier="none"))
    assert len(os.sched_getaffinity(victim.pid)) == 1


def test_the_supervisor_cannot_be_killed(attack: Attack, tier: Tier) -> None:
    assert was_refused(attack("signal_outside", "parent", tier=tier))


def test_no_process_is_traced(attack: Attack, tier: Tier, victim: subprocess.Popen[bytes]) -> None:
    assert was_refused(attack("trace_outside", victim.pid, tier=tier))


def test_no_server_is_reached_over_tcp(attack: Attack, tier: Tier) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert was_refused(attack("connect_tcp", port, tier=tier))
        assert was_achieved(attack("connect_tcp", port, tier="none"))


def test_no_service_is_reached_over_its_socket_file(attack: Attack, tier: Tier, work: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        path = work / "service"  # even where the file itself is within reach
        server.bind(str(path))
        server.listen()
        assert was_refused(attack("connect_unix", path, tier=tier))
        assert was_achieved(attack("connect_unix", path, tier="none"))


def test_no_service_is_reached_over_a_socket_without_a_file(attack: Attack, tier: Tier) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("\0cutegen-test-service")
        server.listen()
        assert was_refused(attack("connect_abstract", "cutegen-test-service", tier=tier))
        assert was_achieved(attack("connect_abstract", "cutegen-test-service", tier="none"))


def test_no_new_namespace(attack: Attack, tier: Tier) -> None:
    assert was_refused(attack("new_namespace", tier=tier))


# -- what stays --------------------------------------------------------------------------------------------------------


def test_a_daemon_does_not_outlive_the_run(attack: Attack, any_tier: Tier) -> None:
    completed = attack("daemon", tier=any_tier)
    assert was_achieved(completed)
    assert completed.strays == 1


def test_no_memory_segment_stays(attack: Attack, tier: Tier) -> None:
    assert was_refused(attack("shared_memory", tier=tier))
