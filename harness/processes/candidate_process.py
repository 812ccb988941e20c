"""What every process that loads a candidate's library needs: what it may read, and what its environment says."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from harness.building.toolchain import host_libraries, tvm_ffi_folder
from harness.isolation.bubblewrap import spellings
from harness.isolation.mapped_code import Code
from harness.isolation.policy import Access
from harness.nouns.errors import MachineError
from harness.processes.trusted_child import ROOT, SPINS, usable_threads

PROGRAMS = ROOT / "harness" / "candidate"
"""Where our side of such a process lies."""
_WIRE = ROOT / "harness" / "wire"
"""What it speaks by."""

LIBRARIES = (
    "libc.so.6 libm.so.6 libmvec.so.1 libdl.so.2 libpthread.so.0 librt.so.1 libutil.so.1 libstdc++.so.6 libgcc_s.so.1 "
    "libgomp.so.1 libatomic.so.1 libcuda.so.1"
)
"""What a library that the screen lets pass may be linked with, by the loader's names; and the driver, on a GPU."""

_PACKAGES = ("site-packages", "dist-packages")
_CHARACTERS = "/usr/lib/locale"
_ASK_S = 60.0


def runtime_library() -> Path:
    """tvm-ffi's own library, through which a candidate's entry is called."""
    return tvm_ffi_folder() / "lib" / "libtvm_ffi.so"


def access_to(library: Path) -> Access:
    """Our program, the runtime, the candidate's library, and the libstdc++ that it was compiled for."""
    folders = (PROGRAMS, _WIRE, runtime_library().parent, library.parent, *host_libraries())
    return Access(read=tuple(map(str, folders)))


class Narrow(NamedTuple):
    """What a runner alone may reach, and have mapped as code."""

    access: Access
    code: Code


def narrowed(library: Path, needs: Access, variables: Mapping[str, str], *, sealed: bool) -> Narrow:
    """The least that a runner of this library needs, in an environment of these variables.

    That is our program, the runtime, Python's standard library and the libraries that the loader maps for them and may
    map for a kernel; on a GPU also the driver. No package of anybody's, and nothing of the system's that computes.
    """
    found = _loaders_choice(str(runtime_library()), variables.get("LD_LIBRARY_PATH", ""))
    device = tuple(_of_the_device(needs, found.libraries)) if needs.devices else ()
    own = (str(library.parent), str(PROGRAMS), str(_WIRE), sys.executable, f"{sys.prefix}/pyvenv.cfg", _CHARACTERS)
    standard = _standard_folders()
    modules = [str(entry) for folder in standard for entry in folder.iterdir() if entry.name not in _PACKAGES]
    files = (*found.libraries, *device)
    access = Access(read=(*own, *files, *modules), devices=needs.devices, listed=tuple(map(str, standard)), narrow=True)
    mapped = frozenset(spellings((*files, sys.executable, str(library))))
    built_in = tuple(f"{folder.resolve()}/lib-dynload/" for folder in standard)
    return Narrow(access, Code(mapped, built_in, found.made, sealed))


class _Loaded(NamedTuple):
    libraries: tuple[str, ...]
    made: int


@lru_cache(maxsize=8)
def _loaders_choice(runtime: str, folders: str) -> _Loaded:
    """What `libraries.py` says, asked once for each runtime and library path."""
    command = [sys.executable, "-I", "-S", str(PROGRAMS / "libraries.py"), runtime, *LIBRARIES.split()]
    try:
        variables = {"LD_LIBRARY_PATH": folders} if folders else {}
        answer = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=_ASK_S, check=True)
        told = json.loads(answer.stdout)
    except (OSError, ValueError, subprocess.SubprocessError) as failure:
        raise MachineError(f"{command[0]} does not tell its libraries: {failure}.", "Reinstall it.") from failure
    return _Loaded(tuple(told["libraries"]), int(told["made"]))


def _standard_folders() -> list[Path]:
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    folders = (Path(sysconfig.get_path("stdlib")), Path(sys.base_exec_prefix) / sys.platlibdir / version)
    return [folder for folder in dict.fromkeys(folders) if folder.is_dir()]


def _of_the_device(needs: Access, libraries: tuple[str, ...]) -> Iterator[str]:
    """The driver's own libraries, which it loads when it needs them, and the runtime that kernels are linked with."""
    drivers = [Path(name).parent for name in libraries if Path(name).name.startswith("libcuda.so")]
    for pattern, folders in (("libcuda*.so*", drivers), ("libnvidia-*.so*", drivers), ("libcudart.so*", needs.read)):
        for folder in folders:
            yield from map(str, Path(folder).glob(pattern))
    yield "/usr/bin/nvidia-modprobe"


def environment(more: Mapping[str, str], scratch: Path) -> dict[str, str]:
    """`more` beside what all of them have. In it `{scratch}` stands for the process's private folder."""
    own = SPINS | {"OMP_NUM_THREADS": str(usable_threads()), "PYTHONDONTWRITEBYTECODE": "1"}
    found = own | {name: value.replace("{scratch}", str(scratch)) for name, value in more.items()}
    libraries = [*map(str, host_libraries()), *filter(None, [found.get("LD_LIBRARY_PATH")])]
    return found | ({"LD_LIBRARY_PATH": os.pathsep.join(libraries)} if libraries else {})
