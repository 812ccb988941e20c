"""Drive the graph in a run's folder: from its start or its last checkpoint to its end, with the artifacts written."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping

from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.runtime import RunControl

from graph.driving.session import EvolutionSession, Session, Trajectory, save_kernel
from graph.pages.report import render
from graph.runs.folder import Kind, Manifest, RunFolder, compared, found_beside
from graph.runs.progress import Log, Observer, open_log
from graph.runs.record import RunRecord
from graph.runs.store import open_saver
from harness.judging.protocol import JudgeOrder, OpenJudge
from harness.nouns.devices import on_gpu
from harness.nouns.errors import CutegenError
from nodes.approval import Approval
from nodes.models.manual import Question
from nodes.settings import Settings
from tools.judges import open_judge

SESSIONS: Mapping[Kind, Callable[[RunFolder, Manifest, SqliteSaver, OpenJudge], Session]] = {
    "optimize": Trajectory,
    "evolve": EvolutionSession,
}


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
    that is no task, or that this machine cannot work on, leaves no folder.
    Raises `UserError` and `MachineError`.
    """
    with folder.claimed():
        try:
            return _drive_claimed(folder, manifest, observers, control, answer, deeper=deeper, open_judge=open_judge)
        except CutegenError:
            if not (folder.record.exists() or folder.kernel.exists() or folder.conversation.exists()):  # nothing here
                folder.discard()
            raise


def save(folder: RunFolder, record: RunRecord) -> None:
    """Write kernel, drop-in, record and report. Raises `MachineError` where the folder takes no more."""
    save_kernel(folder, record.task, record.best)
    folder.write(folder.record, record.model_dump_json(indent=1))
    write_report(folder, record)


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
        session = SESSIONS[manifest.kind](folder, manifest, saver, open_judge)
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


def _ask(folder: RunFolder, question: Question | Approval | None) -> None:
    """Leave the question that waits where it can be read, and nothing of one that does not."""
    if question is None:
        folder.question.unlink(missing_ok=True)
    else:
        folder.write(folder.question, question.text())


def _save_what_there_is(session: Session, log: Log, error: BaseException) -> None:
    """Keep what was verified before `error`. A second failure here must not hide the first."""
    try:
        record = session.record("interrupted")
        if record.task is None and isinstance(error, CutegenError):
            return
        save(session.folder, record)
        log.ended("interrupted", f"{type(error).__name__}: {error}")
    except (CutegenError, OSError, ValueError, sqlite3.Error):
        return


# -- The report in a run's folder -------------------------------------------------------------------------------------


def write_report(folder: RunFolder, record: RunRecord) -> None:
    """Draw it from the record and what lies beside it. Raises `MachineError`."""
    folder.write(folder.report, render(record, found_beside(folder, record)))


# -- A run's second baseline: its best kernel judged once more beside torch.compile's version of the task -------------

# Not in the search itself: compiling the reference takes seconds, and every verdict would pay them.


def affordable(record: RunRecord) -> bool:
    """Whether nobody has to ask for it: on a GPU it takes seconds, on a processor often longer than the run did."""
    return record.best is not None and on_gpu(record.best.candidate.target)


def compare(folder: RunFolder, record: RunRecord, settings: Settings, open_judge: OpenJudge = open_judge) -> None:
    """Judge the best kernel of a run that has ended, with that baseline; keep the verdict, and tell it in the report.

    Nothing to do where it has not ended, where no kernel passed, and where it was done before. Raises `MachineError`.
    """
    best, task = record.best, record.task
    ended = record.outcome in ("improved", "nothing_faster")
    if not ended or best is None or task is None or compared(folder, best):
        return
    judged = best.verdict
    asked = best.candidate.target, settings.isolation, judged.precision, judged.tolerance
    judge = open_judge(JudgeOrder(*asked, ordinal=settings.device))
    verdict = judge.evaluate(task, best.candidate, seed=judged.seed, compile_baseline=True)
    folder.write(folder.compiled, verdict.model_dump_json(indent=1) + "\n")
    write_report(folder, record)
