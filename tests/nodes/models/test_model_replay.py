"""Recorded conversations, replayed."""

from __future__ import annotations

from pathlib import Path
from tempfile import NamedTemporaryFile

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, InvalidToolCall, ToolMessage
from model_requests import prompt, request

from harness.nouns.errors import UserError
from harness.nouns.verdict import HeadToHead, Interval
from nodes.models import replay as conversation
from nodes.models.errors import ReplayMismatchError
from nodes.models.replay import Exchange, ReplayModel, digest_of, prompt_of
from nodes.roles import Speaker
from nodes.state import FellBack, Usage
from nodes.usage import Bill, usage_of


def ask(text: str, role: Speaker = "generator") -> list[BaseMessage]:
    return prompt(request(role), text)


def exchange(
    index: int, role: Speaker, messages: list[BaseMessage], answer: str, usage: Usage | None = None
) -> Exchange:
    return conversation.exchange(index, role, messages, AIMessage(answer), usage)


def recording(tmp_path: Path, *exchanges: Exchange, tail: str = "") -> Path:
    file = tmp_path / "conversation.jsonl"
    file.write_text("".join(each.line() for each in exchanges) + tail, encoding="utf-8")
    return file


def test_the_same_question_gets_the_same_answer_and_cost(tmp_path: Path) -> None:
    cost = Usage(calls=1, input_tokens=5, output_tokens=6, dollars=0.5)
    model = ReplayModel.load(
        recording(tmp_path, exchange(0, "generator", ask("Write."), "CANNOT: no \u2014 really", cost))
    )
    message = model.invoke(ask("Write."))
    assert message.text == "CANNOT: no \u2014 really"
    assert usage_of(message) == cost


def test_how_an_answer_ended_and_who_gave_it_are_given_back(tmp_path: Path) -> None:
    bill = Bill(
        dollars=None,
        fell_back=FellBack(model="openai:a", answered_by="openai:b", because="It is down."),
        finish="length",
        refusal="I will not.",
    )
    message = AIMessage(
        "half", usage_metadata={
            "input_tokens": 9, "output_tokens": 1, "total_tokens": 10, "input_token_details": {"cache_read": 8},
        },
    )  # fmt: skip
    bill.attach(message)
    used = usage_of(message, 2.0)
    said = conversation.exchange(0, "generator", ask("Write."), message, used)
    again = ReplayModel.load(recording(tmp_path, said)).invoke(ask("Write."))
    assert Bill.of(again) == bill
    assert usage_of(again, 2.0) == used
    assert (used.cached_tokens, used.unpriced_calls) == (8, 1)


def test_tool_calls_are_given_back_and_tell_prompts_apart(tmp_path: Path) -> None:
    call = {"type": "tool_call", "id": "c1", "name": "look_up", "args": {"query": "swizzle"}}
    calls = AIMessage("One moment.", tool_calls=[call])
    answered = [*ask("Write."), calls, ToolMessage("Bank conflicts ...", tool_call_id="c1", name="look_up")]
    said = [
        conversation.exchange(0, "generator", ask("Write."), calls),
        conversation.exchange(1, "generator", answered, AIMessage("done")),
    ]
    assert [(part.type, part.content) for part in said[1].prompt[-2:]] == [
        ("ai", 'One moment.\nlook_up({"query": "swizzle"})'),
        ("tool", "Bank conflicts ..."),
    ]
    model = ReplayModel.load(recording(tmp_path, *said)).bind_tools([])
    first = model.invoke(ask("Write."))
    assert (first.text, first.tool_calls) == ("One moment.", [call])
    assert model.invoke(answered).text == "done"


