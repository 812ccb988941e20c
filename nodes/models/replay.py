"""A recorded conversation, given back: the same prompt gets the same answer."""

from __future__ import annotations

import difflib
import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

from langchain_core.messages import AIMessage, BaseMessage, InvalidToolCall, ToolCall
from pydantic import PrivateAttr, ValidationError

from harness.nouns.called import TOO_FEW
from harness.nouns.errors import UserError
from harness.nouns.frozen import Frozen
from harness.nouns.reading import cause, read_text
from nodes.models.errors import ReplayMismatchError
from nodes.models.local import LocalModel, request_of
from nodes.roles import Voice
from nodes.state import Usage
from nodes.usage import Bill
from tools.wording import UNDECIDED

# -- One exchange with a model as `conversation.jsonl` keeps it, a JSON object a line. Runs write it, replay reads  ---


class Said(Frozen):
    """One message of a prompt: LangChain's type ("system", "human", "ai", "tool") and its text, tool calls included."""

    type: str
    content: str


class Called(Frozen):
    """A tool call in an answer. `args` is the text itself where it could not be read; `error` may say why."""

    id: str
    name: str
    args: dict[str, Any] | str
    error: str = ""


class Exchange(Frozen):
    """A prompt and its answer, which may call tools.

    `finish` and `refusal` are as in `nodes.usage.Bill`. `index` counts a run's exchanges from 0; `prompt_sha256`
    is `digest_of(prompt)`.
    """

    index: int
    role: Voice
    prompt_sha256: str
    prompt: tuple[Said, ...]
    answer: str
    tool_calls: tuple[Called, ...] = ()
    usage: Usage = Usage()
    finish: str = ""
    refusal: str = ""

    def line(self) -> str:
        """This exchange as one line of `conversation.jsonl`, newline included."""
        return self.model_dump_json() + "\n"


def prompt_of(messages: Sequence[BaseMessage]) -> tuple[Said, ...]:
    """The messages' types and texts: all that a language model gets to see of them."""
    return tuple(Said(type=message.type, content=_content(message)) for message in messages)


def digest_of(prompt: Sequence[Said]) -> str:
    """SHA-256 of the prompt as compact JSON, in hex."""
    plain: list[dict[str, Any]] = [said.model_dump() for said in prompt]
    return hashlib.sha256(json.dumps(plain, separators=(",", ":"), ensure_ascii=True).encode()).hexdigest()


def exchange(
    index: int, role: Voice, messages: Sequence[BaseMessage], answer: AIMessage, usage: Usage | None = None
) -> Exchange:
    """The exchange that these messages and this answer make."""
    prompt = prompt_of(messages)
    bill = Bill.of(answer)
    return Exchange(
        index=index,
        role=role,
        prompt_sha256=digest_of(prompt),
        prompt=prompt,
        answer=str(answer.text),
        tool_calls=calls_in(answer),
        usage=usage or Usage(),
        finish=bill.finish,
        refusal=bill.refusal,
    )


def calls_in(message: AIMessage) -> tuple[Called, ...]:
    """The tool calls of an answer, those that cannot be read last."""
    read = (Called(id=call["id"] or "", name=call["name"], args=call["args"]) for call in message.tool_calls)
    unread = (
        Called(id=call["id"] or "", name=call["name"] or "", args=call["args"] or "", error=call["error"] or "")
        for call in message.invalid_tool_calls
    )
    return (*read, *unread)


def _content(message: BaseMessage) -> str:
    calls = calls_in(message) if isinstance(message, AIMessage) else ()
    return "\n".join([str(message.text), *(f"{call.name}({json.dumps(call.args, sort_keys=True)})" for call in calls)])


# -- A recorded conversation, given back: the same prompt gets the same answer ----------------------------------------


