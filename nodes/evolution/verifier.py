"""A verifier looks at one kernel before the judge does, side by side with those of the generation's other kernels."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

from harness.nouns.errors import UserError
from nodes.assessment import Assessment
from nodes.builds import side_by_side
from nodes.evolution.held_out import hidden_workloads, shown_task
from nodes.evolution.state import EXCHANGES_OF_A_TURN, Brief, EvolutionState, Proposal
from nodes.node import Update
from nodes.node_context import NodeContext
from nodes.roles import KEYLESS
from nodes.settings import Settings
from nodes.state import Step, Usage, require
from nodes.turn.agent_common import asked, best_speedup
from nodes.turn.answers import parse_assessment
from nodes.turn.request import Review
from nodes.turn.speak import TurnEndedError, speak
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
