"""What runs in a pool's Ray actor: a judge's methods, each call with its events streamed before its outcome."""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Iterator, Mapping
from contextvars import copy_context
from dataclasses import dataclass
from typing import Any

from harness.judging.device_lock import held_s
from harness.judging.protocol import JudgeOrder, KernelJudge, OpenJudge
from harness.nouns.errors import CutegenError
from harness.nouns.events import Event
from harness.wire.stopping import Stop, StoppedError, stoppable
from harness.wire.telling import telling

AGAIN = frozenset(("about", "describe", "facts", "screen", "build"))
"""Methods that run no kernel: they may be asked a second time. The kernel of any other may have run, and been timed."""


@dataclass(frozen=True)
class Outcome:
    """A call's end: its value, or the error's class, problem and remedy; and how long it held the device."""

    value: Any = None
    failed: tuple[str, str, str] | None = None
    held_s: float = 0.0


class JudgeActor:
    """Serves judges on the one GPU that its process sees. Threads call it side by side, as they would a judge."""

    def __init__(self, opener: OpenJudge, threads: str | None = None) -> None:
        """`threads` is OMP_NUM_THREADS as who starts this has it: Ray sets its own, which kernels would be held to."""
        if threads is None:
            os.environ.pop("OMP_NUM_THREADS", None)
        else:
            os.environ["OMP_NUM_THREADS"] = threads
        self._opener = opener
        self._stops: dict[str, Stop] = {}

    def ask(
        self, call: str, order: JudgeOrder, method: str, given: tuple[Any, ...], named: Mapping[str, Any]
    ) -> Iterator[dict[str, Any] | Outcome]:
        """The events of one call as JSON, then its outcome."""
        told: queue.SimpleQueue[dict[str, Any] | Outcome] = queue.SimpleQueue()
        stop = self._stops.setdefault(call, Stop())

        def tell(event: Event) -> None:
            told.put(event.model_dump(mode="json"))

        def work() -> None:
            with telling(tell), stoppable(stop):
                told.put(_outcome(lambda: _asked(self._opener(order), method, given, named)))

        threading.Thread(target=copy_context().run, args=(work,), name=method, daemon=True).start()
        try:
            while not isinstance(item := told.get(), Outcome):
                yield item
            yield item
        finally:
            self._stops.pop(call, None)

    def stop(self, call: str) -> None:
        """End a call that nobody waits for any more, if it still goes on."""
        if stop := self._stops.get(call):
            stop.ask()


def _asked(judge: KernelJudge, method: str, given: tuple[Any, ...], named: Mapping[str, Any]) -> Any:
    return (judge.device, judge.tier) if method == "about" else getattr(judge, method)(*given, **named)


def _outcome(work: Any) -> Outcome:
    before = held_s()
    try:
        return Outcome(work(), held_s=held_s() - before)
    except StoppedError:
        failed = ("StoppedError", "It was given up.", "")
    except CutegenError as error:
        failed = (type(error).__name__, error.problem, error.remedy)
    except Exception as error:  # noqa: BLE001 (it goes to who asked, whose process shows it)
        failed = (type(error).__name__, f"{type(error).__name__}: {error}", "")
    return Outcome(failed=failed, held_s=held_s() - before)
