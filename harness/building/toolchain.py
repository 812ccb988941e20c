"""Where the compilers, ninja and the headers are, found without importing the packages that carry them.

Everything here is looked up once a process. What is missing raises `MachineError` with the remedy.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sysconfig
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib import metadata
from pathlib import Path

from harness.machine.system import ask
from harness.nouns.candidate import TargetName
from harness.nouns.devices import on_gpu
from harness.nouns.errors import MachineError

_REINSTALL = "Install it with: pip install {package}."
_ASK_VERSION_S = 20.0


@dataclass(frozen=True)
class Headers:
    """Include folders in search order, the folders a compiler must be able to read, and what tells versions apart."""

    include: tuple[Path, ...]
    roots: tuple[Path, ...]
    versions: tuple[str, ...]


@dataclass(frozen=True)
class Compiler:
    """A compiler's command (more than one word where $CXX says so), what `--version` printed, its own folders."""

    command: tuple[str, ...]
    version: str
    roots: tuple[Path, ...] = ()


def wheel_folder(distribution: str) -> Path:
    """The folder that a distribution is unpacked into; where it is not installed, the one that it would be."""
    try:
        return Path(str(metadata.distribution(distribution).locate_file("")))
    except metadata.PackageNotFoundError:
        return Path(sysconfig.get_path("platlib"))


@lru_cache(maxsize=1)
def cute_include() -> Path:
    """The folder that holds `cute/tensor.hpp`: $CUTLASS_PATH/include, else the nvidia-cutlass wheel's."""
    chosen = os.environ.get("CUTLASS_PATH")
    if chosen:
        folder = Path(chosen) / "include"
        remedy = "Point CUTLASS_PATH at a CUTLASS checkout, or unset it to use the nvidia-cutlass package."
    else:
        folder = wheel_folder("nvidia-cutlass") / "cutlass_library" / "source" / "include"
        remedy = _REINSTALL.format(package="nvidia-cutlass==4.2.0.0")
    return _folder_with(folder, "cute/tensor.hpp", "The CuTe headers", remedy)


@lru_cache(maxsize=1)
def cuda_include() -> Path:
    """The folder of `cuda_runtime.h`: the CUDA wheels', else the toolkit's. PyTorch brings only some wheels."""
    candidates = [wheel_folder("nvidia-cuda-runtime") / "nvidia" / "cu13" / "include"]
    home = _cuda_home()
    if home is not None:
        candidates.append(home / "include")
    for folder in candidates:
        if all((folder / name).is_file() for name in ("cuda_runtime.h", "crt/host_defines.h")):
            return folder
    remedy = "Install them with: pip install nvidia-cuda-runtime nvidia-cuda-crt nvidia-cuda-cccl."
    raise MachineError(f"The CUDA headers were not found ({candidates[0]}/cuda_runtime.h).", remedy)


@lru_cache(maxsize=1)
def tvm_ffi_folder() -> Path:
    """The folder of the apache-tvm-ffi wheel, with `include` and `lib` inside."""
    remedy = _REINSTALL.format(package="apache-tvm-ffi")
    return _folder_with(
        wheel_folder("apache-tvm-ffi") / "tvm_ffi", "include/tvm/ffi/function.h", "The tvm-ffi headers", remedy
    )


@lru_cache(maxsize=1)
def headers() -> Headers:
    """Everything a kernel of either target may include beside the compiler's own headers."""
    cute, cuda, tvm = cute_include(), cuda_include(), tvm_ffi_folder()
    include = [cute, tvm / "include", cuda]
    if (cuda / "cccl").is_dir():
        include.append(cuda / "cccl")
    versions = (
        f"cutlass {_text(cute / 'cutlass' / 'version.h')}",
        f"cuda {_wheel_version('nvidia-cuda-runtime')} {cuda}",
        f"tvm-ffi {_wheel_version('apache-tvm-ffi')} {tvm}",
    )
    return Headers(tuple(include), (cute, cuda, tvm), versions)


@lru_cache(maxsize=1)
def host_compiler() -> Compiler:
    """g++, or what $CXX names."""
    command = tuple(shlex.split(os.environ.get("CXX") or "g++"))
    found = shutil.which(command[0])
    remedy = "Install g++ (Debian and Ubuntu: apt install g++), or set CXX to a g++ that is installed."
    if found is None:
        raise MachineError(f"No C++ compiler: {command[0]} was not found.", remedy)
    version = ask_version((found, *command[1:]))
    if "clang" in version.lower():
        raise MachineError(f"{found} is clang, which does not read the precompiled header and flags used here.", remedy)
    full = (found, *command[1:])
    return Compiler(full, version, (Path(found).resolve().parent, *_own_folders(full)))


