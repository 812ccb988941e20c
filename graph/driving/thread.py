"""A graph on one thread of its checkpoints: taken from where it stands to its end, or to its next question."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import closing
from typing import Any, Literal, cast

from langchain_core.runnables import RunnableConfig
from langgraph.errors import GraphDrained
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import RunControl
from langgraph.types import Command
from pydantic import BaseModel

from graph.runs.progress import Listener, Observer
from nodes.approval import Approval
from nodes.events import Progress
from nodes.models.manual import Question
from nodes.progress import listening
from nodes.settings import Settings

Early = Literal["waiting", "interrupted"]


class GraphThread:
    """Any graph whose context is `Settings` and whose nodes write their steps into `history`, if they write some."""

    def __init__(self, graph: CompiledStateGraph[Any, Settings, Any, Any], thread_id: str) -> None:
        self.graph = graph
        self.config: RunnableConfig = {"configurable": {"thread_id": thread_id}, "recursion_limit": 1_000_000}

    def question(self) -> Question | Approval | None:
        """The question that waits for its answer: a model's, or whether a kernel is kept."""
        waiting = self.graph.get_state(self.config).interrupts
        if not waiting:
            return None
        kind = Approval if "kernel" in waiting[0].value else Question
        return kind.read(waiting[0].value)

    def take_on(
        self,
        given: BaseModel,
        settings: Settings,
        observers: tuple[Observer, ...] = (),
        *,
        control: RunControl | None = None,
        answer: str | None = None,
        anew: bool = False,
    ) -> Early | None:
        """Take the graph to its end; otherwise say what ended it before.

        A thread that has not begun is `given` its input, one that has ended only where it is to begin `anew`. An
        `answer` is that to the question that waits.
        """
        snapshot = self.graph.get_state(self.config)
        if snapshot.interrupts and answer is None:
            return "waiting"
        # Not `next`: a node that was killed behind its last write, and before that was put together, is no next one.
        if snapshot.created_at is not None and not snapshot.tasks and not anew:
            return None
        way_on: Command[Any] | BaseModel | None = None if snapshot.tasks else given
        stream = self.graph.stream(
            way_on if answer is None else Command(resume=answer),
            self.config,
            context=settings.model_copy(update=dict(settings)),  # all of them: none is taken from the checkpoints
            stream_mode=["tasks", "updates"],
            durability="sync",
            control=control,
        )
        try:
            _follow(cast("Generator[tuple[str, dict[str, Any]]]", stream), observers)
        except GraphDrained:
            return "interrupted"
        return "waiting" if self.question() else None


def _follow(stream: Generator[tuple[str, dict[str, Any]]], observers: tuple[Observer, ...]) -> None:
    """Tell them of a stream to its end."""
    listeners = [each for each in observers if isinstance(each, Listener)]

    def listen(progress: Progress) -> None:
        for listener in listeners:
            listener.heard(progress)

    # Closed, it waits for nodes that still run side by side: the checkpoints they write to are closed next.
    with listening(listen), closing(stream) as told:
        for mode, chunk in told:
            _tell(observers, mode, chunk)


def _tell(observers: tuple[Observer, ...], mode: str, chunk: Mapping[str, Any]) -> None:
    if mode == "tasks":
        for observer in observers if "input" in chunk else ():
            observer.started(chunk["name"])
        return
    for node, update in chunk.items():
        steps = () if node == "__interrupt__" else (update or {}).get("history", ())
        for step in steps:
            for observer in observers:
                observer.stepped(step)
