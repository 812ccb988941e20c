"""`python -m bench.written SUITE`: which tasks the playbook writes a first kernel for, and why not the others.

For a GPU and for a processor, whichever this machine has: nothing is compiled and nothing runs but the description.
"""

from __future__ import annotations

from typing import Annotated

import typer

from graph.cli.prompts import H200, PROCESSOR
from graph.model.writers import problem_of
from graph.runs.suite_record import SuiteTask
from graph.suites.tasks import load_suite
from harness.judging.protocol import JudgeOrder, KernelJudge
from harness.nouns.candidate import TargetName
from harness.nouns.device_facts import DeviceFacts
from harness.nouns.errors import CutegenError
from knowledge.compiler.plan import Decline, Plan
from knowledge.compiler.search.first import first_draft
from tools.judges import open_judge

MACHINES: dict[TargetName, DeviceFacts] = {"cuda": H200, "cpu": PROCESSOR}


def main(
    folder: Annotated[str, typer.Argument(help="A suite, as `cutegen suite` takes it.")],
    ids: Annotated[str, typer.Option(help="Numbers with commas; all tasks without.")] = "",
) -> None:
    """Print a line a task, then how many are written for each target."""
    judge, written = open_judge(JudgeOrder("cpu")), dict.fromkeys(MACHINES, 0)
    _, tasks = load_suite(folder, ids=ids)
    for task in tasks:
        found = {target: _recipe(judge, task, target) for target in MACHINES}
        for target, (is_written, _) in found.items():
            written[target] += is_written
        print(task.name, *(f"{target}: {words}" for target, (_, words) in found.items()), sep="  ", flush=True)
    print(*(f"{target}: {count} of {len(tasks)}" for target, count in written.items()), sep="  ")


def _recipe(judge: KernelJudge, given: SuiteTask, target: TargetName) -> tuple[bool, str]:
    """Whether there is a first kernel; and by which recipe, or why not."""
    try:
        task = judge.describe(given.source, name=given.name)
    except CutegenError as failure:
        return False, str(failure)
    if task.program is None:
        return False, f"not traced: {task.trace_failure}"
    draft = first_draft(problem_of(task, target, MACHINES[target], "default"))  # type: ignore[arg-type]
    if isinstance(draft, Decline):
        return False, draft.reason
    plan = Plan.read(draft.source)
    return True, plan.recipe if plan else ""


if __name__ == "__main__":
    typer.run(main)
