"""Who hears of a run while it goes on: the terminal, a notebook, a caller's own function, and the run's log."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO, Protocol, Self, runtime_checkable

import structlog
from rich.console import Console
from rich.status import Status
from rich.table import Table
from rich.text import Text

from graph.runs.folder import machine_error
from graph.runs.interrupts import raise_if_stopped
from harness.nouns.events import Event
from harness.wire.telling import overhearing
from nodes.events import AgentStarted, Answered, Answering, Asked, Progress, ToolEnded, ToolStarted, Working
from nodes.history import say_kept
from nodes.state import FellBack, Final, Step, Usage
from tools.wording import first_sentence, say_duel

DOING = {
    "intake": "reading the task",
    "generator": "writing a first kernel",
    "tester": "compiling and judging",
    "approver": "asking for approval",
    "diagnoser": "looking for the cause",
    "repairer": "repairing",
    "optimizer": "choosing a move",
    "sweeper": "trying variants",
    "profiler": "profiling",
    "reviewer": "reviewing",
    "sanitizer": "watching for memory errors",
    "ablator": "taking a move back",
    "reporter": "timing what was kept, and writing the result",
    "breeder": "choosing parents",
    "proposer": "writing kernels",
    "sifter": "sorting out repeats",
    "builder": "compiling",
    "verifier": "verifying",
    "ranker": "ranking",
    "archivist": "writing the archive",
    "summarizer": "reading the profile",
}
OFTEN, OFTEN_S = frozenset({"answering", "checking", "timing"}), 1.0
SILENT_S = 30.0
"""So long a run that no terminal shows says nothing, and then what it does."""
REDRAWN_S = 0.25
MOVE_WIDTH = 46
TOGETHER = "Speed-ups over eager: the kept kernels and eager, timed in the same rounds at the end of the run."
UNDER_LOAD = " The times were disturbed: what a move is worth, the column against the best then says."
NO_FINAL = Final()
HEAD = f"{'depth':>5}  {'agent':<9}  {'move':<{MOVE_WIDTH}}  {'seconds':>7}  verdict"


@runtime_checkable
class Observer(Protocol):
    """Is told when an agent begins, and of each step of the history once it is checkpointed."""

    def started(self, agent: str) -> None:
        """A node of the graph begins."""
        ...

    def stepped(self, step: Step) -> None:
        """A step was added to the history."""
        ...


@runtime_checkable
class Listener(Protocol):
    """An observer that is also told every event, from whichever thread it happens in."""

    def heard(self, progress: Progress) -> None:
        """Something happened."""
        ...


class Quiet:
    """Tells nobody."""

    def started(self, agent: str) -> None:
        """Nothing to show."""

    def stepped(self, step: Step) -> None:
        """Nothing to show."""


Callback = Callable[[Progress], None]
"""A caller's own function: it is called with every event, from whichever thread it happens in."""


class Calling(Quiet):
    """Calls a function with every event."""

    def __init__(self, callback: Callback) -> None:
        self._callback = callback

    def heard(self, progress: Progress) -> None:
        """Pass it on."""
        self._callback(progress)


class Terminal:
    """One line a step; below them a terminal or a notebook shows what is being done, and for how long.

    Elsewhere a line says so after every `SILENT_S` without another. `judged` are the digests of the kernels that were
    tested meanwhile; `reported`: the run came to its end meanwhile, so that a final it has is of now.
    """

    def __init__(self, console: Console) -> None:
        self.console = console
        self._line = _live_line(console)
        self._now = Now()
        self._doing = _Doing("", self._now)
        self._said_s = time.monotonic()
        self._headed = False
        self.judged: set[str | None] = set()
        self.reported = False
        self._fell_back: set[FellBack] = set()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def started(self, agent: str) -> None:
        """Show what is being done, below the lines. Raises `KeyboardInterrupt` where a stop was asked for and lost."""
        raise_if_stopped()
        self.reported |= agent == "reporter"
        self._doing = _Doing(DOING.get(agent, agent), self._now)
        self._line.show(self._doing)

    def heard(self, progress: Progress) -> None:
        """Show what happens, and what the run has cost."""
        self._now.heard(progress)
        self._line.refresh()
        if not self._line.visible and time.monotonic() - self._said_s >= SILENT_S:
            self._print(self._doing.__rich__())

    def stepped(self, step: Step) -> None:
        """Print the step's line."""
        if not self._headed:
            self._print(Text(HEAD, style="dim"))
            self._headed = True
        self._print(line(step))
        if step.agent == "tester":
            self.judged.add(step.candidate)
        for fell_back in step.usage.fell_back:
            if fell_back not in self._fell_back:
                self._fell_back.add(fell_back)
                self._print(Text(fell_back.sentence, style="yellow"))

    def stop(self) -> None:
        """Take away what is being done."""
        self._line.clear()

    def _print(self, text: Text) -> None:
        self._said_s = time.monotonic()
        self.console.print(text, soft_wrap=True)