_NUMBER = re.compile(r"[-+]?\d+(?:\.\d+)?(?:e[+-]?\d+)?", re.IGNORECASE)
_MEASURE = re.compile(r", by (?:CPU time\b|wall and CPU time\b|wall time alone, because [\w ]+)")
_FENCE = re.compile(r"(?P<ticks>`{3,})(?P<language>\w*)")
_HEADING = re.compile(r"#{1,2} (?P<title>.*)")
_OF_THE_MACHINE = (
    "The machine",
    "What the compiler says",
    "What such messages have meant before",
    "How fast it is",
    "What became of its loops",
    "Its profile",
    "Lessons from other runs",
)
"""Sections of a prompt that another processor, another version of the compiler or another archive words in another
way."""
_DIFF_LINES = 16
_REMEDY = (
    "Replay with the task, the settings and the version that the conversation was recorded with, or name another model."
)


class ReplayModel(LocalModel):
    """Answers from `exchanges`; a prompt recorded several times gets its answers in the recorded order.

    A prompt is looked up by role and digest, then once more without the numbers and line breaks outside its code
    blocks, and without what the machine and its compiler say, in sections and by tools: a replayed kernel is timed
    anew and never takes exactly as long. Every answer carries the recorded tokens and dollars, so that budgets end
    the run where they ended it before.
    """

    calls_tools: ClassVar[bool] = True
    exchanges: tuple[Exchange, ...]
    origin: str = "the recording"
    _given: set[int] = PrivateAttr(default_factory=set)

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read `conversation.jsonl`. Raises `UserError` where it is missing, empty or not a conversation."""
        return cls(exchanges=tuple(_without_repeats(_read(path))), origin=str(path))

    @property
    def _llm_type(self) -> str:
        return "replay"

    def respond(self, messages: Sequence[BaseMessage]) -> AIMessage:
        """The recorded answer to these messages. Raises `ReplayMismatchError` where there is none."""
        role, prompt = request_of(messages).role, prompt_of(messages)
        matching = self._matching(role, prompt)
        if not matching:
            raise self._unknown(role, prompt)
        for recorded in matching:
            if recorded.index not in self._given:
                self._given.add(recorded.index)
                return _message(recorded)
        raise ReplayMismatchError(
            f"The {role} asked a question again that {self.origin} answers only {len(matching)} times.",
            _REMEDY,
        )

    def _matching(self, role: Voice, prompt: Sequence[Said]) -> list[Exchange]:
        digest, blurred = digest_of(prompt), _blurred(prompt)
        own = [recorded for recorded in self.exchanges if recorded.role == role]
        exact = [recorded for recorded in own if recorded.prompt_sha256 == digest]
        if any(recorded.index not in self._given for recorded in exact):
            return exact
        return [recorded for recorded in own if _blurred(recorded.prompt) == blurred]

    def _unknown(self, role: Voice, prompt: Sequence[Said]) -> ReplayMismatchError:
        own = [recorded for recorded in self.exchanges if recorded.role == role]
        if not own:
            return ReplayMismatchError(f"{self.origin} holds no answer of the {role}.", _REMEDY)
        unused = [recorded for recorded in own if recorded.index not in self._given] or own
        asked = _text(prompt)
        nearest = max(unused, key=lambda recorded: _likeness(_text(recorded.prompt), asked))
        return ReplayMismatchError(
            f"The {role} asked something that {self.origin} does not hold. Nearest is exchange {nearest.index}:",
            _REMEDY,
            _difference(_text(nearest.prompt), asked),
        )


def _read(path: Path) -> list[Exchange]:
    remedy = "Name a conversation.jsonl that a run has written: replay:<run folder>/conversation.jsonl."
    try:
        # What is no newline to a file is one to splitlines: an answer may hold such a character.
        lines = read_text(path).removesuffix("\n").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path} cannot be read as a conversation: {cause(error)}.", remedy) from error
    exchanges: list[Exchange] = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            exchanges.append(Exchange.model_validate_json(line))
        except ValidationError as error:
            first = error.errors()[0]
            # A run that was killed while it wrote leaves half a line at the end: what stands before it is whole.
            if number == len(lines) and first["type"] == "json_invalid" and exchanges:
                break
            where = ".".join(str(part) for part in first["loc"])
            raise UserError(
                f"{path}, line {number}, is no exchange: {where or 'JSON'}: {first['msg']}.", remedy
            ) from error
    if not exchanges:
        raise UserError(f"{path} holds no exchange.", remedy)
    return exchanges


def _without_repeats(exchanges: Iterable[Exchange]) -> list[Exchange]:
    """A resumed run writes the exchange it was killed in once more, under the same index: the later one counts."""
    by_index = {recorded.index: recorded for recorded in exchanges}
    return [by_index[index] for index in sorted(by_index)]


def _message(recorded: Exchange) -> AIMessage:
    usage = recorded.usage
    message = AIMessage(
        recorded.answer,
        tool_calls=[
            ToolCall(type="tool_call", id=call.id, name=call.name, args=call.args)
            for call in recorded.tool_calls
            if isinstance(call.args, dict)
        ],
        invalid_tool_calls=[
            InvalidToolCall(
                type="invalid_tool_call", id=call.id, name=call.name, args=call.args, error=call.error or None
            )
            for call in recorded.tool_calls
            if isinstance(call.args, str)
        ],
        usage_metadata={
            "input_tokens": usage.input_tokens,
            "output_tokens": usage.output_tokens,
            "total_tokens": usage.input_tokens + usage.output_tokens,
            "input_token_details": {"cache_read": usage.cached_tokens},
        },
    )
    fell_back = usage.fell_back[0] if usage.fell_back else None
    Bill(
        dollars=None if usage.unpriced_calls else usage.dollars,
        fell_back=fell_back,
        finish=recorded.finish,
        refusal=recorded.refusal,
    ).attach(message)
    return message


def _text(prompt: Sequence[Said]) -> list[str]:
    return [line for said in prompt for line in (f"[{said.type}]", *said.content.splitlines())]


def _blurred(prompt: Sequence[Said]) -> str:
    """The code as it stands, and the words around it: seeds, times, rates and machines differ from run to run.

    Of what a tool says on a kernel, the first line: the rest is the compiler's or machine's. So is in that line
    whether the machine was too busy for its head-to-head, and by which measure that was decided. An interval that was
    open is any other one.
    """
    texts = ((said.type, _MEASURE.sub("", _lasting(said)).replace(TOO_FEW, "0 to 0")) for said in prompt)
    return " ".join(word for kind, text in texts for word in (f"[{kind}]", *_steady(text)))


def _lasting(said: Said) -> str:
    from_a_guide = said.content.startswith("#")
    if said.type != "tool" or from_a_guide:
        return said.content
    return said.content.partition("\n")[0].replace(UNDECIDED, "")


def _steady(text: str) -> Iterator[str]:
    """Code lines whole, prose as words without numbers, and nothing of the machine's own sections.

    What a report says stands in a fence marked as text: it is prose.
    """
    fence, prose, passed_over = "", True, False
    for line in text.splitlines():
        mark = _FENCE.match(line)
        heading = None if fence else _HEADING.match(line)
        if heading:
            passed_over = heading["title"] in _OF_THE_MACHINE
        if not passed_over:
            yield from _NUMBER.sub("#", line).split() if prose else (f"{line}\n",)
        if mark and not fence:
            fence, prose = mark["ticks"], mark["language"] == "text"
        elif mark and mark["ticks"] == fence:
            fence, prose = "", True


def _likeness(recorded: list[str], asked: list[str]) -> float:
    """Share of lines in common, in 0..1. Exact alignment would take seconds on long prompts."""
    common = Counter(recorded) & Counter(asked)
    return 2 * common.total() / max(1, len(recorded) + len(asked))


def _difference(recorded: list[str], asked: list[str]) -> str:
    lines = list(difflib.unified_diff(recorded, asked, "recorded", "asked now", n=1, lineterm=""))
    hidden = len(lines) - _DIFF_LINES
    return "\n".join(lines[:_DIFF_LINES] + ([f"... {hidden} more lines differ or surround"] if hidden > 0 else []))
