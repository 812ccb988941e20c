"""What a trajectory found, out of the states that its checkpoints hold, wherever those were kept."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from langchain_core.runnables import RunnableConfig
from pydantic import ValidationError

from graph.runs.machine import this_machine
from graph.runs.record import Outcome, RunRecord
from harness.nouns.candidate import Candidate
from harness.nouns.errors import UserError
from harness.nouns.profile import Profile
from harness.nouns.verdict import Verdict
from nodes.state import Best, Final, RunState, require

Judged = tuple[dict[str, Candidate], dict[str, Verdict], dict[str, Profile]]
"""Kernels, the last word on each, and their profiles, by digest and oldest first."""


def judged_in(states: Iterable[Mapping[str, Any]]) -> Judged:
    """Every candidate, verdict and profile of these states, the oldest first, by candidate."""
    candidates: dict[str, Candidate] = {}
    verdicts: dict[str, Verdict] = {}
    profiles: dict[str, Profile] = {}
    for values in states:
        candidate, verdict, profile = values.get("candidate"), values.get("verdict"), values.get("profile")
        best: Best | None = values.get("best")
        if candidate is not None:
            candidates[candidate.digest] = candidate
        if verdict is not None:
            verdicts[verdict.candidate] = verdict
        if best is not None and best.profile is not None:
            profiles[best.candidate.digest] = best.profile
        if profile is not None and (best is None or best.profile != profile):  # advance="latest": not the best's
            profiles[require(candidate, "candidate").digest] = profile
    return candidates, verdicts, profiles


MOST_CHECKPOINTS = 1000


def record_on(graph: Any, config: RunnableConfig) -> RunRecord:
    """The record of a thread of the graph `cutegen`, compiled here or a `RemoteGraph`. Raises `UserError`."""
    history = [each for each in graph.get_state_history(config, limit=MOST_CHECKPOINTS) if "source" in each.values]
    thread = str(config.get("configurable", {}).get("thread_id", ""))
    try:
        states = [RunState.model_validate(dict(each.values)) for each in reversed(history)]
    except ValidationError as error:
        raise UserError(f"The thread {thread} is not one of the graph cutegen.", "Name one that is.") from error
    if not states:
        raise UserError(f"Nothing was begun on the thread {thread}.", "Give the graph a task on it first.")
    return record_of(states, id=thread, created=datetime.fromisoformat(history[-1].created_at))


def record_of(states: Sequence[RunState], *, id: str, created: datetime) -> RunRecord:  # noqa: A002 (the record's)
    """The record of a run on another server or in another process, from its states, the last one last.

    `machine` is this one, and its settings are empty where its state keeps none.
    """
    last = states[-1]
    candidates, verdicts, profiles = judged_in(dict(state) for state in states)
    return RunRecord(
        id=id,
        outcome=_outcome(last),
        stop_reason=last.stop_reason.message if last.stop_reason else "",
        task=last.task,
        name=last.name,
        created=created,
        seconds=last.seconds,
        settings=last.settings.settings.model_dump(mode="json") if last.settings else {},
        machine=this_machine(),
        steps=last.history,
        candidates=candidates,
        verdicts=verdicts,
        profiles=profiles,
        best=last.best,
        usage=last.usage,
        final=last.result.final if last.result else Final(),
    )


def _outcome(last: RunState) -> Outcome:
    if last.result is None:
        return "interrupted"
    return "improved" if last.result.improved else "nothing_faster"
