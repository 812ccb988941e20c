"""Kernels in plain C and runners in processes of their own, without a cage: a tenth of a second each."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from harness.building.toolchain import host_compiler, tvm_ffi_folder
from harness.processes.candidate_process import PROGRAMS, runtime_library
from harness.trusted.link import RunnerLink

HEAD = """\
#include <stdlib.h>
#include <string.h>
#include <tvm/ffi/c_api.h>
#include <tvm/ffi/extra/c_env_api.h>
static DLTensor* tensor(const TVMFFIAny* argument) { return (DLTensor*)argument->v_ptr; }
static float* floats(const TVMFFIAny* argument) { return (float*)tensor(argument)->data; }
extern "C" int __tvm_ffi_run(void* self, const TVMFFIAny* arguments, int count, TVMFFIAny* result) {
"""
SCALED = """\
  for (int i = 0; i < 30; ++i)
    floats(arguments + 3)[i] = floats(arguments)[i] * floats(arguments + 2)[i % 5] + (float)arguments[1].v_float64;
"""
"""What the file of `python_kernels` computes."""


def library(folder: Path, body: str, name: str = "kernel", headers: str = "", options: tuple[str, ...] = ()) -> Path:
    """A shared library whose entry has this body, which may leave it with an error's code."""
    source, built = folder / f"{name}.cpp", folder / f"{name}.so"
    source.write_text(headers + HEAD + body + "  return 0;\n}\n")
    command = (*host_compiler().command, "-shared", "-fPIC", "-w", *options, f"-I{tvm_ffi_folder() / 'include'}")
    subprocess.run([*command, str(source), "-o", str(built), str(runtime_library())], check=True)
    return built


@contextmanager
def runner() -> Iterator[tuple[subprocess.Popen[bytes], socket.socket]]:
    """A runner's process, and the judge's end of its line, which is closed before the process has to be at its end."""
    ours, theirs = socket.socketpair()
    program = [sys.executable, "-I", "-S", PROGRAMS / "runner.py", str(theirs.fileno()), runtime_library(), ""]
    with ours, subprocess.Popen(program, pass_fds=[theirs.fileno()], stderr=subprocess.DEVNULL) as process:
        theirs.close()
        try:
            yield process, ours
        finally:
            process.kill()


@contextmanager
def linked() -> Iterator[tuple[subprocess.Popen[bytes], RunnerLink]]:
    """A runner's process and the judge's link to it."""
    with runner() as (process, line):
        yield process, RunnerLink(line.detach(), process.pid)