def _own_folders(command: tuple[str, ...]) -> tuple[Path, ...]:
    """Where a g++ keeps its programs, libraries and headers, as it says itself: it may be installed anywhere.

    `-print-search-dirs` lists the first two as `programs: =one:two`; `-E -v` lists the headers' folders on stderr, each
    on a line that begins with a blank, after "search starts here".
    """
    places = _said(command, "-print-search-dirs").stdout
    lists = [line.partition("=")[2] for line in places.splitlines() if line.startswith(("programs:", "libraries:"))]
    listing = _said(command, "-E", "-v", "-x", "c++", os.devnull).stderr.partition("search starts here:")[2]
    includes = [line.strip() for line in listing.splitlines() if line.startswith(" ")]
    found = (Path(name).resolve() for name in (*":".join(lists).split(":"), *includes) if name)
    return tuple(dict.fromkeys(folder for folder in found if folder.is_dir()))


def _said(command: tuple[str, ...], *question: str) -> subprocess.CompletedProcess[str]:
    try:
        return ask([*command, *question], timeout_s=_ASK_VERSION_S)
    except (OSError, subprocess.TimeoutExpired) as failure:
        raise MachineError(f"{command[0]} does not run: {failure}.", "Reinstall it.") from failure


@lru_cache(maxsize=1)
def host_libraries() -> tuple[Path, ...]:
    """Where the compiler's own libstdc++ is, if that is not the system's: what it compiled may need the newer one."""
    found = Path(_said(host_compiler().command, "-print-file-name=libstdc++.so.6").stdout.strip())
    systems = any(found.resolve().is_relative_to(tree) for tree in ("/usr", "/lib", "/lib64"))
    return (found.resolve().parent,) if found.is_file() and not systems else ()


@lru_cache(maxsize=1)
def disassembler() -> Path | None:
    """The objdump that belongs to the compiler; None where there is none, or one too old to name inlined callers."""
    return _compilers_own("objdump", "--inlines")


@lru_cache(maxsize=1)
def line_finder() -> Path | None:
    """The addr2line that belongs to the compiler; None where there is none."""
    return _compilers_own("addr2line", "--inlines")


def _compilers_own(program: str, option: str) -> Path | None:
    """A program of binutils that knows an option."""
    named = _said(host_compiler().command, f"-print-prog-name={program}").stdout.strip()
    found = shutil.which(named or program)
    if found is None:
        return None
    try:
        return Path(found) if option in _said((found,), "--help").stdout else None
    except MachineError:
        return None


@lru_cache(maxsize=1)
def cuda_compiler() -> Compiler:
    """nvcc of $CUDA_HOME, else of PATH, else of /usr/local/cuda."""
    home = _cuda_home()
    if home is None:
        remedy = "Install the CUDA toolkit 13 and set CUDA_HOME to its folder, or use --target cpu."
        raise MachineError("No CUDA compiler: nvcc was not found.", remedy)
    nvcc = home / "bin" / "nvcc"
    return Compiler((str(nvcc),), ask_version((str(nvcc),)), (home.resolve(),))


@lru_cache(maxsize=1)
def ninja() -> Path:
    """The ninja of the ninja wheel, else the one on PATH."""
    wheel = Path(sysconfig.get_path("scripts")) / "ninja"
    if wheel.is_file():
        return wheel
    found = shutil.which("ninja")
    if found is None:
        raise MachineError("ninja was not found.", _REINSTALL.format(package="ninja"))
    return Path(found)


def ask_version(command: tuple[str, ...]) -> str:
    """What `command --version` prints, in one line; `MachineError` where it does not run."""
    answer = _said(command, "--version")
    if answer.returncode != 0:
        raise MachineError(f"{command[0]} --version ended with {answer.returncode}.", "Reinstall it.")
    return " ".join(answer.stdout.split())


def _cuda_home() -> Path | None:
    on_path = shutil.which("nvcc")
    homes = [Path(os.environ["CUDA_HOME"])] if os.environ.get("CUDA_HOME") else []
    homes += [Path(on_path).resolve().parent.parent] if on_path else []
    homes.append(Path("/usr/local/cuda"))
    return next((home for home in homes if (home / "bin" / "nvcc").is_file()), None)


