"""The proposer writes one kernel, side by side with the others of its generation."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

from langchain_core.tools import BaseTool

from harness.nouns.candidate import Candidate
from nodes.evolution.held_out import hidden_workloads, shown_task, shown_verdict
from nodes.evolution.selection import by_speed
from nodes.evolution.state import EXCHANGES_OF_A_TURN, Brief, Proposal
from nodes.node import Update
from nodes.node_context import NodeContext
from nodes.settings import Proposer, Settings
from nodes.state import Step
from nodes.turn.agent_common import asked, author, best_speedup
from nodes.turn.answers import AnswerError, Declined, Written, parse_kernel, parse_move
from nodes.turn.request import Left, Request, Search, Shown
from nodes.turn.speak import Spoken, TurnEndedError, speak
from nodes.turn.toolbox import tools_for

MOST_ERRORS = 6
MOST_ERROR_CHARS = 300


def proposer(brief: Brief, node_context: NodeContext) -> Update:
    """Do one order. Who declines, or gives no answer that can be used, costs the generation one proposal."""
    began = time.monotonic()
    order = brief.order
    as_this_one = node_context.settings.as_proposer(Proposer(model=order.model, temperature=order.temperature))
    node_context = replace(node_context, settings=as_this_one)
    tools = tools_for("proposer", brief, node_context)
    try:
        said = _asked(brief, node_context, tools)
    except TurnEndedError as error:
        return _made(brief, Proposal(order=order, dropped=str(error), usage=error.usage), began)
    if isinstance(said.answer, Declined):
        return _made(brief, Proposal(order=order, dropped=said.answer.reason, usage=said.usage), began)
    candidate = Candidate(
        source=said.answer.source,
        target=brief.target,
        author=author("proposer", node_context, said.usage),
        parent=order.parents[0] if order.parents else None,
    )
    proposal = Proposal(order=order, candidate=candidate, move=said.answer.move, usage=said.usage)
    return _made(brief, proposal, began, why=said.answer.why)


def _asked(brief: Brief, node_context: NodeContext, tools: Sequence[BaseTool]) -> Spoken[Written | Declined]:
    """Put the order to its model. Raises `TurnEndedError`."""
    request = request_of(brief, node_context, tools)
    present = request.candidate

    def written(text: str) -> Written | Declined:
        answer = parse_move(text, present.source, max_sweep=1) if present else parse_kernel(text, move_required=False)
        if isinstance(answer, Written):
            kernel = Candidate(source=answer.source, target=brief.target, author="")
            if kernel.digest in brief.taken:
                raise AnswerError("unchanged", "This very kernel is known already. Answer with another one.")
        return answer

    first = EXCHANGES_OF_A_TURN * brief.order.number
    return speak(request, written, node_context=node_context, state=brief, tools=tools, first_exchange=first)


def request_of(brief: Brief, node_context: NodeContext, tools: Sequence[BaseTool] = ()) -> Request:
    """What the proposer is told: its parents, the best kernels, and what went wrong lately."""
    settings, order = node_context.settings, brief.order
    hidden = hidden_workloads(brief.task, settings.held_out)
    brief = _shown(brief, hidden)
    made = {each.digest: each for each in brief.pool}
    parents = [made[digest] for digest in order.parents]
    return asked(
        "proposer",
        brief,
        node_context,
        candidate=parents[0].candidate if parents else None,
        verdict=parents[0].verdict if parents else None,
        max_sweep=settings.max_sweep,
        left=_left(brief, settings, tools),
        critique=brief.critique,
        search=Search(
            operator=order.operator,
            second=parents[1].candidate if len(parents) > 1 else None,
            best=_best(brief, settings.shown_kernels),
            errors=latest_errors(brief.pool),
            inspiration=brief.inspiration,
            recommendations=brief.recommendations,
            turn=order.turn,
            taken=brief.taken,
        ),
    )


def _shown(brief: Brief, hidden: frozenset[str]) -> Brief:
    """The brief without what it says of hidden workloads."""
    pool = tuple(
        each.model_copy(update={"verdict": shown_verdict(each.verdict, hidden)}) if each.verdict else each
        for each in brief.pool
    )
    return brief.model_copy(update={"task": shown_task(brief.task, hidden), "pool": pool})


def _best(brief: Brief, most: int) -> tuple[Shown, ...]:
    """The fastest kernels, without the parents, which are shown anyway."""
    others = [each for each in by_speed(brief.pool) if each.digest not in brief.order.parents]
    return tuple(
        Shown(
            source=each.candidate.source,
            about=f"{each.speedup:.2f}x the baseline, by {each.order.operator}: {each.move}",
        )
        for each in others[:most]
        if each.candidate
    )


def latest_errors(pool: Sequence[Proposal]) -> tuple[str, ...]:
    """What the latest failures died of, each once, the latest last."""
    failed = [each for each in pool if each.verdict and each.speedup is None]
    told = [f"{each.move}: {each.verdict.status}: {each.verdict.message}" for each in failed if each.verdict]
    return tuple(dict.fromkeys(" ".join(line.split())[:MOST_ERROR_CHARS] for line in told))[-MOST_ERRORS:]


def _left(brief: Brief, settings: Settings, tools: Sequence[BaseTool]) -> Left:
    return Left(
        depth=brief.order.generation + 1,
        max_depth=settings.generations,
        seconds=max(0.0, settings.max_wall_s - brief.seconds),
        tools=tuple(tool.name for tool in tools),
        calls=settings.max_tool_calls,
        counted="generation",
    )


def _made(brief: Brief, proposal: Proposal, began: float, why: str = "") -> Update:
    step = Step(
        depth=brief.order.generation,
        agent="proposer",
        move=proposal.move,
        candidate=proposal.digest or None,
        parent=brief.order.parents[0] if brief.order.parents else None,
        message=why or proposal.dropped,
        speedup=best_speedup(brief.best),
        usage=proposal.usage,
    )
    done = proposal.model_copy(update={"seconds": time.monotonic() - began})
    return {"pool": (done,), "history": (step,), "usage": proposal.usage}