class _Doing:
    """What is being done right now, and for how long. Drawn anew several times a second."""

    def __init__(self, what: str, now: Now) -> None:
        self._what, self._now = what, now
        self._began = time.monotonic()

    def __rich__(self) -> Text:
        seconds = int(time.monotonic() - self._began)
        what = f"{self._what}, {seconds} s" if seconds else self._what
        told = self._now.text()
        return Text(f"{what}: {told}" if told else what, style="dim")


class _Line:
    """A line that is drawn over and over. This one is never drawn: nobody watches."""

    visible = False

    def show(self, doing: _Doing) -> None:
        """Draw this from now on."""

    def refresh(self) -> None:
        """Something has changed."""

    def clear(self) -> None:
        """Take the line away."""


class _TerminalLine(_Line):
    visible = True

    def __init__(self, console: Console) -> None:
        self._console = console
        self._status: Status | None = None

    def show(self, doing: _Doing) -> None:
        self.clear()
        self._status = self._console.status(doing)
        self._status.start()

    def clear(self) -> None:
        if self._status is not None:
            self._status.stop()
            self._status = None


class _NotebookLine(_Line):
    """An output of the cell that is replaced. Rich's own line needs a widget library there."""

    visible = True

    def __init__(self) -> None:
        self._doing: _Doing | None = None
        self._output: Any = None
        self._drawn_s = 0.0

    def show(self, doing: _Doing) -> None:
        self._doing = doing
        self._draw(doing.__rich__().plain)

    def refresh(self) -> None:
        if self._doing is not None and time.monotonic() - self._drawn_s >= REDRAWN_S:
            self._draw(self._doing.__rich__().plain)

    def clear(self) -> None:
        self._doing = None
        if self._output is not None:
            self._draw("")

    def _draw(self, text: str) -> None:
        self._drawn_s = time.monotonic()
        shown = {"text/plain": text}
        if self._output is None:
            self._output = import_module("IPython.display").display(shown, raw=True, display_id=True)
        else:
            self._output.update(shown, raw=True)


def _live_line(console: Console) -> _Line:
    return _NotebookLine() if console.is_jupyter else _TerminalLine(console) if console.is_terminal else _Line()


@contextmanager
def waiting(what: str) -> Iterator[None]:
    """Show on stderr what the judge does, and for how long, where that is a terminal."""
    line, now = _live_line(Console(stderr=True)), Now()
    line.show(_Doing(what, now))
    try:
        with overhearing(now.note):
            yield
    finally:
        line.clear()


_shown = threading.Lock()


@contextmanager
def watching(
    observer: Observer | Callback | None, view: Callable[[Console], AbstractContextManager[Observer]] = Terminal
) -> Iterator[Observer]:
    """Who watches work that was begun from Python: `observer`, or a function that is called with every event.

    Without one a terminal or a notebook shows it in `view`, of several at once the first; a pipe gets nothing.
    """
    if observer is not None:
        yield observer if isinstance(observer, Observer) else Calling(observer)
        return
    console = Console(stderr=True)
    if not (console.is_terminal or console.is_jupyter) or not _shown.acquire(blocking=False):
        yield Quiet()
        return
    try:
        with view(console) as shown:
            yield shown
    finally:
        _shown.release()


