"""A turn as a graph within its agent's node: every call is checkpointed, and nothing of it stays in the run's state."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, InvalidToolCall, ToolMessage
from langchain_core.tools import BaseTool, StructuredTool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.errors import GraphDrained
from langgraph.graph import END, START, StateGraph
from langgraph.runtime import RunControl, Runtime
from langgraph.types import Command
from run_samples import DEVICE, kernel, run, task

from harness.judging.device_lock import one_at_a_time
from harness.nouns.device import DeviceName
from harness.nouns.errors import MachineError
from nodes.models.errors import ModelUnavailableError, left_s
from nodes.models.local import ScriptedModel
from nodes.models.manual import ManualModel
from nodes.request import Request
from nodes.settings import Settings
from nodes.state import RunState, Usage
from nodes.turn.agent_loop import TURN, TurnContext, TurnState, route
from nodes.turn.agent_loop import speak as speak_once
from nodes.turn.answers import MAX_ECHO_CHARS, AnswerError
from nodes.turn.node import ModelCache, NodeContext, as_node
from nodes.turn.prompts import messages_for
from nodes.turn.speak import Spoken, TurnEndedError, speak

CPU = DeviceName(target="cpu")
REQUEST = Request(
    role="generator", task=task(), target="cpu", precision="ieee", device=DEVICE, stub="void run();", candidate=kernel()
)
CONFIG: Any = {"configurable": {"thread_id": "one"}}


@pytest.fixture
def own_device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Turns on the processor that nobody else waits for."""
    monkeypatch.setenv("CUTEGEN_CACHE", str(tmp_path))


def called(*names: str) -> AIMessage:
    calls = [{"type": "tool_call", "id": f"c{number}", "name": name, "args": {}} for number, name in enumerate(names)]
    return AIMessage("", tool_calls=calls)


def tool(name: str, does: Any) -> BaseTool:
    return StructuredTool.from_function(func=does, name=name, description=name)


def parsed(text: str) -> str:
    if text == "bad":
        raise AnswerError("no_code", "That was bad.")
    return text


class Agent:
    """A run of one node whose agent speaks once; what the model says becomes the run's move."""

    def __init__(self, model: Any, *tools: BaseTool, checkpointer: Any = None, afterwards: Any = None) -> None:
        def generator(state: RunState, node_context: NodeContext) -> dict[str, Any]:
            said = speak(REQUEST, parsed, node_context=node_context, state=state, tools=tools)
            if afterwards:
                afterwards()
            return {"move": said.answer, "usage": said.usage}

        graph = StateGraph(RunState, context_schema=Settings)
        graph.add_node("generator", as_node(generator, ModelCache(lambda spec, options: model), TURN))
        graph.add_edge(START, "generator")
        graph.add_edge("generator", END)
        self.graph = graph.compile(checkpointer=checkpointer or InMemorySaver())

    def begin(self, **options: Any) -> RunState:
        return RunState.model_validate(self.graph.invoke(run(), CONFIG, durability="sync", **options))

    def go_on(self) -> RunState:
        return RunState.model_validate(self.graph.invoke(None, CONFIG, durability="sync"))

    def turn(self) -> TurnState:
        """The state of the turn that has not ended."""
        [waiting] = self.graph.get_state(CONFIG, subgraphs=True).tasks
        return TurnState.model_validate(waiting.state.values)  # type: ignore[union-attr]


def broken_off(agent: Agent, **options: Any) -> None:
    with pytest.raises(MachineError, match="no room"):
        agent.begin(**options)


def no_room() -> str:
    raise MachineError("There is no room.", "Make some.")


def test_a_call_that_was_answered_is_not_asked_again() -> None:
    saver = InMemorySaver()
    first = ScriptedModel(answers=[called("full"), "never said"])
    agent = Agent(first, tool("full", no_room), checkpointer=saver)
    broken_off(agent)
    assert [type(message) for message in agent.turn().messages] == [AIMessage]
    second = ScriptedModel(answers=["at last"])
    state = Agent(second, tool("full", lambda: "done"), checkpointer=saver).go_on()
    assert (state.move, state.usage.calls) == ("at last", 2)
    assert (first.calls(), second.calls()) == (1, 1)


