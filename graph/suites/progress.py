"""A suite on the terminal: a line for each task that ended, and below them what is being done right now."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from graph.runs.now import Now
from graph.runs.progress import DOING, Observer
from graph.suites.record import Row
from graph.suites.table import STATUS, interval
from graph.suites.tasks import SuiteTask
from nodes.events import Progress
from nodes.state import Step

STYLES = {"improved": "bold green", "nothing_faster": "", "interrupted": "yellow"}
REASON_WIDTH = 90


@dataclass
class Running:
    """A task that is under way: what it does, how deep it is, and its best speed-up so far."""

    task: SuiteTask
    doing: str = "starting"
    depth: int = 0
    speedup: float | None = None
    now: Now = field(default_factory=Now)
    began: float = field(default_factory=time.monotonic)


class SuiteTerminal:
    """Tells of a suite whose tasks run side by side. Threads may share it."""

    def __init__(self, console: Console, total: int, done: int) -> None:
        self.console = console
        self._total = total
        self._done = done
        self._lock = threading.Lock()
        self._running: dict[int, Running] = {}
        self._live = Live(get_renderable=self._now, console=console, refresh_per_second=4, transient=True)

    def __enter__(self) -> SuiteTerminal:
        if self.console.is_terminal:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.console.is_terminal:
            self._live.stop()

    def began(self, task: SuiteTask) -> Observer:
        """Show the task among those under way."""
        running = Running(task)
        with self._lock:
            self._running[task.id] = running
        return _Watch(running)

    def ended(self, row: Row) -> None:
        """Print the task's line."""
        with self._lock:
            self._running.pop(row.id, None)
            self._done += row.status != "interrupted"
            self.console.print(line(row, self._done, self._total), soft_wrap=True)

    def _now(self) -> Table:
        table = Table(box=None, pad_edge=False, show_header=False, style="dim")
        with self._lock:
            for each in sorted(self._running.values(), key=lambda running: running.task.id):
                best = f"{each.speedup:.2f}x" if each.speedup is not None else "-"
                seconds = f"{time.monotonic() - each.began:.0f} s"
                table.add_row(each.task.name, f"depth {each.depth}", f"best {best}", seconds, _doing(each))
        return table


class _Watch:
    """Follows one run. Each field is one write, so that no lock is needed."""

    def __init__(self, running: Running) -> None:
        self._running = running

    def started(self, agent: str) -> None:
        """Note what is being done."""
        self._running.doing = DOING.get(agent, agent)

    def heard(self, progress: Progress) -> None:
        """Note what happens, and the cost."""
        self._running.now.heard(progress)

    def stepped(self, step: Step) -> None:
        """Note depth and best speed-up."""
        self._running.depth = step.depth
        self._running.speedup = step.speedup


def _doing(running: Running) -> str:
    told = running.now.text()
    return f"{running.doing}: {told}" if told else running.doing


def line(row: Row, done: int, total: int) -> Text:
    """One task's result on one line."""
    text = Text(f"[{done:>2}/{total}]  {row.name:<26}  ")
    text.append(f"{STATUS[row.status]:<10}", style=STYLES.get(row.status, "red"))
    if row.timing is None:
        flat = " ".join(row.reason.split())
        text.append(f"  {flat if len(flat) <= REASON_WIDTH else flat[: REASON_WIDTH - 3] + '...'}")
        return text
    floor = f"{row.floor_share:.0%} of the floor" if row.floor_share is not None else ""
    text.append(
        f"  {row.timing.headline.speedup:>6.2f}x ({interval(row.timing.headline.interval)})  "
        f"{row.timing.headline.ms:.4g} ms  {floor}  depth {row.depth}  {row.seconds:.0f} s"
        + (f"  {row.usage.cost}" if row.usage.tokens else "")
    )
    return text
