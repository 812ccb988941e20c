"""The end of a run: at which batches beside its task's own the kernel is right, and one that is, where it is not."""

from __future__ import annotations

from functools import partial

from harness.judging.protocol import KernelJudge
from harness.nouns.batches import OTHER_BATCHES, Batches, ServedBatches
from harness.nouns.candidate import Candidate
from harness.nouns.errors import CutegenError
from harness.nouns.task import Task
from knowledge.compiler.plan import Decline
from knowledge.compiler.schedule.parts.resizing import SizesRecipe
from nodes.models.playbook import posed
from nodes.state import Best, RunState, Step, require
from nodes.stops import left_s
from nodes.turn.node import NodeContext, Update
from nodes.turn.speak import best_speedup

VERDICTS = 3
"""So many verdicts it may take: on the kernel at other batches, with loops at its own, and with loops at others."""


def widened(best: Best, state: RunState, node_context: NodeContext) -> tuple[Best, ...]:
    """The kernel, its verdict with a word on other batches; after it the one that serves them, where it does not.

    That one has the compiler's loops beside the kernel, which stays what serves the task's own batch. Whether
    that one costs its own batch time is left to the final. The kernel as it is where the run has no time left to ask.
    """
    settings, task = node_context.settings, require(state.task, "task")
    if not settings.serve_batches or len(task.workloads) > 1:
        return (best,)
    if VERDICTS * sum(best.verdict.seconds.values()) >= left_s(state, settings):
        return (best,)
    try:
        judge = node_context.judge(state)
        batches = judge.batches(task)
        served = judge.serves(task, best.candidate, batches)
        if served.workloads or batches.traced is None or task.program is None:
            return (_saying(best, served),)
        other = _with_loops(best, task, batches, judge, node_context)
        if isinstance(other, Candidate):
            return _judged(best, other, task, batches, judge)
        return (_saying(best, ServedBatches(own=batches.own, refused=other)),)
    except CutegenError:  # the machine's fault: the kernel stays what it is
        return (best,)


def alone(best: Best, why: str) -> Best:
    """A kernel whose verdict has a word on other batches, with `why` it serves none of them."""
    served = require(best.verdict.served, "served")
    return _saying(best, ServedBatches(own=served.own, refused=why))


def joined(wide: Best, state: RunState) -> Update:
    """What a kernel that serves other batches adds to a run whose result it is."""
    verdict = wide.verdict
    step = Step(
        depth=state.depth,
        agent="tester",
        move=OTHER_BATCHES,
        candidate=wide.candidate.digest,
        parent=wide.candidate.parent,
        status=verdict.status,
        message=verdict.served.said if verdict.served else "",
        candidate_speedup=verdict.timing.speedup if verdict.timing else None,
        speedup=best_speedup(wide),
        machine_code=verdict.build.machine_code if verdict.build else "",
    )
    return {"history": (step,), "candidate": wide.candidate, "verdict": verdict}


def _saying(best: Best, served: ServedBatches) -> Best:
    return best.model_copy(update={"verdict": best.verdict.model_copy(update={"served": served})})


def _with_loops(
    best: Best, task: Task, batches: Batches, judge: KernelJudge, node_context: NodeContext
) -> Candidate | str:
    """The kernel with loops beside it, or why there are none."""
    if task.program is None or batches.traced is None:
        return "its forward could not be traced"
    candidate = best.candidate
    pose = partial(posed, candidate.target, judge.facts(), node_context.settings.precision)
    others = (pose(batches.traced, batches.traced.program),)
    problem = pose(task.workloads[0], task.program).model_copy(update={"others": others})
    text = SizesRecipe.widened(problem, candidate.source)
    if isinstance(text, Decline):
        return f"no loops are written for other ones: {text.reason}"
    return Candidate(source=text, target=candidate.target, author=candidate.author, parent=candidate.digest)


def _judged(best: Best, other: Candidate, task: Task, batches: Batches, judge: KernelJudge) -> tuple[Best, ...]:
    """What came of the kernel with the loops beside it."""
    verdict = judge.evaluate(task, other)
    if not verdict.passed:
        why = f"the loops fail ({verdict.check}): {verdict.message}"
        return (_saying(best, ServedBatches(own=batches.own, refused=why)),)
    served = judge.serves(task, other, batches)
    if not served.workloads:
        return (_saying(best, served),)
    wide = Best(candidate=other, verdict=verdict, profile=best.profile)
    own = ServedBatches(own=batches.own, refused="its sizes are constants")
    return _saying(best, own), _saying(wide, served)