def test_of_two_tool_calls_the_one_that_was_served_is_not_served_again() -> None:
    served: list[str] = []

    def count() -> str:
        served.append("one")
        return "counted"

    saver = InMemorySaver()
    broken_off(Agent(ScriptedModel(answers=[called("count", "full")]), tool("count", count), tool("full", no_room),
                     checkpointer=saver))  # fmt: skip
    resumed = Agent(ScriptedModel(answers=["at last"]), tool("count", count), tool("full", lambda: "done"),
                    checkpointer=saver)  # fmt: skip
    assert [message.text for message in resumed.turn().messages[1:]] == ["counted\n(Tool calls left: 5.)"]
    assert resumed.go_on().move == "at last"
    assert served == ["one"]


def test_a_turn_that_ended_before_its_node_did_is_not_spoken_again() -> None:
    saver, model = InMemorySaver(), ScriptedModel(answers=["said once"])
    broken_off(Agent(model, checkpointer=saver, afterwards=no_room))
    assert Agent(model, checkpointer=saver).go_on().move == "said once"
    assert model.calls() == 1


def test_the_clock_and_the_cost_go_on_with_the_turn() -> None:
    saver = InMemorySaver()
    agent = Agent(ScriptedModel(answers=[called("full")]), tool("full", no_room), checkpointer=saver)
    broken_off(agent)
    before = agent.turn()
    assert before.usage.calls == 1
    after = Agent(ScriptedModel(answers=["x"]), tool("full", lambda: "done"), checkpointer=saver).go_on()
    assert after.usage.seconds > before.usage.seconds > 0
    assert after.seconds >= after.usage.seconds


def test_the_runs_checkpoints_hold_nothing_of_the_turn() -> None:
    saver = InMemorySaver()
    model = ScriptedModel(answers=[called("say"), "Z" * 10_000])
    agent = Agent(model, tool("say", lambda: "Y" * 7_000), checkpointer=saver)
    agent.begin()
    sizes: dict[str, list[int]] = {}
    for saved in saver.list(None):
        namespace = saved.config["configurable"]["checkpoint_ns"].split(":")[0]
        sizes.setdefault(namespace, []).append(len(str(saved.checkpoint["channel_values"])))
    assert len(sizes["generator"]) == 5  # the input, its reading, and one for each of the three steps
    assert all("Y" * 7_000 not in str(state.values) for state in agent.graph.get_state_history(CONFIG))
    assert max(sizes["generator"]) < 20_000  # neither the prompt nor the run, which the parent keeps


def test_questions_to_a_person_come_one_at_a_time_and_are_asked_once() -> None:
    graph = Agent(ManualModel()).graph
    graph.invoke(run(), CONFIG, durability="sync")
    for answer, complaints in (("bad", 0), ("bad", 1), ("a person's word", 2)):
        [question] = graph.get_state(CONFIG).interrupts
        kinds = [said["type"] for said in question.value["messages"]]
        assert kinds == ["system", "human", *["ai", "human"] * complaints]
        graph.invoke(Command(resume=answer), CONFIG, durability="sync")
    state = RunState.model_validate(graph.get_state(CONFIG).values)
    assert (state.move, state.usage.calls) == ("a person's word", 3)


