"""torch.compile's version of a whole model, in each of the modes that are asked for."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch

from harness.trusted.device import Device
from harness.trusted.devices import open_device
from harness.trusted.reference import Reference, Value
from harness.trusted.timing.compiled import WARM_CALLS, point_at
from harness.wire.job import CompileOrder, WholeCompileJob


@dataclass(frozen=True)
class CompiledWhole:
    """The call of a model compiled in a mode; none where `failure` says why."""

    mode: str
    call: Callable[[], Any] | None = None
    failure: str = ""
    seconds: float = 0.0


def compile_whole_ahead(job: WholeCompileJob) -> dict[str, Any]:
    """Fill the caches that the accepting child will read. The result: failures by mode, empty where it went well."""
    point_at(Path(job.compile.cache), job.compile.environment)
    device = open_device(job.device, 0)
    if device.queues:
        device.prepare(job.precision)
    reference = Reference(job.source, job.name, torch.device(job.device), variant=job.variant)
    inputs = reference.inputs(reference.given_seed or 0)
    return {each.mode: each.failure for each in compile_whole(reference, inputs, device, job.compile, job.modes)}


def compile_whole(
    reference: Reference, inputs: list[Value], device: Device, order: CompileOrder, modes: tuple[str, ...]
) -> list[CompiledWhole]:
    """Compile the model and call it until it is warm, mode by mode."""
    point_at(Path(order.cache), order.environment)
    torch._functorch.config.donated_buffer = False
    return [_compiled(reference, inputs, device, mode) for mode in modes]


def _compiled(reference: Reference, inputs: list[Value], device: Device, mode: str) -> CompiledWhole:
    began = time.perf_counter()
    args, kwargs = reference.arranged(inputs)
    call = partial(torch.compile(reference.model, mode=mode), *args, **kwargs)
    try:
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for _ in range(WARM_CALLS + 1):  # with CUDA graphs, the third call is the first replay
                call()
        device.finish()
    except Exception as error:  # noqa: BLE001 (compilers may raise anything, want of memory too; eager remains)
        text = " ".join(str(error).split())[:300]
        return CompiledWhole(mode, failure=f"{type(error).__name__}: {text}", seconds=time.perf_counter() - began)
    return CompiledWhole(mode, call, seconds=time.perf_counter() - began)