def _folder_with(folder: Path, witness: str, what: str, remedy: str) -> Path:
    if not (folder / witness).is_file():
        raise MachineError(f"{what} were not found ({folder / witness}).", remedy)
    return folder


def _wheel_version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "not from a wheel"


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.is_file() else "unknown"


# -- Where Nsight Compute and compute-sanitizer are, and what must be readable for them to run ------------------------


_INSTALLED = (Path("/opt/nvidia"), Path("/usr/local"))


@cache
def find_tool(name: str) -> Path | None:
    """The program of that name ("ncu", "compute-sanitizer"): on PATH, else beside nvcc, else as installed.

    What lies on PATH may be a script beside a folder that holds the program itself: then that is the answer.
    """
    on_path = shutil.which(name)
    if on_path:
        itself = Path(on_path).resolve().parent.parent / name / name
        return itself if itself.is_file() else Path(on_path)
    toolkit = _toolkit()
    beside = [toolkit / name] if toolkit else []
    newest = sorted(Path("/opt/nvidia").glob(f"nsight-compute/*/{name}"), reverse=True)
    return next((path for path in (*beside, *newest) if os.access(path, os.X_OK)), None)


def tool_folders(program: Path) -> tuple[str, ...]:
    """What the tool reads of its own: the installers' folders and, where it lies elsewhere, its folder's parent."""
    own = program.resolve().parent.parent
    return tuple(str(path) for path in (*_INSTALLED, own) if path.is_dir())


def _toolkit() -> Path | None:
    try:
        return Path(cuda_compiler().command[0]).resolve().parent
    except MachineError:
        return None


# -- Which instructions a library's GPU code is made of, where the toolkit's disassembler is at hand ------------------


_PROGRAM = "cuobjdump"
_ASK_S = 60.0
_LINE = re.compile(r"^\s+/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?(?P<opcode>[A-Z][\w.]*)", re.MULTILINE)


@lru_cache(maxsize=64)
def opcodes(library: Path) -> frozenset[str]:
    """The opcodes with their modifiers, as "LDG.E.128"; none without cuobjdump, or where it fails."""
    program = find_tool(_PROGRAM)
    if program is None:
        return frozenset()
    try:
        return read_opcodes(ask([str(program), "-sass", str(library)], timeout_s=_ASK_S).stdout)
    except (OSError, subprocess.SubprocessError):
        return frozenset()


def read_opcodes(listing: str) -> frozenset[str]:
    """The opcodes of a listing of `cuobjdump -sass`."""
    return frozenset(found["opcode"] for found in _LINE.finditer(listing))


# -- What kernels are compiled with, by name and version --------------------------------------------------------------


def compiled_with(target: TargetName) -> str:
    """`g++ 12.2.0, C++17, CUTLASS 4.2.0`. What is not there has no version: prompts can be read on any machine."""
    compilers = [_named("g++", lambda: compiler_name(host_compiler().version))]
    if on_gpu(target):
        compilers = [_named("nvcc", lambda: compiler_name(cuda_compiler().version)), *compilers]
    return ", ".join([" over ".join(compilers), "C++17", _named("CUTLASS", cutlass_version)])


def compiler_name(text: str) -> str:
    """The compiler's name and number out of what --version printed: `g++ (Debian 12.2.0-14) 12.2.0`, `nvcc 13.0`."""
    release = re.search(r"^(\S+):.* release (\d+\.\d+)", text)
    if release:
        return f"{release[1]} {release[2]}"
    match = re.match(r"\S+.*? \d+\.\d+(?:\.\d+)?(?=\s|$)", text)
    return match[0] if match else text[:80]


def cutlass_version() -> str:
    """`CUTLASS 4.2.0`, as its headers have it. Raises `MachineError` where they are not found."""
    text = (cute_include() / "cutlass" / "version.h").read_text(encoding="utf-8")
    parts = [re.search(rf"CUTLASS_{part}\s+(\d+)", text) for part in ("MAJOR", "MINOR", "PATCH")]
    return f"CUTLASS {'.'.join(part[1] for part in parts if part)}"


def _named(name: str, look: Callable[[], str]) -> str:
    """The name with its version, without what a distribution says of it; the name alone where the thing is missing."""
    try:
        return re.sub(r" \(.*?\)", "", look())
    except MachineError:
        return name
