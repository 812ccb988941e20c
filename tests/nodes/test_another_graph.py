"""Another graph, whose state is its own, uses nodes, turns, judge and tools as they are."""

from __future__ import annotations

from operator import add
from typing import Annotated, Any

import pytest
from langchain_core.messages import AIMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.runtime import Runtime
from pydantic import BaseModel, ConfigDict
from run_samples import DEVICE, kernel, task
from scripted_judge import Scripted

from harness.nouns.candidate import TargetName
from harness.nouns.task import Task
from harness.nouns.tier import Tier
from harness.nouns.verdict import Verdict
from nodes.models.scripted import ScriptedModel
from nodes.node import StateWriteError, as_node
from nodes.node_context import ModelCache, NodeContext
from nodes.settings import Settings
from nodes.state import Best, Stop, Usage
from nodes.turn.agent_loop import TURN
from nodes.turn.request import Request
from nodes.turn.speak import TurnEndedError, speak
from nodes.turn.toolbox import tools_for
from tools.kernel_tools import call_tool

RIGHT = "void run();  // judge: passed 2.0x\n"
REQUEST = Request(
    role="diagnoser", task=task(), target="cpu", precision="ieee", device=DEVICE, stub="", candidate=kernel()
)


class Pool(BaseModel):
    """A search that keeps a pool of kernels: nothing of it but what the protocols name is known below."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    pool: Annotated[tuple[str, ...], add] = ()
    ended: Stop | None = None
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
    return {"verdict": verdict, "attempts": state.attempts + 1}


def taken_through(model: ScriptedModel, judges: Scripted, **settings: Any) -> Pool:
    graph: Any = StateGraph(Pool, context_schema=Settings)
    shelf = ModelCache(lambda spec, options: model)
    graph.add_node("diagnoser", as_node(diagnoser, shelf, TURN, open_judge=judges))
    graph.add_node("tester", as_node(judges_latest, shelf, open_judge=judges))
    graph.add_edge(START, "diagnoser")
    graph.add_conditional_edges("diagnoser", lambda state: END if state.ended else "tester", ["tester", END])
    graph.add_edge("tester", END)
    whole = graph.compile(checkpointer=InMemorySaver())
    thread: Any = {"configurable": {"thread_id": "one"}}
    return Pool.model_validate(whole.invoke(Pool(), thread, context=Settings(**settings), durability="sync"))


def call(source: str) -> AIMessage:
    return AIMessage(
        "", tool_calls=[{"type": "tool_call", "id": "a", "name": "run_kernel", "args": {"source": source}}]
    )


def test_a_turn_with_a_tool_and_a_verdict_come_into_its_own_state() -> None:
    judges = Scripted()
    end = taken_through(ScriptedModel(answers=[call(RIGHT), RIGHT]), judges)
    assert end.pool == (RIGHT,)
    assert end.verdict is not None and end.verdict.passed
    assert (end.attempts, end.usage.calls) == (1, 2)
    assert end.seconds > 0, "the nodes' time adds up in its clock"
    assert [method for method, _ in judges.asked].count("evaluate") == 2, "once by the tool, once by the tester"


def test_its_budgets_end_a_turn_between_two_calls() -> None:
    end = taken_through(ScriptedModel(answers=[call(RIGHT), RIGHT]), Scripted(), max_calls=1)
    assert end.ended is not None and end.ended.name == "calls"
    assert (end.pool, end.verdict, end.usage.calls) == ((), None, 1)


def test_what_it_has_no_field_for_is_refused() -> None:
    def writes(state: Pool, node_context: NodeContext) -> dict[str, Any]:
        return {"depth": 1}

    with pytest.raises(StateWriteError, match='wrote "depth", which is no field'):
        as_node(writes, ModelCache(lambda spec, options: ScriptedModel(answers=[])))(Pool(), runtime=Runtime())