class Witness(BaseCallbackHandler):
    """Notes what a run's callbacks are told of."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def on_chat_model_start(self, *_: Any, **__: Any) -> None:
        self.told.append("asked")

    def on_tool_start(self, serialized: dict[str, Any], *_: Any, **__: Any) -> None:
        self.told.append(serialized["name"])


def test_the_runs_callbacks_hear_of_what_goes_on_within_a_turn() -> None:
    witness = Witness()
    agent = Agent(ScriptedModel(answers=[called("say"), "x"]), tool("say", lambda: "y"))
    agent.graph.invoke(run(), {**CONFIG, "callbacks": [witness]})
    assert witness.told == ["asked", "say", "asked"]


def test_a_fork_of_the_run_asks_anew() -> None:
    agent = Agent(ScriptedModel(answers=[called("say"), "first", "second", "third"]), tool("say", lambda: "y"))
    assert agent.begin().move == "first"
    [before] = [saved for saved in agent.graph.get_state_history(CONFIG) if saved.next == ("generator",)]
    assert agent.graph.invoke(None, before.config, durability="sync")["move"] == "second"
    fork = agent.graph.update_state(before.config, {"name": "other"})
    assert agent.graph.invoke(None, fork, durability="sync")["move"] == "third"


def test_a_run_that_is_asked_to_end_ends_between_two_steps_of_a_turn() -> None:
    control, saver = RunControl(), InMemorySaver()

    def ask_for_the_end() -> str:
        control.request_drain("enough for today")
        return "asked"

    model = ScriptedModel(answers=[called("end"), "later"])
    agent = Agent(model, tool("end", ask_for_the_end), checkpointer=saver)
    with pytest.raises(GraphDrained, match="enough for today"):
        agent.begin(control=control)
    assert model.calls() == 1
    assert [type(message) for message in agent.turn().messages] == [AIMessage, ToolMessage]
    assert agent.go_on().move == "later"


def test_a_budget_ends_the_turn_between_two_tool_calls_of_one_message() -> None:
    model = ScriptedModel(answers=[called("slow", "never")])
    message = model.answers[0]  # type: ignore[index]
    assert isinstance(message, AIMessage)
    message.usage_metadata = {"input_tokens": 90, "output_tokens": 20, "total_tokens": 110}
    shop = NodeContext(settings=Settings(max_tokens=100), shelf=ModelCache(lambda spec, options: model))
    with pytest.raises(TurnEndedError, match="110 tokens") as ended:
        speak(REQUEST, str, node_context=shop, state=run(), tools=(tool("slow", no_room), tool("never", no_room)))
    assert ended.value.usage == Usage(calls=1, input_tokens=90, output_tokens=20, seconds=ended.value.usage.seconds)


def step(model: Any, turn: TurnState, *tools: BaseTool, **settings: Any) -> dict[str, Any]:
    """The speaker's step by itself, in a run that has taken 40 s."""
    context = TurnContext(
        prompt=tuple(messages_for(REQUEST)), parse=parsed, model=model, tools=tools, settings=Settings(**settings),
        run=run(seconds=40.0),
    )  # fmt: skip
    return speak_once(turn, runtime=Runtime(context=context))


def ask(model: Any, *tools: BaseTool, **settings: Any) -> Spoken[str]:
    shop = NodeContext(settings=Settings(**settings), shelf=ModelCache(lambda spec, options: model))
    return speak(REQUEST, parsed, node_context=shop, state=run(), tools=tools)


SPEAKING = TurnState(role="generator", seconds=20.0)


def test_a_call_may_take_what_the_run_and_the_turn_have_left() -> None:
    left: list[float] = []

    def answer(_: Request) -> str:
        left.append(left_s())
        return "x"

    update = step(ScriptedModel(answers=[answer]), SPEAKING, max_wall_s=100)
    assert 30 < left[0] <= 40
    assert 0 < update["seconds"] < 15, "what this step took"
    assert 0 < update["usage"].seconds < 15
    assert left_s() == math.inf


