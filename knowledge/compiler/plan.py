"""The contract every recipe fulfils: plans, moves, sweeps of a plan's knobs, and what a recipe hands back.

A sweep in a recipe's words: the kernel of a plan, with the values to try behind the constants that hold its knobs.

The recipe names knobs and values. Which constant holds a knob is found by rendering the kernel with another value.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from math import prod
from typing import Protocol, Self

from knowledge.compiler.problem import Problem

PLAN_MARK = "// playbook plan: "
MOST_CHARACTERS = 400_000
"""Of a kernel's source, as the agents' answers take it: nvcc took 59 s for 318,000 (KernelBench's level 3, 22), and a
build has 120."""
PRODUCTS = "products"
"""The knob that says by how many TF32 products one of float32 is made: 3 for its accuracy, 1 in TF32's own."""


@dataclass(frozen=True)
class Plan:
    """Which recipe, and the value of each of its knobs: everything the source is rendered from.

    It stands in the kernel's source as one comment line, so that the next move can start from the kernel alone. There
    "=NAME" is the value of the source's constant NAME, which a sweep has chosen.
    """

    recipe: str
    knobs: dict[str, int | str] = field(default_factory=dict)

    def comment(self) -> str:
        """The line a rendered kernel carries."""
        return PLAN_MARK + json.dumps({"recipe": self.recipe, "knobs": self.knobs}, sort_keys=True)

    def with_knobs(self, **knobs: int | str) -> Plan:
        """The same plan with some knobs set."""
        return Plan(self.recipe, {**self.knobs, **knobs})

    def part(self, number: int, recipe: str) -> Plan:
        """The plan of one of several kernels, whose knobs stand under its number."""
        prefix = f"{number}."
        own = {knob.removeprefix(prefix): value for knob, value in self.knobs.items() if knob.startswith(prefix)}
        return Plan(recipe, own)

    def with_part(self, number: int, part: Plan) -> Plan:
        """With the knobs of one of several kernels."""
        return self.with_knobs(**{f"{number}.{knob}": value for knob, value in part.knobs.items()})

    @property
    def more_exact(self) -> Plan | None:
        """With three products wherever there is one; None where there is none such."""
        once = [knob for knob, value in self.knobs.items() if knob.split(".")[-1] == PRODUCTS and value == 1]
        return self.with_knobs(**dict.fromkeys(once, 3)) if once else None

    @classmethod
    def read(cls, source: str) -> Plan | None:
        """The plan a kernel's source carries, or None where the playbook did not write it."""
        for line in source.splitlines():
            if line.startswith(PLAN_MARK):
                return cls(**json.loads(line.removeprefix(PLAN_MARK)))._settled(source)
        return None

    def _settled(self, source: str) -> Plan | None:
        """With the values of the constants that knobs refer to."""
        knobs = dict(self.knobs)
        for knob, value in self.knobs.items():
            if isinstance(value, str) and value.startswith("="):
                found = re.search(rf"\b{re.escape(value[1:])} = (?:Int<)?(\d+)", source)
                if found is None:
                    return None
                knobs[knob] = int(found[1])
        return Plan(self.recipe, knobs)


@dataclass(frozen=True)
class Move:
    """One optimization: its name in the field ("threads", "register blocking"), what it gains, the plan after it.

    `against` names the bottlenecks, in the profiler's words ("memory", "occupancy"), that it works on.
    `sure` says that it gains wherever it applies: the first kernel has it, and no trial is spent on it.
    `instead_of_sweep`: it is one value of a sweep among the moves, for where nothing can be swept.
    Where nobody can tell which values of some knobs are best, `sweep` names them and what to try instead of the
    plan's own; each must stand in one constant of the rendered source.
    """

    name: str
    why: str
    plan: Plan
    against: tuple[str, ...] = ()
    sweep: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    sure: bool = False
    instead_of_sweep: bool = False


@dataclass(frozen=True)
class Draft:
    """A kernel the playbook wrote. `move` is "first kernel" at depth 0."""

    source: str
    move: str
    why: str


@dataclass(frozen=True)
class Decline:
    """The playbook cannot, or has nothing left to try; `reason` is a sentence for the user."""

    reason: str


class Recipe(Protocol):
    """One family of kernels. Recipes hold no state; every method is a pure function of its arguments."""

    name: str

    def first_plan(self, problem: Problem) -> Plan | Decline:
        """The plain and correct plan, from which all moves start, or why this recipe cannot write the problem."""
        ...

    def moves(self, problem: Problem, plan: Plan) -> tuple[Move, ...]:
        """The moves not yet in `plan`, the most promising first."""
        ...

    def render(self, problem: Problem, plan: Plan) -> str:
        """The kernel's source: complete, CuTe, carrying `plan.comment()`."""
        ...


def settled(recipe: Recipe, problem: Problem, plan: Plan) -> tuple[Plan, list[str]]:
    """The plan after every move that is sure to gain, and their names."""
    made: list[str] = []
    while move := next((each for each in recipe.moves(problem, plan) if each.sure), None):
        plan = move.plan
        made.append(move.name)
    return plan, made


@dataclass(frozen=True)
class PlanKnobs:
    """A schedule's knobs: a field for each, with the value that it has where a plan does not set it."""

    @classmethod
    def of(cls, plan: Plan) -> Self:
        """The knobs of a plan."""
        names = [each.name for each in fields(cls) if each.name in plan.knobs]
        return cls(**{name: type(getattr(cls, name))(plan.knobs[name]) for name in names})


_CONSTANT = re.compile(r"\s*(?:using|constexpr \w+) (?P<name>\w+) = (?:Int<)?\d+>?;")

RANK = "rank"
"""The knob that counts whole plans by what a model expects of them, the best 0: the source's constant `Rank`."""

Values = Mapping[str, tuple[int, ...]]


def swept(render: Callable[[Plan], str], plan: Plan, values: Values) -> str | None:
    """The plan's kernel, to be swept over `values`; the plan it carries refers to the constants.

    Comments that tell a swept knob's value are left out. None where some knob is not held by exactly one constant.
    """
    lines = render(plan).split("\n")
    left_out: set[int] = set()
    constants: dict[int, str] = {}
    after = plan
    for knob, choices in values.items():
        others = [render(plan.with_knobs(**{knob: value})).split("\n") for value in choices]
        changed = _changed(lines, others)
        code = [index for index in changed if not lines[index].lstrip().startswith("//")]
        match = _CONSTANT.match(lines[code[0]]) if len(code) == 1 else None
        if match is None:
            return None
        constants[code[0]] = f"{match[0]}  // sweep: {', '.join(map(str, choices))}"
        left_out |= changed
        after = after.with_knobs(**{knob: f"={match['name']}"})
    return "\n".join(
        after.comment() if line.startswith(PLAN_MARK) else constants.get(index, line)
        for index, line in enumerate(lines)
        if index not in left_out or index in constants or line.startswith(PLAN_MARK)
    )


def within(values: Values, plan: Plan, most: int) -> Values:
    """The values beside the plan's own, as many as `most` variants allow; none where it allows no second variant.

    The knob with most values loses its last one, again and again.
    """
    left = {knob: tuple(value for value in choices if value != plan.knobs[knob]) for knob, choices in values.items()}
    while prod(len(choices) + 1 for choices in left.values()) > most:
        longest = max(left, key=lambda knob: len(left[knob]))
        left[longest] = left[longest][:-1]
    return {knob: choices for knob, choices in left.items() if choices}


def _changed(lines: list[str], others: list[list[str]]) -> set[int]:
    """The lines that differ in one of the others; all of them where another has more lines, or fewer."""
    if any(len(other) != len(lines) for other in others):
        return set(range(len(lines)))
    pairs = (enumerate(zip(lines, other, strict=True)) for other in others)
    return {index for pair in pairs for index, (mine, its) in pair if mine != its}
