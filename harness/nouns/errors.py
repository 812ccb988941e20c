"""Failures that are not the kernel's: the user's input, or the machine. A failing kernel is data: a `Verdict`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class CutegenError(RuntimeError):
    """A failure that stops the run. `str()` is one sentence naming what failed and why, then the remedy.

    `final`: the remedy is another run; the one that failed cannot go on as it is.
    """

    def __init__(self, problem: str, remedy: str = "", *, final: bool = False) -> None:
        super().__init__(f"{problem} {remedy}".strip())
        self.problem = problem
        self.remedy = remedy
        self.final = final


class UserError(CutegenError):
    """What the user gave cannot be used: a task file, an option, a run folder."""


class MachineError(CutegenError):
    """This machine lacks something: a compiler, a GPU, a permission, room on the disk."""


@contextmanager
def at_fault(option: str) -> Iterator[None]:
    """What is wrong with an option's value is told with the option's name. Raises the `UserError` raised within."""
    try:
        yield
    except UserError as error:
        raise UserError(f"{option}: {error.problem}", error.remedy) from error
