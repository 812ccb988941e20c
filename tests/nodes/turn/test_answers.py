"""What models answer, good and bad: each way to be unusable has its own name."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage

from knowledge.compiler.search import exemplars
from nodes.assessment import Diagnosis
from nodes.turn.answers import (
    MAX_ECHO_CHARS,
    MAX_MOVE_CHARS,
    MAX_PROBLEMS,
    MAX_REASON_CHARS,
    MAX_SOURCE_CHARS,
    AnswerError,
    Declined,
    Written,
    echo,
    parse_diagnosis,
    parse_kernel,
    parse_move,
    parse_patch,
    read,
)
from nodes.usage import Bill
from tools.patch import Patch, PatchError, numbered, unnumbered

CODE = "int main() {\n  return 0;\n}\n"
WHOLE = f'#include "x.h"\n{CODE}TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);\n'
SNIPPET = "```cpp\nint helper();\n```"
DIAGNOSIS = {"intent": "adds", "cause": "line 3", "evidence": "the report", "fix": "one line", "proof": "passes"}
EDITS = {"edits": [{"kind": "delete", "line": 3, "expected": "x"}]}


def kernel(answer: str) -> Written | Declined:
    return parse_kernel(answer, move_required=True)


def problem_of(answer: str, parse: object = kernel) -> str:
    with pytest.raises(AnswerError) as refused:
        parse(answer)  # type: ignore[operator]
    assert len(str(refused.value)) > 20, "the message has to say what to do"
    return refused.value.problem


@pytest.mark.parametrize(
    "line",
    [
        "MOVE: threads - twice the cores",
        "**MOVE: threads - twice the cores**",
        "**MOVE:** threads \N{EM DASH} twice the cores",
        "## MOVE: `threads` -- twice the cores",
        "  MOVE: threads - twice   the cores  ",
        "`MOVE: threads - twice the cores`",
        "- MOVE: threads - twice the cores",
        "1. **Move**: threads - twice the cores",
        "> MOVE: threads - twice the cores",
        '"MOVE: threads - twice the cores"',
        "\N{LEFT DOUBLE QUOTATION MARK}MOVE: threads - twice the cores\N{RIGHT DOUBLE QUOTATION MARK}",
        "Move: threads - twice the cores",
        "\N{BYTE ORDER MARK}MOVE: threads - twice the cores",
    ],
)
def test_a_move_and_one_block(line: str) -> None:
    answer = kernel(f"I think so.\n\n{line}\n\n```cpp\n{CODE}```\nDone with that.\n")
    assert answer == Written(source=CODE, move="threads", why="twice the cores")


def test_hyphens_inside_a_name_do_not_end_it() -> None:
    answer = kernel(f"MOVE: cache-blocking\n```\n{CODE}```")
    assert answer == Written(source=CODE, move="cache-blocking", why="")


def test_the_generator_needs_no_move() -> None:
    assert parse_kernel(f"```cuda\n{CODE}```", move_required=False) == Written(source=CODE, move="first kernel")


PRESENT = "int tile = 4;\nint rest;\n"
TILE = '{"edits": [{"kind": "replace", "line": 1, "expected": "int tile = 4;", "text": "int tile = 8;  // sweep: 16"}]}'


def moved(answer: str) -> Written | Declined:
    return parse_move(answer, PRESENT, max_sweep=2)


@pytest.mark.parametrize(
    "answer",
    [
        f"MOVE: tile - fits\n\n```json\n{TILE}\n```\n",
        f"MOVE: tile - fits\n\n{TILE}\n",
        f"{TILE}\n\nMOVE: tile - fits",
        f"MOVE: tile - fits\nIt becomes\n```cpp\nint tile = 8;\n```\nby\n```json\n{TILE}\n```",
        f"MOVE: tile - fits\n{TILE.replace('1, ', '2, ')}",
    ],
)
def test_a_move_may_come_as_edits_to_the_present_kernel(answer: str) -> None:
    written = moved(answer)
    assert isinstance(written, Written)
    assert (written.source, written.move, written.why) == ("int tile = 8;\nint rest;\n", "tile", "fits")
    assert written.sweep is not None and written.sweep.count == 2


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (TILE, "no_move"),
        (f"MOVE: tile\nDONE: or not\n{TILE}", "code_and_refusal"),
        ('MOVE: tile\n{"edits": []}', "schema"),
        (f"MOVE: tile\n```json\n{TILE[:60]}", "bad_json"),
        (f"MOVE: tile\n{TILE.replace('16', '16, 32')}", "sweep"),
    ],
)
def test_edits_that_are_no_move_have_a_name(answer: str, problem: str) -> None:
    assert problem_of(answer, moved) == problem


def test_edits_of_a_move_that_do_not_fit_say_what_stands_there() -> None:
    with pytest.raises(PatchError, match="expects other text than stands there"):
        moved(f"MOVE: tile\n{TILE.replace('= 4', '= 5')}")
    beside = moved(f"MOVE: tile\n```cpp\n{WHOLE}```\nIn short:\n```json\n{TILE}\n```")
    assert isinstance(beside, Written) and beside.source == WHOLE, "beside a whole kernel they are a remark"


def test_a_move_may_leave_values_open() -> None:
    answer = moved("MOVE: tile\n```cpp\nint tile = 8;  // sweep: 16\n```")
    assert isinstance(answer, Written)
    assert answer.source == "int tile = 8;\n"
    assert answer.sweep is not None
    assert [values["tile"] for values in answer.sweep.points()] == ["8", "16"]
    assert moved(f"MOVE: tile\n```\n{CODE}```") == Written(source=CODE, move="tile")
    assert moved("DONE: enough") == Declined(reason="enough")
    assert problem_of(f"```\n{CODE}```", moved) == "no_move"


@pytest.mark.parametrize("values", ["16, 32", "sixteen"])
def test_a_sweep_that_cannot_be_tried_has_its_name(values: str) -> None:
    answer = f"MOVE: tile\n```cpp\nint tile = 8;  // sweep: {values}\n```"
    assert problem_of(answer, moved) == "sweep"


def test_longer_fences_may_hold_shorter_ones() -> None:
    code = "// ```\nint x;\n// ```cpp\n"
    assert kernel(f"MOVE: x\n````cpp\n{code}````") == Written(source=code, move="x")
    assert kernel("MOVE: x\n```cpp\nint x;\n```cpp\n``` ") == Written(source="int x;\n```cpp\n", move="x")
    assert kernel("MOVE: x\n~~~cpp\n```\nint x;\n~~~") == Written(source="```\nint x;\n", move="x")


def test_thoughts_before_the_answer_are_not_read() -> None:
    thoughts = "<think>Maybe ```cpp\nfoo\n``` or DONE: nothing?</think>"
    assert kernel(f"{thoughts}\nMOVE: x\n```\r\nint x;\r\n```\r\n") == Written(source="int x;\n", move="x")


@pytest.mark.parametrize(
    "thoughts",
    [
        "Perhaps this:\n```cpp\nint draft;\n```\nor DONE: nothing?\n</think>\n\n",
        "<think>\nOne.\n</think>\n<think>\n```\nint draft;\n```\n</think>\n",
        "\n <think></think>",
    ],
)
def test_thoughts_that_a_template_opened_and_thoughts_in_parts_are_not_read_either(thoughts: str) -> None:
    assert kernel(f"{thoughts}MOVE: x\n```\nint x;\n```") == Written(source="int x;\n", move="x")
    assert parse_patch(thoughts + json.dumps(EDITS)) == Patch.model_validate(EDITS)
    assert parse_diagnosis(thoughts + json.dumps(DIAGNOSIS)) == Diagnosis(**DIAGNOSIS)


def test_a_draft_within_thoughts_that_never_end_is_no_answer() -> None:
    draft = f"<think>\nMOVE: x\n```cpp\n{CODE}```\nThat would need"
    assert problem_of(draft) == "cut_off"
    assert problem_of(f"<think>\n{json.dumps(EDITS)}", parse_patch) == "cut_off"
    assert problem_of(f"<think>\n{json.dumps(DIAGNOSIS)}", parse_diagnosis) == "cut_off"
    with pytest.raises(AnswerError, match="cut off there"):
        read(said(draft, finish="length"), kernel)


@pytest.mark.parametrize(
    "line",
    [
        "CANNOT: at the roof  ",
        "DONE: at the roof",
        "**DONE: at the roof**",
        "- DONE: at the roof",
        "`DONE: at the roof`",
        "Done: at the roof",
    ],
)
def test_a_refusal_says_why(line: str) -> None:
    assert kernel(f"Well.\n{line}\n") == Declined(reason="at the roof")
    assert parse_patch(line) == Declined(reason="at the roof")


def test_a_remark_that_it_is_done_is_no_refusal_beside_a_kernel() -> None:
    assert kernel(f"MOVE: x\n```\n{CODE}```\nDone: it compiles.") == Written(source=CODE, move="x")


@pytest.mark.parametrize(
    "answer",
    [
        f"MOVE: x\n{SNIPPET}\nin\n```cpp\n{WHOLE}```",
        f"MOVE: x\n```cpp\n{WHOLE}```\nwhere\n{SNIPPET}\n```sh\ncutegen verify\n```",
        f"MOVE: x\n```cpp\n{WHOLE}```\nAgain:\n```cpp\n{WHOLE}```",
        f"MOVE: x\n```cpp\n{WHOLE}```\nso\n```cpp\nint cut_o",
        f"MOVE: x\n{WHOLE}",
        f"\N{BYTE ORDER MARK}MOVE: x\n```cpp\n\N{BYTE ORDER MARK}{WHOLE}```",
    ],
)
def test_what_has_one_reading_is_taken(answer: str) -> None:
    assert kernel(answer) == Written(source=WHOLE, move="x")


def test_line_numbers_that_the_prompt_put_before_the_kernel_are_taken_off() -> None:
    copied = kernel(f"MOVE: m - w\n```cpp\n{numbered(WHOLE)}\n```")
    assert isinstance(copied, Written) and copied.source == WHOLE
    other = numbered(CODE).replace("2|", "3|")
    assert unnumbered(other) == other and unnumbered(CODE) == CODE


def test_two_kernels_or_prose_behind_one_have_no_one_reading() -> None:
    other = WHOLE.replace("0", "1")
    assert problem_of(f"MOVE: x\n```cpp\n{WHOLE}```\nor\n```cpp\n{other}```") == "two_blocks"
    assert problem_of(f"MOVE: x\n{WHOLE}That should be twice as fast.\n") == "prose"
    assert problem_of(f"MOVE: x\n{CODE}") == "no_code", "who knows where that begins"


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        ("", "empty"),
        (" \n\t", "empty"),
        ("<think>hmm</think>", "empty"),
        ("I would rather not.", "no_code"),
        ("DONE:", "no_code"),
        ("MOVE: x\n```cpp\n\n```", "no_code"),
        (f"MOVE: x\n```cpp\n{CODE}", "truncated_fence"),
        (f"MOVE: x\n```cpp\n{CODE}```\n```cpp\n// {CODE}", "truncated_fence"),
        (f"MOVE: x\n```cpp\n{CODE}```\nor\n```cpp\n// {CODE}```", "two_blocks"),
        ("MOVE: x\n```diff\n--- a\n+++ b\n@@ -1 +1 @@\n-a\n+b\n```", "diff"),
        ("MOVE: x\n```cpp\n@@ -1,2 +1,2 @@ void run\n-a\n+b\n```", "diff"),
        (f"MOVE: x\n```diff\n-int y;\n+{CODE}```", "diff"),
        (f"MOVE: x\n``` Diff \n-int y;\n+{CODE}```", "diff"),
        (f"MOVE: x\n```cpp\nHere is the kernel with tiles:\n\n{CODE}```", "prose"),
        (f"MOVE: x\n```cpp\n{CODE}This should be twice as fast.\n```", "prose"),
        (f"```cpp\n{CODE}```", "no_move"),
        (f"DONE: enough\n```cpp\n{CODE}```", "code_and_refusal"),
        ("MOVE: x\n```cpp\n" + "x" * MAX_SOURCE_CHARS + "\n```", "too_long"),
        ("MOVE: x\n```cpp\n// \ud800\n```", "not_text"),
    ],
)
def test_each_bad_kernel_answer_has_its_name(answer: str, problem: str) -> None:
    assert problem_of(answer) == problem


def test_a_source_may_be_as_long_as_is_said() -> None:
    assert isinstance(kernel("MOVE: x\n```cpp\n" + "x" * (MAX_SOURCE_CHARS - 1) + "\n```"), Written)


@pytest.mark.parametrize(
    "shape",
    [
        "{}",
        "```json\n{}\n```",
        "Here:\n```json\n{}\n```\nDone.",
        "Sure: {} there.",
        "({})",
        "In {braces}:\n```json\n{}\n```\nSo {much} for that.",
        "```json\n{}",
    ],
)
def test_json_may_be_bare_fenced_or_in_prose(shape: str) -> None:
    assert parse_diagnosis(shape.replace("{}", json.dumps(DIAGNOSIS))) == Diagnosis(**DIAGNOSIS)
    assert parse_patch(shape.replace("{}", json.dumps(EDITS))) == Patch.model_validate(EDITS)


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        ("", "empty"),
        ("no", "no_json"),
        ("{'intent': 'x'}", "bad_json"),
        ('{"intent": "x"', "bad_json"),
        ('```json\n{"intent": ', "truncated_fence"),
        ('```json\n{"intent": \n```', "bad_json"),
        ('```\n{}\n```\n```\n{"a": 1}\n```', "two_blocks"),
        ('{"intent": ' + "9" * 5000 + "}", "bad_json"),
        (json.dumps({**DIAGNOSIS, "fix": " \n"}), "schema"),
        ('{"intent": "x"}', "schema"),
        (json.dumps({**DIAGNOSIS, "cause": 3}), "schema"),
        (json.dumps({**DIAGNOSIS, "more": "x"}), "schema"),
        (json.dumps({**DIAGNOSIS, "cause": "\ud800"}), "not_text"),
        ("{" * 100_000, "bad_json"),
    ],
)
def test_each_bad_diagnosis_has_its_name(answer: str, problem: str) -> None:
    assert problem_of(answer, parse_diagnosis) == problem


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        ("```diff\n-a\n+b\n```", "diff"),
        ("``` Diff \n-a\n+b\n```", "diff"),
        ("--- kernel.cu\n+++ kernel.cu\n@@ -1 +1 @@\n-a\n+b", "diff"),
        ('{"edits": []}', "schema"),
        ('{"edits": [{"kind": "replace", "line": 1, "text": "x"}]}', "schema"),
        ('{"edits": [{"kind": "replace", "line": "one", "expected": "", "text": "x"}]}', "schema"),
        ("Replace line 3.", "no_json"),
    ],
)
def test_each_bad_patch_has_its_name(answer: str, problem: str) -> None:
    assert problem_of(answer, parse_patch) == problem


def said(text: str, **bill: str) -> AIMessage:
    message = AIMessage(text)
    Bill(dollars=0.0, **bill).attach(message)
    return message


@pytest.mark.parametrize(
    ("message", "problem", "words"),
    [
        (said("", refusal="I will not."), "refused", 'You refused: "I will not."'),
        (said("", finish="content_filter"), "refused", "A filter withheld"),
        (said("", finish="length"), "cut_off", "answer shorter"),
        (said(f"MOVE: x\n```cpp\n{CODE}", finish="length"), "cut_off", "never closed"),
        (said("", finish="stop"), "empty", "The answer is empty"),
    ],
)
def test_the_end_of_an_answer_names_what_is_wrong_with_it(message: AIMessage, problem: str, words: str) -> None:
    with pytest.raises(AnswerError, match=words) as refused:
        read(message, kernel)
    assert refused.value.problem == problem


@pytest.mark.parametrize(
    "code",
    [
        "// Here is the kernel with tiles:\n",
        "/*\nHere is the kernel with tiles:\n*/\n",
        "struct S {\npublic:\n  int x;\n};\n",
        'auto s = "One sentence within the code.";\n',
        "template <class A, class B>\nTensor make(A a, B b) noexcept;\n",
    ],
)
def test_words_may_stand_in_comments_and_code_may_look_like_words(code: str) -> None:
    assert kernel(f"MOVE: x\n```cpp\n{code}```") == Written(source=code, move="x")


def test_an_answer_that_is_whole_before_its_limit_is_taken() -> None:
    whole = said(f"MOVE: x\n```cpp\n{CODE}```\nAnd then I would", finish="length")
    assert read(whole, kernel) == Written(source=CODE, move="x")


def test_an_endless_answer_goes_back_in_part() -> None:
    back = echo(said("a" * 100_000 + "b" * 100_000))
    assert len(back) < MAX_ECHO_CHARS + 100
    assert "160000 characters left out here" in back
    assert back.startswith("a")
    assert back.endswith("b")
    whole = "a" * MAX_ECHO_CHARS
    assert echo(said(whole)) == whole


def test_commas_before_closing_brackets_are_passed_over() -> None:
    assert parse_diagnosis(json.dumps(DIAGNOSIS)[:-1] + ",\n}") == Diagnosis(**DIAGNOSIS)
    text = {**DIAGNOSIS, "fix": "put `,]` before `,}`"}
    assert parse_diagnosis(json.dumps(text)[:-1] + " , }") == Diagnosis(**text)
    assert parse_patch(json.dumps(EDITS).replace("}]", "},]")) == Patch.model_validate(EDITS)


def test_json_that_breaks_off_is_told_where() -> None:
    with pytest.raises(AnswerError) as refused:
        parse_diagnosis('{"intent": "x"')
    assert str(refused.value) == (
        "The JSON object cannot be read: Expecting ',' delimiter: line 1 column 15 (char 14). Answer with one that can."
    )


def test_a_schema_error_names_the_field_that_is_wrong() -> None:
    with pytest.raises(AnswerError, match=r"edits\.0\.replace\.expected: Field required"):
        parse_patch('{"edits": [{"kind": "replace", "line": 1, "text": "x"}]}')


def test_the_repairer_may_decline() -> None:
    assert parse_patch("CANNOT: no line is to blame ") == Declined(reason="no line is to blame")
    changed_its_mind = f"CANNOT: no line is to blame\nOr is it?\n```json\n{json.dumps(EDITS)}\n```"
    assert parse_patch(changed_its_mind) == Patch.model_validate(EDITS)


def test_what_a_model_says_beside_its_answer_is_kept_short() -> None:
    long = "w" * 3000
    for declined in (kernel(f"DONE: {long}"), parse_patch(f"CANNOT: {long}")):
        assert declined == Declined(reason="w" * MAX_REASON_CHARS)
    moved = kernel(f"MOVE: {long} - because\n```cpp\n{CODE}```")
    assert isinstance(moved, Written)
    assert (moved.move, moved.why) == ("w" * MAX_MOVE_CHARS, "because")
    with pytest.raises(AnswerError) as refused:
        read(said("", refusal=long), kernel)
    assert str(refused.value).count("w") < MAX_REASON_CHARS + 20
    odd = {"edits": [{"kind": "delete"}] * (MAX_PROBLEMS + 5)}
    with pytest.raises(AnswerError) as misfit:
        parse_patch(json.dumps(odd))
    assert str(misfit.value).count("Field required") == MAX_PROBLEMS


@given(
    before=st.text(st.characters(codec="utf-8", exclude_characters="`~{}\r"), max_size=30),
    after=st.text(st.characters(codec="utf-8", exclude_characters="`~{}\r"), max_size=30),
    texts=st.lists(st.text(st.characters(codec="utf-8"), max_size=20).filter(str.strip), min_size=5, max_size=5),
    indent=st.sampled_from([None, 1]),
    fence=st.sampled_from(["", "```", "```json", "~~~~"]),
)
def test_json_comes_through_whatever_stands_around_and_within_it(
    before: str, after: str, texts: list[str], indent: int | None, fence: str
) -> None:
    """Fences, braces and newlines within strings are escaped or quoted by JSON, and prose without braces is none."""
    diagnosis = dict(zip(DIAGNOSIS, texts, strict=True))
    body = json.dumps(diagnosis, indent=indent)
    close = fence.rstrip("json")
    answer = f"{before}\n{fence}\n{body}\n{close}\n{after}" if fence else f"{before}\n{body}\n{after}"
    assert parse_diagnosis(answer) == Diagnosis(**diagnosis)


def read_or_refused(answer: str) -> None:
    for parse in (kernel, parse_diagnosis, parse_patch):
        try:
            parse(answer)
        except AnswerError as refused:
            assert refused.problem


@given(st.text(max_size=200))
def test_whatever_a_model_says_is_read_or_refused_by_name(answer: str) -> None:
    read_or_refused(answer)


PARTS = ["```", "```cpp", "~~~", "MOVE: a - b", "DONE: c", "int x;", "{", "}", '"edits"', ""]


@given(st.lists(st.sampled_from(PARTS), max_size=9))
def test_whatever_fences_a_model_writes_are_read_or_refused_by_name(parts: list[str]) -> None:
    read_or_refused("\n".join(parts))


# Without what ends a sentence: a text that reads like one is refused as prose, by intent.
UNENDING = st.text(st.characters(codec="utf-8", exclude_characters="`~\r.:!"), min_size=1)


@given(UNENDING.filter(lambda text: text.strip()))
def test_whatever_is_no_sentence_comes_through_unchanged(code: str) -> None:
    try:
        answer = kernel(f"MOVE: x\n```cpp\n{code}\n```")
    except AnswerError as refused:
        assert refused.problem == "diff"
    else:
        assert answer == Written(source=f"{code}\n", move="x")


@pytest.mark.parametrize("name", exemplars.names())
def test_no_line_of_a_real_kernel_is_taken_for_prose_or_a_diff(name: str) -> None:
    text = exemplars.load(name).text
    assert kernel(f"MOVE: x\n```cpp\n{text}```") == Written(source=text, move="x")


@pytest.mark.parametrize("table", ["A 0 0 0:", "X y z w.", "K 16 32 64 128:"])
def test_single_letters_and_numbers_in_a_row_are_no_sentence(table: str) -> None:
    assert kernel(f"MOVE: x\n```cpp\n{table}\n```") == Written(source=f"{table}\n", move="x")