class Log:
    """One JSON object a line, in the run's folder. What is told many times a second is kept once a second."""

    def __init__(self, file: BinaryIO, path: Path, run: str) -> None:
        self._path = path
        processors: list[structlog.typing.Processor] = [
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.JSONRenderer(),
            lambda _logger, _method, rendered: str(rendered).encode(),
        ]
        self._log = structlog.wrap_logger(structlog.BytesLogger(file), processors=processors, run=run)
        self._kept_s: dict[str, float] = {}

    def started(self, agent: str) -> None:
        """Log that an agent begins."""
        self._write("started", agent=agent)

    def stepped(self, step: Step) -> None:
        """Log the whole step."""
        self._write("step", **step.model_dump(mode="json", exclude_defaults=True))

    def heard(self, progress: Progress) -> None:
        """Log an event for who watches the folder. One that cannot be written is lost; a step would say so."""
        kind, now = progress.event.kind, time.monotonic()
        if kind == "working" or (kind in OFTEN and now - self._kept_s.get(kind, -OFTEN_S) < OFTEN_S):
            return
        self._kept_s[kind] = now
        with suppress(OSError):
            self._log.info("progress", progress=progress.model_dump(mode="json"))

    def ended(self, outcome: str, reason: str) -> None:
        """Log how the run ended."""
        self._write("ended", outcome=outcome, reason=reason)

    def _write(self, event: str, **fields: Any) -> None:
        try:
            self._log.info(event, **fields)
        except OSError as error:
            raise machine_error(error, self._path, "write") from error


def line(step: Step) -> Text:
    """A step as one line of text: depth, agent, move, seconds, and its verdict with what that says."""
    text = Text(f"{step.depth:>5}  {step.agent:<9}  {_cut(_what(step)):<{MOVE_WIDTH}}  {step.seconds:>7.2f}  ")
    text.append(_verdict(step), style=_style(step))
    cost = step.usage.cost if step.usage.tokens else ""
    text.append(f"  {cost}" if cost else "")
    return text


def table(steps: tuple[Step, ...], final: Final = NO_FINAL) -> Table:
    """What was judged, for the end of a run. Where kernels were timed together, speed-ups are those."""
    together = bool(final.standings)
    busy = any(each.timing.under_load for each in final.standings)
    caption = TOGETHER + (UNDER_LOAD if busy else "") if together else None
    shown = Table(box=None, pad_edge=False, header_style="dim", caption=caption)
    for name in ("depth", "move", "verdict", "against the best then", "kept", "over eager", "kernel"):
        shown.add_column(name, justify="right" if name in ("depth", "over eager") else "left")
    for step in steps:
        if step.agent == "tester" and step.status is not None:
            timing = final.timing(step.candidate)
            speedup = timing.speedup if timing else None if together else step.candidate_speedup
            shown.add_row(
                str(step.depth),
                Text(_what(step)),
                Text(step.status, style=_style(step)),
                _met(step),
                say_kept(step),
                f"{speedup:.2f}x" if speedup is not None else "",
                step.candidate or "",
            )
    return shown


def _met(step: Step) -> str:
    met = step.head_to_head
    if met is None:
        return ""
    told = f"{met.speedup:.2f}x {met.within}"
    return "identical machine code" if met.identical else told


def _verdict(step: Step) -> str:
    """A test's status, and what the kernel is worth or why it failed; a failure of another step with its reason."""
    if step.status is None:
        return ""
    if step.status != "passed":
        reason = first_sentence(step.message).removeprefix(f"{step.status}: ")
        return f"{step.status}: {reason}" if reason else step.status
    met = step.head_to_head
    worth = (step.message if met.identical else "") or say_duel(met) if met else ""
    if not worth and step.candidate_speedup is not None:
        worth = f"{step.candidate_speedup:.2f}x over eager{', on a busy machine' if step.busy else ''}"
    decided = ", ".join(filter(None, [step.status, say_kept(step)]))
    return f"{decided}: {worth}" if worth else decided


@contextmanager
def open_log(path: Path, run: str) -> Iterator[Log]:
    """Append to a run's log. Unbuffered: a line is on the disk, or its failure is known, before the run goes on."""
    try:
        handle = path.open("ab", buffering=0)
    except OSError as error:
        raise machine_error(error, path, "write") from error
    with handle:
        yield Log(handle, path, run)


def _what(step: Step) -> str:
    if step.agent == "sweeper":
        return step.message
    return step.move or ("first draft" if step.agent in ("generator", "tester") else step.message)


def _style(step: Step) -> str:
    if step.status == "passed":
        return "bold green" if step.improved else "green"
    return "red" if step.status else ""


def _cut(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= MOVE_WIDTH else flat[: MOVE_WIDTH - 3] + "..."


# -- What a run is doing right now, and what it has cost so far, as its events tell -----------------------------------


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
