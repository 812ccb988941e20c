"""Drive the graph in a run's folder: from its start or its last checkpoint to its end, with the artifacts written."""

from __future__ import annotations

import sqlite3
import warnings

from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.runtime import RunControl

from graph.export.drop_in import drop_in_files, judged_library
from graph.export.live_module import module_files
from graph.pages.report import render
from graph.runs.folder import Manifest, RunFolder
from graph.runs.machine import this_machine
from graph.runs.progress import Log, Observer, Quiet, open_log
from graph.runs.record import Outcome, RunRecord
from graph.runs.store import damaged, open_saver
from graph.runs.thread import GraphThread
from graph.workflow import build_graph
from harness.judging.protocol import OpenJudge
from harness.nouns.candidate import Candidate
from harness.nouns.errors import CutegenError, UserError
from harness.nouns.profile import Profile
from harness.nouns.task import Task
from harness.nouns.verdict import Verdict
from nodes.models.manual import Question
from nodes.state import Best, RunState, Step, TaskInput, require
from tools.judges import open_judge


def drive(
    folder: RunFolder,
    manifest: Manifest,
    *observers: Observer,
    control: RunControl | None = None,
    answer: str | None = None,
    deeper: bool = False,
    open_judge: OpenJudge = open_judge,
) -> RunRecord:
    """Run to the end and write the artifacts; a folder whose run has ended already only gets them written again.

    With `deeper` a run that has ended goes on from its best kernel, as far as its settings allow more by now.

    `control` lets another thread ask for an end after the present step; the record then says "interrupted". A model
    that waits for somebody's answer ends the call, too: the record says "waiting" until `answer` is given. An
    exception, KeyboardInterrupt among them, leaves the artifacts of what was verified so far and goes on upward; a file
    that is no task leaves no folder.
    Raises `UserError` and `MachineError`.
    """
    with folder.claimed():
        try:
            return _drive_claimed(folder, manifest, observers, control, answer, deeper=deeper, open_judge=open_judge)
        except UserError:
            if not (folder.record.exists() or folder.kernel.exists() or folder.conversation.exists()):  # nothing here
                folder.discard()
            raise


class Session(GraphThread):
    """One run's graph with its checkpoints."""

    def __init__(
        self, folder: RunFolder, manifest: Manifest, saver: SqliteSaver, open_judge: OpenJudge = open_judge
    ) -> None:
        super().__init__(build_graph(open_judge=open_judge).compile(checkpointer=saver), manifest.id)
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
            usage=self._state().usage,
            control=control,
            answer=answer,
            anew=deeper,
        )

    def keep_kernel(self) -> None:
        """Write the best kernel of the last checkpoint."""
        state = self._state()
        save_kernel(self.folder, state.task, state.best)

    def require_sound(self) -> None:
        """Raises `UserError` for checkpoints that are damaged, lost, or another run's."""
        file = self.folder.checkpoints
        try:
            snapshot = self.graph.get_state(self.config)
            self.question()
            self._judged()
            state = _checked(self._state())
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
        state = self._state()
        candidates, verdicts, profiles = self._judged()
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
        )

    def _state(self) -> RunState:
        values = self.graph.get_state(self.config).values
        return RunState.model_validate({"source": self.manifest.source, **values})

    def _judged(self) -> tuple[dict[str, Candidate], dict[str, Verdict], dict[str, Profile]]:
        """Every candidate, verdict and profile that was ever in a checkpoint, oldest first, by candidate."""
        candidates: dict[str, Candidate] = {}
        verdicts: dict[str, Verdict] = {}
        profiles: dict[str, Profile] = {}
        for snapshot in reversed(list(self.graph.get_state_history(self.config))):
            candidate, verdict = snapshot.values.get("candidate"), snapshot.values.get("verdict")
            best: Best | None = snapshot.values.get("best")
            profile = snapshot.values.get("profile")
            if candidate is not None:
                candidates[candidate.digest] = candidate
            if verdict is not None:
                verdicts[verdict.candidate] = verdict
            if best is not None and best.profile is not None:
                profiles[best.candidate.digest] = best.profile
            if profile is not None and (best is None or best.profile != profile):  # advance="latest": not the best's
                profiles[require(candidate, "candidate").digest] = profile
        return candidates, verdicts, profiles


class _Keeper(Quiet):
    """Writes a kernel at once, so that even a kill -9 leaves it, and none with a fault; others are told after it."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def stepped(self, step: Step) -> None:
        """Write it where it is the best one now, and where that one was withdrawn."""
        if step.improved or (step.agent == "sanitizer" and step.status == "refused"):
            self._session.keep_kernel()


def _checked(state: RunState) -> RunState:
    """The state with every noun in it validated anew: the library builds what does not fit without asking."""
    with warnings.catch_warnings(action="ignore"):
        return RunState.model_validate(state.model_dump())


def save_kernel(folder: RunFolder, task: Task | None, best: Best | None) -> None:
    """Write the best kernel and its drop-in. Without one none lies there: a kernel may have been withdrawn since."""
    if best is None:
        for file in (folder.kernel, folder.drop_in, folder.library):
            file.unlink(missing_ok=True)
    elif task is not None:
        folder.write(folder.kernel, best.candidate.source)
        library = judged_library(best.candidate, best.verdict.tier)
        folder.write_drop_in(drop_in_files(task, best.candidate, library), library)
        for file in module_files(task.source):
            folder.take(file)


def save(folder: RunFolder, record: RunRecord) -> None:
    """Write kernel, drop-in, record and report. Raises `MachineError` where the folder takes no more."""
    save_kernel(folder, record.task, record.best)
    folder.write(folder.record, record.model_dump_json(indent=1))
    folder.write(folder.report, render(record))


def _drive_claimed(
    folder: RunFolder,
    manifest: Manifest,
    observers: tuple[Observer, ...],
    control: RunControl | None,
    answer: str | None,
    *,
    deeper: bool,
    open_judge: OpenJudge,
) -> RunRecord:
    with open_log(folder.log, manifest.id) as log, open_saver(folder.checkpoints) as saver:
        session = Session(folder, manifest, saver, open_judge)
        session.require_sound()
        try:
            early = session.advance((log, *observers), control, answer, deeper=deeper)
        except BaseException as error:
            _save_what_there_is(session, log, error)
            raise
        record = session.record(early)
        save(folder, record)
        _ask(folder, session.question())
        log.ended(record.outcome, record.stop_reason)
        return record


def _ask(folder: RunFolder, question: Question | None) -> None:
    """Leave the question that waits where it can be read, and nothing of one that does not."""
    if question is None:
        folder.question.unlink(missing_ok=True)
    else:
        folder.write(folder.question, question.text())


def _save_what_there_is(session: Session, log: Log, error: BaseException) -> None:
    """Keep what was verified before `error`. A second failure here must not hide the first."""
    try:
        record = session.record("interrupted")
        if record.task is None and isinstance(error, UserError):
            return
        save(session.folder, record)
        log.ended("interrupted", f"{type(error).__name__}: {error}")
    except (CutegenError, OSError, ValueError, sqlite3.Error):
        return
