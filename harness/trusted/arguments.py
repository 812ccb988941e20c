"""What the slots hold: a task's arguments, what is known of them, and how trials and timed calls vary them."""

from __future__ import annotations

import math
import random
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

import torch

from harness.checks.discrete import base_of, show
from harness.checks.distributions import SMALL, draw, meet, plant_single, sprinkle, stretch
from harness.checks.emptiness import all_finite, emptiness
from harness.checks.families import FAMILIES, MASKED, NOTHING, SINGLE, SPECIAL, STIRRED
from harness.checks.float8 import FLOAT8, in_float32, widened
from harness.checks.stirring import PLANTED_BESIDE, Manner, Stirring, exchange_in_rows, touch_few
from harness.checks.structure import Structure
from harness.checks.trained import Trained
from harness.checks.variations import plant_apart, vary
from harness.nouns.devices import on_gpu
from harness.nouns.errors import UserError
from harness.nouns.task import Signature, TensorSpec, TraceFacts
from harness.trusted.device import Device
from harness.trusted.discrete_arguments import DiscreteArguments, Known, Ways
from harness.trusted.integer_uses import IntegerUses, watch
from harness.trusted.link import Numbers
from harness.trusted.memory import SharedMemory, write
from harness.trusted.reference import Reference, Value
from harness.trusted.scalar_arguments import ScalarArguments

STRETCH, STRETCHES = 4, 10
"""A stretch that is replaced has so many elements at least, or all of them over two to this power."""


