"""The judge's side of the shared segments: torch views of every argument, poison and guards."""

from __future__ import annotations

import fcntl
import mmap
import os
from dataclasses import dataclass

import torch

from harness.task import Signature, TensorSpec
from harness.worker.layout import GUARD, Layout, Place, lay_out, span_bytes
from harness.worker.reference import TORCH_DTYPES

# linux/fcntl.h; Python's fcntl module names only the older ones.
F_ADD_SEALS = 1033
F_SEAL_SEAL, F_SEAL_SHRINK, F_SEAL_GROW, F_SEAL_FUTURE_WRITE = 1, 2, 4, 16
GUARD_BYTE = 0xA5
POISON_BYTE = 0x5B
"""Fills integer outputs before a call; floating-point outputs are filled with NaN."""
SAMPLES = 64


@dataclass(frozen=True)
class Segment:
    """A memory file and our mapping of it."""

    descriptor: int
    mapped: mmap.mmap


class SharedMemory:
    """Inputs that the runner can only read, outputs whose size nobody can change."""

    def __init__(self, signature: Signature, slots: int, inputs: Segment | None = None) -> None:
        self.signature = signature
        self.layout: Layout = lay_out(signature, slots)
        self.inputs = inputs or _segment("inputs", self.layout.input_bytes, F_SEAL_FUTURE_WRITE)
        self.written = _segment("outputs", self.layout.output_bytes, 0)
        self._raw_outputs = torch.frombuffer(self.written.mapped, dtype=torch.uint8)
        self.views = [{name: self._view(place) for name, place in slot.items()} for slot in self.layout.places]

    def beside(self) -> SharedMemory:
        """The same inputs, with outputs of another kernel's own."""
        return SharedMemory(self.signature, self.slots, self.inputs)

    @property
    def slots(self) -> int:
        """Number of slots."""
        return len(self.views)

    def outputs(self, slot: int) -> list[torch.Tensor]:
        """Views of a slot's outputs."""
        return [self.views[slot][spec.name] for spec in self.signature.outputs]

    def sample(self, slot: int) -> None:
        """Read a few elements of every output of a slot, spread over its whole memory."""
        for spec in self.signature.outputs:
            self._bytes_of(slot, spec)[:: max(1, span_bytes(spec) // SAMPLES)].clone()

    def parameters(self, slot: int) -> dict[str, torch.Tensor]:
        """Views of a slot's parameters and buffers by their state_dict names."""
        return {spec.name: self.views[slot][spec.name] for spec in self.signature.parameters}

    def poison(self, slot: int) -> None:
        """Fill outputs with values no kernel means to write, and the guard zones with their pattern."""
        for spec, output in zip(self.signature.outputs, self.outputs(slot), strict=True):
            if output.is_floating_point():
                output.fill_(float("nan"))
            else:
                self._bytes_of(slot, spec).fill_(POISON_BYTE if output.dtype != torch.bool else 1)
            for zone in self._guards(slot, spec):
                zone.fill_(GUARD_BYTE)

    def broken_guard(self, slot: int) -> str:
        """Which output of a slot was written beyond its ends, as a phrase; empty where none was."""
        for spec in self.signature.outputs:
            for side, zone in zip(("before", "after"), self._guards(slot, spec), strict=True):
                touched = int((zone != GUARD_BYTE).sum())
                if touched:
                    return f"{touched} bytes just {side} the memory of {spec.name} were overwritten"
        return ""

    def _view(self, place: Place) -> torch.Tensor:
        segment = (self.inputs if place.memory == "in" else self.written).mapped
        spec = place.spec
        flat = torch.frombuffer(segment, dtype=TORCH_DTYPES[spec.dtype], count=spec.span, offset=place.offset)
        return flat.as_strided(spec.shape, spec.strides)

    def _bytes_of(self, slot: int, spec: TensorSpec) -> torch.Tensor:
        start = self.layout.places[slot][spec.name].offset
        return self._raw_outputs[start : start + span_bytes(spec)]

    def _guards(self, slot: int, spec: TensorSpec) -> tuple[torch.Tensor, torch.Tensor]:
        start = self.layout.places[slot][spec.name].offset
        end = start + span_bytes(spec)
        return self._raw_outputs[start - GUARD : start], self._raw_outputs[end : end + GUARD]


def _segment(name: str, size: int, extra_seal: int) -> Segment:
    """A memfd mapped by us, then sealed: with FUTURE_WRITE only this mapping can ever write to it."""
    descriptor = os.memfd_create(name, os.MFD_ALLOW_SEALING | os.MFD_CLOEXEC)
    os.ftruncate(descriptor, size)
    mapped = mmap.mmap(descriptor, size)
    fcntl.fcntl(descriptor, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | extra_seal)
    return Segment(descriptor, mapped)
