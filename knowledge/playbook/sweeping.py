"""A sweep in a recipe's words: the kernel of a plan, with the values to try behind the constants that hold its knobs.

The recipe names knobs and values. Which constant holds a knob is found by rendering the kernel with another value.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from math import prod

from knowledge.playbook.recipe import PLAN_MARK, Plan

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
