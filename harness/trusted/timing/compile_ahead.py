"""The compile job: torch.compile's work on a task's reference, done before anybody is timed. Loads no candidate."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from harness.trusted.devices import open_device
from harness.trusted.memory import SharedMemory, slot_replica, write
from harness.trusted.reference import Reference, Value
from harness.trusted.scalar_arguments import slot_numbers
from harness.trusted.timing.compiled import Model, compile_reference
from harness.wire.job import CompileJob

SLOTS = 2
"""For the second one's numbers Dynamo compiles again, with symbols in their place."""


def compile_ahead(job: CompileJob) -> dict[str, Any]:
    """Fill the caches that the judging child will read. The result: `failure`, empty where it went well.

    The reference lies over memory laid out like a judge's: what is compiled depends on types, strides and addresses,
    on values as little as there.
    """
    device = open_device(job.device, 0)
    device.prepare(job.precision)
    signature = job.signature
    reference = Reference(job.source, job.name, device.place, variant=job.variant, state=signature.state)
    memory = SharedMemory(signature, SLOTS, device)
    replicas = [slot_replica(reference, memory, slot) for slot in range(SLOTS)]
    inputs = [_filled(reference, memory, slot) for slot in range(SLOTS)]

    def prepare(model: Model, slot: int) -> Callable[[], Any]:
        return reference.prepared(model, replicas[slot], inputs[slot])

    return {"failure": compile_reference(replicas, prepare, device, job.compile).failure}


def _filled(reference: Reference, memory: SharedMemory, slot: int) -> list[Value]:
    """A slot's arguments with the file's own values in them."""
    for name, own in reference.parameters().items():
        memory.views[slot][name].copy_(own)
    for spec, value in zip(memory.signature.inputs, reference.inputs(slot), strict=True):
        if isinstance(value, torch.Tensor):
            write(memory.views[slot][spec.name], value)
    return memory.given(slot, slot_numbers(memory.signature, slot))