def test_how_busy_the_machine_was_in_a_tools_duel_tells_no_prompts_apart(tmp_path: Path) -> None:
    def timed(words: str) -> list[BaseMessage]:
        return [*ask("Mend."), ToolMessage(words, tool_call_id="c1", name="run_kernel")]

    head_to_head = "The kernel is right. In the same rounds:"
    busy = f"{head_to_head} 1.020x (0.972 to 1.081), which decides nothing: the machine was too busy."
    model = ReplayModel.load(recording(tmp_path, exchange(0, "generator", timed(busy), "a")))
    with pytest.raises(ReplayMismatchError, match="does not hold"):
        model.invoke(timed("The kernel gives wrong results. In the same rounds: 0.690x (0.599 to 0.765)."))
    assert model.invoke(timed(f"{head_to_head} 0.690x (0.599 to 0.765).")).text == "a"


def test_neither_an_open_interval_nor_the_measure_tells_prompts_apart(tmp_path: Path) -> None:
    intervals = Interval(low=0.97, high=1.3), Interval(low=0.001, high=1700.0)
    reasons = "", "they use threads differently", "one of them has threads of its own"
    said = [
        f"- threads: kept, 1.10x the best before it {met.within}; the next"
        for interval in intervals
        for alone in reasons
        for met in [
            HeadToHead(incumbent="a", incumbent_ms=1.0, speedup=1.1, interval=interval, rounds=16, alone=alone),
            HeadToHead(incumbent="a", incumbent_ms=1.0, speedup=1.1, interval=interval, rounds=9, measure="CPU time"),
        ]
    ]
    assert len(set(said)) > 6
    held = recording(tmp_path, exchange(0, "optimizer", ask(said[0], "optimizer"), "a"))
    for each in said:
        assert ReplayModel.load(held).invoke(ask(each, "optimizer")).text == "a", each


@pytest.mark.parametrize(("recorded", "asked"), [("got 0.28", "got -0.12"), ("off by 1e-7", "off by -3.5e-08")])
def test_a_measured_number_may_change_its_sign(tmp_path: Path, recorded: str, asked: str) -> None:
    model = ReplayModel.load(recording(tmp_path, exchange(0, "generator", ask(recorded), "a")))
    assert model.invoke(ask(asked)).text == "a"


def test_repeated_questions_get_their_answers_in_order(tmp_path: Path) -> None:
    said = [exchange(index, "generator", ask("Write."), answer) for index, answer in enumerate(["a", "b"])]
    model = ReplayModel.load(recording(tmp_path, *said))
    assert [model.invoke(ask("Write.")).text for _ in range(2)] == ["a", "b"]
    with pytest.raises(ReplayMismatchError, match="only 2 times"):
        model.invoke(ask("Write."))


def test_roles_are_kept_apart(tmp_path: Path) -> None:
    said = exchange(0, "optimizer", ask("Go.", "optimizer"), "o"), exchange(1, "generator", ask("Go."), "g")
    assert ReplayModel.load(recording(tmp_path, *said)).invoke(ask("Go.")).text == "g"


def test_a_resumed_run_wrote_an_exchange_twice(tmp_path: Path) -> None:
    said = [
        exchange(index, "generator", ask("Write."), answer) for index, answer in ((0, "killed"), (0, "a"), (1, "b"))
    ]
    model = ReplayModel.load(recording(tmp_path, *said))
    assert [model.invoke(ask("Write.")).text for _ in range(2)] == ["a", "b"]


def measured(tiles: int, words: str) -> list[BaseMessage]:
    return ask(f"The kernel:\n````cpp\nint tiles = {tiles};\n```\n\n````\n{words}", "optimizer")


def test_new_measurements_find_the_old_answer(tmp_path: Path) -> None:
    said = [
        exchange(0, "optimizer", measured(64, "threads gave 1.84x in 3.10 ms,\nat 38 % of the roof"), "first"),
        exchange(1, "optimizer", measured(128, "threads gave 1.84x in 3.10 ms,\nat 38 % of the roof"), "second"),
    ]
    model = ReplayModel.load(recording(tmp_path, *said))
    assert model.invoke(measured(128, "threads gave 2x in 3.2e-1 ms, at 4 %\nof the roof")).text == "second"


