"""A person, or any program outside, as the model: the run stops at each question until somebody answers it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage
from langgraph.types import interrupt

from harness.frozen import Frozen
from nodes.diagnosis import Diagnosis
from nodes.models.conversation import Said, prompt_of
from nodes.models.local import LocalModel, request_of
from nodes.roles import Speaker
from tools.patch import Patch


class Question(Frozen):
    """What waits for an answer. `answer_schema` is the JSON schema of the answer; absent where it is a code block."""

    role: Speaker
    messages: tuple[Said, ...]
    answer_schema: dict[str, Any] | None = None

    def text(self) -> str:
        """The messages one below the other, as one file to read."""
        return "\n".join(f"<!-- {said.type} -->\n\n{said.content.rstrip()}\n" for said in self.messages)


class ManualModel(LocalModel):
    """Interrupts the graph with a `Question`; the value that it is resumed with is the answer.

    The graph needs a checkpointer, as every interrupt does. A resumed node runs again from its start, and the answers
    it had got before are given back to it in their order.
    """

    @property
    def _llm_type(self) -> str:
        return "manual"

    def respond(self, messages: Sequence[BaseMessage]) -> AIMessage:
        """The answer that somebody gave; a value that is no text is taken as the JSON it stands for."""
        role = request_of(messages).role
        question = Question(role=role, messages=prompt_of(messages), answer_schema=_schema(role))
        answer = interrupt(question.model_dump(mode="json"))
        return AIMessage(answer if isinstance(answer, str) else json.dumps(answer))


def _schema(role: Speaker) -> dict[str, Any] | None:
    match role:
        case "diagnoser":
            return Diagnosis.model_json_schema()
        case "repairer":
            return Patch.model_json_schema()
        case _:
            return None
