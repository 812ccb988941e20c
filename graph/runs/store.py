"""Where a run's checkpoints are kept: one SQLite file in its folder, from which it goes on after a kill."""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from datetime import datetime
from importlib import import_module
from pathlib import Path
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.sqlite import SqliteSaver
from pydantic import ValidationError

from graph.runs.machine import this_machine
from graph.runs.record import Outcome, RunRecord
from harness.nouns.candidate import Candidate
from harness.nouns.errors import CutegenError, MachineError, UserError
from harness.nouns.frozen import Frozen
from harness.nouns.profile import Profile
from harness.nouns.verdict import Verdict
from nodes.evolution.state import Brief  # noqa: F401 (its nouns are defined with it)
from nodes.state import Best, Final, RunState, TaskInput, require

BUSY_S = 10.0
WRITTEN = ("msgpack", "null", "bytes")
"""The forms that a run's checkpoints are written in. The library would read others, and build objects from them."""
MOVED = {
    "nodes.diagnosis": "nodes.assessment",
    "nodes.models.conversation": "nodes.models.replay",
    "nodes.models.prices": "nodes.address",
    "nodes.models.usage": "nodes.usage",
    "nodes.turn.request": "nodes.request",
}
"""Modules that checkpoints of earlier versions name, and those that define their nouns today."""


def checkpoint_types() -> list[type]:
    """Every noun that a checkpoint may hold; nothing else is built from the file when it is read.

    They are all defined by now: the state, imported above, imports them.
    """
    found: list[type] = [TaskInput]
    waiting: list[type] = [Frozen]
    while waiting:
        noun = waiting.pop()
        found.append(noun)
        waiting += noun.__subclasses__()
    return found


class PlainSerializer(JsonPlusSerializer):
    """Builds our nouns from a checkpoint, and nothing else."""

    def __init__(self) -> None:
        nouns = checkpoint_types()
        before = [(old, noun.__name__) for old, new in MOVED.items() for noun in nouns if noun.__module__ == new]
        super().__init__(allowed_msgpack_modules=[*nouns, *before])
        for old, new in MOVED.items():
            sys.modules.setdefault(old, import_module(new))

    def with_msgpack_allowlist(self, extra_allowlist: Iterable[tuple[str, ...] | type]) -> PlainSerializer:
        """This one: its list is whole. LANGGRAPH_STRICT_MSGPACK has graphs add the types of their schemas, on a copy
        that would read other forms, too, and of the saver, which langgraph-api's wrapper of one does not survive."""
        return self

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        """A value of a checkpoint. Raises `ValueError` for one in a form that no run is written in."""
        if data[0] not in WRITTEN:
            raise ValueError(f"a value of the type {data[0]}")
        return super().loads_typed(data)


@contextmanager
def open_saver(file: Path) -> Iterator[SqliteSaver]:
    """Open, or create, the checkpoints of a run. Failures of the file become `MachineError` or `UserError`."""
    try:
        with closing(sqlite3.connect(file, check_same_thread=False, timeout=BUSY_S)) as connection:
            yield SqliteSaver(connection, serde=PlainSerializer())
    except sqlite3.Error as error:
        raise _explained(error, file) from error


def damaged(file: Path, why: object) -> UserError:
    """What a user is told of checkpoints that cannot be read."""
    remedy = "Start a new run; the best kernel so far lies in kernel.cu."
    return UserError(f"{file} is damaged ({why}).", remedy, final=True)


def _explained(error: sqlite3.Error, file: Path) -> CutegenError:
    # A table or column that is not there is the file's fault, not the machine's.
    if isinstance(error, sqlite3.OperationalError) and error.sqlite_errorcode != sqlite3.SQLITE_ERROR:
        return MachineError(
            f"The checkpoint file {file} cannot be used: {error}.",
            "Is there room on the disk, and may you write to the folder? Then go on with --resume.",
        )
    return damaged(file, error)


# -- What a trajectory found, out of the states that its checkpoints hold, wherever those were kept -------------------


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
