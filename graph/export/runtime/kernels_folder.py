"""The kernels of a folder, each with a graph of what it computes: of a drop-in, a whole model, several drop-ins."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import torch

from .library import refused
from .matching import Pattern
from .tracing import Untraceable, traced

KERNEL, MODEL, REGIONS = "model_new.py", "model_fast.py", "regions"


class Refused(NamedTuple):
    """What of a folder is not used, and why: a sentence for whoever named the folder."""

    said: str


class Kernel(NamedTuple):
    """A drop-in's kernel of this `name`, with a pattern for each of its workloads."""

    name: str
    held: Any
    patterns: tuple[Pattern, ...]


def kernels_of(folder: Path, device: str) -> list[Kernel | Refused]:
    """The folder's kernels for a kind of device, "cpu" or "cuda", and what of it is not used."""
    found = list(_places(folder))
    if len(found) == 1 and isinstance(found[0], Refused):
        return [found[0]]
    read = [each if isinstance(each, Refused) else _kernel(*each, device) for each in found]
    others = [each for each in read if isinstance(each, str)]
    if others and len(others) == len(read):
        return [Refused(f"the kernels in {folder} are for {others[0]}, and this graph computes on {device}")]
    return [each for each in read if not isinstance(each, str)]


def _places(folder: Path) -> Iterator[tuple[Path, int] | Refused]:
    """The drop-ins, each with the time of its last change."""
    try:
        if not folder.is_dir():
            yield Refused(f"{folder} is no folder")
            return
        files = _files(folder)
        if not files:
            yield Refused(f"{folder} holds no kernel: neither {KERNEL} nor {MODEL} lies there")
        for file in files:
            why = refused(file.parent) or refused(file)
            yield Refused(why) if why else (file, file.stat().st_mtime_ns)
    except (OSError, ValueError, SyntaxError) as error:
        yield Refused(f"{folder} cannot be read: {_short(error)}")


def _files(folder: Path) -> list[Path]:
    model = folder / MODEL
    if model.is_file():
        return [folder / REGIONS / name / KERNEL for name in region_names(model.read_text(encoding="utf-8"))]
    if (folder / KERNEL).is_file():
        return [folder / KERNEL]
    return sorted(folder.glob(f"*/{KERNEL}"))


def region_names(text: str) -> list[str]:
    """The regions that a `model_fast.py` has kernels for. Raises `ValueError` and `SyntaxError`."""
    import ast

    for each in ast.parse(text).body:
        if isinstance(each, ast.Assign) and [ast.unparse(target) for target in each.targets] == ["REGIONS"]:
            names = list(ast.literal_eval(each.value))
            if not all(isinstance(name, str) and re.fullmatch(r"[\w-]+", name) for name in names):
                break
            return names
    raise ValueError(f"no regions are named in {MODEL}")


@cache
def _kernel(file: Path, _changed: int, device: str) -> Kernel | Refused | str:
    """The drop-in's kernel; the device that it is for, where that is another one."""
    name = file.parent.name
    try:
        held = _loaded(file).KERNEL
        if held.device != device:
            return str(held.device)
        if getattr(held, "state", ()):
            return Refused(f"the kernel {name} is of a forward that writes state: its own module writes that back")
        if getattr(held, "gradients", None) is None:
            return Refused(f"the kernel {name} is not one of a forward with a reference beside it")
        if not re.fullmatch(r"k_[0-9a-f]{16}", held.operator._opname):
            return Refused(f"the kernel {name} was written by an older version: save it anew")
        patterns = tuple(_pattern(name, held, workload) for workload in held.workloads)
    except Untraceable as error:
        return Refused(f"nothing can be found by the kernel {name}: {error}")
    except Exception as error:  # noqa: BLE001 (a damaged folder may raise anything; the rest goes on without it)
        return Refused(f"the kernel {name} in {file.parent} is damaged: {_short(error)}")
    why = next((each.hindrance for each in patterns if each.hindrance), "")
    return Refused(f"nothing can be found by the kernel {name}: {why}") if why else Kernel(name, held, patterns)


def _loaded(file: Path) -> ModuleType:
    name = f"cutegen_kernel_{hashlib.sha256(os.fsencode(file) + file.read_bytes()).hexdigest()[:16]}"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, file)
        assert spec is not None and spec.loader is not None
        sys.modules[name] = module = importlib.util.module_from_spec(spec)
        try:
            spec.loader.exec_module(module)
        except BaseException:
            del sys.modules[name]
            raise
    return sys.modules[name]


def _pattern(name: str, held: Any, workload: Any) -> Pattern:
    """What the kernel's reference computes on tensors like those of a workload. Raises `Untraceable`."""
    from torch._guards import tracing
    from torch._subclasses.fake_tensor import FakeTensorMode

    arguments = workload.arguments
    if not all(hasattr(each, "strides") for each in arguments):
        raise Untraceable("it takes numbers")
    with tracing(None), torch.no_grad(), FakeTensorMode(allow_non_fake_inputs=True):
        given = [
            torch.empty_strided(each.shape, each.strides, dtype=each.dtype, device=held.device) for each in arguments
        ]
        graph = traced(lambda *values: held.gradients.recomputed(list(values)), given)
    return Pattern(name, held.operator, graph)


def _short(error: BaseException) -> str:
    first = (str(error).strip().splitlines() or [""])[0]
    return f"{type(error).__name__}: {first}" if first else type(error).__name__