def on_machine(name: str, error: str, code: str = "int x = n;", ending: str = "Cause: n.") -> list[BaseMessage]:
    return ask(
        f"## The machine\n\n{name}\n\n## The kernel\n\n````\n{code}\n````\n\n## What the compiler says\n\n{error}\n\n"
        f"## The diagnosis\n\n{ending}",
        "repairer",
    )


def test_another_machine_and_another_compiler_find_the_old_answer(tmp_path: Path) -> None:
    said = exchange(0, "repairer", on_machine("EPYC", "kernel:1:9: error: 'n' was not declared in this scope"), "fixed")
    model = ReplayModel.load(recording(tmp_path, said))
    assert model.invoke(on_machine("Xeon", "kernel:1:9: error: use of undeclared name 'n'")).text == "fixed"


@pytest.mark.parametrize("changed", [{"code": "int x = m;"}, {"ending": "Cause: x."}])
def test_what_stands_beside_the_machine_s_sections_still_tells_prompts_apart(
    tmp_path: Path, changed: dict[str, str]
) -> None:
    model = ReplayModel.load(recording(tmp_path, exchange(0, "repairer", on_machine("EPYC", "error"), "fixed")))
    with pytest.raises(ReplayMismatchError):
        model.invoke(on_machine("EPYC", "error", **changed))


def after_tool(words: str) -> list[BaseMessage]:
    call = AIMessage("", tool_calls=[{"type": "tool_call", "id": "c", "name": "compile_kernel", "args": {}}])
    return [*ask("Write."), call, ToolMessage(words, tool_call_id="c")]


def test_what_a_tool_says_counts_by_its_first_line(tmp_path: Path) -> None:
    compiles = "The kernel compiles.\nkernel.cpp:9:1: remark: loop vectorized using 64 byte vectors"
    model = ReplayModel.load(recording(tmp_path, exchange(0, "generator", after_tool(compiles), "good")))
    with pytest.raises(ReplayMismatchError):
        model.invoke(after_tool("The kernel does not compile:\nkernel.cpp:9:1: error: loop"))
    assert model.invoke(after_tool("The kernel compiles.\nkernel.cpp:9:1: remark: couldn't vectorize")).text == "good"


def test_a_section_of_a_guide_counts_whole(tmp_path: Path) -> None:
    section = after_tool("## Tails\nGuard every edge.")
    model = ReplayModel.load(recording(tmp_path, exchange(0, "generator", section, "good")))
    with pytest.raises(ReplayMismatchError):
        model.invoke(after_tool("## Tails\nGuard no edge."))
    assert model.invoke(section).text == "good"


def test_what_was_wrong_with_a_call_is_said_again(tmp_path: Path) -> None:
    wrong = InvalidToolCall(
        type="invalid_tool_call", id="c", name="look_up", args="TOOL: look_up", error="There is no code block."
    )
    said = conversation.exchange(0, "generator", ask("Write."), AIMessage("", invalid_tool_calls=[wrong]))
    message = ReplayModel.load(recording(tmp_path, said)).invoke(ask("Write."))
    assert message.invalid_tool_calls == [wrong]


def test_a_heading_inside_a_kernel_hides_nothing(tmp_path: Path) -> None:
    model = ReplayModel.load(
        recording(
            tmp_path,
            exchange(0, "optimizer", measured(64, "it took 3 ms") + ask("````\n## The machine\none\n````"), "a"),
        )
    )
    with pytest.raises(ReplayMismatchError):
        model.invoke(measured(64, "it took 3 ms") + ask("````\n## The machine\ntwo\n````"))


def reported(words: str, language: str = "text", who: str = "judge") -> list[BaseMessage]:
    return ask(f"## What the {who} says\n\n````{language}\n{words}\n````\n\n## The diagnosis\n\nSo.", "repairer")


