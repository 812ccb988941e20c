"""What every process that loads a candidate's library needs: what it may read, and what its environment says."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from harness.building.toolchain import host_libraries, tvm_ffi_folder
from harness.isolation.policy import Access
from harness.worker.client import ROOT, usable_threads

PROGRAMS = ROOT / "harness" / "worker"
"""Where our side of such a process lies."""


def runtime_library() -> Path:
    """tvm-ffi's own library, through which a candidate's entry is called."""
    return tvm_ffi_folder() / "lib" / "libtvm_ffi.so"


def access_to(library: Path) -> Access:
    """Our program, the runtime, the candidate's library, and the libstdc++ that it was compiled for."""
    folders = (PROGRAMS, runtime_library().parent, library.parent, *host_libraries())
    return Access(read=tuple(map(str, folders)))


def environment(more: Mapping[str, str], scratch: Path) -> dict[str, str]:
    """`more` beside what all of them have. In it `{scratch}` stands for the process's private folder."""
    own = {"OMP_NUM_THREADS": str(usable_threads()), "PYTHONDONTWRITEBYTECODE": "1"}
    found = own | {name: value.replace("{scratch}", str(scratch)) for name, value in more.items()}
    libraries = [*map(str, host_libraries()), *filter(None, [found.get("LD_LIBRARY_PATH")])]
    return found | ({"LD_LIBRARY_PATH": os.pathsep.join(libraries)} if libraries else {})
