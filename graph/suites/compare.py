"""A suite's second baseline: each task's best kernel judged once more beside torch.compile's version of the task.

Not in the search itself: compiling the reference takes seconds, and every verdict would pay them.
"""

from __future__ import annotations

from pydantic import ValidationError

from graph.runs.folder import RunFolder
from graph.runs.record import RunRecord
from harness.judging.protocol import JudgeOrder, OpenJudge
from harness.nouns.reading import read_bounded
from harness.nouns.verdict import Timing, Verdict
from nodes.settings import Settings
from tools.judges import open_judge

FILE = "compiled.json"


def compare(folder: RunFolder, record: RunRecord, settings: Settings, open_judge: OpenJudge = open_judge) -> None:
    """Judge the best kernel of a run that has ended, with that baseline, and keep the verdict in the run's folder.

    Nothing to do where it has not ended, where no kernel passed, and where it was done before. Raises `MachineError`.
    """
    best, task = record.best, record.task
    ended = record.outcome in ("improved", "nothing_faster")
    if not ended or best is None or task is None or (folder.path / FILE).exists():
        return
    judged = best.verdict
    asked = best.candidate.target, settings.isolation, judged.precision, judged.tolerance
    judge = open_judge(JudgeOrder(*asked, ordinal=settings.device))
    verdict = judge.evaluate(task, best.candidate, seed=judged.seed, compile_baseline=True)
    folder.write(folder.path / FILE, verdict.model_dump_json(indent=1) + "\n")


def compared(folder: RunFolder) -> Timing | None:
    """The timing beside torch.compile; None where there is none (yet)."""
    try:
        return Verdict.model_validate_json(read_bounded(folder.path / FILE)).timing
    except (OSError, ValidationError):
        return None
