"""A kernel's library: the one that was judged where it fits this machine, else built here once, for all processes."""

from __future__ import annotations

import ctypes
import fcntl
import hashlib
import os
import platform
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from .compiling import command, compiler
from .needs import lacking

SOURCE, LIBRARY, PRELUDE = "kernel.cu", "kernel.so", "prelude.hpp"
_FIRST = threading.Lock()


@dataclass(frozen=True)
class Built:
    """The library beside the drop-in: its digest, and what it was compiled from, for and with."""

    sha256: str
    source_sha256: str
    architecture: str
    abi: str
    compiler: str


@dataclass
class Library:
    """The source beside `model_new.py`, with the flags that it was judged with; `device` is "cpu" or "cuda"."""

    folder: Path
    device: str
    flags: tuple[str, ...]
    prelude: str
    entry_name: str
    built: Built | None

    def entry(self, ordinal: int | None) -> Callable[..., Any]:
        """The kernel's entry point for a device, loaded; built before where the judged library is not for it.

        Raises `RuntimeError` where it cannot be built.
        """
        import tvm_ffi

        with _FIRST:
            module = tvm_ffi.load_module(str(self.path(architecture(self.device, ordinal))))
            if self.device == "cpu":
                _alone_after_a_fork()
            found: Callable[..., Any] = module.get_function(self.entry_name)
            return found

    def path(self, architecture: str) -> Path:
        """The judged library where it is whole and for this machine, else one from the cache, made if need be."""
        why = self._not_this(architecture)
        return self._from_cache(architecture, why) if why else self.folder / LIBRARY

    def _not_this(self, architecture: str) -> str:
        """Why the library that lies here is not to be loaded: empty where it is the judged one, for this machine."""
        built, file = self.built, self.folder / LIBRARY
        if built is None or not file.is_file():
            return "there is no library beside it"
        source = self.folder / SOURCE
        if source.is_file() and sha256(source) != built.source_sha256:
            return f"{SOURCE} is not what was judged"
        if sha256(file) != built.sha256:
            return f"{LIBRARY} is not what was judged"
        for wanted, here in ((built.architecture, architecture), (built.abi, abi())):
            if wanted != here:
                return f"the judged library is for {wanted}, this is {here}"
        return ""

    def _from_cache(self, architecture: str, why: str) -> Path:
        """Processes that ask at the same time wait for the first one's build. Raises `RuntimeError` for a GPU that has
        not what the kernel uses."""
        source = (self.folder / SOURCE).read_text(encoding="utf-8")
        if lack := lacking(source, architecture):
            raise RuntimeError(lack)
        found = compiler(self.device)
        version = subprocess.run([*found, "--version"], capture_output=True, text=True, check=True).stdout
        line = command(found, self.device, self.flags, PRELUDE, architecture, SOURCE, LIBRARY)
        described = "\0".join([source, self.prelude, version, architecture, abi(), *line])
        folder = own_cache("drop_ins")
        library = folder / f"{hashlib.sha256(described.encode()).hexdigest()[:32]}.so"
        with _locked(library.with_suffix(".lock")):
            if not library.is_file():
                _say(f"compiling {self.folder / SOURCE}, once on this machine ({why}) ...")
                began = time.monotonic()
                _build({SOURCE: source, PRELUDE: self.prelude}, line, library)
                _say(f"compiled in {time.monotonic() - began:.1f} s, kept as {library}")
        _require_own(library)
        return library


def sha256(file: Path) -> str:
    """The digest of a file's bytes."""
    return hashlib.sha256(file.read_bytes()).hexdigest()


def abi() -> str:
    """What a library's calls depend on beside the processor."""
    return f"apache-tvm-ffi {metadata.version('apache-tvm-ffi')} {platform.system()} {platform.machine()}"


def architecture(device: str, ordinal: int | None) -> str:
    """What its instructions depend on: the GPU's architecture, or the processor's model and features."""
    if device == "cpu":
        return _processor()
    import torch

    major, minor = torch.cuda.get_device_capability(ordinal)
    return f"sm_{major}{minor}" + ("a" if major >= 9 else "")


@cache
def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").split("\n\n")[0].splitlines()
    except OSError:
        return platform.platform()
    told = {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    features = " ".join(sorted((told.get("flags") or told.get("Features") or "").split()))
    model = told.get("model name") or " ".join(told.get(name, "") for name in ("CPU implementer", "CPU part"))
    return f"{model} ({hashlib.sha256(features.encode()).hexdigest()[:12]})"


def _build(files: dict[str, str], line: Sequence[str], library: Path) -> None:
    """Compile beside the cache and rename: nobody sees half of a library."""
    with tempfile.TemporaryDirectory(dir=library.parent) as folder:
        for name, text in files.items():
            Path(folder, name).write_text(text, encoding="utf-8")
        built = subprocess.run(line, cwd=folder, capture_output=True, text=True)
        if built.returncode != 0:
            raise RuntimeError(f"compiling {SOURCE} failed:\n{(built.stdout + built.stderr)[-4000:]}")
        Path(folder, LIBRARY).replace(library)


def own_cache(kind: str) -> Path:
    """A folder of the user's cache. Raises `RuntimeError` where others can write to it, and `OSError`."""
    chosen = os.environ.get("CUTEGEN_CACHE")
    base = Path(chosen) if chosen else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "cutegen")
    folder = base / kind
    folder.mkdir(parents=True, exist_ok=True, mode=0o755)
    _require_own(folder)
    return folder


def refused(path: Path) -> str:
    """Why nothing that lies there is loaded, since somebody else may have put it there; empty where it is."""
    found = path.stat()
    own = found.st_uid in (os.getuid(), 0) and not found.st_mode & 0o002
    return "" if own else f"{path} can be written by others"


def _require_own(path: Path) -> None:
    if why := refused(path):
        raise RuntimeError(f"{why}: set CUTEGEN_CACHE to a folder of your own")


@contextmanager
def _locked(file: Path) -> Iterator[None]:
    with file.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _say(words: str) -> None:
    sys.stderr.write(f"cutegen: {words}\n")
    sys.stderr.flush()


@cache
def _alone_after_a_fork() -> None:
    """The kernel's OpenMP threads do not survive a fork: a child that waited for them would wait for ever."""
    try:
        openmp = ctypes.CDLL("libgomp.so.1")
    except OSError:
        return
    os.register_at_fork(after_in_child=lambda: openmp.omp_set_num_threads(1))
