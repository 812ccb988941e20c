"""An evolution whose proposers and judge are scripted: for tests of the ways, and not of kernels."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from langchain_core.messages import AIMessage
from langgraph.checkpoint.sqlite import SqliteSaver
from scripted_judge import Scripted
from softsign_script import KERNEL, SOURCE, written

from graph.driving.thread import GraphThread
from graph.evolution.workflow import build_graph
from graph.runs.progress import Observer, Quiet
from graph.runs.store import PlainSerializer
from harness.judging.protocol import OpenJudge
from harness.nouns.errors import MachineError
from nodes.evolution.state import EvolutionState
from nodes.models.local import ScriptedModel
from nodes.request import Request
from nodes.settings import Settings
from nodes.state import Step, TaskInput

Author = Callable[[Request], "str | AIMessage"]


def kernel(name: str, judged: str) -> str:
    """A kernel of that name, of which the judge says so."""
    return KERNEL.replace("// LOOP", f"const int {name} = 0;  // judge: {judged}")


def name_of(request: Request) -> str:
    """A name for what a request asks for: that of its parent, and its number among the orders like it."""
    assert request.search is not None and request.left is not None
    parent = request.candidate.digest[:4] if request.candidate else ""
    return f"g{request.left.depth}{request.search.operator[0]}{parent}_{request.search.turn}"


class Cut(Quiet):
    """The power fails when so many steps are on the disk."""

    def __init__(self, after: int) -> None:
        self.left = after

    def stepped(self, step: Step) -> None:
        self.left -= 1
        if self.left == 0:
            raise MachineError("The power failed.", "Wait.")


class Evolved:
    """A run in a folder of its own, whose authors are asked by their model's name."""

    def __init__(
        self,
        folder: Path,
        authors: dict[str, Author] | Author,
        *,
        thread: str = "one",
        judge: OpenJudge | None = None,
        **settings: Any,
    ) -> None:
        self.thread = thread
        self.file = folder / "checkpoints.sqlite"
        self.judges = Scripted()
        self._open_judge: OpenJudge = judge or self.judges
        self.authors = authors
        self.settings = Settings(
            **{"model": "one", "operators": ("mutation",), "archive": "none", "recommendations": False, **settings}
        )
        self.state = EvolutionState(source=SOURCE)
        self.models: dict[str, ScriptedModel] = {}

    def _model(self, spec: str, _options: object) -> ScriptedModel:
        author = self.authors[spec] if isinstance(self.authors, dict) else self.authors
        return self.models.setdefault(spec, ScriptedModel(answers=[author], repeat_last=True))

    def go(self, *observers: Observer, anew: bool = False, **options: Any) -> EvolutionState:
        """In a graph and with a connection of their own, like a process."""
        with closing(sqlite3.connect(self.file, check_same_thread=False)) as connection:
            saver = SqliteSaver(connection, serde=PlainSerializer())
            graph = build_graph(self._model, self._open_judge).compile(checkpointer=saver)
            thread = GraphThread(graph, self.thread)
            try:
                given = TaskInput(source=SOURCE, name="softsign")
                thread.take_on(given, self.settings, observers, anew=anew, **options)
            finally:
                self.state = EvolutionState.model_validate({"source": SOURCE, **graph.get_state(thread.config).values})
        return self.state

    def judged(self) -> list[str]:
        """The digests of what the judge judged, in order."""
        return [digest for method, digest in self.judges.asked if method == "evaluate"]


def answer(name: str, judged: str) -> str:
    """A proposer's answer."""
    return written(kernel(name, judged), move=name)
