"""A process that gives up what it could write and run: in one of its own, since it does not get it back."""

from __future__ import annotations

import subprocess
import sys

from harness.processes.candidate_process import runtime_library

SCRIPT = """
import ctypes, sys
from harness.candidate import seal
from harness.wire import abi
from harness.candidate.allocator import Allocator, Heap

def both():
    with open("/proc/self/maps") as maps:
        return sum("wx" in line.split()[1] for line in maps)

scratch, runtime = Allocator("cpu", Heap()), ctypes.CDLL(sys.argv[1])
callbacks = both()
scratch.install(runtime)
seal.fix_code()
handle, wanted = ctypes.c_void_p(), abi.tensor(0, (3, 5), (5, 1), "float32", "cpu")
failed = runtime.TVMFFIEnvTensorAlloc(ctypes.byref(wanted), ctypes.byref(handle))
freed = runtime.TVMFFIObjectDecRef(handle)
print(callbacks, both(), failed, bool(handle))
"""


def test_callbacks_are_called_in_memory_that_nobody_writes_any_more() -> None:
    command = [sys.executable, "-c", SCRIPT, str(runtime_library())]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")  # nor does the interpreter's end
    callbacks, both, failed, given = done.stdout.split()
    assert int(callbacks) <= 1
    assert (both, failed, given) == ("0", "0", "True")
