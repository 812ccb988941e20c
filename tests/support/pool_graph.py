"""Another graph than a run's, whose state is its own: a pool of kernels, of which the latest is judged."""

from __future__ import annotations

from operator import add
from typing import Annotated, Any

from langchain_core.language_models.chat_models import BaseChatModel
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from pydantic import BaseModel, ConfigDict
from run_samples import DEVICE, kernel, task
from scripted_judge import Scripted

from harness.nouns.candidate import TargetName
from harness.nouns.task import Task
from harness.nouns.tier import Tier
from harness.nouns.verdict import Verdict
from nodes.request import Request
from nodes.settings import Settings
from nodes.state import Best, Step, Stop, Usage, append
from nodes.turn.agent_loop import TURN
from nodes.turn.node import ModelCache, NodeContext, as_node
from nodes.turn.speak import TurnEndedError, speak, tools_for
from tools.kernel_tools import call_tool

RIGHT = "void run();  // judge: passed 2.0x\n"
REQUEST = Request(
    role="diagnoser", task=task(), target="cpu", precision="ieee", device=DEVICE, stub="", candidate=kernel()
)


def put(left: tuple[str, ...], right: tuple[str, ...]) -> tuple[str, ...]:
    """The reducer of the pool."""
    return (*left, *right)


class Pool(BaseModel):
    """A search that keeps a pool of kernels: nothing of it but what the protocols name is known below."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    pool: Annotated[tuple[str, ...], put] = ()
    ended: Stop | None = None
    history: Annotated[tuple[Step, ...], append] = ()
    seconds: Annotated[float, add] = 0.0
    attempts: int = 0
    device_seconds: Annotated[float, add] = 0.0
    usage: Annotated[Usage, add] = Usage()
    task: Task | None = task()
    target: TargetName | None = "cpu"
    tier: Tier | None = "landlock"
    verdict: Verdict | None = None
    best: Best | None = None


def diagnoser(state: Pool, node_context: NodeContext) -> dict[str, Any]:
    """Ask for a kernel, with the tools at hand."""
    try:
        said = speak(
            REQUEST, str, node_context=node_context, state=state, tools=tools_for("diagnoser", state, node_context)
        )
    except TurnEndedError as error:
        return {"ended": error.stop, "usage": error.usage}
    return {"pool": (said.answer,), "usage": said.usage}


def judges_latest(state: Pool, node_context: NodeContext) -> dict[str, Any]:
    """Judge the latest of the pool."""
    verdict = call_tool(node_context.tools(state).run_kernel, state.pool[-1])
    step = Step(depth=0, agent="tester", status=verdict.status)
    return {"verdict": verdict, "attempts": state.attempts + 1, "history": (step,)}


def graph_of(model: BaseChatModel, judges: Scripted, checkpointer: Any) -> CompiledStateGraph[Any, Settings, Any, Any]:
    graph: Any = StateGraph(Pool, context_schema=Settings)
    shelf = ModelCache(lambda spec, options: model)
    graph.add_node("diagnoser", as_node(diagnoser, shelf, TURN, open_judge=judges))
    graph.add_node("tester", as_node(judges_latest, shelf, open_judge=judges))
    graph.add_edge(START, "diagnoser")
    graph.add_conditional_edges("diagnoser", lambda state: END if state.ended else "tester", ["tester", END])
    graph.add_edge("tester", END)
    compiled: CompiledStateGraph[Any, Settings, Any, Any] = graph.compile(checkpointer=checkpointer)
    return compiled
