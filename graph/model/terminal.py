"""A model on the terminal: a line for each step, kernel and region, and below them what is being done right now."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from graph.runs.progress import DOING, Now, Quiet
from harness.nouns.events import Judged
from nodes.events import AgentStarted, NewBest, Progress, RegionBegun, RegionEnded

STEPS = {
    "capture": "running the model",
    "planner": "cutting it into regions",
    "cutter": "writing tasks",
    "assembler": "putting the kernels into the model",
    "acceptor": "holding the model against eager",
}


@dataclass
class _Doing:
    """A step of the model's, or a region that has its turn; `best` is of its kernels."""

    what: str
    best: float | None = None
    now: Now = field(default_factory=Now)
    began: float = field(default_factory=time.monotonic)


class ModelTerminal(Quiet):
    """Tells of a model whose regions may go side by side. Events come from any thread.

    Without a terminal there are only lines: steps as they begin, verdicts, and regions as they begin and end.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._lock = threading.Lock()
        self._doing: dict[str, _Doing] = {}
        self._live = Live(get_renderable=self._now, console=console, refresh_per_second=4, transient=True)

    def __enter__(self) -> ModelTerminal:
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._console.is_terminal:
            self._live.stop()

    def started(self, agent: str) -> None:
        """Print a step's line; regions wait for their turn, and tell of it themselves."""
        if agent not in STEPS:
            return
        with self._lock:
            self._doing = {"": _Doing(STEPS[agent])}
        self._line(f"{agent}: {STEPS[agent]}")

    def heard(self, progress: Progress) -> None:
        """Show what happens, in a region or in a step."""
        region, event = progress.region, progress.event
        with self._lock:
            if isinstance(event, RegionBegun):
                self._doing.pop("", None)
                self._doing[region] = _Doing("beginning")
            elif isinstance(event, RegionEnded):
                self._doing.pop(region, None)
            if doing := self._doing.get(region):
                _note(doing, progress)
        if region and isinstance(event, RegionBegun | RegionEnded | Judged):
            self._line(f"{region}: {event.words}" + _cause(event))

    def _line(self, text: str) -> None:
        self._console.print(Text(text, style="dim"), soft_wrap=True)

    def _now(self) -> Table:
        table = Table(box=None, pad_edge=False, show_header=False, style="dim")
        with self._lock:
            for name, each in self._doing.items():
                best = f"best {each.best:.2f}x" if each.best is not None else ""
                told = ", ".join(part for part in (each.what, each.now.text()) if part)
                table.add_row(name, f"{time.monotonic() - each.began:.0f} s", best, told)
        return table


def _note(doing: _Doing, progress: Progress) -> None:
    event = progress.event
    doing.now.heard(progress)
    if isinstance(event, AgentStarted):
        doing.what = DOING.get(progress.agent, doing.what)
    elif isinstance(event, NewBest):
        doing.best = event.speedup


def _cause(event: RegionBegun | RegionEnded | Judged) -> str:
    return f", {event.check}: {event.message}" if isinstance(event, Judged) and event.check else ""
