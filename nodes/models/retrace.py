"""How the playbook finds its own way back: the kernel that a failing one was made from.

A request carries the kernel at hand only. The playbook is deterministic, so the history's moves lead again from the
first kernel, or from what a repair made of it, to any later one.
"""

from __future__ import annotations

import difflib
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from knowledge.compiler.plan import Decline
from knowledge.compiler.problem import Problem
from knowledge.compiler.search import first_draft, more_exact, next_draft
from nodes.history import path_to
from nodes.state import Step, Variant
from tools.sweep import read_sweep

WRITERS = frozenset(("optimizer", "sweeper"))
"""The agents whose steps say which kernel a move made."""


@dataclass(frozen=True)
class Origin:
    """The move that made a kernel, and the kernel it was made from."""

    move: str
    source: str


def moves_to(history: Sequence[Step], digest: str) -> tuple[str, ...]:
    """The optimizer's moves from the first kernel to the kernel with this digest, oldest first."""
    return tuple(step.move for step in _steps_to(history, digest))


def origin_of(
    problem: Problem, source: str, history: Sequence[Step], digest: str, *, max_sweep: int = 12
) -> Origin | None:
    """Where the kernel `source` comes from; None where the history does not lead to it from the first kernel."""
    steps = _steps_to(history, digest)
    first = first_draft(problem)
    if not steps or isinstance(first, Decline):
        return None
    for begun in filter(None, (first.source, more_exact(problem, first.source))):
        parent, kernel = _replayed(problem, begun, steps, max_sweep)
        if kernel.strip() == source.strip():
            return Origin(steps[-1].move, parent.rstrip() + "\n")
    return None


def _replayed(problem: Problem, kernel: str, steps: Sequence[Step], max_sweep: int) -> tuple[str, str]:
    """The kernel before the last of the steps, and after it; empty where the playbook has no such move."""
    parent = ""
    for step in steps:
        parent, kernel = kernel, _apply(problem, kernel, step, max_sweep) or ""
    return parent, kernel


def _steps_to(history: Sequence[Step], digest: str) -> tuple[Step, ...]:
    """The steps that made the kernels on the way from the first one to that with this digest, oldest first."""
    # A sweep may be written from the values at hand: that step made nothing, the sweeper's does.
    made = {
        step.candidate: step
        for step in history
        if step.agent in WRITERS and step.candidate and step.move and step.candidate != step.parent
    }
    return path_to(made, digest)


def _apply(problem: Problem, source: str, step: Step, max_sweep: int) -> str | None:
    """The kernel after the step's move, which must be among those that the playbook has for `source`."""
    passed_over: list[str] = []
    while True:
        draft = next_draft(problem, source, tuple(passed_over), max_sweep=max_sweep)
        if isinstance(draft, Decline) or draft.move in passed_over:
            return None
        if draft.move == step.move:
            return _settled(draft.source, step.variants)
        passed_over.append(draft.move)


def _settled(source: str, variants: Sequence[Variant]) -> str:
    """A sweep's kernel with the values that were chosen; where none was, with those that went on to the test."""
    written, sweep = read_sweep(source, sys.maxsize)
    if sweep is None or not variants:
        return written
    return sweep.source(written, next((each for each in variants if each.chosen), variants[0]).values)


def line_edits(before: str, after: str) -> list[dict[str, str | int]]:
    """The edits that turn `before` into `after`, each with the text that it expects; lines count from 1.

    An insertion goes below its line; line 0 is above the first.
    """
    old, new = _lines(before), _lines(after)
    edits: list[dict[str, str | int]] = []
    for tag, start, end, new_start, new_end in difflib.SequenceMatcher(a=old, b=new, autojunk=False).get_opcodes():
        text = _text(new[new_start:new_end])
        span: dict[str, str | int] = {"line": start + 1, "end_line": end, "expected": _text(old[start:end])}
        if tag == "replace":
            edits.append({"kind": tag, **span, "text": text})
        elif tag == "delete":
            edits.append({"kind": tag, **span})
        elif tag == "insert":
            edits.append({"kind": tag, "line": start, "expected": old[start - 1] if start else "", "text": text})
    return edits


def _lines(text: str) -> list[str]:
    """Lines as a compiler counts them: only a newline ends one."""
    return text.removesuffix("\n").split("\n")


def _text(lines: Sequence[str]) -> str:
    """Every line ends in a newline, so that an empty last line is not lost."""
    return "".join(f"{line}\n" for line in lines)