def test_a_report_in_its_fence_is_prose_and_may_hold_other_numbers(tmp_path: Path) -> None:
    model = ReplayModel.load(recording(tmp_path, exchange(0, "repairer", reported("wrong at [3], seed 7"), "fixed")))
    assert model.invoke(reported("wrong at [81], seed 12")).text == "fixed"
    for other in (reported("crashed at [3], seed 7"), reported("wrong at [81], seed 12", "cpp")):
        with pytest.raises(ReplayMismatchError):
            model.invoke(other)


def test_a_line_like_a_heading_within_a_compilers_report_ends_no_section(tmp_path: Path) -> None:
    said = exchange(0, "repairer", reported("# include of one", who="compiler"), "fixed")
    model = ReplayModel.load(recording(tmp_path, said))
    assert model.invoke(reported("# include of two", who="compiler")).text == "fixed"


def test_other_words_or_other_code_are_another_question(tmp_path: Path) -> None:
    model = ReplayModel.load(recording(tmp_path, exchange(0, "optimizer", measured(64, "it took 3 ms"), "first")))
    for other in (measured(65, "it took 3 ms"), measured(64, "it crashed after 3 ms")):
        with pytest.raises(ReplayMismatchError):
            model.invoke(other)


def test_an_exact_match_goes_before_a_near_one(tmp_path: Path) -> None:
    said = [exchange(index, "generator", ask(f"took {index}.5 ms"), f"answer {index}") for index in range(3)]
    assert ReplayModel.load(recording(tmp_path, *said)).invoke(ask("took 2.5 ms")).text == "answer 2"


def test_another_question_shows_where_it_differs(tmp_path: Path) -> None:
    said = [
        exchange(0, "generator", ask("Write.\nThe task is softsign.\nUse CuTe."), "a"),
        exchange(1, "generator", ask("Something else entirely."), "b"),
    ]
    model = ReplayModel.load(recording(tmp_path, *said))
    with pytest.raises(ReplayMismatchError) as caught:
        model.invoke(ask("Write.\nThe task is gelu.\nUse CuTe."))
    assert "-The task is softsign." in caught.value.difference
    assert "+The task is gelu." in caught.value.difference
    assert "exchange 0" in str(caught.value)


def test_a_long_difference_is_cut(tmp_path: Path) -> None:
    model = ReplayModel.load(recording(tmp_path, exchange(0, "generator", ask("\n".join("abcdefghijklm")), "a")))
    with pytest.raises(ReplayMismatchError) as caught:
        model.invoke(ask("\n".join("nopqrstuvwxyz")))
    assert len(caught.value.difference.splitlines()) <= 17
    assert "more lines" in caught.value.difference


def test_the_difference_is_shown_whole_as_long_as_it_is_short(tmp_path: Path) -> None:
    """16 lines are shown; of more it is said how many."""
    for count, hidden in ((6, 0), (7, 2)):
        asked, recorded = ("\n".join(f"{mark}{number}" for number in range(count)) for mark in "ab")
        model = ReplayModel.load(recording(tmp_path, exchange(0, "generator", ask(recorded), "x")))
        with pytest.raises(ReplayMismatchError) as caught:
            model.invoke(ask(asked))
        *shown, last = caught.value.difference.splitlines()
        assert sum(line.startswith(("-b", "+a")) for line in (*shown, last)) == 2 * count - hidden
        assert ("more lines" in last) is bool(hidden), (count, last)
        if hidden:
            assert (len(shown), last) == (16, f"... {hidden} more lines differ or surround")