def test_a_model_that_cannot_be_asked_fails_the_run_and_one_that_took_its_time_ends_it() -> None:
    def down(_: Request) -> str:
        raise ModelUnavailableError("It is down.", "Wait.")

    with pytest.raises(ModelUnavailableError, match="It is down"):
        step(ScriptedModel(answers=[down]), SPEAKING, max_wall_s=100)

    def slow(request: Request) -> str:
        while left_s():
            pass
        return down(request)

    update = step(ScriptedModel(answers=[slow]), SPEAKING, max_wall_s=60.05)
    assert update["stop"].name == "wall_time"
    assert 0 < update["seconds"] < 15

    def billed(_: Request) -> str:
        error = ModelUnavailableError("It breaks off.", "Wait.")
        error.lost = Usage(input_tokens=60, dollars=2.5)
        raise error

    update = step(ScriptedModel(answers=[billed]), SPEAKING, max_dollars=2.0)
    assert (update["stop"].name, update["usage"].dollars) == ("dollars", 2.5)
    with pytest.raises(ModelUnavailableError, match="breaks off"):
        step(ScriptedModel(answers=[billed]), SPEAKING, max_dollars=3.0)


@pytest.mark.parametrize("text", ["good", "bad"])
def test_an_answer_keeps_the_id_under_which_it_was_streamed(text: str) -> None:
    update = step(ScriptedModel(answers=[AIMessage(text, id="m1")]), SPEAKING)
    assert update["messages"][0].id == "m1"


def test_a_budget_ends_the_turn_before_a_bad_answer_is_sent_back() -> None:
    costly = AIMessage("bad", usage_metadata={"input_tokens": 90, "output_tokens": 20, "total_tokens": 110})
    model = ScriptedModel(answers=[costly, "x"])
    with pytest.raises(TurnEndedError, match="110 tokens") as ended:
        ask(model, max_tokens=100)
    assert (ended.value.stop.name, model.calls()) == ("tokens", 1)


SPENT: list[tuple[dict[str, Any], RunState]] = [
    ({"max_calls": 3}, run(usage=Usage(calls=3))),
    ({"max_tokens": 100}, run(usage=Usage(input_tokens=60, output_tokens=40))),
    ({"max_dollars": 1.0}, run(usage=Usage(dollars=1.0))),
    ({"max_wall_s": 9.0}, run(seconds=9.0)),
    ({"max_device_s": 9.0}, run(device_seconds=5.0, usage=Usage(device_seconds=4.0))),
    ({"max_builds": 4}, run(attempts=3, usage=Usage(builds=1))),
    ({"max_attempts": 3}, run(attempts=3)),
]


@pytest.mark.parametrize(("settings", "spent"), SPENT)
def test_a_budget_that_is_spent_before_the_turn_lets_it_not_begin(settings: dict[str, Any], spent: RunState) -> None:
    model = ScriptedModel(answers=["x"])
    shop = NodeContext(settings=Settings(**settings), shelf=ModelCache(lambda spec, options: model))
    with pytest.raises(TurnEndedError, match="allow") as ended:
        speak(REQUEST, parsed, node_context=shop, state=spent)
    assert (f"max_{ended.value.stop.name}".replace("wall_time", "wall_s").replace("device_time", "device_s"),) == (
        *settings,
    )
    assert (model.calls(), ended.value.usage) == (0, Usage())


@pytest.mark.parametrize("kind", ["max_builds", "max_device_s"])
def test_what_the_models_tools_use_up_ends_the_turn_too(kind: str, own_device: None) -> None:
    def run_kernel(source: str) -> str:
        with one_at_a_time(CPU):
            return source

    call = {"type": "tool_call", "id": "c0", "name": "run_kernel", "args": {"source": "int x;"}}
    model = ScriptedModel(answers=[AIMessage("", tool_calls=[call]), "x"])
    limit: dict[str, Any] = {"max_builds": {"max_builds": 1}, "max_device_s": {"max_device_s": 1e-9}}[kind]
    with pytest.raises(TurnEndedError) as ended:
        ask(model, tool("run_kernel", run_kernel), **limit)
    assert (ended.value.stop.name, model.calls()) == ("builds" if kind == "max_builds" else "device_time", 1)