@dataclass
class Arguments:
    """Inputs, parameters and numbers in the memory of each slot.

    `replicas[slot]` is the reference over that slot's own weights. `pattern` are inputs that the file gave: other
    distributions take their shape and structure.
    """

    device: Device
    reference: Reference
    signature: Signature
    facts: TraceFacts
    memory: SharedMemory
    numbers: list[Numbers]
    replicas: list[torch.nn.Module]
    pattern: list[Value]
    manner: Manner = "stirred"
    """How timed inputs come about: as various as the reference takes them (see `choose_manner`)."""
    weights: dict[str, torch.Tensor] = field(init=False)
    """The reference's own, by their state_dict names."""
    discrete: DiscreteArguments = field(init=False)
    scalars: ScalarArguments = field(init=False)
    trained: Trained = field(init=False)
    structures: dict[str, Structure] = field(init=False)
    """What the file's inputs show, by their names."""
    shaped: set[str] = field(default_factory=set)
    """Those of them that keep their triangles and symmetry in trials: see `choose_structure`."""
    moving: frozenset[str] = frozenset()
    """Float inputs and weights whose infinities, or zeros beside a triangle, lie elsewhere in each timed call."""
    ordered: frozenset[str] = frozenset()
    """Inputs and weights whose rows the reference needs in ascending order."""
    hides: bool = True
    """Whether PyTorch's results hold no NaN where rows, planes or segments hold only infinities, or nothing."""
    ambiguous: bool = False
    """Whether some result depends on the order of equals."""

    def __post_init__(self) -> None:
        self.weights = {name: tensor.clone() for name, tensor in self.reference.parameters().items()}
        buffers = dict(self.reference.model.named_buffers())
        self.discrete = DiscreteArguments(self.signature, self.pattern, self.weights, buffers)
        self.scalars = ScalarArguments(self.signature, self.numbers)
        self.trained = Trained({name: widened(each) for name, each in self.weights.items()}, buffers)
        self.structures = {
            spec.name: replace(
                Structure.of(widened(value)), indices=_ends(value) if spec.name in self.facts.indexed else None
            )
            for spec, value in zip(self.signature.inputs, self.pattern, strict=True)
            if isinstance(value, torch.Tensor) and value.is_floating_point()
        }

    @cached_property
    def generator(self) -> torch.Generator:
        """For what timed calls find; what it draws follows from no seed."""
        generator = torch.Generator(self.device.place)
        generator.seed()
        return generator

    @cached_property
    def stirring(self) -> Stirring:
        """For inputs and weights of timed calls."""
        return Stirring(self.generator)

    def inputs(self, slot: int) -> list[Value]:
        """The forward's arguments over a slot's memory."""
        return self.memory.given(slot, self.numbers[slot])

    @cached_property
    def bases(self) -> dict[str, torch.Tensor]:
        """Weights that timed calls have, before they are stirred: as trained, none at its initial value."""
        names = [spec.name for spec in self.signature.parameters]
        return {name: self.trained.draw(name, self.generator, timed=True) for name in names}

    def fill(self, slot: int, seed: int, distribution: str, mild: int = 0, *, amid: bool = False) -> None:
        """Write one family's inputs, and weights of their own, into a slot. `mild`: see `draw`.

        Or stretches of it `amid` inputs and weights as timed calls find them, where those may differ from the file's:
        neither a few elements nor their signs tell anybody that these are no timed ones.
        """
        family = FAMILIES[distribution]
        if amid and self.manner not in ("given", "near one") and (family.block or family.puts):
            self.numbers[slot] = self.scalars.for_trial(slot, distribution)
            self._fill_as_timed(slot)
            self._put(slot, distribution, mild, torch.Generator(self.device.place).manual_seed(seed))
            self.derive(slot)
            return
        generator = torch.Generator(self.device.place).manual_seed(seed)
        given = self.pattern if family.block else self.reference.inputs(seed)
        for spec, value in zip(self.signature.inputs, given, strict=True):
            if isinstance(value, torch.Tensor) and value.is_floating_point():
                view, structure = self.memory.views[slot][spec.name], self._tried(spec.name)
                drawn = draw(
                    distribution, value, generator, self.facts.op_class, view,
                    mild=mild, structure=structure, whole=self.hides,
                )  # fmt: skip
                write(view, drawn)
        trained, partly = distribution != "given", distribution not in ("given", STIRRED)
        self.fill_weights(slot, generator if trained else None, far=family.far and not mild, partly=partly)
        self._write_discrete(slot, self.named(given), self.discrete.ways(distribution), generator)
        if distribution == NOTHING:
            self._clear_flags(slot)
        self.numbers[slot] = self.scalars.for_trial(slot, distribution)
        if family.stirs and self.manner != "given":
            self._stir(slot, given, Stirring(generator))
        if family.puts:
            self._put(slot, distribution, mild, generator)
        if family.gradient is not None:
            for name in self._gradients():
                self.memory.views[slot][name].fill_(family.gradient)
        if family.shares:
            self._share(slot, mild)
        self.derive(slot)

    def shared(self, mild: int = 0) -> dict[str, str]:
        """Inputs that another one may stand in for, and which: the first of its kind, where `mild` the last.

        Their rows have one shape and type. Integers stand in only where the input has shown them already.
        """
        alike = defaultdict[object, list[str]](list)
        for spec in self.signature.inputs if self.reference.direction == "forward" else ():
            if isinstance(spec, TensorSpec) and spec.shape and spec.name not in self.ordered | self.shaped:
                alike[spec.dtype, spec.shape[1:], spec.strides].append(spec.name)
        found = ((name, names[-1 if mild else 0]) for names in alike.values() for name in names)
        return {name: one for name, one in found if name != one and self._fits(one, name)}

    def _share(self, slot: int, mild: int) -> None:
        """Write one input in the place of others, where `mild` in every second row."""
        for name, other in self.shared(mild).items():
            view, one = self.memory.views[slot][name], self.memory.views[slot][other]
            rows = slice(0, min(len(view), len(one)), 2 if mild else 1)
            write(view[rows], one[rows])

    def _clear_flags(self, slot: int) -> None:
        for name in self.named(self.pattern):
            if self.memory.views[slot][name].dtype == torch.bool:
                self.memory.views[slot][name].zero_()

    def _fits(self, one: str, name: str) -> bool:
        if name in self.structures:
            return self.structures[one].indices is self.structures[name].indices is None
        return not self.ambiguous and self.discrete.within(one, name)

    def derive(self, slot: int) -> None:
        """Sort what has to be, and write those of a slot's inputs that follow from others: what a forward saved for its
        backward. None of these where the forward refuses the others: then it has nothing to compare with either.

        NaN has no place in an order, and becomes zero.
        """
        for name in self.ordered:
            view = self.memory.views[slot][name]
            write(view, view.masked_fill(view.isnan(), 0).sort(-1).values)
        with suppress(UserError):
            for name, value in self.reference.saved(self.inputs(slot), self.replicas[slot]).items():
                write(self.memory.views[slot][name], value)

    def _gradients(self) -> list[str]:
        """The inputs that are gradients of a forward's outputs."""
        differentiated = self.reference.gradients
        return differentiated.further[len(differentiated.saved) :] if differentiated else []

    def fill_weights(
        self, slot: int, generator: torch.Generator | None, *, far: bool = False, partly: bool = False
    ) -> None:
        """The file's own weights, or with a generator as training could have left them (see `Trained.draw`)."""
        for name, view in self.memory.parameters(slot).items():
            if view.is_floating_point():
                view.copy_(
                    self.trained.draw(name, generator, far=far, partly=partly) if generator else self.weights[name]
                )

    def stir(self, slot: int, *, numbered: bool = False) -> None:
        """Change every element of each floating-point input and weight of a slot (see `Stirring`), and the others,
        its numbers too, unless they are `numbered` anew."""
        if self.manner != "given" and not numbered:
            self.numbers[slot] = self.scalars.for_timed(slot)
        self._fill_as_timed(slot)
        self.derive(slot)

    def _fill_as_timed(self, slot: int) -> None:
        if self.manner != "given":
            self._stir(slot, self.pattern, self.stirring)
            self._write_discrete(slot, self.discrete.timed_set(), self.discrete.ways(STIRRED), self.generator)
        else:
            self.fill(slot, random.randrange(1 << 31), "given")
            self._write_discrete(slot, {}, self.discrete.ways(STIRRED), self.generator)
        for name, view in self.memory.parameters(slot).items():
            if view.is_floating_point():
                self._stir_weight(name, view)

    def plant(self, slot: int) -> None:
        """What the file shows times other factors, but for a few elements: no sample tells that there are others.

        Only for a reference that takes stretches of such elements (see `PLANTED_BESIDE`).
        """
        self._stir(slot, self.pattern, self.stirring, PLANTED_BESIDE[self.manner])
        self.derive(slot)

    def scalable(self, slot: int) -> list[torch.Tensor]:
        """The inputs of a slot that are numbers with a fraction, and no indices."""
        held = [name for name, structure in self.structures.items() if structure.indices is None]
        views = (self.memory.views[slot][name] for name in held)
        return [view for view in views if view.dtype not in FLOAT8]

    def touch(self, slot: int, names: Collection[str]) -> None:
        """Change a few elements of these arguments of a slot (see `touch_few`), of integers and masks their places."""
        for name in names:
            view = self.memory.views[slot][name]
            if view.is_floating_point():
                extremes = name in self.structures and self.structures[name].empty
                with in_float32(view) as wide:
                    touch_few(wide, turned=self.trained.turns(name), extremes=extremes)
                    self.trained.exchange(name, wide)
            else:
                self.discrete.touch(name, view, self.generator)
        self.derive(slot)

    def replace_stretch(self, slot: int, names: Collection[str]) -> None:
        """Give these arguments of a slot timed values of another call in one stretch, which few samples show.

        Integers, and what shows a triangle or symmetry, as `touch` does.
        """
        given, held = self.named(self.pattern), self.memory.views[slot]
        whole = [name for name in names if self._has_stretches(held[name], name)]
        self.touch(slot, {*names} - {*whole})
        for name in whole:
            base = base_of(held[name])
            fresh = torch.empty_like(base, memory_format=torch.contiguous_format)
            if name in given:
                self._stir_input(name, base_of(given[name]), fresh, self.stirring, self.manner)
            else:
                self._stir_weight(name, fresh)
            length = min(max(STRETCH, base.numel() >> STRETCHES), base.numel())
            first = random.randrange(base.numel() - length + 1)
            at = torch.unravel_index(torch.arange(first, first + length, device=base.device), base.shape)
            base[at] = fresh[at]
        self.derive(slot)

    def _has_stretches(self, view: torch.Tensor, name: str) -> bool:
        habit = self.trained.habits.get(name)
        structure = habit.structure if habit else self.structures.get(name, Structure())
        return view.is_floating_point() and not structure.shaped

    def copy(self, slot: int, to: int) -> None:
        """Write a slot's arguments, numbers too, into another one."""
        for spec in (*self.signature.inputs, *self.signature.parameters):
            if isinstance(spec, TensorSpec):
                write(self.memory.views[to][spec.name], self.memory.views[slot][spec.name])
        self.numbers[to] = dict(self.numbers[slot])

    def touchable(self) -> list[str]:
        """The arguments that `touch` may change; inputs that must not be stirred are none."""
        inputs = self.signature.inputs if self.manner != "given" else ()
        return [spec.name for spec in (*inputs, *self.signature.parameters) if isinstance(spec, TensorSpec)]

    def settle(self, seed: int) -> None:
        """Find out what has to be sorted, and which variations of integers, masks and numbers the reference takes."""
        uses = watch(lambda: self.reference.run(self.pattern))
        held = self.named(self.pattern) | self.reference.parameters()
        at = {name: tensor.untyped_storage().data_ptr() for name, tensor in held.items()}
        self.ambiguous = uses.ambiguous and not (uses.writes and watch(partial(self._repeated, uses, at)).agrees)
        self.ordered = frozenset(name for name, where in at.items() if where in uses.ordered)
        self.fill(0, seed, MASKED)
        results = self.eager(0)
        self.hides = results is not None and not _any_nan(results)
        known = Known.of(uses, at, held, ambiguous=self.ambiguous, beyond=not on_gpu(self.device.kind))
        self.discrete.settle(self.reference.inputs, self.takes, seed, known)
        self.scalars.settle(partial(self.takes, {}))

    def _repeated(self, uses: IntegerUses, at: Mapping[str, int]) -> None:
        """One run where some of what names places names one twice."""
        generator = torch.Generator(self.device.place).manual_seed(1)
        values = [
            vary(base_of(value), show([value]), "doubled", generator).expand(value.shape)
            if isinstance(value, torch.Tensor) and at[spec.name] in uses.extents else value
            for spec, value in zip(self.signature.inputs, self.pattern, strict=True)
        ]  # fmt: skip
        self.reference.run(values)

    def takes(self, ways: Ways, numbers: Numbers | None = None) -> bool:
        """Whether the reference accepts the file's own inputs with integers, masks and numbers varied so.

        It must be as finite there, and its outputs of the same shapes, as without.
        """
        generator = torch.Generator(self.device.place).manual_seed(len(ways))
        for spec, value in zip(self.signature.inputs, self.pattern, strict=True):
            if isinstance(value, torch.Tensor):
                write(self.memory.views[0][spec.name], value)
        for name, view in self.memory.parameters(0).items():
            view.copy_(self.weights[name])
        self._write_discrete(0, self.named(self.pattern), ways, generator)
        self.numbers[0] = self.scalars.for_trial(0, "given") | (numbers or {})
        results = self.eager(0)
        shapes = [spec.shape for spec in self.signature.outputs]
        if results is None or [tuple(result.shape) for result in results] != shapes:
            return False
        if all_finite(results) or (self.hides and not emptiness(results) and not _any_nan(results)):
            return True
        return not all_finite(self.reference.run(self.pattern))

    def results(self, slot: int) -> list[torch.Tensor]:
        """What the reference gives on a slot's arguments. Raises `UserError`."""
        return self.reference.run(self.inputs(slot), self.replicas[slot])

    def eager(self, slot: int) -> list[torch.Tensor] | None:
        """What the reference gives on a slot's arguments; None where it refuses them."""
        with suppress(UserError):
            return self.results(slot)
        return None

    def named(self, values: Sequence[Value]) -> dict[str, torch.Tensor]:
        """The tensors among a set of inputs, by their names."""
        specs = zip(self.signature.inputs, values, strict=True)
        return {spec.name: value for spec, value in specs if isinstance(value, torch.Tensor)}

    def _write_discrete(
        self, slot: int, values: Mapping[str, torch.Tensor], ways: Ways, generator: torch.Generator
    ) -> None:
        """Integers and masks of a slot: inputs from these values, parameters and buffers from the reference's own."""
        for name, value in {**values, **self.weights}.items():
            if not value.is_floating_point():
                write(self.memory.views[slot][name], self.discrete.varied(name, value, ways, generator))
        for name, (other, numbers) in self.discrete.apart.items() if "apart" in ways.values() else ():
            if ways.get(name) == "apart":
                view = self.memory.views[slot]
                write(view[name], plant_apart(view[name], view[other], numbers, generator))

    def _stir(self, slot: int, given: list[Value], stirring: Stirring, manner: Manner | None = None) -> None:
        for spec, value in zip(self.signature.inputs, given, strict=True):
            if isinstance(value, torch.Tensor) and value.is_floating_point():
                view = self.memory.views[slot][spec.name]
                self._stir_input(spec.name, value, view, stirring, manner or self.manner)

    def _stir_input(
        self, name: str, given: torch.Tensor, view: torch.Tensor, stirring: Stirring, manner: Manner
    ) -> None:
        write(view, stirring.stir(given, view, manner=manner, structure=self.structures[name]))
        self._move(name, view)

    def _move(self, name: str, view: torch.Tensor) -> None:
        if name in self.moving:
            with in_float32(base_of(view)) as wide:
                exchange_in_rows(wide)

    def _stir_weight(self, name: str, view: torch.Tensor) -> None:
        habit = self.trained.habits.get(name)
        structure = habit.structure if habit else Structure()
        base = self.trained.elsewhere(name, self.bases[name], self.generator)
        write(view, self.stirring.stir(base, view, structure=structure, turned=self.trained.turns(name)))
        self._move(name, view)

    def movable(self) -> frozenset[str]:
        """What may be `moving`: what shows infinities, or a triangle that the reference does not insist on."""
        kept, shown = self.shaped | self.trained.keeps_structure, dict(self.structures)
        shown |= {name: habit.structure for name, habit in self.trained.habits.items() if not habit.zero}
        values = self.named(self.pattern) | self.weights
        return frozenset(
            name
            for name, structure in shown.items()
            if values[name].ndim > 1
            and ((structure.upper != structure.lower and name not in kept) or bool(widened(values[name]).isinf().any()))
        )

    def _put(self, slot: int, distribution: str, mild: int, generator: torch.Generator) -> None:
        """A family's values among those that lie in a slot, of which a sample tells nothing.

        A NaN in a small input reaches most results and hides what is wrong in them. Where there are larger inputs,
        small ones have special values at the first draw alone, not at a milder one, and never single ones.
        """
        into: Callable[[torch.Tensor, torch.Generator], None]
        if distribution == SPECIAL:
            into = partial(sprinkle, op_class=self.facts.op_class, multiplies=self.facts.multiplies, mild=mild)
        elif distribution == SINGLE:
            into = partial(plant_single, op_class=self.facts.op_class)
        else:
            into = partial(stretch, family=distribution, op_class=self.facts.op_class, mild=mild)
        views = {name: self.memory.views[slot][name] for name in self.structures}
        if distribution == SINGLE or (distribution == SPECIAL and mild):
            views = {name: view for name, view in views.items() if view.numel() >= SMALL} or views
        for name, view in views.items():
            values = widened(view).clone(memory_format=torch.contiguous_format)
            into(values, generator)
            write(view, self._tried(name).keep(values))
        if distribution == SPECIAL and self.facts.op_class == "elementwise" and not mild:
            self._meet(slot, generator)

    def _meet(self, slot: int, generator: torch.Generator) -> None:
        """Special values of several inputs in the same places, of as many as have the first one's shape."""
        names = [name for name in self.structures if self.memory.views[slot][name].dtype not in FLOAT8]
        views = [self.memory.views[slot][name] for name in names]
        alike = [each for each in views if (each.shape, each.dtype) == (views[0].shape, views[0].dtype)]
        if len(alike) > 1:
            values = [each.clone(memory_format=torch.contiguous_format) for each in alike]
            meet(values, generator)
            for view, value in zip(alike, values, strict=True):
                write(view, value)

    def _tried(self, name: str) -> Structure:
        """What an input's values keep in trials of what the file shows."""
        structure = self.structures[name]
        return structure if name in self.shaped else structure.unshaped


def _any_nan(results: Sequence[torch.Tensor]) -> bool:
    return any(bool(result.isnan().any()) for result in results)


def _ends(value: torch.Tensor) -> tuple[float, float] | None:
    """The least and the largest of whole numbers; None where there are others."""
    low, high = (float(end) for end in value.aminmax())
    return (low, high) if bool((value == value.floor()).all()) and math.isfinite(high - low) else None
