"""The processor as a device: what eager's memory is like while it is timed, how much is read to empty a cache."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from harness.trusted.devices import open_device
from harness.trusted.host_device import HostDevice

PR_SET_THP_DISABLE, PR_GET_THP_DISABLE = 41, 42  # linux/prctl.h


def in_child(answer: Callable[[], int]) -> int:
    """What a forked child finds out: these settings are a whole process's, and stay."""
    pid = os.fork()
    if pid == 0:
        status = 99
        try:
            status = answer()
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def on_the_heap(size: int) -> int:
    """Whether so many bytes from malloc lie in the heap, and not in a mapping of their own."""
    libc = ctypes.CDLL(None)
    libc.malloc.restype = ctypes.c_void_p
    address = libc.malloc(ctypes.c_size_t(size))
    maps = Path("/proc/self/maps").read_text().splitlines()
    heap = [[int(end, 16) for end in line.split()[0].split("-")] for line in maps if line.endswith("[heap]")]
    return int(any(low <= address < high for low, high in heap))


def test_what_eager_frees_is_kept_for_its_next_result():
    """A mapping of its own for each large result would cost eager a fault a page, and flatter the candidate."""
    fresh = (
        "from test_host_device import HostDevice, on_the_heap\n"
        "print(on_the_heap(64 << 20)); HostDevice(1 << 12).prepare('ieee'); print(on_the_heap(64 << 20))"
    )  # in a process of its own: tests that ran before in this one have prepared it
    path = {"PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *filter(None, sys.path)])}
    told = subprocess.run([sys.executable, "-c", fresh], env=os.environ | path, capture_output=True, check=True)
    assert told.stdout.split() == [b"0", b"1"]


def test_eager_has_pages_like_the_candidates_from_the_timing_on():
    def huge_pages_are_off(device: HostDevice | None) -> int:
        libc = ctypes.CDLL(None)
        libc.prctl(PR_SET_THP_DISABLE, 0, 0, 0, 0)
        if device:
            device.before_timing()
        return int(libc.prctl(PR_GET_THP_DISABLE, 0, 0, 0, 0))

    assert in_child(lambda: huge_pages_are_off(None)) == 0
    assert in_child(lambda: huge_pages_are_off(HostDevice(1 << 12))) == 1


@pytest.mark.parametrize(("wanted", "each", "allowed", "slots"), [(5, 10, 1000, 5), (5, 10, 49, 4), (5, 10, 9, 1)])
def test_there_are_as_many_slots_as_fit_and_one_at_least(wanted, each, allowed, slots):
    assert HostDevice(1 << 12).slots(wanted, each, allowed) == slots


def test_as_much_is_read_as_the_cache_holds():
    device = HostDevice(1 << 16)
    device.empty_caches()
    assert device._evictor.numel() * device._evictor.element_size() == 1 << 16


def test_the_processor_tells_no_clocks_and_is_the_device_by_its_name():
    device = open_device("cpu", 1 << 12)
    assert (device.kind, device.place, device.conditions()) == ("cpu", torch.device("cpu"), None)
    assert (device.seals, device.queues, device.keeps_results, device.pings) == (True, False, False, 0)


PLACES = """
import os, torch
from pathlib import Path
from harness.trusted.host_device import HostDevice

def places():
    return [os.sched_getaffinity(int(thread.name)) for thread in Path("/proc/self/task").iterdir()]

torch.set_num_threads(2)
torch.randn(1 << 20).sum()  # the pool is there
with HostDevice(1 << 12).team_in_place():
    print(len({frozenset(place) for place in places() if len(place) == 1}))
print(all(place == os.sched_getaffinity(0) for place in places()))
"""


def test_while_a_clock_runs_each_thread_of_pytorchs_pool_has_a_processor():
    done = subprocess.run([sys.executable, "-c", PLACES], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [str(min(2, len(os.sched_getaffinity(0)))), "True"]
