"""Everything one evaluation works with: a candidate's line and memory, the arguments, and what was found so far."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch

from harness.checks.families import FAMILIES
from harness.checks.filters import Influence
from harness.nouns.task import Signature, TraceFacts
from harness.nouns.verdict import Trial, Untried
from harness.trusted.arguments import Arguments
from harness.trusted.device import Device
from harness.trusted.link import RunnerLink
from harness.trusted.memory import SharedMemory, write
from harness.trusted.oracle import Oracle
from harness.trusted.reference import Reference


@dataclass(frozen=True)
class MessageCost:
    """Seconds that ordering no call at all takes: what is taken off each burst, and the least that was seen."""

    usual_s: float = 0.0
    least_s: float = 0.0


@dataclass
class Bench:
    """One candidate before the judge. Runners are paused, except while a call of theirs is waited for.

    `memory` holds the arguments, and outputs of the candidate's own. `results` are eager's last ones, by slot, on a
    device that keeps them.
    """

    arguments: Arguments
    link: RunnerLink
    message: MessageCost = MessageCost()
    tolerance: float = 1.0
    """So many times what PyTorch's own error allows is accepted."""
    influence: Influence = field(default_factory=Influence)
    """Which family of trials shows that the outputs depend on the arguments."""
    results: dict[int, object] = field(default_factory=dict)
    untried: list[Untried] = field(default_factory=list)
    """Families that hold no kernel to anything here, and why."""
    usual: str = ""
    """What is empty about the reference's outputs on the file's own inputs already (see `emptiness`)."""
    sizes: list[float] = field(default_factory=list)
    """How large the reference's outputs are on the file's own inputs."""
    device: Device = field(init=False)
    reference: Reference = field(init=False)
    signature: Signature = field(init=False)
    facts: TraceFacts = field(init=False)
    memory: SharedMemory = field(init=False)
    oracle: Oracle = field(init=False)

    def __post_init__(self) -> None:
        given = self.arguments
        self.device, self.reference, self.memory = given.device, given.reference, given.memory
        self.signature, self.facts = given.signature, given.facts
        self.oracle = Oracle(self.reference, self.facts.op_class)

    def call(self, slots: Sequence[int], trial: Trial, timeout_s: float) -> None:
        """Have the candidate called on these slots as a trial has it: with one tensor for several arguments, too."""
        same: list[int] = []
        if FAMILIES[trial.distribution].shares and not trial.mild:
            shapes = {spec.name: getattr(spec, "shape", None) for spec in self.signature.arguments}
            places, given = {name: place for place, name in enumerate(shapes)}, self.arguments.shared()
            ones = ((name, given.get(name, name)) for name in places)
            same = [places[one if shapes[one] == shapes[name] else name] for name, one in ones]
        with self.link.running():
            self.link.call(slots, timeout_s, caller=trial.caller, same=same)

    def step(self, slot: int, seed: int) -> None:
        """Write into a slot the state that the kernel's last call there left, and more of the file's inputs."""
        held, state = self.memory.views[slot], self.reference.state
        for name, new in zip(state, self.memory.outputs(slot)[-len(state) :], strict=True):
            write(held[name], new)
        for spec, value in zip(self.signature.inputs, self.reference.inputs(seed), strict=True):
            if isinstance(value, torch.Tensor):
                write(held[spec.name], value)
