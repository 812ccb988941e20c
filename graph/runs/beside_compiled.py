"""A run's second baseline: its best kernel judged once more beside torch.compile's version of the task.

Not in the search itself: compiling the reference takes seconds, and every verdict would pay them.
"""

from __future__ import annotations

from graph.runs.beside import compared
from graph.runs.folder import RunFolder
from graph.runs.record import RunRecord
from graph.runs.report_file import write_report
from harness.judging.protocol import JudgeOrder, OpenJudge
from nodes.settings import Settings
from tools.judges import open_judge


def affordable(record: RunRecord) -> bool:
    """Whether nobody has to ask for it: on a GPU it takes seconds, on a processor often longer than the run did."""
    return record.best is not None and record.best.candidate.target == "cuda"


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
