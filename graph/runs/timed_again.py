"""Two runs that hold the same two kernels, and may disagree about them: both kernels run again, by turns, now."""

from __future__ import annotations

from graph.runs.comparing import Comparison, Duel, Ratio, duels_of, say_duels
from graph.runs.folder import RunFolder
from graph.runs.record import RunRecord
from graph.runs.trust import require_own
from harness.judging.protocol import JudgeOrder, OpenJudge
from harness.nouns.errors import CutegenError, UserError
from harness.nouns.verdict import HeadToHead
from nodes.settings import Settings
from nodes.state import require
from tools.judges import open_judge

RISK = "its task would run here"
REMEDY = "Begin the run here."


def same_two(comparison: Comparison) -> bool:
    """Whether each run holds both of the kernels that they ended with, for one task and one target."""
    first, second = comparison.first.best, comparison.second.best
    if first is None or second is None or comparison.task_differs or comparison.ratio.basis == "same kernel":
        return False
    pair = {first.candidate.digest, second.candidate.digest}
    held = all(pair <= run.candidates.keys() for run in (comparison.first, comparison.second))
    return held and first.candidate.target == second.candidate.target


def timed_again(
    comparison: Comparison, folders: tuple[RunFolder, RunFolder], open_judge: OpenJudge = open_judge
) -> Comparison:
    """With the ratio that is measured now; with the old one, and why, where nothing can be measured.

    A task runs here only if this user began both runs on this machine. The isolation is that of the second.
    """
    try:
        _, settings = [_own_settings(*each) for each in zip(folders, _records(comparison), strict=True)]
        met = _meet(comparison, settings, open_judge)
    except CutegenError as error:
        words = f"{comparison.ratio.words} The kernels were not timed again. {error}"
        return comparison.model_copy(update={"ratio": comparison.ratio.model_copy(update={"words": words})})
    earlier = say_duels(duels_of(*_records(comparison)))
    now = Duel(speedup=met.speedup, interval=met.interval)
    words = f"Timed again now, by turns, in the same rounds: {now}."
    ratio = Ratio(
        basis="same rounds", speedup=met.speedup, interval=met.interval,
        words=f"{words} Before: {earlier}." if earlier else words,
    )  # fmt: skip
    return comparison.model_copy(update={"ratio": ratio})


def _records(comparison: Comparison) -> tuple[RunRecord, RunRecord]:
    return comparison.first, comparison.second


def _own_settings(folder: RunFolder, record: RunRecord) -> Settings:
    """Those that this user began the run with. Raises `UserError` where it was begun by somebody else."""
    manifest, written = folder.read_manifest()
    require_own(written, folder.manifest_file, RISK, REMEDY)
    if require(record.task, "task").source != manifest.source:
        raise UserError(f"The task in {folder.record} is not that of {folder.manifest_file.name}.", REMEDY)
    return manifest.settings


def _meet(comparison: Comparison, settings: Settings, open_judge: OpenJudge) -> HeadToHead:
    """The second kernel against the first. Raises `UserError` and `MachineError`."""
    old, new = require(comparison.first.best, "best"), require(comparison.second.best, "best")
    if old.verdict.precision != new.verdict.precision:
        raise UserError("They were judged at different precisions.", "Give both runs the same --precision.")
    tolerance = max(old.verdict.tolerance, new.verdict.tolerance)
    asked = new.candidate.target, settings.isolation, new.verdict.precision, tolerance
    judge = open_judge(JudgeOrder(*asked, ordinal=settings.device))
    verdict = judge.evaluate(require(comparison.second.task, "task"), new.candidate, incumbent=old.candidate)
    met = verdict.timing.head_to_head if verdict.timing else None
    if met is None:
        raise UserError(f"The judge says: {verdict.status}. {verdict.message}".strip(), "Look at both verdicts.")
    return met
