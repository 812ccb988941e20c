"""What a proposer is told of a task with several workloads: some are kept from it, so that none is written for them."""

from __future__ import annotations

import ast

from harness.nouns.task import Task
from harness.nouns.verdict import Correctness, Verdict

DECLARED = ("WORKLOADS", "get_workloads")
NOT_SHOWN = "# Its workloads are declared here; some of them are not shown."


def hidden_workloads(task: Task, share: float) -> frozenset[str]:
    """The names of those kept back: the last ones, of several, and never the first."""
    count = min(len(task.workloads) - 1, int(share * len(task.workloads)))
    return frozenset(work.name for work in task.workloads[len(task.workloads) - count :])


def shown_task(task: Task, hidden: frozenset[str]) -> Task:
    """The task without the hidden workloads, and without what its source says of any."""
    if not hidden:
        return task
    kept = tuple(work for work in task.workloads if work.name not in hidden)
    return task.model_copy(update={"workloads": kept, "held_out": (), "source": _undeclared(task.source)})


def shown_verdict(verdict: Verdict, hidden: frozenset[str]) -> Verdict:
    """A verdict without what it says of hidden workloads; that one of them failed may be known."""
    if not hidden:
        return verdict
    kept = tuple(each for each in verdict.workloads if each.name not in hidden)
    update: dict[str, object] = {"workloads": kept}
    if not verdict.passed and verdict.workloads and verdict.workloads[-1].name in hidden:
        told = Correctness(trials=()) if verdict.correctness else None
        update |= {"message": "It fails on a workload that is not shown.", "correctness": told}
    return verdict.model_copy(update=update)


def _undeclared(source: str) -> str:
    """The source without its top-level declaration of workloads. One that is no Python was refused long before."""
    lines = source.splitlines()
    for node in reversed(ast.parse(source).body):
        if DECLARED[0] in _assigned(node) or (isinstance(node, ast.FunctionDef) and node.name == DECLARED[1]):
            lines[node.lineno - 1 : node.end_lineno] = [NOT_SHOWN]
    return "\n".join(lines) + "\n"


def _assigned(node: ast.stmt) -> list[str]:
    match node:
        case ast.Assign(targets=targets):
            return [target.id for target in targets if isinstance(target, ast.Name)]
        case ast.AnnAssign(target=ast.Name(id=name)):
            return [name]
        case _:
            return []
