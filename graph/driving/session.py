"""One run's graph with its checkpoints: taken on, looked into, and told as a record."""

from __future__ import annotations

import sqlite3
import warnings
from typing import Any, Protocol

from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import RunControl
from pydantic import BaseModel

from graph.driving.thread import GraphThread
from graph.evolution.workflow import build_graph as build_evolution
from graph.export.drop_in import drop_in_files, judged_library
from graph.export.live_module import module_files
from graph.export.serving import served_by
from graph.runs.folder import Manifest, RunFolder
from graph.runs.machine import this_machine
from graph.runs.progress import Observer, Quiet
from graph.runs.record import Outcome, Proposed, RunRecord, Search
from graph.runs.store import Judged, damaged, judged_in
from graph.workflow import build_graph
from harness.judging.protocol import OpenJudge
from harness.nouns.errors import CutegenError, UserError
from harness.nouns.task import Task
from harness.nouns.tier import Tier
from nodes.evolution.state import EvolutionState
from nodes.protocols import Clock
from nodes.settings import Settings
from nodes.state import Best, Final, Result, RunState, Step, Stop, TaskInput, Usage
from tools.judges import open_judge


class Kept(Clock, Protocol):
    """What every graph's state tells of a run that lies in a folder."""

    @property
    def source(self) -> str:
        """The task's, as it was given."""
        ...

    @property
    def task(self) -> Task | None:
        """As it was described."""
        ...

    @property
    def tier(self) -> Tier | None:
        """How kernels are isolated."""
        ...

    @property
    def best(self) -> Best | None:
        """The fastest kernel."""
        ...

    @property
    def history(self) -> tuple[Step, ...]:
        """Every step."""
        ...

    @property
    def usage(self) -> Usage:
        """What the models cost."""
        ...

    @property
    def stop_reason(self) -> Stop | None:
        """What ended it."""
        ...

    @property
    def result(self) -> Result | None:
        """What it found, at its end."""
        ...


class Session(GraphThread):
    """A graph on a run's checkpoints, in its folder. `state_type` is what its checkpoints hold."""

    state_type: type[BaseModel]

    def __init__(
        self, folder: RunFolder, manifest: Manifest, graph: CompiledStateGraph[Any, Settings, Any, Any]
    ) -> None:
        super().__init__(graph, manifest.id)
        self.folder = folder
        self.manifest = manifest

    def advance(
        self, observers: tuple[Observer, ...], control: RunControl | None, answer: str | None, *, deeper: bool = False
    ) -> Outcome | None:
        """Take the run from where it stands to its end; otherwise say what ended it before.

        An ended run is given its task once more where it may go `deeper`.

        Raises `UserError` for an answer that no question waits for.
        """
        if answer is not None and self.question() is None:
            raise UserError(f"No question waits in {self.folder.path}.", "Go on with it by cutegen optimize --resume.")
        return self.take_on(
            TaskInput(source=self.manifest.source, name=self.manifest.name),
            self.manifest.settings,
            (_Keeper(self), *observers),
            control=control,
            answer=answer,
            anew=deeper,
        )

    def keep_kernel(self) -> None:
        """Write the best kernel of the last checkpoint."""
        state: Kept = self.state()
        save_kernel(self.folder, state.task, state.best)

    def require_sound(self) -> None:
        """Raises `UserError` for checkpoints that are damaged, lost, or another run's."""
        file = self.folder.checkpoints
        try:
            snapshot = self.graph.get_state(self.config)
            self.question()
            self.judged()
            state = checked(self.state())
        except (CutegenError, sqlite3.Error):
            raise
        except Exception as error:  # bytes that anybody may have written: each library stumbles in its own way
            raise damaged(file, type(error).__name__) from error
        if snapshot.created_at is None and (self.folder.kernel.exists() or self.folder.conversation.exists()):
            raise damaged(file, "it holds nothing of this run")
        if state.source != self.manifest.source:
            raise damaged(file, f"its task is not that of {self.folder.manifest_file.name}")
        if state.tier == "none" and self.manifest.settings.isolation != "none":
            raise damaged(file, "it runs kernels without isolation, which nobody asked for")

    def record(self, outcome: Outcome | None) -> RunRecord:
        """What is in the checkpoints, as a record. Without an `outcome` the run's own result decides."""
        state: Kept = self.state()
        candidates, verdicts, profiles = self.judged()
        stop = state.stop_reason
        improved = state.result is not None and state.result.improved
        return RunRecord(
            id=self.manifest.id,
            outcome=outcome or ("improved" if improved else "nothing_faster"),
            stop_reason=stop.message if stop else "",
            task=state.task,
            name=self.manifest.name,
            created=self.manifest.created,
            seconds=state.seconds,
            settings=self.manifest.settings.model_dump(mode="json"),
            machine=this_machine(),
            steps=state.history,
            candidates=candidates,
            verdicts=verdicts,
            profiles=profiles,
            best=state.best,
            usage=state.usage,
            search=self.searched(),
            final=state.result.final if state.result else Final(),
        )

    def searched(self) -> Search | None:
        """What the record tells of an evolution; None of any other run."""
        return None

    def judged(self) -> Judged:
        """Every kernel that was ever in a checkpoint."""
        raise NotImplementedError

    def state(self) -> Any:
        """The last checkpoint's state, or that of a run which has not begun; it has what `Kept` names."""
        values = self.graph.get_state(self.config).values
        return self.state_type.model_validate({"source": self.manifest.source, **values})


