"""A verifier looks at one kernel before the judge does, side by side with those of the generation's other kernels."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence

from harness.judging.device_lock import held_s
from harness.nouns.build import Build
from harness.nouns.errors import UserError
from harness.nouns.verdict import Verdict
from nodes.agents.sweeper import side_by_side
from nodes.agents.tester import say_failure
from nodes.assessment import Assessment
from nodes.evolution.proposer import hidden_workloads, shown_task
from nodes.evolution.state import EXCHANGES_OF_A_TURN, Brief, EvolutionState, Proposal
from nodes.history import head_to_head_with, outcome_against
from nodes.request import Review
from nodes.roles import KEYLESS
from nodes.settings import Settings
from nodes.state import Best, Step, Usage, require
from nodes.stops import over_budget
from nodes.turn.answers import parse_assessment
from nodes.turn.node import NodeContext, Update
from nodes.turn.speak import TurnEndedError, asked, best_speedup, speak
from tools.kernel_tools import call_tool
from tools.opinions import EVIDENCE, Opinion, Verifier
from tools.static_verifier import CANNOT_RUN, sanitizer_opinion, static_opinion

ROUNDS = 2
"""A question, and one reflection."""
_FIRST_EXCHANGE = EXCHANGES_OF_A_TURN // 2
_EXCHANGES = 50
"""Of one question with its re-asks: a proposal's exchanges are its author's, then from the middle on its verifiers'."""


def verifier(brief: Brief, node_context: NodeContext) -> Update:
    """Form every opinion that the settings ask for on the brief's kernel. A model that gives none has none."""
    began, [proposal] = time.monotonic(), brief.pool
    found = list(_by_evidence(brief, proposal, node_context))
    usage = Usage()
    if not any(each.right == CANNOT_RUN for each in found):
        for opinion, cost in by_models(brief, proposal, node_context):
            found += [opinion] if opinion else []
            usage += cost
    done = proposal.model_copy(
        update={
            "opinions": tuple(found),
            "usage": proposal.usage + usage,
            "seconds": proposal.seconds + time.monotonic() - began,
        }
    )
    return {"pool": (done,), "usage": usage, "history": tuple(_steps(brief, done, usage))}


def require_verifiers(settings: Settings) -> None:
    """Raise `UserError` where a verifier by model is asked for, and the model is the playbook."""
    if _aspects(settings) and settings.model_for("verifier") == KEYLESS:
        named = ", ".join(_aspects(settings))
        raise UserError(
            f"The playbook verifies no kernels, and {named} are to.", "Set verifier_model, or leave them out."
        )


def ranker(state: EvolutionState, node_context: NodeContext) -> Update:
    """Drop the kernels that the verifiers think too little of; the others are judged in the order of their promise.

    What the screen or the compiler refuses costs no device time, and its verdict tells a refinement what to mend.
    """
    floor = node_context.settings.drop_below
    fresh = [each for each in state.pool if each.waits and each.opinions]
    spent = [sum(opinion.seconds for opinion in each.opinions) for each in fresh]
    dropped = tuple(
        each.model_copy(update={"dropped": _why(each)})
        for each in fresh
        if each.promise[0] < floor and not any(opinion.right == CANNOT_RUN for opinion in each.opinions)
    )
    return {"pool": dropped, "seconds": max(spent, default=0.0) - sum(spent)}


def _why(proposal: Proposal) -> str:
    least = min(proposal.opinions, key=lambda each: each.right)
    reason = least.reasons[0] if least.reasons else "it gave no reason"
    return f"Not judged: the verifiers give it {proposal.promise[0]:.2f}. {least.verifier}: {reason}"


def _by_evidence(brief: Brief, proposal: Proposal, node_context: NodeContext) -> Iterator[Opinion]:
    """Built and watched side by side, as many as there are cores. A kernel that cannot run is not watched."""
    judge, task = node_context.judge(brief), require(brief.task, "task")
    candidate = require(proposal.candidate, "candidate")
    wanted = [each for each in EVIDENCE if each in node_context.settings.verifiers]
    if "static" in wanted:
        tidy = node_context.settings.clang_tidy
        [opinion] = side_by_side(lambda each: static_opinion(judge, task, each, proposal.move, tidy=tidy), [candidate])
        yield opinion
        if opinion.right == CANNOT_RUN:
            return
    if "sanitizers" in wanted and judge.screen(task, candidate) is None:
        yield from side_by_side(lambda each: sanitizer_opinion(judge, task, each), [candidate])


def by_models(brief: Brief, proposal: Proposal, node_context: NodeContext) -> Iterator[tuple[Opinion | None, Usage]]:
    """Each model's opinion, where it gives one, and what it cost."""
    for place, aspect in enumerate(_aspects(node_context.settings)):
        began, usage = time.monotonic(), Usage()
        said: Assessment | None = None
        for turn in range(ROUNDS):
            first = _FIRST_EXCHANGE + _EXCHANGES * (ROUNDS * place + turn)
            try:
                spoken = _asked(brief, proposal, node_context, Review(aspect=aspect, before=said), first)
            except TurnEndedError as error:
                usage += error.usage
                break
            said, usage = spoken[0], usage + spoken[1]
        yield (_opinion(aspect, said, time.monotonic() - began, usage) if said else None), usage


