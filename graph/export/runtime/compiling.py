"""How a kernel is compiled where no judge is: the compiler, the headers, and the whole command."""

from __future__ import annotations

import importlib.util
import os
import shlex
import shutil
from collections.abc import Sequence
from pathlib import Path


def compiler(device: str) -> list[str]:
    """g++ or what $CXX names; nvcc of $CUDA_HOME, PATH or /usr/local/cuda. Raises `RuntimeError` without one."""
    if device == "cpu":
        words = shlex.split(os.environ.get("CXX", "g++"))
        found = shutil.which(words[0])
        if found is None:
            raise RuntimeError(f"{words[0]} was not found: install g++, or name one with the variable CXX")
        return [found, *words[1:]]
    home = os.environ.get("CUDA_HOME")
    found = shutil.which("nvcc", path=str(Path(home, "bin"))) if home else shutil.which("nvcc")
    found = found or shutil.which("nvcc", path="/usr/local/cuda/bin")
    if found is None:
        raise RuntimeError("nvcc was not found: install the CUDA toolkit, or name it with the variable CUDA_HOME")
    return [found]


def command(
    compiler: Sequence[str],
    device: str,
    flags: Sequence[str],
    prelude: str,
    architecture: str,
    source: str,
    library: str,
) -> list[str]:
    """From `source` to `library`, with the header `prelude` before the source: all in the working folder."""
    runtime = _tvm_ffi() / "lib"
    include = [word for folder in _include_folders() for word in ("-isystem", str(folder))]
    if device == "cpu":
        what, search = ["-x", "c++", source, "-x", "none"], [f"-Wl,-rpath,{runtime}"]
    else:
        what, search = [f"-arch={architecture}", source], ["-Xlinker", f"-rpath={runtime}"]
    return [
        *compiler,
        *flags,
        *include,
        "-include",
        prelude,
        *what,
        f"-L{runtime}",
        "-ltvm_ffi",
        *search,
        "-o",
        library,
    ]


def _include_folders() -> list[Path]:
    cutlass = os.environ.get("CUTLASS_PATH")
    cute = Path(cutlass, "include") if cutlass else _package("cutlass_library", "source/include")
    toolkit = os.environ.get("CUDA_HOME", "/usr/local/cuda")
    cuda = _package("nvidia", "cu13/include") or Path(toolkit, "include")
    if cute is None or not (cute / "cute" / "tensor.hpp").is_file():
        raise RuntimeError("cute/tensor.hpp was not found: install nvidia-cutlass, or set CUTLASS_PATH to a checkout")
    if not (cuda / "cuda_runtime.h").is_file():
        raise RuntimeError("cuda_runtime.h was not found: install nvidia-cuda-runtime, -crt and -cccl")
    return [cute, _tvm_ffi() / "include", cuda, cuda / "cccl"]


def _tvm_ffi() -> Path:
    found = _package("tvm_ffi", "")
    if found is None:
        raise RuntimeError("tvm_ffi was not found: install apache-tvm-ffi")
    return found


def _package(name: str, below: str) -> Path | None:
    """A folder inside an installed package, which is not imported for it."""
    spec = importlib.util.find_spec(name)
    places = (spec.submodule_search_locations or []) if spec else []
    return next((Path(place, below) for place in places if Path(place, below).is_dir()), None)