def test_the_nearest_is_an_exchange_that_is_still_to_come(tmp_path: Path) -> None:
    first, second = "Write.\nThe task is softsign.", "Go.\nThe task is relu.\nIt is short."
    said = [exchange(0, "generator", ask(first), "a"), exchange(1, "generator", ask(second), "b")]
    model = ReplayModel.load(recording(tmp_path, *said))
    with pytest.raises(ReplayMismatchError, match="exchange 0"):
        model.invoke(ask(f"{first}\nAnd more."))
    assert model.invoke(ask(first)).text == "a"
    with pytest.raises(ReplayMismatchError, match="exchange 1"):
        model.invoke(ask(f"{first}\nAnd more."))
    assert model.invoke(ask(second)).text == "b"
    with pytest.raises(ReplayMismatchError, match="exchange 0"):
        model.invoke(ask(f"{first}\nAnd more."))
    with pytest.raises(ReplayMismatchError) as caught:
        model.invoke(ask(f"{first}\nAnd more."))
    assert str(recording(tmp_path)) in str(caught.value), "which recording it was is said"


def test_a_role_that_never_spoke(tmp_path: Path) -> None:
    model = ReplayModel.load(recording(tmp_path, exchange(0, "generator", ask("Write."), "a")))
    with pytest.raises(ReplayMismatchError, match="no answer of the repairer"):
        model.invoke(ask("Mend.", "repairer"))


def test_a_question_put_again_is_another_question(tmp_path: Path) -> None:
    again = [*ask("Write."), AIMessage("bad"), HumanMessage("Your answer cannot be used.")]
    said = exchange(0, "generator", ask("Write."), "bad"), exchange(1, "generator", again, "good")
    model = ReplayModel.load(recording(tmp_path, *said))
    assert [model.invoke(ask("Write.")).text, model.invoke(again).text] == ["bad", "good"]


def test_half_a_line_at_the_end_is_what_a_kill_leaves(tmp_path: Path) -> None:
    whole = exchange(0, "generator", ask("Write."), "a")
    file = recording(tmp_path, whole, tail=exchange(1, "generator", ask("More."), "b").line()[:40])
    assert ReplayModel.load(file).exchanges == (whole,)


def test_half_a_line_anywhere_else_is_damage_and_so_is_a_whole_one_that_is_no_exchange(tmp_path: Path) -> None:
    whole = exchange(0, "generator", ask("Write."), "a")
    for tail in (f"{whole.line()[:40]}\n{whole.line()}", '{"index": 3}'):
        with pytest.raises(UserError, match="line 2, is no exchange"):
            ReplayModel.load(recording(tmp_path, whole, tail=tail))
    blank = ReplayModel.load(recording(tmp_path, whole, tail="\n  \n"))
    assert blank.exchanges == (whole,)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "cannot be read"),
        (b"", "no exchange"),
        (b"\xff\xfe", "cannot be read"),
        (b"{half", "line 1"),
        (b'{"index": 0}\n', "line 1.*role"),
        (b"[]\n" * 2, "line 1"),
    ],
)
def test_a_file_that_is_no_conversation(tmp_path: Path, content: bytes | None, said: str) -> None:
    file = tmp_path / "other.jsonl"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(UserError, match=said) as caught:
        ReplayModel.load(file)
    assert str(file) in str(caught.value)
    assert "conversation.jsonl" in caught.value.remedy


@given(st.lists(st.text(max_size=40) | st.sampled_from(("a\u2028b", "a\x85b", "a\rb\x0c")), min_size=1, max_size=4))
def test_whatever_was_said_is_found_again(texts: list[str]) -> None:
    said = tuple(exchange(index, "generator", ask(text), f"answer {text}") for index, text in enumerate(texts))
    with NamedTemporaryFile(suffix=".jsonl") as file:
        file.write("".join(each.line() for each in said).encode())
        file.flush()
        model = ReplayModel.load(Path(file.name))
    assert model.exchanges == said
    assert [model.invoke(ask(text)).text for text in texts] == [f"answer {text}" for text in texts]


def test_the_digest_tells_types_and_texts_apart() -> None:
    digests = {digest_of(prompt_of([kind(text)])) for kind in (AIMessage, HumanMessage) for text in ("a", "b")}
    assert len(digests) == 4
    assert digest_of(prompt_of(ask("a"))) == digest_of(prompt_of(prompt(request("optimizer"), "a")))