def _asked(
    brief: Brief, proposal: Proposal, node_context: NodeContext, review: Review, first: int
) -> tuple[Assessment, Usage]:
    """One round with one verifier. Raises `TurnEndedError`."""
    task = require(brief.task, "task")
    shown = brief.model_copy(update={"task": shown_task(task, hidden_workloads(task, node_context.settings.held_out))})
    request = asked("verifier", shown, node_context, candidate=proposal.candidate, review=review)
    spoken = speak(
        request,
        parse_assessment,
        node_context=node_context,
        state=brief,
        first_exchange=EXCHANGES_OF_A_TURN * brief.order.number + first,
    )
    return spoken.answer, spoken.usage


def _opinion(aspect: Verifier, said: Assessment, seconds: float, usage: Usage) -> Opinion:
    return Opinion(verifier=aspect, right=said.right, reasons=said.faults, seconds=seconds, dollars=usage.dollars)


def _aspects(settings: Settings) -> list[Verifier]:
    return [each for each in settings.verifiers if each not in EVIDENCE]


def _steps(brief: Brief, proposal: Proposal, usage: Usage) -> Iterator[Step]:
    """A line where there is something to tell."""
    if told := _told(proposal.opinions) or ("Nothing was found." if usage.calls else ""):
        yield Step(
            depth=brief.order.generation,
            agent="verifier",
            move=proposal.move,
            candidate=proposal.digest,
            message=f"{proposal.promise[0]:.2f} that it is right. {told}",
            speedup=best_speedup(brief.best),
            usage=usage,
        )


def _told(opinions: Sequence[Opinion]) -> str:
    return " ".join(f"{each.verifier}: {said}" for each in opinions for said in (*each.reasons, *each.unmet))


# -- What is done with a generation's proposals before any is run: what is no new kernel is dropped, the rest is bu ---


def sifter(state: EvolutionState, node_context: NodeContext) -> Update:
    """Join the proposals of a generation, and drop what has the source of an earlier one."""
    fresh = [each for each in state.pool if each.order.generation == state.generation]
    spent = [each.seconds for each in fresh]
    dropped = repeats(state.pool, lambda each: each.digest, "the same source")
    return {"pool": dropped, "seconds": max(spent, default=0.0) - sum(spent)}


def builder(state: EvolutionState, node_context: NodeContext) -> Update:
    """Build what waits, side by side, and drop what came to the machine code of an earlier one, before it is timed.

    What the screen refuses is not built; nor is what a spent budget leaves no build for.
    """
    task, judge, tools = require(state.task, "task"), node_context.judge(state), node_context.tools(state)
    waiting = [each for each in state.pool if each.waits and each.candidate and not judge.screen(task, each.candidate)]
    if over_budget(state, node_context.settings):
        return {}

    def built(proposal: Proposal) -> Proposal:
        build: Build = call_tool(tools.compile_kernel, require(proposal.candidate, "candidate").source)
        return proposal.model_copy(update={"machine_code": build.machine_code})

    marked = side_by_side(built, waiting)
    numbers = {each.order.number: each for each in marked}
    pool = [numbers.get(each.order.number, each) for each in state.pool]
    dropped = repeats(pool, lambda each: each.machine_code, "the same machine code")
    numbers |= {each.order.number: each for each in dropped}
    return {"pool": tuple(numbers.values()), "usage": Usage(builds=len(dropped))}


def repeats(pool: Sequence[Proposal], mark: Callable[[Proposal], str], what: str) -> tuple[Proposal, ...]:
    """Those that wait to be judged and bear the mark of an earlier proposal, dropped. An empty mark is nobody's."""
    first: dict[str, Proposal] = {}
    found = []
    for each in pool:
        known = first.setdefault(mark(each), each) if mark(each) and not each.dropped else each
        if each.waits and known is not each:
            found.append(each.model_copy(update={"dropped": f"It has {what} as kernel {known.digest}."}))
    return tuple(found)


# -- The judge's word on a generation: one kernel a step, so that a killed run has lost none that was judged ----------


def tester(state: EvolutionState, node_context: NodeContext) -> Update:
    """Judge the most promising proposal that waits, of equals the first, beside the best kernel; keep it where it is
    faster beyond the noise."""
    proposal = max((each for each in state.pool if each.waits), key=lambda each: each.promise)
    candidate = require(proposal.candidate, "candidate")
    before = held_s()
    verdict: Verdict = call_tool(node_context.tools(state).run_kernel, candidate.source)
    outcome = outcome_against(verdict, state.best)
    best = Best(candidate=candidate, verdict=verdict) if outcome == "faster" else state.best
    return {
        "pool": (proposal.model_copy(update={"verdict": verdict}),),
        "verdict": verdict,
        "best": best,
        "attempts": state.attempts + 1,
        "device_seconds": held_s() - before,
        "history": (_step(proposal, verdict, state.best, best, undecided=outcome == "undecided"),),
    }


def _step(proposal: Proposal, verdict: Verdict, before: Best | None, best: Best | None, *, undecided: bool) -> Step:
    return Step(
        depth=proposal.order.generation,
        agent="tester",
        move=proposal.move,
        candidate=proposal.digest,
        parent=proposal.order.parents[0] if proposal.order.parents else None,
        status=verdict.status,
        message=say_failure(verdict),
        candidate_speedup=verdict.timing.speedup if verdict.timing else None,
        speedup=best_speedup(best),
        improved=best is not before,
        undecided=undecided,
        head_to_head=head_to_head_with(before, verdict),
    )
