"""Kernels' C++ as files that PyTorch's own build takes, a library for each: what two forms have in common."""

from __future__ import annotations

import posixpath
import re
import tempfile
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from graph.export.drop_in import environment
from graph.export.training import Pair, pair_of
from graph.packages.native import BUILD_WORDS, library, native, operator_namespace
from harness.building.cuda_build import cuda_architecture
from harness.building.lean_headers import FOLDER, suffices, write_lean_headers
from harness.building.toolchain import cute_include
from harness.nouns.candidate import Candidate, TargetName
from harness.nouns.devices import on_gpu
from harness.nouns.errors import UserError
from harness.nouns.task import Task

SOURCES, HEADERS = "csrc", "include"


class Judged(NamedTuple):
    """A task and a kernel that passed on it."""

    task: Task
    candidate: Candidate


@dataclass(frozen=True)
class Library:
    """One kernel with its binding: two in one library might have functions of the same name."""

    direction: str
    namespace: str
    sources: tuple[str, str]


@dataclass(frozen=True)
class SourcePackage:
    """Texts by their paths, and how they are built."""

    texts: dict[str, str]
    libraries: tuple[Library, ...]
    pair: Pair | None
    target: TargetName
    architecture: str
    cute: bool
    """Whether a kernel needs CuTe's headers, which then are among the texts."""

    @property
    def build(self) -> dict[str, Any]:
        """For templates: how it is compiled."""
        return {
            "libraries": self.libraries,
            "sources": {each.direction: each.sources for each in self.libraries},
            "cuda": on_gpu(self.target),
            "flags": BUILD_WORDS[self.target],
            "architecture": self.architecture,
            "cute": self.cute,
            "needs_cuda_headers": self.cute and not on_gpu(self.target),
        }

    @property
    def loading(self) -> str:
        """Python that defines KERNEL, and BACKWARD where there is one, from the libraries beside the file."""
        template = environment().get_template("packages/loading.py.j2")
        return template.render(libraries=self.libraries)


def source_package(forward: Judged, backward: Judged | None) -> SourcePackage:
    """Of one run, or of two. Raises `UserError` where they cannot be expressed or do not belong together."""
    judged = (forward, backward) if backward is not None else (forward,)
    pair = pair_of(forward, backward) if backward is not None else None
    target = forward.candidate.target
    if any(candidate.target != target for _, candidate in judged):
        raise UserError("The two kernels are for different devices.", "Take both from runs with the same --target.")
    architecture, suffix = architecture_of(target), ".cu" if on_gpu(target) else ".cpp"
    texts: dict[str, str] = {}
    libraries = []
    own = operator_namespace(*judged)
    for task, candidate in judged:
        kernel, namespace = native(task, candidate), own if task.direction == "forward" else f"{own}_{task.direction}"
        binding = "\n".join((kernel.binding, kernel.operator, library(namespace, task, kernel)))
        sources = (f"{SOURCES}/{task.direction}_binding.cpp", f"{SOURCES}/{task.direction}{suffix}")
        texts |= {f"{SOURCES}/tensor_view.hpp": kernel.view}
        texts |= {sources[0]: _INCLUDE + binding, sources[1]: _INCLUDE + kernel.kernel}
        if kernel.cute:
            headers = cute_headers(candidate.source, architecture)
            texts |= {f"{HEADERS}/{name}": text for name, text in headers.items()}
        libraries.append(Library(task.direction, namespace, sources))
    cute = any(name.startswith(HEADERS) for name in texts)
    return SourcePackage(texts, tuple(libraries), pair, target, architecture, cute)


def architecture_of(target: TargetName) -> str:
    """The GPU's where one is found, else the oldest that kernels are written for; of a processor its name."""
    return cuda_architecture() if on_gpu(target) else "cpu"


def python_name(name: str) -> str:
    """A task's name as part of a module's."""
    return re.sub(r"\W+", "_", name).strip("_").lower() or "kernel"


_INCLUDE = '#include "tensor_view.hpp"\n'


# -- The CuTe headers that a kernel includes, to travel with it: machines that evaluate kernels seldom have them ------


_INCLUDED = re.compile(r"^[ \t]*#[ \t]*include[ \t]*[<\"]([^>\"]+)[>\"]", re.MULTILINE)


def cute_headers(source: str, architecture: str) -> dict[str, str]:
    """Texts by their paths, as few as the kernel needs on that architecture. Raises `MachineError` without CuTe."""
    found: dict[str, str] = {}
    lean = _lean() if suffices(source, architecture) else {}
    waiting = ["cute/tensor.hpp", *_INCLUDED.findall(source)]
    while waiting:
        name = waiting.pop()
        if name in found or (text := lean.get(name) or _text(name)) is None:
            continue
        found[name] = text
        beside = posixpath.dirname(name)
        waiting += [
            each
            for inner in _INCLUDED.findall(text)
            for each in (inner, posixpath.normpath(posixpath.join(beside, inner)))
        ]
    return dict(sorted(found.items()))


def _text(name: str) -> str | None:
    file = cute_include() / name
    return file.read_text(encoding="utf-8") if ".." not in name and file.is_file() else None


@lru_cache(maxsize=1)
def _lean() -> dict[str, str]:
    with tempfile.TemporaryDirectory() as folder:
        write_lean_headers(Path(folder))
        top = Path(folder, FOLDER)
        files = [file for file in top.rglob("*") if file.is_file()]
        return {file.relative_to(top).as_posix(): file.read_text(encoding="utf-8") for file in files}
