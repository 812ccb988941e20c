"""What a run's log tells since a place in it, as somebody who watches is told it; the run may be another process's."""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Literal, Protocol

from pydantic import ValidationError

from graph.pages.report import filled_in
from graph.runs.progress import DOING, Now, line
from nodes.events import Progress
from nodes.state import Step

MOST_BYTES = 4 << 20
"""Read of a log at once."""


@dataclass(frozen=True)
class Told:
    """One event of a stream: `id` is the place in the log behind it, from which a reader that was cut off goes on."""

    id: str
    kind: Literal["now", "step", "page", "end"]
    data: dict[str, Any]


TAIL_BYTES = 1 << 20
_COURSE = re.compile(rb'"event": "(started|step|ended)"')


class Feed:
    """One reader of one log, from the byte `at` on. Of a run that has ended everybody is told at least that."""

    def __init__(self, log: Path, at: int = 0) -> None:
        self._log, self.at = log, max(0, at)
        self._agent = ""
        self._now = Now()
        self._begun = self.ended = False

    def read(self) -> Iterator[Told]:
        """What was written since; half a line is left for the next time, a line that is no event is passed over.

        At first it is told what is being done, of which the place that a reader begins at says nothing.
        """
        begins, self._begun = not self._begun, True
        if begins and self.at:
            yield from self._doing()
        for text in self._lines(begins=begins):
            yield from self._understood(text)

    def _understood(self, text: bytes) -> list[Told]:
        try:
            written = json.loads(text)
            return list(self._told(written)) if isinstance(written, dict) else []
        except (ValueError, ValidationError):
            return []

    def _doing(self) -> Iterator[Told]:
        """What the lines before the reader's place say."""
        try:
            with self._log.open("rb") as log:
                log.seek(max(0, self.at - TAIL_BYTES))
                lines = log.read(min(self.at, TAIL_BYTES)).splitlines()
        except OSError:
            return
        for text in lines:
            self._understood(text)
        if self._agent and not self.ended:
            yield self._saying()
        self.ended = False

    def _lines(self, *, begins: bool) -> Iterator[bytes]:
        try:
            with self._log.open("rb") as log:
                size = log.seek(0, 2)
                if self.at > size:  # another run's place, or a log that was begun anew
                    self.at, self._now = 0, Now()
                if begins and self.at == size and has_ended(self._log):
                    self.at = _ending_line(log)
                log.seek(self.at)
                read = log.read(MOST_BYTES)
        except OSError:
            return
        for text in read.splitlines(keepends=True):
            if not text.endswith(b"\n"):
                return
            self.at += len(text)
            yield text

    def _told(self, written: dict[str, Any]) -> Iterator[Told]:
        match written.get("event"):
            case "started":
                self.ended, self._agent = False, str(written["agent"])
                yield self._saying()
            case "progress":
                self._now.heard(Progress.model_validate(written["progress"]))
                yield self._saying()
            case "step":
                fields = {name: value for name, value in written.items() if name in Step.model_fields}
                step = Step.model_validate(fields)
                yield Told(str(self.at), "step", {"line": line(step).plain, "depth": step.depth})
                yield Told(str(self.at), "page", {})
            case "ended":
                self.ended = True
                outcome, reason = (str(written.get(name, "")) for name in ("outcome", "reason"))
                outcome = outcome.replace("_", " ") or "ended"
                text = reason if reason.lower().startswith(outcome) else f"{outcome}: {reason}"
                yield Told(str(self.at), "page", {})
                yield Told(str(self.at), "end", {"text": text})

    def _saying(self) -> Told:
        doing, more = DOING.get(self._agent, self._agent), self._now.text()
        return Told(str(self.at), "now", {"text": f"{doing}: {more}" if more else doing})


def has_ended(log: Path) -> bool:
    """Whether the log's last word on the run's course is that it has ended."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, file.seek(0, 2) - TAIL_BYTES))
            lines = file.read().splitlines()
    except OSError:
        return False
    courses = (found[1] for line in reversed(lines) if (found := _COURSE.search(line)))
    return next(courses, b"") == b"ended"


def _ending_line(log: BinaryIO) -> int:
    """Where the line begins that says that the run has ended; a thread's last words may stand behind it."""
    size = log.seek(0, 2)
    begin = log.seek(max(0, size - TAIL_BYTES))
    read = log.read(size - begin)
    return begin + read.rfind(b"\n", 0, read.rfind(b'"event": "ended"')) + 1


# -- Events as a browser's EventSource reads them: the words of a feed, a sign of life in silence, and the end --------


SILENCE_S = 10.0
"""Then something is sent that says nothing: else a reader who has gone is not noticed."""
RETRY_MS = 1000


class Reading(Protocol):
    """Something that happens, for one reader."""

    ended: bool

    def read(self) -> Iterator[Told]:
        """What happened since."""
        ...


def batches(feed: Reading) -> Iterator[bytes]:
    """What has been told since the last one; an empty one for nothing. None after the end."""
    yield f"retry: {RETRY_MS}\n\n".encode()
    while True:
        told = list(feed.read())
        yield b"".join(map(written, latest(told)))
        if feed.ended:
            return


def latest(told: list[Told]) -> list[Told]:
    """The events without those that a later one of the same batch makes old: of a log that is long already, most."""
    kept: list[Told] = []
    known: set[tuple[str, object]] = set()
    for each in reversed(told):
        key = (each.kind, each.data.get("run"))
        if each.kind == "step" or key not in known:
            known.add(key)
            kept.append(each)
    return kept[::-1]


def written(told: Told) -> bytes:
    """One event on the wire."""
    return f"id: {told.id}\nevent: {told.kind}\ndata: {json.dumps(told.data)}\n\n".encode()


# -- The page that holds what grows, and what its browser is allowed --------------------------------------------------


_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'nonce-{}'; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
)
NOTHING = _POLICY.format("none")
"""The policy of all else: no script at all."""


def page(name: str, body: str, at: int, *, ended: bool, broad: bool = False) -> tuple[str, str]:
    """The page around a report's inside that was drawn at the place `at`, and its Content-Security-Policy.

    `ended` is the state that it begins with, before its script hears anything.
    Beside it, `events?from=` is asked for what happens since, and `body` for the inside anew.
    """
    nonce = secrets.token_urlsafe(16)
    values = {"name": name, "body": body, "at": at, "nonce": nonce, "broad": broad, "ended": ended}
    return filled_in("live.html.j2", values), _POLICY.format(nonce)


def begun(name: str) -> str:
    """The inside before anything was judged."""
    return filled_in("nothing_yet.html.j2", {"name": name})
