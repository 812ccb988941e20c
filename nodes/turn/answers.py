"""From a model's answer to what it means. Whatever is wrong with an answer has a name and goes back to the model."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, Literal, TypeVar

from langchain_core.messages import AIMessage
from pydantic import BaseModel, ValidationError

from harness.nouns.frozen import Frozen, SanitizedText
from nodes.assessment import Assessment, Critique, Diagnosis, Recommendations
from nodes.prompt_words import Block, split
from nodes.usage import Bill
from tools.patch import Patch, PatchError, unnumbered
from tools.sweep import Sweep, SweepError, read_sweep

MAX_SOURCE_CHARS = 400_000
MAX_ECHO_CHARS = 40_000
MAX_PROBLEMS = 8
MAX_MOVE_CHARS = 80
MAX_REASON_CHARS = 1000

AnswerProblem = Literal[
    "refused",
    "cut_off",
    "empty",
    "not_text",
    "no_code",
    "truncated_fence",
    "two_blocks",
    "diff",
    "too_long",
    "prose",
    "no_move",
    "unchanged",
    "failed_before",
    "code_and_refusal",
    "no_json",
    "bad_json",
    "schema",
    "patch",
    "structure",
    "sweep",
]

Model = TypeVar("Model", bound=BaseModel)
Answer = TypeVar("Answer")

_NO_HARM = "All that is asked for is a program that computes what the task says. Answer in the form that was asked for."

# Some templates open the thoughts in the prompt: the answer then holds the closing mark only.
_THINKING = re.compile(r"\A.*?</think>(?:\s*<think>.*?</think>)*", re.DOTALL)
_ENDLESS_THINKING = re.compile(r"\A\s*<think>")
# What may stand before a word of command: headings, quotations, marks of lists, emphasis, backticks, quotation marks.
_QUOTES = "\"'\N{LEFT DOUBLE QUOTATION MARK}\N{RIGHT DOUBLE QUOTATION MARK}"
_DRESS = rf"^[ \t]*(?:(?:[-+*>\N{{BULLET}}]|#+|\d+[.)])[ \t]+)*[>*_#`{_QUOTES}]*"
_REFUSAL = re.compile(rf"{_DRESS}(?:CANNOT|DONE)[*_`]*:[*_`]*[ \t]*(?P<reason>\S.*)$", re.MULTILINE)
_LOOSE_REFUSAL = re.compile(_REFUSAL.pattern, re.MULTILINE | re.IGNORECASE)
"""Beside a kernel "Done: it compiles" is a remark; where there is none it is the answer."""
_MOVE = re.compile(
    rf"{_DRESS}MOVE[*_`]*:[*_`]*[ \t]*(?P<name>\S.*?)(?:\s+[-\N{{EN DASH}}\N{{EM DASH}}]+\s+(?P<why>.*))?$",
    re.MULTILINE | re.IGNORECASE,
)
_EXPORT = re.compile(r"^\s*TVM_FFI_DLL_EXPORT_TYPED_FUNC\(\s*run\s*,", re.MULTILINE)
_FIRST_OF_A_SOURCE = re.compile(r"^(?:#[ \t]*(?:include|pragma|define|if|ifdef|ifndef)\b|//|/\*)", re.MULTILINE)
_COMMA_AT_THE_END = re.compile(r'("(?:\\.|[^"\\])*")|,(?=\s*[}\]])')
_EDITS = re.compile(r'^[ \t]*\{[^{}\[\]]*"edits"\s*:', re.MULTILINE)
_DIFF_FENCES = ("diff", "patch")
# Four words and more, the first with a capital, a full stop or colon at the end, and nothing that code is made of.
# One word at least is spelt out: single letters and numbers in a row are a table, not a sentence.
_SENTENCE = re.compile(r"^\s*(?=.*[a-z]{2})[A-Z][A-Za-z']*(?:,? [A-Za-z0-9'`-]+){3,}[.:!]$", re.MULTILINE)
_BLOCK_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
_DIFF = re.compile(r"^(?:@@ .* @@|--- .*\n\+\+\+ )", re.MULTILINE)


class AnswerError(ValueError):
    """An answer that cannot be used. The message tells the model what to do about it."""

    def __init__(self, problem: AnswerProblem, message: str) -> None:
        super().__init__(message)
        self.problem = problem


class Written(Frozen):
    """A kernel's source, the move that led to it and why; with a `sweep` where values of its constants are to try."""

    source: str
    move: SanitizedText
    why: SanitizedText = ""
    sweep: Sweep | None = None


class Declined(Frozen):
    """The model says that it cannot, or that nothing is left to try."""

    reason: SanitizedText


def parse_kernel(answer: str, *, move_required: bool) -> Written | Declined:
    """The generator's or optimizer's answer. Raises `AnswerError`."""
    text = _readable(answer)
    prose, blocks = split(text)
    if not blocks:
        prose, blocks = _unfenced(text)
    if not blocks:
        if refusal := _LOOSE_REFUSAL.search(prose):
            return _declined(refusal)
        raise AnswerError("no_code", "There is no fenced code block. Give the whole source file in one ```cpp block.")
    _require_no_refusal(prose, "a code block")
    block = _only(blocks)
    if block.info.lower() in _DIFF_FENCES:
        raise AnswerError("diff", "The code block is a diff. Give the whole source file as it shall stand.")
    source = unnumbered(block.text) + "\n"  # as the prompt shows the kernel
    _check_source(source)
    return _moved(source, prose, move_required=move_required)