class Trajectory(Session):
    """One run of the agents on one evolving kernel."""

    state_type = RunState

    def __init__(
        self, folder: RunFolder, manifest: Manifest, saver: SqliteSaver, open_judge: OpenJudge = open_judge
    ) -> None:
        super().__init__(folder, manifest, build_graph(open_judge=open_judge).compile(checkpointer=saver))

    def judged(self) -> Judged:
        """Every candidate, verdict and profile that was ever in a checkpoint, oldest first, by candidate."""
        return judged_in(snapshot.values for snapshot in reversed(list(self.graph.get_state_history(self.config))))


class _Keeper(Quiet):
    """Writes a kernel at once, so that even a kill -9 leaves it, and none with a fault; others are told after it."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def stepped(self, step: Step) -> None:
        """Write it where it is the best one now, and where that one was withdrawn."""
        if step.improved or (step.agent == "sanitizer" and step.status == "refused"):
            self._session.keep_kernel()


def checked(state: Any) -> Any:
    """The state with every noun in it validated anew: the library builds what does not fit without asking."""
    with warnings.catch_warnings(action="ignore"):
        return type(state).model_validate(state.model_dump())


def save_kernel(folder: RunFolder, task: Task | None, best: Best | None) -> None:
    """Write the best kernel and its drop-in. Without one none lies there: a kernel may have been withdrawn since."""
    if best is None:
        for file in (folder.kernel, folder.drop_in, folder.library):
            file.unlink(missing_ok=True)
    elif task is not None:
        folder.write(folder.kernel, best.candidate.source)
        library = judged_library(best.candidate, best.verdict.tier)
        folder.write_drop_in(drop_in_files(served_by(task, best.verdict), best.candidate, library), library)
        for file in module_files(task.source):
            folder.take(file)


# -- An evolution's graph on its checkpoints: what lies in the run's folder, and what the record tells of it ----------


class EvolutionSession(Session):
    """One evolution. Its last state holds every kernel."""

    state_type = EvolutionState

    def __init__(
        self, folder: RunFolder, manifest: Manifest, saver: SqliteSaver, open_judge: OpenJudge = open_judge
    ) -> None:
        super().__init__(folder, manifest, build_evolution(open_judge=open_judge).compile(checkpointer=saver))

    def judged(self) -> Judged:
        """The pool's kernels; of the best one its final verdict, which sanitizers and a caller have added to."""
        state: EvolutionState = self.state()
        candidates = {each.digest: each.candidate for each in state.pool if each.candidate}
        verdicts = {each.digest: each.verdict for each in state.pool if each.verdict}
        best = state.best
        profiles = {best.candidate.digest: best.profile} if best and best.profile else {}
        return candidates, verdicts | ({best.candidate.digest: best.verdict} if best else {}), profiles

    def searched(self) -> Search:
        """Every order with what came of it."""
        state: EvolutionState = self.state()
        proposals = tuple(
            Proposed(
                order=each.order,
                kernel=each.digest,
                move=each.move,
                dropped=each.dropped,
                machine_code=each.machine_code,
                opinions=each.opinions,
                usage=each.usage,
            )
            for each in state.pool
        )
        return Search(generations=state.begun, proposals=proposals, withdrawn=state.withdrawn)
