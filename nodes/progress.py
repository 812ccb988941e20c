"""Who is told what happens while a node runs: the graph's custom stream, and whoever drives the graph."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from contextvars import Context, ContextVar, copy_context
from typing import Any, TypeVar

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, LLMResult
from langchain_core.tracers.context import register_configure_hook
from pydantic import BaseModel
from tenacity import RetryCallState

from harness.nouns.events import Event
from harness.wire.stopping import Stop, present, stoppable
from harness.wire.telling import tell, telling
from nodes.events import (
    AgentEnded,
    AgentStarted,
    Answered,
    Answering,
    Asked,
    NewBest,
    Profiled,
    Progress,
    Stopping,
    ToolEnded,
    ToolStarted,
    Working,
)
from nodes.state import Usage
from nodes.usage import usage_of

Listen = Callable[[Progress], None]
Made = TypeVar("Made")
SILENCE_S = 0.9
"""So long nothing may happen untold. A client is told something every second, whatever a node waits for."""

_listen: ContextVar[Listen | None] = ContextVar("listen", default=None)
_region: ContextVar[str] = ContextVar("region", default="")
_writing: ContextVar[bool] = ContextVar("writing", default=False)


@contextmanager
def listening(listen: Listen) -> Iterator[None]:
    """Have `listen` told of every node that runs within, beside those who are told already; from any thread."""
    before = _listen.get()

    def both(progress: Progress) -> None:
        listen(progress)
        if before:
            before(progress)

    token = _listen.set(both)
    try:
        yield
    finally:
        _listen.reset(token)


@contextmanager
def about_region(name: str) -> Iterator[None]:
    """Have what the nodes that begin within tell of be told as that of a model's region."""
    token = _region.set(name)
    try:
        yield
    finally:
        _region.reset(token)


@contextmanager
def reporting(agent: str, write: Callable[[Any], None], state: BaseModel) -> Iterator[None]:
    """Tell of what a node does while it runs: `write` is its graph's stream, which an outer graph's shows, too."""
    around = copy_context()  # the stream wants to know whose it is, in whichever thread

    def to_stream(progress: Progress) -> None:
        around.copy().run(write, progress.model_dump(mode="json"))

    with ExitStack() as held:
        if outermost := not _writing.get():
            token = _writing.set(True)
            held.callback(_writing.reset, token)
            held.enter_context(listening(to_stream))
        reporter = _Reporter(agent, _listen.get() or to_stream, beats=outermost)
        held.enter_context(telling(reporter.tell))
        heard = hearing.set(Hearing())
        held.callback(hearing.reset, heard)
        held.enter_context(reporter)
        tell(_started(state))
        try:
            yield
        except BaseException:
            tell(AgentEnded(finished=False))
            raise
        tell(AgentEnded())


def tell_of(update: dict[str, Any], state: BaseModel) -> None:
    """Tell what a node's update brings: a new best kernel, a profile, the run's end."""
    best, before = update.get("best"), getattr(state, "best", None)
    if best is not None and (before is None or best.candidate.digest != before.candidate.digest):
        timing = best.verdict.timing
        interval = timing.speedup_interval if timing else None
        tell(NewBest(candidate=best.candidate.digest, speedup=timing.speedup if timing else None, interval=interval))
    if (profile := update.get("profile")) is not None:
        tell(Profiled(bound=profile.bound))
    if (stop := update.get("stop_reason")) is not None:
        tell(Stopping(reason=stop.name, message=stop.message))


def apart(work: Callable[[], Made]) -> Made:
    """Run a graph that must not take itself for a part of the one that runs here. It is told of, and ended, with it."""

    def alone(stop: Stop | None, listen: Listen | None, writing: bool, region: str) -> Made:
        _listen.set(listen)
        _writing.set(writing)
        with about_region(region), stoppable(stop):
            return work()

    return Context().run(alone, present(), _listen.get(), _writing.get(), _region.get())


