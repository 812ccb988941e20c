"""Asking a model: bad answers go back to it, a bounded number of times, and everything said is recorded once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage
from run_samples import DEVICE, kernel, task, wrong

from harness.nouns.errors import MachineError
from nodes.models.local import ScriptedModel
from nodes.models.replay import ReplayModel, exchange
from nodes.request import Request
from nodes.settings import Settings
from nodes.state import RunState, Usage
from nodes.turn.agent_loop import record
from nodes.turn.answers import Declined, Written, parse_kernel, parse_patch
from nodes.turn.node import ModelCache, NodeContext
from nodes.turn.prompts import messages_for
from nodes.turn.speak import Spoken, TurnEndedError, speak

K = kernel()
REQUEST = Request(
    role="generator", task=task(), target="cpu", precision="ieee", device=DEVICE, stub="void run();", candidate=K,
    verdict=wrong(K),
)  # fmt: skip
GOOD = "```cpp\nint x;\n```"


def parse(text: str) -> Written | Declined:
    return parse_kernel(text, move_required=False)


def run_of(calls: int) -> RunState:
    return RunState(source="", usage=Usage(calls=calls))


def ask(model: ScriptedModel, asked: int = 0, **settings: Any) -> Spoken[Written | Declined]:
    shop = NodeContext(settings=Settings(**settings), shelf=ModelCache(lambda spec, options: model))
    return speak(REQUEST, parse, node_context=shop, state=run_of(asked))


def test_a_good_answer_is_taken_at_once() -> None:
    said = ask(ScriptedModel(answers=[GOOD]))
    assert said.answer == Written(source="int x;\n", move="first kernel")
    assert said.usage.calls == 1
    assert said.usage.seconds > 0


def test_a_bad_answer_goes_back_with_what_is_wrong_with_it(tmp_path: Path) -> None:
    model = ScriptedModel(answers=["Nice weather.", "```cpp\nint x;", GOOD])
    said = ask(model, asked=5, run_dir=str(tmp_path))
    assert said.answer == Written(source="int x;\n", move="first kernel")
    assert said.usage.calls == 3
    recorded = ReplayModel.load(tmp_path / "conversation.jsonl").exchanges
    assert [exchange.index for exchange in recorded] == [5, 6, 7]
    kinds = [message.type for message in recorded[2].prompt]
    assert kinds == ["system", "human", "ai", "human", "ai", "human"]
    assert recorded[2].prompt[2].content == "Nice weather."
    assert "no fenced code block" in recorded[2].prompt[3].content
    assert "never closed" in recorded[2].prompt[5].content


@pytest.mark.parametrize("reasks", [0, 1, 4])
def test_nonsense_is_given_up_on_after_the_re_asks(reasks: int) -> None:
    model = ScriptedModel(answers=[""], repeat_last=True)
    with pytest.raises(TurnEndedError, match=f"gave {reasks + 1} answers") as raised:
        ask(model, max_reasks=reasks)
    assert model.calls() == reasks + 1
    assert raised.value.usage.calls == reasks + 1


def test_halves_of_characters_are_joined_or_replaced_before_anything_is_done_with_them(tmp_path: Path) -> None:
    halves = "```cpp\n// \ud83d\ude80 \ud83d\nint x;\n```"
    arguments = {"query": "tile \ude80", "deeper": [{"\ud83d\ude80": 1}]}
    call = {"type": "tool_call", "id": "c", "name": "look_up", "args": arguments}
    said = ask(ScriptedModel(answers=[AIMessage("\ud800", tool_calls=[call]), halves]), run_dir=str(tmp_path))
    assert isinstance(said.answer, Written)
    assert said.answer.source == "// \N{ROCKET} \N{REPLACEMENT CHARACTER}\nint x;\n"
    first, second = ReplayModel.load(tmp_path / "conversation.jsonl").exchanges
    assert first.tool_calls[0].args == {"query": "tile \N{REPLACEMENT CHARACTER}", "deeper": [{"\N{ROCKET}": 1}]}
    assert second.answer == halves.replace("\ud83d\ude80", "\N{ROCKET}").replace("\ud83d", "\N{REPLACEMENT CHARACTER}")


def test_a_stale_patch_goes_back_with_the_lines_as_they_are() -> None:
    stale = '{"edits": [{"kind": "delete", "line": 2, "expected": "four"}]}'
    good = '{"edits": [{"kind": "delete", "line": 3, "expected": "three"}]}'
    model = ScriptedModel(answers=[stale, good])
    shop = NodeContext(settings=Settings(), shelf=ModelCache(lambda spec, options: model))

    def patched(text: str) -> str:
        patch = parse_patch(text)
        assert not isinstance(patch, Declined)
        return patch.apply(K.source)

    said = speak(REQUEST.model_copy(update={"role": "repairer"}), patched, node_context=shop, state=run_of(0))
    assert said.answer == "one\ntwo\n"
    assert said.usage.calls == 2


def line(answer: str, index: int = 0) -> Any:
    return exchange(index, "generator", messages_for(REQUEST), AIMessage(answer), Usage(calls=1))


def test_half_a_line_left_by_a_kill_is_cut_off(tmp_path: Path) -> None:
    file = tmp_path / "conversation.jsonl"
    record(str(tmp_path), line("one"))
    whole = file.read_bytes()
    file.write_bytes(whole + line("two", 1).line().encode()[:40])
    record(str(tmp_path), line("two again", 1))
    assert file.read_bytes() == whole + line("two again", 1).line().encode()


def test_the_only_line_half_written_is_cut_off_too(tmp_path: Path) -> None:
    file = tmp_path / "conversation.jsonl"
    file.write_bytes(b'{"index": 0, "ro')
    record(str(tmp_path), line("one"))
    assert file.read_bytes() == line("one").line().encode()


def test_a_resumed_exchange_is_recorded_again_and_the_later_one_replays(tmp_path: Path) -> None:
    record(str(tmp_path), line("before the kill"))
    record(str(tmp_path), line("after it"))
    model = ReplayModel.load(tmp_path / "conversation.jsonl")
    assert [said.answer for said in model.exchanges] == ["after it"]


def test_a_folder_that_is_gone_is_the_machines_failure(tmp_path: Path) -> None:
    with pytest.raises(MachineError, match=r"conversation\.jsonl.*resume the run"):
        record(str(tmp_path / "gone"), line("one"))
