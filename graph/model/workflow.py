"""The model graph: capture, plan, each region through the agents' graph, assemble, accept."""

from __future__ import annotations

from typing import Any, Literal

from langgraph.graph import END, START, StateGraph
from langgraph.runtime import Runtime
from langgraph.types import Send

from graph.editing import EditableGraph
from graph.model.state import ModelInput, ModelState, RegionState
from graph.model.steps import Step, Waited, acceptor, assembler, capture, cutter, opened, planner, region, replayed, won
from graph.model.workbench import LocalWorkbench, OpenWorkbench
from graph.runs.trust import require_harmless_files
from harness.judging.protocol import OpenJudge
from nodes.cancelling import cancellable
from nodes.models.select import open_model
from nodes.progress import about_region
from nodes.settings import Settings
from nodes.turn.node import Admission, ModelCache, Update, as_node
from tools.judges import open_judge

STEPS: tuple[tuple[Step, str], ...] = (
    (capture, "Runs the model once, with every operation clocked."),
    (planner, "Cuts it into regions, and ranks them by what a kernel could gain."),
    (cutter, "Makes a task of each region that is worth a kernel."),
    (assembler, "Puts the kernels that won into the model."),
    (acceptor, "Holds the whole against eager, and drops what does not gain inside."),
)


def after_planner(state: ModelState) -> Literal["cutter", "__end__"]:
    """A plan may be all that was asked for."""
    return "__end__" if state.only_plan else "cutter"


def after_cutter(state: ModelState) -> list[Send] | str:
    """Each region through the agents' graph; where none is worth it, what can be done without a kernel."""
    if not state.tasks:
        return "assembler" if replayed(state) else END
    return [
        Send(
            "region",
            {
                "region": task,
                "tasks": state.tasks,
                "settings": state.settings,
                "target": state.target,
                "tier": state.tier,
                "reads": state.reads,
                "seconds": state.seconds,
                "until_s": state.until_s,
            },
        )
        for task in state.tasks
    ]


def after_assembler(state: ModelState) -> Literal["acceptor", "__end__"]:
    """Without a kernel that won, and without CUDA graphs, there is nothing to accept."""
    return "acceptor" if won(state) or replayed(state) else "__end__"


def build_model_graph(
    open_workbench: OpenWorkbench = LocalWorkbench,
    open_judge: OpenJudge = open_judge,
    *,
    admit: Admission[Any] | None = None,
    since: float | None = None,
) -> StateGraph[ModelState, Settings, ModelInput, ModelState]:
    """The graph, to be compiled with or without a checkpointer. `open_workbench` gives it a machine to measure on.

    `admit` is asked about settings and state before each node, and raises for what it does not take. The budget
    counts from `since` on, by the monotonic clock; without it from the first node on.
    """
    shelf, waited = ModelCache(open_model), Waited(since)
    graph = EditableGraph(ModelState, context_schema=Settings, input_schema=ModelInput)
    for step, description in STEPS:
        node = cancellable(as_node(opened(step, open_workbench, waited), shelf, None, admit, open_judge))
        joins = step is assembler
        graph.add_node(step.__name__, node, metadata={"description": description}, defer=joins)
    within = as_node(region, shelf, None, admit, open_judge)

    def region_node(state: Any, *, runtime: Runtime[Settings]) -> Update:
        given = RegionState.model_validate(state)
        with about_region(given.region.name):
            return within(given, runtime=runtime)

    graph.add_node(
        "region", cancellable(region_node), metadata={"description": "One region's run of the agents' graph."}
    )
    graph.add_edge(START, "capture")
    graph.add_edge("capture", "planner")
    graph.add_conditional_edges("planner", after_planner)
    graph.add_conditional_edges("cutter", after_cutter, ["region", "assembler", END])
    graph.add_edge("region", "assembler")
    graph.add_conditional_edges("assembler", after_assembler)
    graph.add_edge("acceptor", END)
    return graph


graph = build_model_graph(admit=require_harmless_files).compile(name="model")
"""What a LangGraph server serves: to whoever reaches its port, so not with settings that could harm its owner."""
