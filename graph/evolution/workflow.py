"""The wiring of an evolution: generations of proposals side by side, joined, sifted, built, and judged one by one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from langgraph.graph import END, START, StateGraph
from langgraph.runtime import Runtime, get_runtime
from langgraph.types import Send

from graph.editing import EditableGraph
from graph.reporter import Left, summed_up
from graph.runs.trust import require_harmless
from harness.judging.protocol import OpenJudge
from nodes.agents.final import held
from nodes.cancelling import cancellable
from nodes.evolution.ends import ablator, archivist, intake, sanitizer, to_ablate
from nodes.evolution.proposer import proposer, summarizer
from nodes.evolution.reviewer import reviewer
from nodes.evolution.selection import breeder, by_speed
from nodes.evolution.state import Brief, EvolutionState, Order, Proposal
from nodes.evolution.verifier import builder, ranker, sifter, tester, verifier
from nodes.models.select import open_model
from nodes.settings import Settings
from nodes.state import Best, Step, TaskInput, require
from nodes.stops import over_budget
from nodes.thread_settings import in_force
from nodes.turn.agent_loop import TURN
from nodes.turn.node import Admission, ModelCache, NodeContext, OpenModel, Update, as_node
from tools.judges import open_judge

# -- The last node of an evolution: what it found, as one value -------------------------------------------------------


def reporter(state: EvolutionState, node_context: NodeContext) -> Update:
    """Time the kept kernels together, and sum the run up. Its depth is the number of its generations."""
    left_open = _those(state, {step.candidate for step in _tests(state) if step.undecided})

    def final() -> Left:
        return *held(_kept(state), left_open, state, node_context), {}

    _, update = summed_up(state, final, node_context, depth=state.begun)
    gone = update["result"].final.withdrawn
    return {**update, "withdrawn": (*state.withdrawn, *gone)}


def _kept(state: EvolutionState) -> tuple[Best, ...]:
    """The kernels that were the best once, in their order, the present one last."""
    best = state.best
    if best is None:
        return ()
    return (*_those(state, {step.candidate for step in _tests(state) if step.improved}), best)


def _tests(state: EvolutionState) -> list[Step]:
    return [step for step in state.history if step.agent == "tester"]


def _those(state: EvolutionState, digests: set[str | None]) -> tuple[Best, ...]:
    """The kernels of these digests, but for the best one and what was withdrawn."""
    others = digests - {state.best.candidate.digest if state.best else None, *state.withdrawn}
    return tuple(
        Best(candidate=each.candidate, verdict=each.verdict)
        for each in state.pool
        if each.candidate and each.verdict and each.verdict.passed and not each.dropped and each.digest in others
    )


# -- The wiring of an evolution: generations of proposals side by side, joined, sifted, built, and judged -------------


AfterJudging = Literal["tester", "archivist"]
AfterBuilding = list[Send] | AfterJudging

ABOUT = {
    "intake": "Describes the task and settles where its kernels run.",
    "breeder": "Orders a generation of kernels from those known by now, or ends the run.",
    "proposer": "Writes one kernel; the proposers of a generation work side by side.",
    "sifter": "Joins the proposals and drops what is no new kernel.",
    "builder": "Builds what is left side by side, and drops what came to known machine code.",
    "verifier": "Looks at one kernel before it is judged; the verifiers of a generation work side by side.",
    "ranker": "Drops what the verifiers think too little of.",
    "tester": "Judges one kernel and keeps it where it is the fastest.",
    "archivist": "Puts what was judged into the archive.",
    "summarizer": "Draws three recommendations from the best kernel's profile.",
    "reviewer": "Looks at a new best kernel, and plans the next ones.",
    "sanitizer": "Watches the best kernel for memory errors and races.",
    "ablator": "Takes back one move of the best kernel's line, to see what it is worth.",
    "reporter": "Sums the run up.",
}


def build_graph(
    open_model: OpenModel = open_model, open_judge: OpenJudge = open_judge, *, admit: Admission[Any] | None = None
) -> StateGraph[EvolutionState, Settings, TaskInput, EvolutionState]:
    """The graph, to be compiled with or without a checkpointer; its arguments are those of `graph.workflow`."""
    shelf = ModelCache(open_model)
    graph = EditableGraph(EvolutionState, context_schema=Settings, input_schema=TaskInput)
    for agent in (intake, breeder, builder, tester, archivist, sanitizer, ablator, reporter):
        node = cancellable(as_node(agent, shelf, None, admit, open_judge))
        graph.add_node(agent.__name__, node, metadata=_about(agent.__name__))
    for author in (proposer, verifier):
        speaking: Any = cancellable(as_node(author, shelf, TURN, admit, open_judge))
        graph.add_node(author.__name__, speaking, input_schema=Brief, metadata=_about(author.__name__))
    for adviser in (summarizer, reviewer):
        advising = cancellable(as_node(adviser, shelf, TURN, admit, open_judge))
        graph.add_node(adviser.__name__, advising, metadata=_about(adviser.__name__))
    for joining in (sifter, ranker):
        joined = cancellable(as_node(joining, shelf, None, admit, open_judge))
        graph.add_node(joining.__name__, joined, defer=True, metadata=_about(joining.__name__))
    graph.add_edge(START, "intake")
    graph.add_edge("intake", "breeder")
    graph.add_conditional_edges("breeder", after_breeder, ["proposer", "sanitizer"])
    graph.add_edge("proposer", "sifter")
    graph.add_edge("sifter", "builder")
    graph.add_conditional_edges("builder", _after_building, ["verifier", "tester", "archivist"])
    graph.add_edge("verifier", "ranker")
    for name in ("ranker", "tester"):
        graph.add_conditional_edges(name, _after_judging, ["tester", "archivist"])
    graph.add_edge("archivist", "summarizer")
    graph.add_edge("summarizer", "reviewer")
    graph.add_edge("reviewer", "breeder")
    for name in ("sanitizer", "ablator"):
        graph.add_conditional_edges(name, _at_the_end, ["ablator", "reporter"])
    graph.add_edge("reporter", END)
    return graph


def after_breeder(state: EvolutionState) -> list[Send] | Literal["sanitizer"]:
    """Every order goes out at once; without one the run is at its end."""
    if state.stop_reason:
        return "sanitizer"
    return [Send("proposer", brief_for(order, state)) for order in state.orders]


def after_judging(state: EvolutionState, settings: Settings) -> AfterJudging:
    """The next kernel that waits, while the budgets last; then what was judged is put away."""
    waits = any(each.waits for each in state.pool)
    return "tester" if waits and over_budget(state, settings) is None else "archivist"


def after_building(state: EvolutionState, settings: Settings) -> AfterBuilding:
    """Every kernel that waits goes to the verifiers, where there are any and the budgets last."""
    after = after_judging(state, settings)
    if after != "tester" or not settings.verifiers:
        return after
    waiting = [each for each in state.pool if each.waits and not each.opinions]
    looked_at = [brief_for(each.order, state).model_copy(update={"pool": (each,)}) for each in waiting]
    return [Send("verifier", brief) for brief in looked_at] or after


def brief_for(order: Order, state: EvolutionState) -> Brief:
    """As much of the run as one proposer needs: all else would be written into the checkpoint once for each."""
    return Brief(
        order=order,
        settings=state.settings,
        task=require(state.task, "task"),
        target=require(state.target, "target"),
        tier=require(state.tier, "tier"),
        best=state.best,
        verdict=state.verdict,
        pool=_shown(order, state.pool),
        taken=tuple(each.digest for each in state.pool if each.digest),
        inspiration=state.inspiration,
        recommendations=state.recommendations,
        critique=state.critique,
        attempts=state.attempts,
        usage=state.usage,
        seconds=state.seconds,
        device_seconds=state.device_seconds,
    )


MOST_SHOWN = 24
"""Of a pool, to one proposer: more than the prompt takes of the fastest, and of the latest failures."""


def _shown(order: Order, pool: Sequence[Proposal]) -> tuple[Proposal, ...]:
    failed = [each for each in pool if each.verdict and each.speedup is None]
    wanted = {each.order.number for each in (*by_speed(pool)[:MOST_SHOWN], *failed[-MOST_SHOWN:])}
    return tuple(
        each for each in pool if each.order.number in wanted or (each.digest in order.parents and each.candidate)
    )


def _about(name: str) -> dict[str, str]:
    return {"description": ABOUT[name]}


def _after_building(state: EvolutionState) -> AfterBuilding:
    return after_building(state, _settings(state))


def _after_judging(state: EvolutionState) -> AfterJudging:
    return after_judging(state, _settings(state))


def _at_the_end(state: EvolutionState) -> Literal["ablator", "reporter"]:
    return "ablator" if any(True for _ in to_ablate(state, _settings(state))) else "reporter"


def _settings(state: EvolutionState) -> Settings:
    """Those in force. There is no runtime where somebody edits a state, as in Studio."""
    runtime: Runtime[Settings] | None = get_runtime(Settings)
    return in_force(runtime.context if runtime else None, state)


graph = build_graph(admit=require_harmless).compile(name="evolve")
"""What a LangGraph server serves: to whoever reaches its port, so not with settings that could harm its owner."""
