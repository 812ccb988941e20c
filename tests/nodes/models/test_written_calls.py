"""Tool calls written by hand: read, told what is wrong with them by name, and written again as they were."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage

from nodes.models.replay import Called, calls_in
from nodes.models.written_calls import Offer, read_answer, say_calls, say_offers
from nodes.turn.agent_loop import serve
from tools.library_tool import LOOK_UP

OFFERS = (
    Offer.of(LOOK_UP["cpu"]),
    Offer(name="compile_kernel", description="Compile.", argument="source", meaning="The whole file."),
)


def read(answer: str) -> AIMessage:
    return read_answer(answer, OFFERS, "call-2")


def test_a_call_of_one_word_and_one_of_a_whole_file() -> None:
    asked = read("TOOL: look_up\n\n```\nvoid pointer in make_tensor\n```\n")
    assert asked.tool_calls == [
        {"type": "tool_call", "id": "call-2", "name": "look_up", "args": {"query": "void pointer in make_tensor"}}
    ]
    built = read("Does it compile at all?\n\n**TOOL: compile_kernel**\n\n```cpp\nint x;\nint y;\n```\n")
    assert built.tool_calls[0]["args"] == {"source": "int x;\nint y;\n"}
    assert built.text == "Does it compile at all?"


@pytest.mark.parametrize(
    "answer",
    ["```cpp\n// TOOL: look_up\nint x;\n```\n", "DONE: no TOOL: helps here", '{"cause": "TOOL:"}', "TOOLS: none", ""],
)
def test_what_is_no_call_stays_an_answer(answer: str) -> None:
    message = read(answer)
    assert (message.text, calls_in(message)) == (answer, ())


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ("TOOL: look_up", "There is no code block below the line `TOOL: look_up`."),
        ("TOOL: look_up\nTOOL: look_up\n```\na\n```", "There are 2 lines `TOOL:`."),
        ("TOOL: look_up\n```\na\n```\n```\nb\n```", "There are 2 code blocks."),
        ("TOOL: look_up\n```\na", "The code block is never closed."),
        ("TOOL: rm\n```\n/\n```", "There is no tool 'rm'. There are: look_up."),
        ("TOOL:\n```\n/\n```", "There is no tool ''. There are: look_up."),
    ],
)
def test_a_call_that_cannot_be_served_is_told_what_is_wrong_with_it(answer: str, said: str) -> None:
    message = read(answer)
    [call] = (*message.tool_calls, *message.invalid_tool_calls)
    served = serve(call, (LOOK_UP["cpu"],))
    assert served.message.text.startswith(said)


def test_the_tools_on_offer_are_named_with_their_argument_and_the_form() -> None:
    said = say_offers(OFFERS)
    assert "TOOL: compile_kernel" in said
    assert "- `look_up`: Sections of the guides" in said
    assert "- `compile_kernel`: Compile. In the block: The whole file." in said


def test_a_bad_call_is_written_again_as_it_was() -> None:
    bad = "Let me see.\n\nTOOL: look_up\n\n```\nhalf"
    assert say_calls(calls_in(read(bad))) == bad


def test_an_answer_without_calls_is_left_as_it_is() -> None:
    assert say_calls((), "the answer\n") == "the answer\n"


@given(st.text(alphabet="ab `~\n\r", max_size=60), st.sampled_from(["", "Why not?"]))
def test_what_was_called_is_called_again_when_written_anew(argument: str, prose: str) -> None:
    call = Called(id="call-2", name="compile_kernel", args={"source": argument})
    once = read(say_calls([call], prose))
    again = read(say_calls(calls_in(once), str(once.text)))
    assert (again.tool_calls, again.text) == (once.tool_calls, prose)
    assert "\r" in argument or once.tool_calls[0]["args"]["source"].split() == argument.split()
