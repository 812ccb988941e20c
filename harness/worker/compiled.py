"""torch.compile's version of the reference, as a second baseline. Runs in the judging child, which loads no candidate.

Inductor writes C++ or Triton, starts compilers and keeps what they made in a folder of this task's own: seconds the
first time, half a minute on a slow processor, little later. The child stays locked down; that folder is what it may
write besides its scratch.
"""

from __future__ import annotations

import os
import tempfile
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from harness.worker.trials import Bench

Model = Callable[..., Any]
WARM_CALLS = 2


@dataclass(frozen=True)
class CompiledReference:
    """Compiled replicas, one a slot; none where `failure` says why there is no such baseline."""

    replicas: list[Model] = field(default_factory=list)
    failure: str = ""
    seconds: float = 0.0


def compile_reference(bench: Bench, order: dict[str, Any] | None) -> CompiledReference | None:
    """Compile the reference with default settings and warm it up on every slot; None where nobody ordered it.

    `order`: cache (a folder that may be written), environment of the compilers.
    """
    if order is None:
        return None
    began = time.perf_counter()
    _point_at(Path(order["cache"]), order["environment"])
    replicas: list[Model] = [torch.compile(replica) for replica in bench.replicas]
    try:
        _warm_up(bench, replicas)
    except Exception as error:  # noqa: BLE001 (compilers may raise anything, want of memory too; eager remains)
        text = " ".join(str(error).split())[:300]
        failure = f"torch.compile failed: {type(error).__name__}: {text}"
        return CompiledReference(failure=failure, seconds=time.perf_counter() - began)
    return CompiledReference(replicas, seconds=time.perf_counter() - began)


def _warm_up(bench: Bench, replicas: list[Model]) -> None:
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # advice on settings, TF32 among them, that are the judge's to choose
        for _ in range(WARM_CALLS):
            for slot, replica in enumerate(replicas):
                given, named = bench.reference.arranged(bench.inputs(slot))
                replica(*given, **named)
    bench.device.finish()


def _point_at(cache: Path, environment: dict[str, str]) -> None:
    """Set before Inductor is imported, which reads some of it only then. One process: no pool of compilers to leave."""
    os.environ.update(environment)
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(cache)
    os.environ["TRITON_CACHE_DIR"] = str(cache / "triton")
    os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"
    os.environ["HOME"] = os.environ["TMPDIR"] = tempfile.tempdir = str(Path.cwd())