def parse_move(answer: str, present: str, *, max_sweep: int) -> Written | Declined:
    """The optimizer's answer, with the sweep that its source declares, if any: a whole source, or edits to `present`.

    Raises `AnswerError`, and `PatchError` for edits that do not fit the present source.
    """
    text = _readable(answer)
    edits = _edits_in(text)
    written = parse_kernel(answer, move_required=True) if edits is None else _edited(*edits, present)
    if isinstance(written, Declined):
        return written
    try:
        source, sweep = read_sweep(written.source, max_sweep)
    except SweepError as error:
        raise AnswerError("sweep", str(error)) from error
    return written.model_copy(update={"source": source, "sweep": sweep})


def parse_diagnosis(answer: str) -> Diagnosis:
    """The diagnoser's answer. Raises `AnswerError`."""
    return _model(Diagnosis, _json(_readable(answer)))


def parse_assessment(answer: str) -> Assessment:
    """A verifier's answer. Raises `AnswerError`."""
    return _model(Assessment, _json(_readable(answer)))


def parse_recommendations(answer: str) -> Recommendations:
    """The summarizer's answer. Raises `AnswerError`."""
    return _model(Recommendations, _json(_readable(answer)))


def parse_critique(answer: str) -> Critique:
    """The reviewer's answer. Raises `AnswerError`."""
    return _model(Critique, _json(_readable(answer)))


def parse_patch(answer: str) -> Patch | Declined:
    """The repairer's answer. Raises `AnswerError`."""
    text = _readable(answer)
    prose, blocks = split(text)
    if not blocks and (refusal := _LOOSE_REFUSAL.search(prose)):
        return _declined(refusal)
    if _looks_like_diff(text, blocks):
        raise AnswerError("diff", 'This is a diff. Answer with one JSON object {"edits": [...]} of line edits instead.')
    return _model(Patch, _json(text))


def read(message: AIMessage, parse: Callable[[str], Answer]) -> Answer:
    """Read a message by `parse`. What the endpoint says of its end names what else is wrong with it.

    Raises `AnswerError`, and what `parse` raises.
    """
    bill = Bill.of(message)
    if bill.refusal:
        raise AnswerError("refused", f'You refused: "{_one_line(bill.refusal)[:MAX_REASON_CHARS]}" {_NO_HARM}')
    try:
        return parse(str(message.text))
    except (AnswerError, PatchError) as error:
        if bill.finish == "length":
            told = "Your answer reached the limit of its length and was cut off there. Think less and answer shorter."
            raise AnswerError("cut_off", f"{told} {error}") from error
        if bill.finish == "content_filter":
            raise AnswerError("refused", f"A filter withheld your answer. {_NO_HARM}") from error
        raise


def echo(message: AIMessage) -> str:
    """The answer as it goes back to a model that has to give another: one that is far too long does not go whole."""
    return _shortened(str(message.text))


def echo_calls(message: AIMessage) -> AIMessage:
    """A message with calls as it goes back to its model: unreadable arguments are shortened like an answer."""
    unread = [call | {"args": _shortened(call["args"] or "")} for call in message.invalid_tool_calls]
    return message.model_copy(update={"invalid_tool_calls": unread})


def _shortened(text: str) -> str:
    if len(text) <= MAX_ECHO_CHARS:
        return text
    half = MAX_ECHO_CHARS // 2
    return f"{text[:half]}\n({len(text) - 2 * half} characters left out here)\n{text[-half:]}"


def _readable(answer: str) -> str:
    """The answer without a leading chain of thought, if it is text at all."""
    text = _THINKING.sub("", answer).replace("\r\n", "\n").replace("\N{BYTE ORDER MARK}", "")
    if _ENDLESS_THINKING.match(text):
        raise AnswerError("cut_off", "The answer ends within its thoughts. Think less, then answer as was asked for.")
    if not text.strip():
        raise AnswerError("empty", "The answer is empty. Answer in the form that was asked for.")
    return _utf8(text)


