"""The judge's side of the shared segments: torch views of every argument, poison and guards."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Literal

import torch

from harness.nouns.task import DTYPE_BYTES, ScalarSpec, Signature, TensorSpec
from harness.trusted.device import Device, Segment
from harness.trusted.reference import TORCH_DTYPES, Reference, Value
from harness.wire.layout import GUARD, Layout, Placement, lay_out, span_bytes

GUARD_BYTE = 0xA5
BESIDE_BYTE = 0xFF
"""What lies between inputs: NaN, -1, True. Who reads on beyond the end of one, hoping for zeros, is wrong."""
POISON_BYTE, OTHER_POISON_BYTE = 0x5B, 0xA4
"""Fill integer outputs before a call; floating-point outputs are filled with NaN, or half their type's largest."""
SAMPLES = 512
"""Elements that a clock reads before it stops, however many outputs there are: what reading costs is measured once."""
_DIGESTED = 1 << 26
"""Elements of a checksum at a time: 512 MiB."""


Filling = Literal["nan", "other", "zeros", "results"]
"""What a call finds in its outputs: NaN, half the type's largest number, zeros, or what lies there: other results."""
FILLINGS: tuple[Filling, ...] = ("nan", "zeros", "results")


def other_poison(dtype: torch.dtype) -> float:
    """What floating-point outputs are filled with instead of NaN, for `fmax` and its like hide a NaN."""
    return torch.finfo(dtype).max / 2


