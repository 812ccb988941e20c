"""One exchange with a model as `conversation.jsonl` keeps it, a JSON object a line. Runs write it, replay reads it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage

from harness.nouns.frozen import Frozen
from nodes.models.usage import Bill
from nodes.roles import Voice
from nodes.state import Usage


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

    `finish` and `refusal` are as in `nodes.models.usage.Bill`. `index` counts a run's exchanges from 0; `prompt_sha256`
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
