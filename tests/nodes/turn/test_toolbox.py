"""Tools in an agent's turn: served within a bound, wrong calls answered, every cost counted, budgets held."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.tools import StructuredTool, ToolException
from run_samples import DEVICE, kernel, task

from harness.judging.device_lock import one_at_a_time
from harness.nouns.device import DeviceName
from nodes.models.local import ScriptedModel
from nodes.models.playbook import PlaybookModel
from nodes.models.replay import ReplayModel
from nodes.models.written_calls import Offer
from nodes.request import Request
from nodes.settings import Settings
from nodes.state import RunState, Usage
from nodes.turn.agent_loop import MAX_ANSWER_CHARS, serve, unanswered
from nodes.turn.answers import Declined, Written, parse_kernel
from nodes.turn.node import ModelCache, NodeContext
from nodes.turn.speak import Spoken, TurnEndedError, speak, tools_for
from nodes.usage import Bill
from tools.library_tool import LOOK_UP as LOOK_UP_OF

LOOK_UP = LOOK_UP_OF["cpu"]
CPU = DeviceName(target="cpu")
REQUEST = Request(
    role="generator", task=task(), target="cpu", precision="ieee", device=DEVICE, stub="void run();", candidate=kernel()
)
GOOD = "```cpp\nint x;\n```"
RUN = RunState(source="")


def calling(name: str, call_id: str = "c1", **args: Any) -> AIMessage:
    return AIMessage("", tool_calls=[{"type": "tool_call", "id": call_id, "name": name, "args": args}])


def ask(model: Any, run: RunState = RUN, **settings: Any) -> Spoken[Written | Declined]:
    shop = NodeContext(settings=Settings(**settings), shelf=ModelCache(lambda spec, options: model))
    return speak(
        REQUEST, lambda text: parse_kernel(text, move_required=False), node_context=shop, state=run, tools=(LOOK_UP,)
    )


class Listening(ScriptedModel):
    """A scripted model that keeps the messages it was sent."""

    def respond(self, messages: Any) -> AIMessage:
        HEARD.append(list(messages))
        return super().respond(messages)


HEARD: list[list[Any]] = []


@pytest.fixture(autouse=True)
def _silence() -> None:
    HEARD.clear()


def test_a_call_is_served_and_the_answer_comes_after_it(tmp_path: Path) -> None:
    said = ask(Listening(answers=[calling("look_up", query="statistics"), GOOD]), run_dir=str(tmp_path))
    assert isinstance(said.answer, Written)
    assert said.usage.calls == 2
    call, answer = HEARD[1][-2:]
    assert isinstance(answer, ToolMessage)
    assert (call.tool_calls[0]["id"], answer.tool_call_id) == ("c1", "c1")
    assert "Sums and statistics" in answer.text
    recorded = ReplayModel.load(tmp_path / "conversation.jsonl")
    assert [len(each.tool_calls) for each in recorded.exchanges] == [1, 0]
    replayed = ask(recorded)
    assert replayed.answer == said.answer


@pytest.mark.parametrize(
    ("message", "said"),
    [
        (calling("rm", path="/"), "There is no tool 'rm'. There are: look_up."),
        (calling("look_up", question="x"), "look_up: query: Field required"),
        (calling("look_up", query=["a"]), "look_up: query: Input should be a valid string"),
        (calling("look_up", query="xylophone"), "The guides say nothing about that."),
        (
            AIMessage("", invalid_tool_calls=[
                {"type": "invalid_tool_call", "id": "c1", "name": "look_up", "args": "{que", "error": None}
            ]),
            "The arguments of look_up are no JSON object.",
        ),
    ],
)  # fmt: skip
def test_a_wrong_call_is_answered_with_what_is_wrong(message: AIMessage, said: str) -> None:
    ask(Listening(answers=[message, GOOD]))
    assert HEARD[1][-1].text == f"{said}\n(Tool calls left: 5.)"


def test_a_tool_that_refuses_says_so_to_the_model_and_its_time_on_the_device_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUTEGEN_CACHE", str(tmp_path))  # its own turns: nobody else has to wait

    def sanitize_kernel() -> str:
        with one_at_a_time(CPU):
            raise ToolException("The kernel is not run.")

    refusing = StructuredTool.from_function(func=sanitize_kernel, name="sanitize_kernel", description="It refuses.")
    served = serve(calling("sanitize_kernel").tool_calls[0], (refusing,))
    assert served.message.text == "The kernel is not run."
    assert served.device_seconds > 0
    assert serve(calling("look_up", query="tile").tool_calls[0], (LOOK_UP,)).device_seconds == 0


def test_calls_end_at_their_bound_and_the_answer_is_asked_for() -> None:
    endless = [calling("look_up", f"c{i}", query="tile") for i in range(4)]
    said = ask(Listening(answers=[*endless, GOOD]), max_tool_calls=3)
    assert said.usage.calls == 5
    assert [heard[-1].text.splitlines()[-1] for heard in HEARD[1:4]] == [
        f"(Tool calls left: {number}.)" for number in (2, 1, 0)
    ]
    assert HEARD[4][-1].text == "No tool call is left in this turn. Give your answer now."


def test_several_calls_of_one_message_are_all_answered() -> None:
    both = AIMessage("", tool_calls=[*calling("look_up", "a", query="tile").tool_calls,
                                     *calling("nothing", "b").tool_calls])  # fmt: skip
    ask(Listening(answers=[both, GOOD]))
    assert [part.tool_call_id for part in HEARD[1][-2:]] == ["a", "b"]
    assert len(unanswered([both])) == 2


def test_a_model_without_tools_answers_without() -> None:
    with pytest.raises(NotImplementedError, match="playbook calls no tools"):
        PlaybookModel().bind_tools([LOOK_UP])
    shop = NodeContext(settings=Settings(), shelf=ModelCache(lambda spec, options: PlaybookModel()))
    said = speak(REQUEST, lambda text: text, node_context=shop, state=RUN, tools=(LOOK_UP,))
    assert said.usage.calls == 1


def test_the_guides_are_those_of_the_target_and_say_what_they_do_not_hold() -> None:
    cpu, cuda = (LOOK_UP_OF[target].invoke({"query": "wgmma descriptor tile"}) for target in ("cpu", "cuda"))
    assert "wgmma" in cuda and cuda.count("# ") >= 1
    assert "reads shared memory" not in cpu
    assert cpu.endswith("The guides say nothing about: wgmma, descriptor.")
    assert LOOK_UP.invoke({"query": "xylophone and"}) == "The guides say nothing about that."


def test_long_answers_are_cut() -> None:
    call = calling("look_up", query="tile").tool_calls[0]
    long = LOOK_UP.model_copy(update={"func": lambda query: "x" * 50_000})
    assert len(serve(call, (long,)).message.text) < MAX_ANSWER_CHARS + 100


@pytest.mark.parametrize(
    ("settings", "run", "stop"),
    [
        ({"max_tokens": 100}, RunState(source="", usage=Usage(input_tokens=95)), "tokens"),
        ({"max_dollars": 1.0}, RunState(source="", usage=Usage(dollars=0.99)), "dollars"),
        ({"max_wall_s": 5.000001}, RunState(source="", seconds=5.0), "wall_time"),
    ],
)
def test_a_budget_ends_the_turn_between_two_calls(settings: dict[str, Any], run: RunState, stop: str) -> None:
    costly = calling("look_up", query="tile")
    costly.usage_metadata = {"input_tokens": 4, "output_tokens": 3, "total_tokens": 7}
    Bill(dollars=0.02).attach(costly)
    model = ScriptedModel(answers=[costly, GOOD])
    with pytest.raises(TurnEndedError) as ended:
        ask(model, run, **settings)
    assert (ended.value.stop.name, ended.value.usage.calls, model.calls()) == (stop, 1, 1)


def test_which_role_may_call_what() -> None:
    run = RunState(source="", task=task(), target="cpu", tier="none")
    shop = NodeContext(settings=Settings(), shelf=ModelCache(lambda spec, options: PlaybookModel()))
    named = {
        role: [tool.name for tool in tools_for(role, run, shop)] for role in ("generator", "diagnoser", "optimizer")
    }
    assert named["generator"] == ["look_up", "compile_kernel"]
    assert named["diagnoser"] == ["look_up", "compile_kernel", "run_kernel", "sanitize_kernel"]
    assert named["optimizer"] == ["look_up", "compile_kernel", "run_kernel", "time_kernel"]
    assert "profile_kernel" in [tool.name for tool in tools_for("optimizer", run, shop, profiled=True)]
    every = [*tools_for("diagnoser", run, shop), *tools_for("optimizer", run, shop, profiled=True)]
    assert {Offer.of(tool).argument for tool in every} == {"query", "source"}  # who answers by hand can call each
    none = NodeContext(settings=Settings(max_tool_calls=0), shelf=shop.shelf)
    assert tools_for("optimizer", run, none) == ()
