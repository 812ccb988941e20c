"""What was said to the models and what they answered, by the step of the run that it belongs to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from nodes.models.conversation import Called, Exchange, Said
from nodes.state import Step

MOST_CHARS, MOST_OF_ONE = 400_000, 16_000
"""Of all messages together and of a single one: a page that holds more is slow to open on a phone."""


@dataclass(frozen=True)
class Message:
    """One message. `same_as` names the place where the same text stands already, `left` characters are not shown."""

    kind: str
    text: str
    place: str
    same_as: str = ""
    left: int = 0


@dataclass(frozen=True)
class Turn:
    """One agent's turn: the last of its prompts, which holds the earlier ones, and the answer."""

    step: Step | None
    role: str
    exchanges: int
    index: int
    tokens: int
    messages: list[Message] = field(default_factory=list)


def turns(exchanges: Sequence[Exchange], steps: Sequence[Step]) -> list[Turn]:
    """The turns in the order of the steps; at the end those that belong to none, as of a step that was stopped."""
    known = {exchange.index: exchange for exchange in exchanges}
    pages = _Pages()
    found, begun = [], 0
    for step in steps:
        said = [known[index] for index in range(begun, begun + step.usage.calls) if index in known]
        begun += step.usage.calls
        if said and all(each.role == step.agent for each in said):
            found.append(_turn(step, said, pages))
            for each in said:
                del known[each.index]
    return [*found, *(_turn(None, [each], pages) for each in known.values())]


class _Pages:
    """The room that is left for messages, and where each text stands."""

    def __init__(self) -> None:
        self.room = MOST_CHARS
        self.places: dict[str, str] = {}

    def message(self, kind: str, text: str, place: str) -> Message:
        """The message as far as there is room for it."""
        if before := self.places.get(text):
            return Message(kind, "", place, same_as=before)
        shown = text[: min(MOST_OF_ONE, self.room)]
        self.room -= len(shown)
        if len(shown) == len(text):
            self.places[text] = place
        return Message(kind, shown, place, left=len(text) - len(shown))


def _turn(step: Step | None, said: list[Exchange], pages: _Pages) -> Turn:
    last = said[-1]
    spoken = [*_kinds(last.prompt), ("answer", _answer(last))]
    return Turn(
        step=step,
        role=last.role,
        exchanges=len(said),
        index=last.index,
        tokens=sum(each.usage.tokens for each in said),
        messages=[pages.message(kind, text, f"said-{last.index}-{at}") for at, (kind, text) in enumerate(spoken)],
    )


def _kinds(prompt: Sequence[Said]) -> Iterator[tuple[str, str]]:
    names = {"human": "asked", "ai": "answered before", "system": "system", "tool": "a tool's answer"}
    for each in prompt:
        yield names.get(each.type, each.type), each.content


def _answer(exchange: Exchange) -> str:
    return "\n".join([exchange.answer, *map(_called, exchange.tool_calls), *filter(None, [exchange.refusal])]).strip()


def _called(call: Called) -> str:
    return f"{call.name}({call.args})"
