"""A forked child locks itself down and goes on: what it still can do, and what no more."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from harness.isolation.landlock import landlock_version

pytestmark = pytest.mark.skipif(landlock_version() == 0, reason="this kernel has no Landlock")

FORK = """
import os, signal, sys, time
from harness.isolation.lockdown import lock_down
from harness.isolation.policy import Access, Limits
from harness.isolation.start import interpreter_paths

work, outside = sys.argv[1:3]

def errno_of(action):
    try:
        action()
        return 0
    except OSError as error:
        return error.errno

def in_child(body, **options):
    pid = os.fork()
    if pid == 0:
        try:
            lock_down(Access(read=interpreter_paths(), write=(work,)), Limits(), **options)
            body()
            sys.stdout.flush()
        except BaseException as error:
            print(type(error).__name__, error, flush=True)
        os._exit(0)
    os.waitpid(pid, 0)
"""


def answers(script: str, work: Path) -> list[str]:
    """What the script prints, line by line."""
    outside = work.parent / "outside"
    outside.write_text("the-secret")
    command = [sys.executable, "-c", FORK + script, str(work), str(outside)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    completed = subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment)
    assert completed.returncode == 0, completed.stderr
    return completed.stdout.splitlines()


def test_files_outside_are_shut_and_descriptors_stay_open(work: Path) -> None:
    script = """
opened = open(outside)
def body():
    print(errno_of(lambda: open(outside)), opened.read())
    print(errno_of(lambda: open(outside, "w")), errno_of(lambda: open(work + "/made", "w")))
    import wave  # not imported before: the interpreter's own files stay readable
    print("imported")
in_child(body)
print(errno_of(lambda: open(outside)))
"""
    assert answers(script, work) == ["13 the-secret", "13 0", "imported", "0"]


def test_sockets_and_other_processes_are_shut(work: Path) -> None:
    script = """
import ctypes, resource, socket
def body():
    print(errno_of(lambda: socket.socket(socket.AF_INET)), errno_of(lambda: socket.socket(socket.AF_UNIX)))
    print(errno_of(lambda: resource.prlimit(os.getppid(), resource.RLIMIT_NOFILE)))
    print(errno_of(lambda: open(f"/proc/{os.getppid()}/environ")))
    left, right = socket.socketpair()
    left.send(b"pair")
    print(right.recv(9).decode())
in_child(body)
"""
    assert answers(script, work) == ["1 1", "1", "13", "pair"]


@pytest.mark.skipif(landlock_version() < 6, reason="this kernel's Landlock does not scope signals")
def test_signals_to_a_sibling_only_where_they_are_wanted(work: Path) -> None:
    script = """
sibling = os.fork()
if sibling == 0:
    time.sleep(60)
    os._exit(0)
for signals in (False, True):
    in_child(lambda: print(errno_of(lambda: os.kill(sibling, signal.SIGSTOP))), signals=signals)
print(os.WIFSTOPPED(os.waitpid(sibling, os.WUNTRACED)[1]))
os.kill(sibling, signal.SIGKILL)
"""
    assert answers(script, work) == ["1", "0", "True"]


def test_its_own_children_may_be_signalled(work: Path) -> None:
    script = """
def body():
    child = os.fork()
    if child == 0:
        time.sleep(60)
    os.kill(child, signal.SIGKILL)
    print(os.waitpid(child, 0)[1])
in_child(body)
"""
    assert answers(script, work) == ["9"]


def test_without_confinement_only_limits_hold(work: Path) -> None:
    script = """
import resource
def body():
    print(errno_of(lambda: open(outside)), resource.getrlimit(resource.RLIMIT_CORE))
in_child(body, tier="none")
"""
    assert answers(script, work) == ["0 (0, 0)"]


def test_it_can_be_done_twice(work: Path) -> None:
    script = """
def body():
    lock_down(Access(read=interpreter_paths()), Limits())
    print(errno_of(lambda: open(work + "/made", "w")))
in_child(body)
"""
    assert answers(script, work) == ["13"]


def test_torch_computes_with_threads_afterwards(work: Path) -> None:
    script = """
import torch
torch.set_num_threads(1)
def body():
    torch.set_num_threads(2)
    left = torch.arange(512 * 512, dtype=torch.float64).reshape(512, 512) % 7
    print((left @ left.T).diagonal().sum().item() == (left * left).sum().item(), torch.get_num_threads())
    print(len(os.listdir("/proc/self/task")) > 1)
in_child(body)
"""
    assert answers(script, work) == ["True 2", "True"]


def test_there_is_room_for_a_thread_on_each_processor_beside_the_processes(work: Path) -> None:
    """On a machine of many processors OpenMP's threads alone are more than the processes that a kernel may have."""
    script = """
def body():
    print(resource.getrlimit(resource.RLIMIT_NPROC)[0] - Limits().processes >= 3 * len(os.sched_getaffinity(0)))
import resource
in_child(body)
"""
    assert answers(script, work) == ["True"]
