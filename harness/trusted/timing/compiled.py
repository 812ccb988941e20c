"""torch.compile's version of the reference, as a second baseline. Runs in locked children, which load no candidate.

Inductor writes C++ or Triton, starts compilers and keeps what they made in a folder of this task's own: seconds the
first time, half a minute on a slow processor, little later. So the first time is a job of its own, while others are
timed; the judging child then finds it all there. That folder is what either may write besides its scratch.
"""

from __future__ import annotations

import os
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch._inductor import codecache

from harness.trusted.device import Device
from harness.wire.job import CompileOrder

Model = Callable[..., Any]
Prepare = Callable[[Model, int], Callable[[], Any]]
"""The call of a model over a slot's arguments."""
WARM_CALLS = 2


@dataclass(frozen=True)
class CompiledReference:
    """Compiled replicas, one a slot; none where `failure` says why there is no such baseline."""

    replicas: list[Model] = field(default_factory=list)
    failure: str = ""
    seconds: float = 0.0


def compile_reference(
    replicas: Sequence[torch.nn.Module], prepare: Prepare, device: Device, order: CompileOrder
) -> CompiledReference:
    """Compile the reference with default settings and warm it up: each slot's replica on that slot's arguments.

    Buffers that a compiled backward would give away stay: a timed one keeps its graph, as eager's does.
    """
    began = time.perf_counter()
    point_at(Path(order.cache), order.environment)
    torch._functorch.config.donated_buffer = False
    models: list[Model] = [torch.compile(replica) for replica in replicas]
    try:
        _warm_up(models, prepare, device)
    except Exception as error:  # noqa: BLE001 (compilers may raise anything, want of memory too; eager remains)
        text = " ".join(str(error).split())[:300]
        failure = f"torch.compile failed: {type(error).__name__}: {text}"
        return CompiledReference(failure=failure, seconds=time.perf_counter() - began)
    return CompiledReference(models, seconds=time.perf_counter() - began)


def _warm_up(models: list[Model], prepare: Prepare, device: Device) -> None:
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # advice on settings, TF32 among them, that are the judge's to choose
        for _ in range(WARM_CALLS):
            for slot, model in enumerate(models):
                prepare(model, slot)()
    device.finish()


def point_at(cache: Path, environment: dict[str, str]) -> None:
    """Have Inductor keep what it makes in `cache`, and other temporary files in the working folder.

    Its precompiled headers, too: where these go, it decides when it is imported, by what is writable then. Compiled
    once for a task, they serve its later jobs.
    """
    os.environ.update(environment)
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(cache)
    os.environ["TRITON_CACHE_DIR"] = str(cache / "triton")
    os.environ["HOME"] = os.environ["TMPDIR"] = tempfile.tempdir = str(Path.cwd())
    headers = cache / "precompiled_headers"
    codecache._HEADER_DIR, codecache._HEADER_LOCK_DIR = str(headers), str(headers / "locks")