def _utf8(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise AnswerError(
            "not_text", f"The answer holds half a character (a lone surrogate): {error.reason}."
        ) from error
    return text


def _declined(refusal: re.Match[str]) -> Declined:
    return Declined(reason=_one_line(refusal["reason"])[:MAX_REASON_CHARS])


def _unfenced(text: str) -> tuple[str, list[Block]]:
    """A source that stands in no fence: from its first line, which nothing but code begins like, to the end."""
    first = _FIRST_OF_A_SOURCE.search(text)
    if first is None or not _EXPORT.search(text, first.start()):
        return text, []
    return text[: first.start()], [Block("", text[first.start() :].rstrip("\n"), closed=True)]


def _only(blocks: list[Block]) -> Block:
    """The block that holds the answer: the one there is, or beside snippets the one that exports the entry point.

    The same block twice is one.
    """
    different = [*{block.text.strip(): block for block in sorted(blocks, key=lambda each: each.closed)}.values()]
    whole = [block for block in different if _EXPORT.search(block.text)]
    chosen = whole if len(whole) == 1 else different
    if not all(block.closed for block in chosen):
        raise AnswerError(
            "truncated_fence",
            "The code block is never closed: the answer was cut off. Give the whole file again, shorter if need be.",
        )
    if len(chosen) > 1:
        raise AnswerError(
            "two_blocks", f"There are {len(chosen)} code blocks. Give exactly one, holding the whole source file."
        )
    return chosen[0]


def _check_source(source: str) -> None:
    if not source.strip():
        raise AnswerError("no_code", "The code block is empty. Give the whole source file.")
    if _DIFF.search(source):
        raise AnswerError("diff", "The code block holds a diff. Give the whole source file as it shall stand.")
    if prose := _SENTENCE.search(_BLOCK_COMMENT.sub("", source)):
        raise AnswerError(
            "prose",
            f'There is prose in the code block: "{prose[0].strip()}" Put it above the block, or into a comment.',
        )
    if len(source) > MAX_SOURCE_CHARS:
        raise AnswerError(
            "too_long", f"The source has {len(source)} characters; at most {MAX_SOURCE_CHARS} are accepted."
        )


def _moved(source: str, prose: str, *, move_required: bool) -> Written:
    """A source with the move that the words around it name."""
    move = _MOVE.search(prose)
    if move is None and move_required:
        raise AnswerError("no_move", "The line `MOVE: <name> - <why>` above the code block is missing.")
    if move is None:
        return Written(source=source, move="first kernel")
    return Written(source=source, move=_one_line(move["name"])[:MAX_MOVE_CHARS], why=_one_line(move["why"] or ""))


def _require_no_refusal(prose: str, beside: str) -> None:
    if refusal := _REFUSAL.search(prose):
        raise AnswerError(
            "code_and_refusal", f'There is {beside} and the line "{refusal[0].strip()}". Give one or the other.'
        )


def _edits_in(text: str) -> tuple[str, str] | None:
    """The JSON object of an answer that gives edits in place of a source, and the words around it; None without one.

    Beside a whole kernel such an object is a remark.
    """
    prose, blocks = split(text)
    if any(_EXPORT.search(block.text) for block in blocks):
        return None
    for block in blocks:
        if _EDITS.search(block.text):
            return block.text, prose
    found = _EDITS.search(prose)
    return (prose[found.start() :], prose[: found.start()] + prose[prose.rfind("}") + 1 :]) if found else None


def _edited(edits: str, prose: str, present: str) -> Written:
    """The present source with an answer's edits."""
    _require_no_refusal(prose, "an object of edits")
    source = _model(Patch, _json(edits)).apply(present)
    _check_source(source)
    return _moved(source, prose, move_required=True)


def _looks_like_diff(text: str, blocks: list[Block]) -> bool:
    return any(block.info.lower() in _DIFF_FENCES for block in blocks) or bool(_DIFF.search(text))


def _json(text: str) -> Any:
    """The JSON object of an answer: bare, fenced, or with prose around it."""
    _, blocks = split(text)
    if len({block.text.strip() for block in blocks}) > 1:
        raise AnswerError("two_blocks", f"There are {len(blocks)} code blocks. Give exactly one JSON object.")
    body = blocks[0].text if blocks else text
    start, end = body.find("{"), body.rfind("}")
    if start < 0:
        raise AnswerError("no_json", "There is no JSON object in the answer. Answer with one, and nothing else.")
    if blocks and not blocks[0].closed and end < start:
        raise AnswerError("truncated_fence", "The JSON object breaks off: the answer was cut. Give it whole, shorter.")
    try:
        return _loaded(body[start : end + 1] if end > start else body[start:])
    except (ValueError, RecursionError) as error:  # a whole number of thousands of digits is a ValueError alone
        raise AnswerError("bad_json", f"The JSON object cannot be read: {error}. Answer with one that can.") from error


def _loaded(body: str) -> Any:
    """The value; a comma before a closing bracket, which many write and JSON forbids, is passed over."""
    try:
        return json.loads(body)
    except json.JSONDecodeError:
        return json.loads(_COMMA_AT_THE_END.sub(lambda found: found[1] or "", body))


def _model(kind: type[Model], data: Any) -> Model:
    try:
        made = kind.model_validate(data)
    except ValidationError as error:
        problems = [f"- {'.'.join(str(part) for part in found['loc'])}: {found['msg']}" for found in error.errors()]
        lines = ["The JSON object does not fit the schema:", *problems[:MAX_PROBLEMS]]
        raise AnswerError("schema", "\n".join(lines)) from error
    # JSON escapes can spell half a character, which the answer's own text did not show.
    _utf8(json.dumps(data, ensure_ascii=False))
    return made


def _one_line(text: str) -> str:
    return " ".join(text.split()).strip(f"*_` {_QUOTES}")
