"""What opens for a profiler: its target is another process, sockets work, and the machine stays out of reach."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from harness.isolation.policy import Access, Limits
from harness.isolation.process import Completed, run_isolated
from harness.nouns.tier import Tier

TOOL = Access(devices=("/dev/null",), profiling=True)

# The shell stands for the profiler, the Python below it for the target: CUDA names its threads in the same way.
NAMES_ITSELF = (
    'python3 -c \'import os; open(f"/proc/self/task/{os.getpid()}/comm", "w").write("cuda")\' && echo named; :'
)
TALKS_TO_ITSELF = """
import socket
server = socket.create_server(("127.0.0.1", 0))
client = socket.create_connection(server.getsockname(), timeout=5)
print("talked")
"""


def run(work: Path, tier: Tier, *argv: str, access: Access = TOOL) -> Completed:
    return run_isolated(argv, cwd=work, access=access, limits=Limits(wall_s=20), environment={}, tier=tier)


def test_a_target_below_the_tool_may_name_its_threads(work: Path, tier: Tier) -> None:
    completed = run(work, tier, "/bin/sh", "-c", NAMES_ITSELF)
    assert completed.stdout == b"named\n", completed.stderr


def test_the_tool_talks_over_loopback(work: Path, tier: Tier) -> None:
    completed = run(work, tier, "python3", "-c", TALKS_TO_ITSELF)
    assert completed.stdout == b"talked\n", completed.stderr


def test_the_machine_settings_are_sealed(work: Path, tier: Tier) -> None:
    before = Path("/proc/sys/kernel/core_pattern").read_text()
    for name in ("sys/kernel/core_pattern", "sys/vm/swappiness", "sysrq-trigger"):
        assert run(work, tier, "/bin/sh", "-c", f"true >> /proc/{name}").exit_code != 0
    assert Path("/proc/sys/kernel/core_pattern").read_text() == before


def test_the_network_ends_at_the_tools_own_loopback(work: Path, tier: Tier) -> None:
    if tier == "landlock" and os.getuid() != 0:
        pytest.skip("an ordinary user may not make a network of its own: the policy says so")
    with socket.create_server(("127.0.0.1", 0)) as server:
        script = f"import socket; socket.create_connection(('127.0.0.1', {server.getsockname()[1]}), timeout=5)"
        completed = run(work, tier, "python3", "-c", script)
    assert b"ConnectionRefusedError" in completed.stderr
