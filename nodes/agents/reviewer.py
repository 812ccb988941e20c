"""The reviewer, another model than the authors': it looks at what came of a move, and plans the next one.

It is shown what judge and compiler say, and the difference of two kernels without comments. What the author called the
move, and why it should gain, is kept from it. It decides nothing: the judge does.
"""

from __future__ import annotations

from collections.abc import Mapping

from harness.nouns.build import Build
from harness.nouns.candidate import Candidate, TargetName
from harness.nouns.errors import UserError
from harness.nouns.verdict import Verdict
from nodes.agents.optimizer import base, shown_profile
from nodes.assessment import Critique
from nodes.protocols import Account
from nodes.request import Compared, Request
from nodes.roles import KEYLESS
from nodes.settings import Settings
from nodes.state import Best, RunState, Step, Usage, require
from nodes.turn.answers import parse_critique
from nodes.turn.node import NodeContext, Update
from nodes.turn.speak import TurnEndedError, asked, best_speedup, speak
from tools.bare_source import bare_diff, without_comments
from tools.static_verifier import say_instructions
from tools.wording import say_build, say_verdict


def reviewer(state: RunState, node_context: NodeContext) -> Update:
    """Look at the kernel judged last, and plan the next move. Without an answer the optimizer goes on without one."""
    start, parent = base(state, node_context.settings), _made_of(state)
    parts = (parent.candidate, parent.verdict) if parent else (None, None)
    target: TargetName = require(state.target, "target")
    candidate, verdict = require(state.candidate, "candidate"), require(state.verdict, "verdict")
    request = asked(
        "reviewer",
        state,
        node_context,
        candidate=bare(start.candidate),
        verdict=start.verdict,
        profile=shown_profile(state, start, node_context.settings),
        compared=compared(candidate, verdict, target, *parts),
        critique=state.critique,
    )
    critique, told, usage = criticized(request, node_context, state)
    step = Step(
        depth=state.depth,
        agent="reviewer",
        candidate=candidate.digest,
        message=told,
        speedup=best_speedup(state.best),
        usage=usage,
    )
    return {"critique": critique, "history": (step,), "usage": usage}


def require_reviewer(settings: Settings) -> None:
    """Raise `UserError` where the reviewer is to be the playbook."""
    if settings.reviewer_model == KEYLESS:
        raise UserError("The playbook reviews no kernels.", "Name a language model as reviewer_model, or none.")


def criticized(request: Request, node_context: NodeContext, state: Account) -> tuple[Critique | None, str, Usage]:
    """The reviewer's word, as a line of the history, and what it cost; None with the reason where it has none."""
    try:
        said = speak(request, parse_critique, node_context=node_context, state=state)
    except TurnEndedError as error:
        return None, str(error), error.usage
    told = [*said.answer.doubts, *(f"Next: {each}" for each in said.answer.plan)]
    return said.answer, " ".join(told), said.usage


def compared(
    candidate: Candidate, verdict: Verdict, target: TargetName, parent: Candidate | None, judged: Verdict | None
) -> Compared:
    """A judged kernel beside the one that it was made of, where there is one, with what was `judged` of that."""
    source = candidate.source
    return Compared(
        diff=bare_diff(parent.source, source) if parent else without_comments(source),
        whole=parent is None,
        built=_built(verdict.build, target),
        built_before=_built(judged.build if judged else None, target),
        verdict=say_verdict(verdict, target),
    )


def bare(candidate: Candidate) -> Candidate:
    """The kernel without its comments, its lines where they were."""
    return candidate.model_copy(update={"source": without_comments(candidate.source)})


def _built(build: Build | None, target: TargetName) -> str:
    return "\n".join(filter(None, (say_build(build), say_instructions(build, target)))) if build else ""


def _made_of(state: RunState) -> Best | None:
    """The kernel that passed from which the present one came, its repairs passed over; None of a first one."""
    known: Mapping[str, Best] = {each.candidate.digest: each for each in (*state.earlier, state.best) if each}
    made = [step for step in state.history if step.agent in ("optimizer", "sweeper", "repairer")]
    parents = {step.candidate: step.parent for step in made if step.candidate and step.parent}
    at = require(state.candidate, "candidate").parent
    while at and at not in known:
        at = parents.pop(at, None)  # taken out, so that a history that goes round ends, too
    return known.get(at or "")