class SharedMemory:
    """Inputs that the runner can only read, outputs whose size nobody can change.

    With a `layout` its slots may differ in shapes and types; names and order are the signature's in all of them.
    """

    def __init__(
        self,
        signature: Signature,
        slots: int,
        device: Device,
        inputs: Segment | None = None,
        *,
        layout: Layout | None = None,
    ) -> None:
        self.signature, self.device = signature, device
        self.layout: Layout = layout or lay_out(signature, slots)
        self.inputs = inputs or device.segment("inputs", self.layout.input_bytes, sealed=True)
        if inputs is None:
            self._fill_gaps()
        self.written = device.segment("outputs", self.layout.output_bytes, sealed=False)
        self.views = [{name: self._view(place) for name, place in slot.items()} for slot in self.layout.places]
        self._spans = [[_span(slot[spec.name]) for spec in signature.outputs] for slot in self.layout.places]

    def beside(self) -> SharedMemory:
        """The same inputs, with outputs of another kernel's own."""
        return SharedMemory(self.signature, self.slots, self.device, self.inputs)

    @property
    def slots(self) -> int:
        """Number of slots."""
        return len(self.views)

    def given(self, slot: int, numbers: Mapping[str, float]) -> list[Value]:
        """The forward's arguments over a slot, in its order; `numbers` are its scalars."""
        views = self.views[slot]
        return [
            numbers[spec.name] if isinstance(spec, ScalarSpec) else views[spec.name] for spec in self.signature.inputs
        ]

    def outputs(self, slot: int) -> list[torch.Tensor]:
        """Views of a slot's outputs."""
        return [self.views[slot][spec.name] for spec in self.signature.outputs]

    def sample(self, slots: Sequence[int]) -> torch.Tensor:
        """Addresses, in `read`'s sense, of elements of these slots' outputs, drawn afresh.

        (SAMPLES, 8) offsets of bytes; a shorter element's bytes are repeated.
        """
        every = [span for slot in slots for span in self._spans[slot]]
        chosen = torch.tensor(random.choices(every, k=SAMPLES))
        offsets, sizes, lengths = chosen[:, :1], chosen[:, 1:2], chosen[:, 2:]
        elements = (torch.rand(SAMPLES, 1, dtype=torch.float64) * lengths).long()
        return (offsets + elements * sizes + torch.arange(8) % sizes).to(self.written.raw.device)

    def read(self, sample: torch.Tensor) -> torch.Tensor:
        """The bytes at these offsets, on the host. Waits for the device.

        On a processor by one thread: a team's would wait for each other while a clock runs.
        """
        raw = self.written.raw
        return raw[sample].cpu() if raw.is_cuda else torch.from_numpy(raw.numpy()[sample.numpy()])

    def digest(self, slot: int) -> int:
        """A checksum of all inputs of a slot that a change of any element, or of their order, changes."""
        total = 0
        for place in self.layout.places[slot].values():
            if place.memory == "in":
                whole = -(-span_bytes(place.spec) // 8) * 8  # up to the next place: places are page-aligned
                total = total * 31 + _digest(self.inputs.raw[place.offset : place.offset + whole].view(torch.int64))
        return total

    def parameters(self, slot: int) -> dict[str, torch.Tensor]:
        """Views of a slot's parameters and buffers by their state_dict names."""
        return {spec.name: self.views[slot][spec.name] for spec in self.signature.parameters}

    def poison(self, slot: int, filling: Filling = "nan") -> None:
        """Fill outputs with what no kernel may rely on, and the guard zones with their pattern."""
        for spec, output in zip(self.signature.outputs, self.outputs(slot), strict=True):
            if filling == "zeros":
                output.zero_()
            elif filling != "results":
                self._spoil(slot, spec, output, other=filling == "other")
            for zone in self._guards(slot, spec):
                zone.fill_(GUARD_BYTE)

    def _spoil(self, slot: int, spec: TensorSpec, output: torch.Tensor, *, other: bool) -> None:
        """Values that no kernel means to write; `other` ones where what depends on them shall come out differently."""
        if output.is_floating_point():
            output.fill_(other_poison(output.dtype) if other else float("nan"))
        else:
            chosen = OTHER_POISON_BYTE if other else POISON_BYTE
            self._bytes_of(slot, spec).fill_(chosen if output.dtype != torch.bool else not other)

    def written_output(self, slot: int) -> str:
        """Which output of a poisoned slot holds anything else by now; empty where none does."""
        for spec, output in zip(self.signature.outputs, self.outputs(slot), strict=True):
            if output.is_floating_point():
                untouched = output.isnan().all()
            else:
                untouched = (
                    (self._bytes_of(slot, spec) == POISON_BYTE).all() if output.dtype != torch.bool else output.all()
                )
            if not untouched:
                return spec.name
        return ""

    def broken_guard(self, slot: int) -> str:
        """Which output of a slot was written beyond its ends, as a phrase; empty where none was."""
        for spec in self.signature.outputs:
            for side, zone in zip(("before", "after"), self._guards(slot, spec), strict=True):
                touched = int((zone != GUARD_BYTE).sum())
                if touched:
                    return f"{touched} bytes just {side} the memory of {spec.name} were overwritten"
        return ""

    def _fill_gaps(self) -> None:
        """Write `BESIDE_BYTE` to all memory of inputs that belongs to none of them."""
        places = (place for slot in self.layout.places for place in slot.values() if place.memory == "in")
        end = 0
        for place in sorted(places, key=lambda each: each.offset):
            self.inputs.raw[end : place.offset].fill_(BESIDE_BYTE)
            end = place.offset + span_bytes(place.spec)
        self.inputs.raw[end:].fill_(BESIDE_BYTE)

    def _view(self, place: Placement) -> torch.Tensor:
        raw = (self.inputs if place.memory == "in" else self.written).raw
        spec = place.spec
        flat = raw[place.offset : place.offset + span_bytes(spec)].view(TORCH_DTYPES[spec.dtype])
        return flat.as_strided(spec.shape, spec.strides)

    def _bytes_of(self, slot: int, spec: TensorSpec) -> torch.Tensor:
        place = self.layout.places[slot][spec.name]
        return self.written.raw[place.offset : place.offset + span_bytes(place.spec)]

    def _guards(self, slot: int, spec: TensorSpec) -> tuple[torch.Tensor, torch.Tensor]:
        place = self.layout.places[slot][spec.name]
        start, end = place.offset, place.offset + span_bytes(place.spec)
        return self.written.raw[start - GUARD : start], self.written.raw[end : end + GUARD]


def slot_replica(reference: Reference, memory: SharedMemory, slot: int) -> torch.nn.Module:
    """The reference over a slot's weights: both sides read the same memory."""
    model = reference.replica()
    reference.load(model, memory.parameters(slot))
    return model


def write(view: torch.Tensor, values: torch.Tensor) -> None:
    """Copy values in. An expanded view (stride 0) holds one element along that axis: the first is written."""
    if values is view:
        return
    for axis, (extent, stride) in enumerate(zip(view.shape, view.stride(), strict=True)):
        if stride == 0 and extent > 1:
            view, values = view.narrow(axis, 0, 1), values.narrow(axis, 0, 1)
    view.copy_(values)


def _digest(words: torch.Tensor) -> int:
    total = 0
    for start in range(0, words.numel(), _DIGESTED):
        part = words[start : start + _DIGESTED]
        odd = torch.arange(1, 2 * part.numel(), 2, dtype=torch.int64, device=part.device)
        total = total * 31 + int(odd.mul_(part).sum())  # wraps around: all that matters is that it differs
    return total


def _span(place: Placement) -> tuple[int, int, int]:
    """Where a tensor lies, the bytes of an element, and how many its storage holds."""
    return place.offset, DTYPE_BYTES[place.spec.dtype], place.spec.span
