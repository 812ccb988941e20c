"""A person, or any program outside, as the model: the run stops at each question until somebody answers it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from langchain_core.language_models.base import LanguageModelInput
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.runnables import Runnable
from langgraph.types import interrupt

from harness.nouns.frozen import Frozen
from nodes.approval import answer_in, for_interfaces
from nodes.assessment import Critique, Diagnosis
from nodes.models.local import LocalModel, request_of
from nodes.models.replay import Said, calls_in
from nodes.models.written_calls import Offer, read_answer, say_calls, say_offers
from nodes.roles import Voice
from tools.patch import Patch


class Question(Frozen):
    """What waits for an answer. `answer_schema` is the JSON schema of the answer; absent where it is a code block.

    `tools` are those that may be called before, in the form of `nodes.models.written_calls`.
    """

    role: Voice
    messages: tuple[Said, ...]
    answer_schema: dict[str, Any] | None = None
    tools: tuple[Offer, ...] = ()

    @classmethod
    def read(cls, value: dict[str, Any]) -> Question:
        """The question out of what an interrupt carries."""
        return cls.model_validate({name: held for name, held in value.items() if name in cls.model_fields})

    def shown(self) -> dict[str, Any]:
        """What an interrupt carries: the question, and what chat interfaces need in order to show it."""
        return {**self.model_dump(mode="json"), **for_interfaces(self.text())}

    def text(self) -> str:
        """The messages one below the other, as one file to read; last the tools."""
        parts = [(said.type, said.content) for said in self.messages]
        parts += [("tools", say_offers(self.tools))] if self.tools else []
        return "\n".join(f"<!-- {kind} -->\n\n{content.rstrip()}\n" for kind, content in parts)


class ManualModel(LocalModel):
    """Interrupts the graph with a `Question`; the value that it is resumed with is the answer, or a tool call.

    Either may come as it is, or as Agent Inbox or LangChain's human in the loop send one. The graph needs a
    checkpointer, as every interrupt does. A resumed node runs again from its start, and the answers it had got before
    are given back to it in their order.
    """

    offers: tuple[Offer, ...] = ()

    @property
    def _llm_type(self) -> str:
        return "manual"

    def bind_tools(
        self, tools: Sequence[Any], *, tool_choice: str | None = None, **kwargs: Any
    ) -> Runnable[LanguageModelInput, AIMessage]:
        """This model with the tools named in its questions; with the choice "none" none is."""
        offers = () if tool_choice == "none" else tuple(map(Offer.of, tools))
        return self.model_copy(update={"offers": offers})

    def respond(self, messages: Sequence[BaseMessage]) -> AIMessage:
        """What somebody answered or called; a value that is no text is taken as the JSON it stands for."""
        role = request_of(messages).role
        question = Question(
            role=role, messages=tuple(map(_said, messages)), answer_schema=_schema(role), tools=self.offers
        )
        answer = answer_in(interrupt(question.shown()))
        text = answer if isinstance(answer, str) else json.dumps(answer)
        return read_answer(text, self.offers, call_id=f"call-{len(messages)}")


def _said(message: BaseMessage) -> Said:
    """A message for reading: a call stands there as it was written, not as one line of JSON."""
    calls = calls_in(message) if isinstance(message, AIMessage) else ()
    return Said(type=message.type, content=say_calls(calls, str(message.text)))


def _schema(role: Voice) -> dict[str, Any] | None:
    match role:
        case "diagnoser":
            return Diagnosis.model_json_schema()
        case "repairer":
            return Patch.model_json_schema()
        case "reviewer":
            return Critique.model_json_schema()
        case _:
            return None
