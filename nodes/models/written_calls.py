"""Tool calls as plain text, for whoever answers by hand: a line `TOOL: <name>`, then its argument in a code block."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Self

from langchain_core.messages import AIMessage, InvalidToolCall, ToolCall
from langchain_core.tools import BaseTool

from harness.nouns.frozen import Frozen
from nodes.models.replay import Called
from nodes.prompt_words import Block, fenced, split

_TOOL = re.compile(r"^[\s*_#]*TOOL[*_]*:[*_]*[ \t]*(?P<name>.*?)[*_`\s]*$", re.MULTILINE)

HOW_TO_CALL = """\
Before you answer you may call a tool; what it says comes with the next question. A call is a line with the tool's name,
and its one argument in a code block:

TOOL: compile_kernel

```cpp
// the whole source file
```
"""


class Offer(Frozen):
    """A tool that may be called: its name, what it does, its one argument and what belongs there."""

    name: str
    description: str
    argument: str
    meaning: str

    @classmethod
    def of(cls, tool: BaseTool) -> Self:
        """The offer of a tool. Raises `ValueError` for one that does not take exactly one argument."""
        [(argument, schema)] = tool.args.items()
        meaning = str(schema.get("description", ""))
        return cls(name=tool.name, description=tool.description, argument=argument, meaning=meaning)


def say_offers(offers: Sequence[Offer]) -> str:
    """The tools that may be called now, and in which form."""
    lines = (f"- `{offer.name}`: {offer.description} In the block: {offer.meaning}" for offer in offers)
    return f"{HOW_TO_CALL}\n" + "\n".join(lines)


def say_calls(calls: Sequence[Called], said: str = "") -> str:
    """What was said and called, as whoever answers by hand would write it; `read_answer` reads it again."""
    if not calls:
        return said
    written = (call.args if isinstance(call.args, str) else _written(call.name, call.args) for call in calls)
    return "\n\n".join(part for part in (said.strip(), *written) if part)


def read_answer(answer: str, offers: Sequence[Offer], call_id: str) -> AIMessage:
    """An answer as a message. With a line `TOOL:` it is a tool call; one that cannot be read tells what is wrong."""
    prose, blocks = split(answer.replace("\r\n", "\n"))
    named = _TOOL.findall(prose)
    if not named:
        return AIMessage(answer)
    if fault := _fault(named, blocks):
        wrong = InvalidToolCall(type="invalid_tool_call", id=call_id, name=named[0], args=answer, error=fault)
        return AIMessage("", invalid_tool_calls=[wrong])
    arguments = {offer.argument: _argument(blocks[0].text) for offer in offers if offer.name == named[0]}
    call = ToolCall(type="tool_call", id=call_id, name=named[0], args=arguments)
    return AIMessage(_TOOL.sub("", prose).strip(), tool_calls=[call])


def _fault(named: Sequence[str], blocks: Sequence[Block]) -> str:
    """What keeps an answer from being one call; empty where nothing does."""
    if len(named) > 1:
        return f"There are {len(named)} lines `TOOL:`. Call one tool at a time."
    if not blocks:
        return f"There is no code block below the line `TOOL: {named[0]}`. Put the tool's argument into one."
    if len(blocks) > 1:
        return f"There are {len(blocks)} code blocks. A call has one, with the tool's argument."
    return "" if blocks[0].closed else "The code block is never closed. Give the call again, whole."


def _argument(text: str) -> str:
    """What stands in a block; of several lines it is a file, which ends in a newline as an answer's does."""
    return f"{text}\n" if "\n" in text else text.strip()


def _written(name: str, arguments: dict[str, object]) -> str:
    return f"TOOL: {name}\n\n{fenced(''.join(map(str, arguments.values())))}"
