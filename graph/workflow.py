"""The wiring: the nodes, and the edges between them."""

from __future__ import annotations

from collections.abc import Callable
from typing import get_args, get_type_hints

from langgraph.graph import END, START, StateGraph
from langgraph.runtime import Runtime, get_runtime

from graph.editing import EditableGraph
from graph.reporter import reporter
from graph.routing import (
    after_ablator,
    after_approver,
    after_diagnoser,
    after_generator,
    after_intake,
    after_optimizer,
    after_profiler,
    after_repairer,
    after_reviewer,
    after_sanitizer,
    after_sweeper,
    after_tester,
)
from graph.runs.trust import require_harmless
from harness.judging.protocol import OpenJudge
from nodes.agents.ablator import ablator
from nodes.agents.approver import approver
from nodes.agents.generator import generator
from nodes.agents.intake import intake
from nodes.agents.optimizer import optimizer, profiler
from nodes.agents.repairer import diagnoser, repairer
from nodes.agents.reviewer import reviewer
from nodes.agents.sanitizer import sanitizer
from nodes.agents.sweeper import sweeper
from nodes.agents.tester import tester
from nodes.cancelling import cancellable
from nodes.models.select import open_model
from nodes.roles import Speaker
from nodes.settings import Settings
from nodes.state import RunState, TaskInput
from nodes.thread_settings import in_force
from nodes.turn.agent_loop import TURN
from nodes.turn.node import Admission, Agent, ModelCache, OpenModel, as_node
from tools.judges import open_judge

Route = Callable[[RunState, Settings], str]

NODES: tuple[tuple[Agent[RunState], str], ...] = (
    (intake, "Describes the task and settles where its kernels run."),
    (generator, "Writes the first kernel."),
    (tester, "Compiles the kernel, checks it against the reference, times it."),
    (approver, "Asks whether a new best kernel is kept, where the settings say so."),
    (diagnoser, "Says why a kernel fails."),
    (repairer, "Mends a failing kernel by line edits."),
    (optimizer, "Makes one move from a kernel that is right."),
    (sweeper, "Builds the variants that a move leaves open, and times each."),
    (profiler, "Finds out what limits a kernel, once the depth gate is open."),
    (reviewer, "Looks at what came of a move, and plans the next one."),
    (sanitizer, "Watches the final kernel for memory errors and races."),
    (ablator, "Takes back one accepted move of the final kernel, to see what it is worth."),
    (reporter, "Sums the run up."),
)

ROUTES: dict[str, Route] = {
    "intake": after_intake,
    "generator": after_generator,
    "tester": after_tester,
    "approver": after_approver,
    "diagnoser": after_diagnoser,
    "repairer": after_repairer,
    "profiler": after_profiler,
    "reviewer": after_reviewer,
    "optimizer": after_optimizer,
    "sweeper": after_sweeper,
    "sanitizer": after_sanitizer,
    "ablator": after_ablator,
}


def build_graph(
    open_model: OpenModel = open_model, open_judge: OpenJudge = open_judge, *, admit: Admission[RunState] | None = None
) -> StateGraph[RunState, Settings, TaskInput, RunState]:
    """The graph, to be compiled with or without a checkpointer. `open_model` turns a model's name into the model,
    `open_judge` an order into the judge.

    `admit` is asked about settings and state before each node, and raises for what it does not take.
    """
    shelf = ModelCache(open_model)
    graph = EditableGraph(RunState, context_schema=Settings, input_schema=TaskInput)
    for agent, description in NODES:
        name = agent.__name__
        turn = TURN if name in (*get_args(Speaker), "reviewer") else None
        node = cancellable(as_node(agent, shelf, turn, admit, open_judge))
        graph.add_node(name, node, metadata={"description": description})
    graph.add_edge(START, "intake")
    for name, route in ROUTES.items():
        graph.add_conditional_edges(name, _router(route), list(targets(route)))
    graph.add_edge("reporter", END)
    return graph


def targets(route: Route) -> tuple[str, ...]:
    """The nodes that a route can lead to, as its return type lists them."""
    return get_args(get_type_hints(route)["return"])


def _router(route: Route) -> Callable[[RunState], str]:
    """The route with the settings in force.

    There is no runtime where somebody edits a state, as in Studio, and LangGraph would refuse to call a function that
    takes one.
    """

    def router(state: RunState) -> str:
        runtime: Runtime[Settings] | None = get_runtime(Settings)
        return route(state, in_force(runtime.context if runtime else None, state))

    router.__name__ = getattr(route, "__name__", "route")
    return router


graph = build_graph(admit=require_harmless).compile(name="cutegen")
"""What a LangGraph server serves: to whoever reaches its port, so not with settings that could harm its owner."""
