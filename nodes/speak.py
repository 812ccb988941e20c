"""One question to a model: ask, read the answer, and send an unusable one back, a bounded number of times."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage

from nodes.answers import AnswerError
from nodes.models.conversation import exchange
from nodes.models.usage import usage_of
from nodes.prompts import messages_for
from nodes.recording import record
from nodes.request import Request
from nodes.state import Usage
from nodes.workshop import Workshop
from tools.patch import PatchError

Answer = TypeVar("Answer")


class ModelUnusableError(Exception):
    """The model's answers stayed unusable. `usage` is what asking cost."""

    def __init__(self, message: str, usage: Usage) -> None:
        super().__init__(message)
        self.usage = usage


@dataclass(frozen=True)
class Spoken(Generic[Answer]):
    """What the model said, read, and what it cost."""

    answer: Answer
    usage: Usage


def speak(request: Request, parse: Callable[[str], Answer], *, workshop: Workshop, asked: int) -> Spoken[Answer]:
    """Put `request` to the model of its role and read the answer with `parse`.

    `asked` counts the run's exchanges before this one. An `AnswerError` or `PatchError` from `parse` goes back to the
    model, `max_reasks` times; then `ModelUnusableError` is raised.
    """
    model = workshop.model(request.role)
    messages: list[BaseMessage] = list(messages_for(request))
    usage = Usage()
    while True:
        started = time.monotonic()
        message = model.invoke(messages)
        cost = usage_of(message, time.monotonic() - started)
        text = str(message.text)
        if workshop.settings.run_dir:
            record(workshop.settings.run_dir, exchange(asked + usage.calls, request.role, messages, text, cost))
        usage += cost
        try:
            return Spoken(parse(text), usage)
        except (AnswerError, PatchError) as error:
            if usage.calls > workshop.settings.max_reasks:
                raise ModelUnusableError(_given_up(request, usage.calls, error), usage) from error
            messages += [
                AIMessage(text),
                HumanMessage(f"Your answer cannot be used.\n{error}\nAnswer again, complete."),
            ]


def _given_up(request: Request, calls: int, error: Exception) -> str:
    last = str(error).splitlines()[0]
    return f"The {request.role}'s model gave {calls} answers in a row that cannot be used; the last one: {last}"
