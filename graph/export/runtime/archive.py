"""The user's archive: an index of the kernels that their runs found faster, by device and by what each computes on.

An entry says where a run left its drop-in, and has the types, sizes and strides of all that the kernel takes and
returns; a graph that lacks one of them has no place for it. Nothing of a drop-in is run to find that out.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from .library import SOURCE, architecture, own_cache, refused, sha256

FOLDER, DROP_IN = "kernels", "model_new.py"
BESIDE = (SOURCE, "program.pt2", "inputs.pt", "cutegen_runtime/*.py")
"""What a drop-in runs, loads or compiles beside its library, whose digest it knows itself."""
MOST_BYTES, MOST_ENTRIES = 1 << 20, 10_000


class Entry(NamedTuple):
    """A drop-in's folder, how much faster its kernel was than the baseline, the tensors of each workload, and the
    digest of what lies beside the drop-in."""

    folder: Path
    speedup: float
    workloads: tuple[frozenset[str], ...]
    beside: str


def kind(dtype: object, shape: Sequence[int], strides: Sequence[int]) -> str:
    """A tensor as entries have it."""
    return f"{str(dtype).removeprefix('torch.')} {[*shape]} {[*strides]}"


def note(folder: Path, task: str, device: str, speedup: float, workloads: Sequence[frozenset[str]]) -> None:
    """Keep a drop-in for a `task` on a device of this name; of two that still stand, the faster one. Raises `OSError`
    and `RuntimeError`."""
    place = own_cache(FOLDER) / f"{hashlib.sha256(f'{task} {device}'.encode()).hexdigest()[:32]}.json"
    earlier = _read(place, device)
    if earlier is not None and earlier.folder != folder and earlier.speedup > speedup and _stands(earlier):
        return
    told = {
        "folder": str(folder),
        "sha256": sha256(folder / DROP_IN),
        "beside": _beside(folder),
        "device": device,
        "speedup": speedup,
        "workloads": [sorted(each) for each in workloads],
    }
    scratch = place.with_name(f".{place.name}.{os.getpid()}")
    scratch.write_text(json.dumps(told, indent=1), encoding="utf-8")
    scratch.replace(place)


def entries(device: str) -> list[Entry]:
    """What stands there for a device of this name, the fastest first: of damaged entries and lost folders nothing."""
    try:
        files = sorted(own_cache(FOLDER).glob("*.json"))[:MOST_ENTRIES]
    except (OSError, RuntimeError):
        return []
    return sorted((each for file in files if (each := _read(file, device))), key=lambda each: -each.speedup)


def fitting(found: Sequence[Entry], kinds: frozenset[str]) -> Iterator[Path]:
    """The folders of those whose tensors all occur among these, less what was changed since it was judged."""
    for each in found:
        if any(workload <= kinds for workload in each.workloads) and _stands(each):
            yield each.folder


def device_name(device: str, ordinal: int | None) -> str:
    """A GPU's name, or the processor's model and features: nobody has seen a kernel faster on another one."""
    if device == "cpu":
        return architecture(device, None)
    import torch

    return torch.cuda.get_device_name(ordinal)


def _read(file: Path, device: str) -> Entry | None:
    try:
        if refused(file) or file.stat().st_size > MOST_BYTES:
            return None
        told: Any = json.loads(file.read_bytes())
        workloads = tuple(frozenset(map(str, each)) for each in told["workloads"])
        entry = Entry(Path(told["folder"]), float(told["speedup"]), workloads, str(told["beside"]))
        stands = told["device"] == device and sha256(entry.folder / DROP_IN) == told["sha256"]
        return entry if stands and all(workloads) else None
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _stands(entry: Entry) -> bool:
    return _beside(entry.folder) == entry.beside != ""


def _beside(folder: Path) -> str:
    """The digest of what lies beside a drop-in; empty where that cannot be read."""
    try:
        files = sorted(file for name in BESIDE for file in folder.glob(name))
        told = "".join(f"{file.relative_to(folder)} {sha256(file)}\n" for file in files)
    except OSError:
        return ""
    return hashlib.sha256(told.encode()).hexdigest()