def _started(state: BaseModel) -> AgentStarted:
    known = {name: getattr(state, name) for name in AgentStarted.model_fields if hasattr(state, name)}
    return AgentStarted(**known)


class _Reporter:
    """Adds node and clock to events, and says that it still works where none comes."""

    def __init__(self, agent: str, listen: Listen, *, beats: bool) -> None:
        self._agent, self._listen, self._beats = agent, listen, beats
        self._region = _region.get()
        self._began = self._told_s = time.monotonic()
        self._doing = ""
        self._ended = threading.Event()
        self._lock = threading.Lock()

    def __enter__(self) -> _Reporter:
        if self._beats:
            threading.Thread(target=self._beat, name=f"{self._agent}-tells", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._ended.set()

    def tell(self, event: Event) -> None:
        """Pass an event on; none after the node's end."""
        with self._lock:
            if self._ended.is_set():
                return
            self._told_s = time.monotonic()
            self._doing = event.words or self._doing
            seconds = round(self._told_s - self._began, 3)
            progress = {"agent": self._agent, "region": self._region, "seconds": seconds, "event": event}
            self._listen(Progress.model_validate(progress))

    def _beat(self) -> None:
        while not self._ended.wait(max(0.01, self._told_s + SILENCE_S - time.monotonic())):
            if time.monotonic() - self._told_s >= SILENCE_S:
                self.tell(Working(doing=self._doing))


# -- What models and tools do while a node waits for them, told as events ---------------------------------------------


EVERY_S = 0.2
"""Between two words on how far an answer is: pieces come by the hundred a second."""


class Hearing(BaseCallbackHandler):
    """Tells of the model calls and tool calls of one node."""

    def __init__(self) -> None:
        self._pieces = self._characters = 0
        self._tools: dict[Any, str] = {}
        self._next_s = 0.0

    def on_chat_model_start(self, *_: Any, **__: Any) -> None:
        """A question was put."""
        self._asked(0)

    def on_llm_new_token(self, token: str | list[str | dict[str, Any]], **_: Any) -> None:
        """A piece of an answer came in."""
        self._pieces += 1
        self._characters += len(token)
        if (now := time.monotonic()) >= self._next_s:
            self._next_s = now + EVERY_S
            tell(Answering(pieces=self._pieces, characters=self._characters))

    def on_retry(self, retry_state: RetryCallState, **_: Any) -> None:
        """An endpoint failed and is asked again after a pause."""
        self._asked(retry_state.attempt_number)

    def on_llm_end(self, response: LLMResult, **_: Any) -> None:
        """An answer is whole."""
        [[generation]] = response.generations
        message = generation.message if isinstance(generation, ChatGeneration) else None
        tell(Answered(usage=usage_of(message) if isinstance(message, AIMessage) else Usage()))

    def on_llm_error(self, error: BaseException, **_: Any) -> None:
        """No answer came."""
        tell(Answered(failed=True))

    def on_tool_start(self, serialized: dict[str, Any], *_: Any, run_id: Any = None, **__: Any) -> None:
        """A tool was called, by a model or by an agent."""
        self._tools[run_id] = serialized["name"]
        tell(ToolStarted(tool=serialized["name"]))

    def on_tool_end(self, *_: Any, run_id: Any = None, **__: Any) -> None:
        """A tool has answered."""
        tell(ToolEnded(tool=self._tools.pop(run_id, "")))

    def on_tool_error(self, *_: Any, run_id: Any = None, **__: Any) -> None:
        """A tool has failed or refused."""
        self.on_tool_end(run_id=run_id)

    def _asked(self, failed_tries: int) -> None:
        self._pieces, self._characters, self._next_s = 0, 0, 0.0
        tell(Asked(failed_tries=failed_tries))


hearing: ContextVar[BaseCallbackHandler | None] = ContextVar("hearing", default=None)
"""Who hears every model and every tool that is called in this context."""
register_configure_hook(hearing, inheritable=True)
