"""A run of operations of a captured part as a problem of its own: what it takes and gives, its canonical form."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property

from harness.nouns.aten import FREE
from harness.nouns.capture import Operation, Part
from harness.nouns.task import Argument, Atom, Program, Ref, Signature, TensorSpec, TracedOp


@dataclass(frozen=True)
class Window:
    """Operations `start` to `end` of a part, `end` excluded.

    What lies between two of them in the program's order lies within: no value leaves the window and comes back.
    """

    part: Part
    start: int
    end: int

    @cached_property
    def operations(self) -> tuple[Operation, ...]:
        """Its operations in order."""
        return self.part.operations[self.start : self.end]

    @cached_property
    def made(self) -> tuple[str, ...]:
        """Every value that it computes."""
        return tuple(result.name for each in self.operations for result in each.op.results)

    @cached_property
    def taken(self) -> tuple[str, ...]:
        """Every value from outside, weights included, in the order of first use."""
        made = set(self.made)
        read = (name for each in self.operations for name in each.reads)
        return tuple(dict.fromkeys(name for name in read if name not in made))

    @cached_property
    def given(self) -> tuple[str, ...]:
        """What is returned, or used by later operations, of the values that it computes."""
        later = {name for each in self.part.operations[self.end :] for name in each.reads} | set(self.part.outputs)
        return tuple(name for name in self.made if name in later)

    @cached_property
    def connected(self) -> bool:
        """Whether its operations hang together by the values that they hand on; others only stand side by side."""
        groups: list[set[str]] = []
        for each in self.operations:
            here = {result.name for result in each.op.results} | (set(each.reads) & set(self.made))
            apart = [group for group in groups if not group & here]
            groups = [*apart, here.union(*(group for group in groups if group & here))]
        return len(groups) <= 1

    @cached_property
    def ms(self) -> float:
        """The time of its operations."""
        return sum(each.ms for each in self.operations)

    @cached_property
    def flops(self) -> int:
        """Of its products."""
        return sum(each.flops for each in self.operations)

    @property
    def steps(self) -> int:
        """Operations that are more than another look at memory."""
        return sum(each.name not in FREE for each in self.operations)

    @property
    def modules(self) -> tuple[str, ...]:
        """The innermost modules that its operations stand in."""
        return tuple(dict.fromkeys(each.module for each in self.operations if each.name not in FREE))

    @cached_property
    def signature(self) -> Signature:
        """Its tensors under canonical names: `x0`, `w0` and `y0` on."""
        return Signature(
            inputs=tuple(self._renamed(name) for name in self._inputs),
            parameters=tuple(self._renamed(name) for name in self._weights),
            outputs=tuple(
                self.part.values[name].model_copy(update={"name": f"y{k}", "also": ()})
                for k, name in enumerate(self.given)
            ),
        )

    @cached_property
    def program(self) -> Program:
        """Its operations under canonical names, which are the same wherever the model repeats itself."""
        ops = tuple(
            TracedOp(
                target=each.op.target,
                args=tuple(map(self._argument, each.op.args)),
                kwargs={key: self._argument(value) for key, value in each.op.kwargs.items()},
                results=tuple(map(self._result, each.op.results)),
            )
            for each in self.operations
        )
        return Program(tracer="export", ops=ops, outputs=tuple(self._names[name] for name in self.given))

    @cached_property
    def digest(self) -> str:
        """Of the canonical form: 12 hex digits. Windows that one kernel serves have one digest."""
        text = self.signature.model_dump_json() + self.program.model_dump_json(exclude={"saturates"})
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    @property
    def bytes_moved(self) -> int:
        """What must at least be read and written, each tensor once."""
        return sum(spec.nbytes for spec in self.signature.arguments if isinstance(spec, TensorSpec))

    @property
    def inputs(self) -> tuple[str, ...]:
        """The values that it takes and that are no weights, in the order of the signature."""
        return self._inputs

    @property
    def weights(self) -> tuple[str, ...]:
        """The weights that it takes, in the order of the signature."""
        return self._weights

    @cached_property
    def _inputs(self) -> tuple[str, ...]:
        return tuple(name for name in self.taken if name not in self._held)

    @cached_property
    def _weights(self) -> tuple[str, ...]:
        return tuple(name for name in self.taken if name in self._held)

    @cached_property
    def _held(self) -> frozenset[str]:
        return frozenset(spec.name for spec in self.part.weights)

    @cached_property
    def _names(self) -> dict[str, str]:
        names = {name: f"x{k}" for k, name in enumerate(self._inputs)}
        names |= {name: f"w{k}" for k, name in enumerate(self._weights)}
        for k, each in enumerate(self.operations):
            for j, result in enumerate(each.op.results):
                names[result.name] = f"v{k}" if len(each.op.results) == 1 else f"v{k}.{j}"
        return names

    def _renamed(self, name: str) -> TensorSpec:
        return self.part.values[name].model_copy(update={"name": self._names[name], "also": ()})

    def _result(self, spec: TensorSpec) -> TensorSpec:
        return self._renamed(spec.name)

    def _argument(self, argument: Argument) -> Argument:
        if isinstance(argument, tuple):
            return tuple(map(self._atom, argument))
        return self._atom(argument)

    def _atom(self, atom: Atom) -> Atom:
        return Ref(ref=self._names[atom.ref]) if isinstance(atom, Ref) else atom
