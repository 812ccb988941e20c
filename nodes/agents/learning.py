"""What a run learns from others by the archive, and what it leaves there for them."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from itertools import islice

from harness.nouns.candidate import Candidate
from harness.nouns.errors import MachineError
from harness.nouns.verdict import Verdict
from nodes.state import RunState, require
from nodes.turn.node import NodeContext
from nodes.turn.prompt_size import estimated_tokens
from tools.archive import Archive, Entry
from tools.lessons import Lesson, lessons

MOST_TOKENS = 400
_AROUND = 50
"""Tokens of the heading and of what is said before the first."""


def shown_lessons(state: RunState, node_context: NodeContext) -> tuple[Lesson, ...]:
    """The lessons that the optimizer is shown: as many as the settings allow, and as fit into their tokens."""
    archive = Archive.named(node_context.settings.archive) if node_context.settings.lessons else None
    if archive is None:
        return ()
    found = lessons(
        archive,
        require(state.task, "task"),
        require(state.target, "target"),
        node_context.judge(state).facts().device,
        but=node_context.thread_id or "",
    )
    return tuple(islice(_fitting(found), node_context.settings.lessons))


def _fitting(found: Iterable[Lesson]) -> Iterable[Lesson]:
    left = MOST_TOKENS - _AROUND
    for lesson in found:
        left -= estimated_tokens(f"- {lesson.said}\n\n````diff\n{lesson.diff}\n````\n\n")
        if left < 0:
            return
        yield lesson


def keep_lesson(state: RunState, verdict: Verdict, node_context: NodeContext) -> None:
    """Put the kernel just judged into the archive. One that cannot be used just now learns nothing of it."""
    archive = Archive.named(node_context.settings.archive) if node_context.settings.lessons else None
    if archive is None:
        return
    candidate = require(state.candidate, "candidate")
    base = _right_ancestor(state, candidate)
    entry = Entry(
        candidate=candidate,
        verdict=verdict,
        operator="mutation" if base else "translation",
        move=state.move,
        parents=(base,) if base else (),
        dollars=0.0,
        seconds=sum(verdict.seconds.values()),
    )
    with suppress(MachineError):
        device = node_context.judge(state).facts().device
        archive.put(node_context.thread_id or "", require(state.task, "task"), device, [entry])


def _right_ancestor(state: RunState, candidate: Candidate) -> str | None:
    """The right kernel that a move was made of, across the repairs of what the move broke."""
    judged = {step.candidate: step for step in state.history if step.agent == "tester"}
    base = candidate.parent
    while base in judged and judged[base].status != "passed":
        base = judged[base].parent
    return base