def test_a_model_that_only_calls_tools_is_given_up_on() -> None:
    model = ScriptedModel(answers=[called("say")], repeat_last=True)
    with pytest.raises(TurnEndedError) as ended:
        ask(model, tool("say", lambda: "y"), max_tool_calls=1, max_reasks=2)
    assert ended.value.stop.name == "model_unusable"
    assert str(ended.value) == "The generator's model calls tools and gives no answer."
    assert model.calls() == 6, "one call is served, four are refused, with the sixth it is enough"


SAID: dict[str, Any] = {"good": "x", "bad": "bad", "call": called("say"), "two": called("say", "say")}


@given(
    script=st.lists(st.sampled_from(sorted(SAID)), min_size=1, max_size=8),
    reasks=st.integers(0, 3),
    calls=st.integers(0, 3),
)
@settings(max_examples=40)
def test_whatever_a_model_does_its_turn_ends_within_its_bounds(script: list[str], reasks: int, calls: int) -> None:
    served: list[str] = []

    def say() -> str:
        served.append("served")
        return "y"

    model = ScriptedModel(answers=[SAID[name] for name in script], repeat_last=True)
    ended, answer = None, None
    try:
        answer = ask(model, tool("say", say), max_reasks=reasks, max_tool_calls=calls).answer
    except TurnEndedError as error:
        ended = error.stop.name
    heard = [*script, *[script[-1]] * model.calls()][: model.calls()]
    bad, wanted = heard.count("bad"), heard.count("call") + 2 * heard.count("two")
    assert len(served) == min(calls, wanted), "each allowed call is served, and no other"
    assert (answer, ended) in {("x", None), (None, "model_unusable")}
    if answer:
        assert (heard.count("good"), heard[-1]) == (1, "good")
        assert bad <= reasks
    else:
        assert bad == reasks + 1 or wanted > 2 * calls + reasks, "given up on before its bounds"
        assert "good" not in heard


def test_what_tools_build_and_run_counts_in_the_turn(own_device: None) -> None:
    def run_kernel(source: str) -> str:
        with one_at_a_time(CPU):
            return source

    call = {"type": "tool_call", "id": "c0", "name": "run_kernel", "args": {"source": "int x;"}}
    usage = ask(ScriptedModel(answers=[AIMessage("", tool_calls=[call]), "x"]), tool("run_kernel", run_kernel)).usage
    assert (usage.calls, usage.builds) == (2, 1)
    assert 0 < usage.device_seconds < 15


@pytest.mark.parametrize(
    ("messages", "way"),
    [
        ([], "speak"),
        ([called("a", "b")], "tools"),
        ([called("a", "b"), ToolMessage("x", tool_call_id="c0")], "tools"),
        ([called("a", "b"), ToolMessage("x", tool_call_id="c0"), ToolMessage("y", tool_call_id="c1")], "speak"),
        ([AIMessage("bad"), HumanMessage("again")], "speak"),
    ],
)
def test_the_way_on(messages: list[Any], way: str) -> None:
    turn = TurnState(role="optimizer", messages=messages)
    assert route(turn) == way
    assert route(turn.model_copy(update={"answered": True})) == "__end__"


def test_arguments_without_end_that_nobody_can_read_do_not_go_back_whole() -> None:
    unread = InvalidToolCall(type="invalid_tool_call", id="c0", name="look", args="x" * 500_000, error=None)
    wrong = AIMessage("", invalid_tool_calls=[unread])
    shown: list[int] = []

    def answer(request: Request) -> str:
        shown.extend(len(call["args"] or "") for each in agent.turn().messages for call in unread_calls(each))
        return "at last"

    agent = Agent(ScriptedModel(answers=[wrong, answer]), tool("look", lambda: "never"))
    assert agent.begin().move == "at last"
    [length] = shown
    assert MAX_ECHO_CHARS <= length < MAX_ECHO_CHARS + 100
    assert len(unread["args"] or "") == 500_000, "the record holds it whole"


def unread_calls(message: BaseMessage) -> list[InvalidToolCall]:
    return message.invalid_tool_calls if isinstance(message, AIMessage) else []
