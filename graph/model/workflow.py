"""The model graph: capture a model, and plan which of its regions are worth a kernel."""

from __future__ import annotations

from functools import partial

from langgraph.graph import END, START, StateGraph

from graph.model.plan import plan_of
from graph.model.state import ModelInput, ModelState
from graph.model.workbench import LocalWorkbench, OpenWorkbench
from graph.runs.trust import require_harmless_files
from nodes.models.select import open_model
from nodes.node import Admission, Update, as_node
from nodes.node_context import ModelCache, NodeContext
from nodes.settings import Settings
from nodes.state import require


def capture(state: ModelState, node_context: NodeContext, *, open_workbench: OpenWorkbench) -> Update:
    """Run the model once with every operation clocked."""
    bench = open_workbench(node_context.settings)
    captured = bench.capture(state.source, state.name, state.reads)
    return {"capture": captured, "target": bench.target, "tier": bench.tier}


def planner(state: ModelState, node_context: NodeContext, *, open_workbench: OpenWorkbench) -> Update:
    """Cut the model into regions, and rank them by what they can gain."""
    bench = open_workbench(node_context.settings)
    captured = require(state.capture, "capture")
    return {"plan": plan_of(captured, bench.target, bench.facts(), node_context.settings.precision)}


NODES = (
    (capture, "Runs the model once, with every operation clocked."),
    (planner, "Cuts it into regions, and ranks them by what a kernel could gain."),
)


def build_model_graph(
    open_workbench: OpenWorkbench = LocalWorkbench, *, admit: Admission[ModelState] | None = None
) -> StateGraph[ModelState, Settings, ModelInput, ModelState]:
    """The graph, to be compiled with or without a checkpointer. `open_workbench` gives it a machine to measure on."""
    shelf = ModelCache(open_model)
    graph = StateGraph(ModelState, context_schema=Settings, input_schema=ModelInput)
    for node, description in NODES:
        bound = partial(node, open_workbench=open_workbench)
        graph.add_node(node.__name__, as_node(bound, shelf, admit=admit), metadata={"description": description})
    graph.add_edge(START, "capture")
    graph.add_edge("capture", "planner")
    graph.add_edge("planner", END)
    return graph


graph = build_model_graph(admit=require_harmless_files).compile(name="model")
"""What a LangGraph server serves: to whoever reaches its port, so not with settings that could harm its owner."""
