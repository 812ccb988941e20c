"""What a run is doing right now, and what it has cost so far, as its events tell."""

from __future__ import annotations

import time

from harness.nouns.events import Event
from nodes.events import AgentStarted, Answered, Answering, Asked, Progress, ToolEnded, ToolStarted, Working
from nodes.state import Usage

LONG_SILENCE_S = 5.0


class Now:
    """Follows a run; `usage` is what its models have cost."""

    def __init__(self) -> None:
        self.usage = Usage()
        self._doing = self._tool = ""
        self._silent_since: float | None = None
        self._pieces = self._characters = self._failed_tries = 0

    def heard(self, progress: Progress) -> None:
        """Take one event in."""
        match progress.event:
            case AgentStarted(usage=usage):
                # Of nodes side by side the one knows nothing of what the other has spent meanwhile.
                self.usage = max(self.usage, usage, key=lambda each: each.calls)
                self._doing = self._tool = ""
            case Asked(failed_tries=tries):
                self._asked(tries)
            case Answering(pieces=pieces, characters=characters):
                self._silent_since, self._pieces, self._characters = time.monotonic(), pieces, characters
            case Answered(usage=usage):
                self.usage += usage
                self._silent_since, self._failed_tries = None, 0
            case ToolStarted(tool=tool):
                self._tool, self._doing = tool, ""
            case ToolEnded():
                self._tool = self._doing = ""
            case Working():
                pass
            case other:
                self.note(other)

    def note(self, event: Event) -> None:
        """Take in what a judge tells."""
        self._doing = event.words or self._doing

    def text(self) -> str:
        """On one line: tool, what it does, the answer so far or how long there has been none, the cost so far."""
        tried = f"try {self._failed_tries + 1}" if self._failed_tries else ""
        told = (self._tool, self._doing, self._answer(), tried, spent(self.usage))
        return ", ".join(part for part in told if part)

    def _asked(self, failed_tries: int) -> None:
        if not failed_tries:
            self._silent_since = time.monotonic()
        self._pieces, self._characters, self._failed_tries = 0, 0, failed_tries

    def _answer(self) -> str:
        if self._silent_since is None:
            return ""
        silent = time.monotonic() - self._silent_since
        far = f"{self._characters:,} characters so far" if self._characters else "thinking" if self._pieces > 1 else ""
        waited = f"no word for {silent:.0f} s" if not far or silent >= LONG_SILENCE_S else ""
        return ", ".join(part for part in (far, waited) if part)


def spent(usage: Usage) -> str:
    """What was used so far, in few words; nothing where no tokens were."""
    if not usage.tokens and not usage.unpriced_calls:
        return ""
    return f"{usage.calls} calls, {usage.tokens:,} tokens, {usage.cost}"
