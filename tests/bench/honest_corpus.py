"""Honest kernels, as people write them, with the tasks that they are for: `tests/honest/*.cpp`, and how they are read.

A line `//// NAME` begins a task: comments say what its model keeps (`init`), its inputs (`get`) and its forward.
A line `//// NAME: HOW` begins a kernel of that task; `prelude.h` stands before each of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "honest"
_MARK = "//// "
_MODEL = """\
import torch
import torch.nn.functional as F
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        {init}

    def forward({forward}


def get_inputs():
    return [{get}]


def get_init_inputs():
    return []
"""


@dataclass(frozen=True)
class Honest:
    """A kernel: its task's name and file, its own name, its source."""

    task: str
    task_source: str
    name: str
    source: str


@cache
def corpus() -> tuple[Honest, ...]:
    """All of them, by their files."""
    return tuple(kernel for file in sorted(FOLDER.glob("*.cpp")) for kernel in _read(file))


def _read(file: Path) -> Iterator[Honest]:
    tasks: dict[str, str] = {}
    for part in f"\n{file.read_text(encoding='utf-8')}".split(f"\n{_MARK}")[1:]:
        title, _, text = part.partition("\n")
        task, _, how = title.partition(": ")
        if how:
            yield Honest(task, tasks[task], title, _kernel(text))
        else:
            tasks[task] = _task(text)


def _task(text: str) -> str:
    said = dict(line.removeprefix("// ").split(": ", 1) for line in text.splitlines() if line.startswith("// "))
    (arguments, body), *_ = [(told, said[told]) for told in said if told.startswith("forward ")]
    names = arguments.removeprefix("forward ")
    forward = f"self, {names}):\n        {body}"
    return _MODEL.format(init=said.get("init", "pass"), forward=forward, get=said["get"])


def _kernel(text: str) -> str:
    prelude = (FOLDER / "prelude.h").read_text(encoding="utf-8")
    return f"{prelude}\n{text}\nTVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);\n"
