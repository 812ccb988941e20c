"""What a function makes of a problem, kept for the last few: every recipe asks, and so does every move."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache, wraps
from typing import Concatenate, ParamSpec, TypeVar

from knowledge.compiler.ir.expressions import UnwritableError
from knowledge.compiler.problem import Problem

Made = TypeVar("Made")
Rest = ParamSpec("Rest")


@dataclass(frozen=True)
class _ByContent:
    """A problem as the key of a cache: its text, in which 1, 1.0 and True differ."""

    problem: Problem = field(compare=False)
    text: str


def kept(
    most: int,
) -> Callable[[Callable[Concatenate[Problem, Rest], Made]], Callable[Concatenate[Problem, Rest], Made]]:
    """The same function, which keeps its answers to the last `most` problems, an `UnwritableError` among them.

    What else it takes has to be hashable.
    """

    def keeping(function: Callable[Concatenate[Problem, Rest], Made]) -> Callable[Concatenate[Problem, Rest], Made]:
        @lru_cache(maxsize=most)
        def found(key: _ByContent, *rest: Rest.args, **named: Rest.kwargs) -> Made | UnwritableError:
            try:
                return function(key.problem, *rest, **named)
            except UnwritableError as refusal:
                return refusal

        @wraps(function)
        def asked(problem: Problem, /, *rest: Rest.args, **named: Rest.kwargs) -> Made:
            made = found(_ByContent(problem, problem.model_dump_json()), *rest, **named)  # type: ignore[arg-type]
            if isinstance(made, UnwritableError):
                raise made.with_traceback(None)
            return made

        return asked

    return keeping
