"""The proposer writes one kernel, side by side with the others of its generation."""

from __future__ import annotations

import ast
import time
from collections.abc import Sequence
from dataclasses import replace

from langchain_core.tools import BaseTool, ToolException

from harness.judging.device_lock import held_s
from harness.nouns.candidate import Candidate
from harness.nouns.profile import Profile
from harness.nouns.task import Task
from harness.nouns.verdict import Correctness, Verdict
from nodes.evolution.selection import by_speed
from nodes.evolution.state import EXCHANGES_OF_A_TURN, Brief, EvolutionState, Proposal
from nodes.request import Left, Request, Search, Shown
from nodes.roles import KEYLESS
from nodes.settings import Proposer, Settings
from nodes.state import Best, Step, require
from nodes.stops import over_budget
from nodes.turn.answers import AnswerError, Declined, Written, parse_kernel, parse_move, parse_recommendations
from nodes.turn.node import NodeContext, Update
from nodes.turn.speak import Spoken, TurnEndedError, asked, author, best_speedup, speak, tools_for
from tools.kernel_tools import call_tool

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


# -- What a proposer is told of a task with several workloads: some are kept from it, so that none is written for t ---


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


# -- What the best kernel's profile says to the authors of the next ones: three recommendations -----------------------


def summarizer(state: EvolutionState, node_context: NodeContext) -> Update:
    """Profile the best kernel where it is a new one, and draw recommendations; without an answer the old ones stay."""
    best = state.best
    if best is None or best.candidate.digest == state.summarized or not wanted(state, node_context.settings):
        return {}
    before = held_s()
    try:
        profile: Profile = best.profile or call_tool(node_context.tools(state).profile_kernel, best.candidate.source)
    except ToolException as error:
        return {"summarized": best.candidate.digest, "history": (_step(state, str(error)),)}
    device_seconds = held_s() - before
    best = best.model_copy(update={"profile": profile})
    done = {"best": best, "summarized": best.candidate.digest, "device_seconds": device_seconds}
    try:
        said = speak(_request(state, best, node_context), parse_recommendations, node_context=node_context, state=state)
    except TurnEndedError as error:
        step = _step(state, str(error)).model_copy(update={"usage": error.usage})
        return {**done, "usage": error.usage, "history": (step,)}
    told = said.answer.recommendations
    step = _step(state, " ".join(told)).model_copy(update={"usage": said.usage})
    return {**done, "recommendations": told, "usage": said.usage, "history": (step,)}


def wanted(state: EvolutionState, settings: Settings) -> bool:
    """Whether a model is to be asked, and another generation can follow its advice."""
    asks = settings.recommendations and settings.model_for("summarizer") != KEYLESS
    return asks and state.begun < settings.generations and over_budget(state, settings) is None


def _request(state: EvolutionState, best: Best, node_context: NodeContext) -> Request:
    task = require(state.task, "task")
    hidden = hidden_workloads(task, node_context.settings.held_out)
    return asked(
        "summarizer",
        state.model_copy(update={"task": shown_task(task, hidden)}),
        node_context,
        candidate=best.candidate,
        verdict=shown_verdict(best.verdict, hidden),
        profile=best.profile,
        search=Search(operator="mutation", errors=latest_errors(state.pool)),
    )


def _step(state: EvolutionState, message: str) -> Step:
    return Step(
        depth=state.generation,
        agent="summarizer",
        candidate=state.best.candidate.digest if state.best else None,
        message=message,
        speedup=best_speedup(state.best),
    )
