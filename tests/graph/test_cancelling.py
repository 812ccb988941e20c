"""A run that is cancelled in each node's blocking work: a real process, or a real question to an endpoint."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest
from chat_server import chat_endpoint
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.config import get_config
from scripted_judge import ScriptedJudge
from softsign_script import KERNEL, SOURCE, WRONG, diagnosed, edited, written
from test_reviewer import reviewed

from graph.workflow import NODES, build_graph
from harness.isolation.policy import Access, Limits
from harness.isolation.process import IsolatedProcess
from harness.judging.protocol import JudgeOrder
from nodes.models.local import ScriptedModel
from nodes.models.select import open_model
from nodes.roles import Agent
from nodes.settings import Gates, Settings
from nodes.state import RunState

LONG_S = 100.0
"""What nobody ends lasts so long."""
ON_A_THREAD: RunnableConfig = {"configurable": {"thread_id": "one"}}
MENDED = WRONG.replace("2.0f + std::fabs(v));  // judge: wrong", "1.0f + std::fabs(v));")
SWEPT = KERNEL.replace("// LOOP", "constexpr int kTimes = 4;  // sweep: 2, 1\n    // judge: passed 40x")
ANSWERS: Any = {
    "generator": [written(WRONG)],
    "diagnoser": [diagnosed("a two for a one")],
    "repairer": [edited(WRONG, "2.0f + std::fabs", "            out[i] = v / (1.0f + std::fabs(v));")],
    "reviewer": [reviewed("fewer repetitions")],
    "optimizer": [written(SWEPT, "repetitions")],
}
SPEAKING = tuple(ANSWERS)
JUDGING = ("intake", "tester", "sweeper", "profiler", "sanitizer", "ablator", "reporter")


class Held:
    """Opens judges that answer at once, but for one node's: its process sleeps."""

    def __init__(self, node: str, folder: Path) -> None:
        self.node, self._folder = node, folder
        self.reached = threading.Event()
        self.processes: list[IsolatedProcess] = []
        self.judged: list[str] = []

    def __call__(self, order: JudgeOrder) -> ScriptedJudge:
        return _HeldJudge(order, self)

    def pass_through(self) -> None:
        """What a judge does before it answers."""
        at = get_config()["metadata"]["langgraph_node"]
        self.judged.append(at)
        if at != self.node:
            return
        limits, access = Limits(wall_s=LONG_S, memory_bytes=1 << 30), Access(write=(str(self._folder),))
        command = ["/bin/sleep", str(LONG_S)]
        with IsolatedProcess(
            command, cwd=self._folder, access=access, limits=limits, environment={}, tier="none"
        ) as process:
            self.processes.append(process)
            self.reached.set()
            process.wait(LONG_S)


class _HeldJudge(ScriptedJudge):
    def __init__(self, order: JudgeOrder, held: Held) -> None:
        super().__init__(order)
        self._held = held

    def describe(self, source: str, *, name: str) -> Any:
        self._held.pass_through()
        return super().describe(source, name=name)

    def _ask(self, method: str, candidate: Any) -> None:
        self._held.pass_through()
        super()._ask(method, candidate)


def settings(**chosen: Any) -> Settings:
    """Those under which a run of `ANSWERS` comes through every node."""
    return Settings(
        model="scripted", reviewer_model="other scripted", max_tool_calls=0, max_depth=1, target="cpu",
        diagnose="every", ablate_moves=True, profile_from_depth=Gates(elementwise=0), **chosen,
    )  # fmt: skip


async def cancelled(graph: Any, given: Settings, reached: threading.Event) -> None:
    """A run of the graph until what is `reached`, and no further."""
    run = asyncio.create_task(graph.ainvoke({"source": SOURCE, "name": "softsign"}, ON_A_THREAD, context=given))
    came = asyncio.create_task(asyncio.to_thread(reached.wait, LONG_S))
    await asyncio.wait([run, came], return_when=asyncio.FIRST_COMPLETED)
    assert not run.done(), "the run ended before it came so far"
    assert await came, "the run never came so far"
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run


async def gone_on_with(graph: Any, **chosen: Any) -> RunState:
    """The end of the thread, with these settings in place of those that it began with."""
    given = settings().model_copy(update=chosen)
    return RunState.model_validate(await graph.ainvoke(None, ON_A_THREAD, context=given))


def test_each_node_that_blocks_is_cancelled_here() -> None:
    """The approver asks a person, and waits without a node that runs."""
    assert {*SPEAKING, *JUDGING, "approver"} == {agent.__name__ for agent, _ in NODES}
    assert set(Agent.__args__) <= {*SPEAKING, *JUDGING, "approver"}  # type: ignore[attr-defined]


@pytest.mark.parametrize("node", JUDGING)
def test_what_a_node_runs_ends_with_the_run_and_the_thread_goes_on(node: str, tmp_path: Path) -> None:
    model, held = ScriptedModel(answers=ANSWERS), Held(node, tmp_path)
    graph = build_graph(lambda spec, options: model, held).compile(checkpointer=InMemorySaver())

    async def both() -> RunState:
        await cancelled(graph, settings(), held.reached)
        assert not any(process.running for process in held.processes), "a process outlived its run"
        asked, judged = model.calls(), list(held.judged)
        assert (await graph.aget_state(ON_A_THREAD)).next == (node,)
        assert (model.calls(), held.judged) == (asked, judged), "something went on"
        held.node = ""
        return await gone_on_with(graph)

    state = asyncio.run(both())
    assert state.result is not None and state.result.best is not None
    assert model.calls() == len(SPEAKING), "each question was put once"


@pytest.mark.parametrize("node", SPEAKING)
def test_who_is_asked_is_left_and_nobody_is_asked_any_more(node: str, tmp_path: Path) -> None:
    model, held = ScriptedModel(answers=ANSWERS, repeat_last=True), Held("", tmp_path)
    graph = build_graph(lambda spec, options: model if "scripted" in spec else open_model(spec, options), held).compile(
        checkpointer=InMemorySaver()
    )

    async def both() -> RunState:
        with chat_endpoint("hung_up_on") as endpoint:
            asking = settings(base_url=endpoint.base_url).model_copy(update={f"{node}_model": "openai:m"})
            await cancelled(graph, asking, endpoint.reached)
            assert await asyncio.to_thread(endpoint.left.wait, LONG_S), "the connection was never cut"
            assert len(endpoint.requests) == 1
        assert (await graph.aget_state(ON_A_THREAD)).next == (node,)
        assert node not in {request.role for request in model.requests}
        return await gone_on_with(graph, **{f"{node}_model": "scripted"})

    state = asyncio.run(both())
    assert state.result is not None and state.result.best is not None
