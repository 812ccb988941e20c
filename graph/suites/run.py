"""Drive a suite: each task through the graph in a run folder of its own, several at a time, until all have ended."""

from __future__ import annotations

import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import cycle, islice
from typing import Literal, Protocol

from langgraph.runtime import RunControl
from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from graph.driving.loop import compare, drive
from graph.runs.machine import this_machine
from graph.runs.progress import DOING, Now, Observer, Quiet
from graph.runs.suite_record import Row, RowStatus, SuiteRecord, SuiteTask, waiting
from graph.runs.tables import STATUS
from graph.suites.folder import SuiteFolder, SuiteManifest
from harness.judging.protocol import OpenJudge
from harness.nouns.device_facts import DeviceFacts
from harness.nouns.errors import CutegenError, UserError
from nodes.events import Progress
from nodes.state import Step
from tools.judges import open_judge


class SuiteObserver(Protocol):
    """Is told what happens in a suite, from several threads at once."""

    def began(self, task: SuiteTask) -> Observer:
        """A task's run begins; who is returned is told about its steps."""
        ...

    def ended(self, row: Row) -> None:
        """A task's run ended, or was interrupted."""
        ...


class _Purse(Quiet):
    """Reports what one run has cost so far, after each answer of its models."""

    def __init__(self, report: Callable[[float], None]) -> None:
        self._report, self._now = report, Now()

    def heard(self, progress: Progress) -> None:
        """Report it."""
        self._now.heard(progress)
        self._report(self._now.usage.dollars)


class SuiteRun:
    """One go at a suite. What had ended before is not run again; what was interrupted goes on."""

    def __init__(
        self,
        folder: SuiteFolder,
        manifest: SuiteManifest,
        facts: DeviceFacts,
        observer: SuiteObserver,
        *,
        jobs: int,
        minutes: float | None = None,
        dollars: float | None = None,
        compile_baseline: bool = False,
        judges: Sequence[OpenJudge] = (open_judge,),
    ) -> None:
        """`judges` are shared out among the jobs: with one for each of several devices every device has work."""
        self._folder, self._manifest, self._facts, self._observer = folder, manifest, facts, observer
        self._compile_baseline, self._judges = compile_baseline, judges
        self._jobs, self._minutes, self._dollars = jobs, minutes, dollars
        self._rows = {task.id: folder.found(task, facts) or waiting(task) for task in manifest.tasks}
        self._queue = deque(task for task in manifest.tasks if self._open(self._rows[task.id]))
        self._spent = {row.id: row.usage.dollars for row in self._rows.values()}
        self._before_s = folder.seconds()
        self._began = time.monotonic()
        self._changed = threading.Condition()
        self._present: dict[SuiteTask, RunControl] = {}
        self._stopping = ""
        self._left = False

    def run(self) -> SuiteRecord:
        """Until all tasks have ended, or minutes or dollars are over, which lets present steps end and begins no more.

        Ctrl-C does the same, and then raises `KeyboardInterrupt`; a second one waits for nothing, and what becomes of
        the present steps while the process ends is no task's row. The record is written after every task.
        """
        judges = islice(cycle(self._judges), min(self._jobs, len(self._queue)))
        threads = [threading.Thread(target=self._take_tasks, args=(judge,), daemon=True) for judge in judges]
        for thread in threads:
            thread.start()
        try:
            self._wait(threads)
        except KeyboardInterrupt:
            self._stop("Interrupted.")
            try:
                self._wait(threads)
            finally:
                self._leave()
            raise
        return self._write("interrupted" if any(map(self._open, self._rows.values())) else "finished")

    def _open(self, row: Row) -> bool:
        """Whether there is something left to do for a task."""
        return not row.ended or (self._compile_baseline and row.timing is not None and row.beside_compiled is None)

    def _wait(self, threads: list[threading.Thread]) -> None:
        with self._changed:
            while any(thread.is_alive() for thread in threads):
                if self._minutes is not None and time.monotonic() - self._began > 60 * self._minutes:
                    self._stop("The suite's minutes are over.")
                self._changed.wait(0.2)

    def _stop(self, reason: str) -> None:
        with self._changed:
            if not self._stopping:
                self._stopping = reason
                self._queue.clear()
                for control in self._present.values():
                    control.request_drain(reason)

    def _leave(self) -> None:
        with self._changed:
            self._left = True
            for task in self._present:
                row = self._so_far(task)
                self._rows[task.id] = row if row.ended else row.model_copy(update={"status": "interrupted"})
            self._write("interrupted")

    def _pay(self, task: SuiteTask, dollars: float) -> None:
        with self._changed:
            self._spent[task.id] = dollars
            if self._dollars is not None and sum(self._spent.values()) >= self._dollars:
                self._stop("The suite's dollars are spent.")

    def _take_tasks(self, open_judge: OpenJudge) -> None:
        while (begun := self._next()) is not None:
            task, control = begun
            row = self._row(task, control, open_judge)
            with self._changed:
                if self._left:
                    return
                del self._present[task]
                self._rows[task.id] = row
                self._write("running")
                self._changed.notify_all()
            self._observer.ended(row)

    def _next(self) -> tuple[SuiteTask, RunControl] | None:
        with self._changed:
            if not self._queue:
                return None
            task = self._queue.popleft()
            self._present[task] = RunControl()
            return task, self._present[task]

    def _row(self, task: SuiteTask, control: RunControl, open_judge: OpenJudge) -> Row:
        """Run one task. What goes wrong with it, our own defects included, is its row: the others go on."""
        observer = self._observer.began(task)
        started = time.monotonic()
        try:
            folder, manifest = self._folder.run_of(task, self._manifest)
            purse = _Purse(partial(self._pay, task))
            record = drive(folder, manifest, observer, purse, control=control, open_judge=open_judge)
            if self._compile_baseline and not self._stopping:
                compare(folder, record, manifest.settings, open_judge)
            return self._folder.row_from(task, record, self._facts) or waiting(task)
        except CutegenError as error:
            status: RowStatus = "not_a_task" if isinstance(error, UserError) else "machine_failed"
            return self._failed(task, status, str(error), started)
        except Exception as error:  # noqa: BLE001 (hours of other tasks must not be lost; the traceback is printed)
            if self._left:  # the interpreter is ending, and refuses what a step still asks of it
                return self._so_far(task)
            traceback.print_exc()
            return self._failed(task, "defect", f"a defect of cutegen's own: {type(error).__name__}: {error}", started)

    def _failed(self, task: SuiteTask, status: RowStatus, reason: str, started: float) -> Row:
        """What was verified before the failure still counts."""
        row = self._so_far(task)
        seconds = max(row.seconds, time.monotonic() - started)
        return row.model_copy(
            update={"status": status, "reason": reason.removeprefix(f"{task.name}: "), "seconds": seconds}
        )

    def _so_far(self, task: SuiteTask) -> Row:
        return self._folder.found(task, self._facts) or waiting(task)

    def _write(self, outcome: Literal["finished", "interrupted", "running"]) -> SuiteRecord:
        record = SuiteRecord(
            id=self._manifest.id,
            name=self._manifest.name,
            outcome=outcome,
            created=self._manifest.created,
            scale=self._manifest.scale,
            jobs=self._jobs,
            seconds=self._before_s + time.monotonic() - self._began,
            settings=self._manifest.settings.model_dump(mode="json", exclude={"run_dir"}),
            machine=this_machine(),
            facts=self._facts,
            rows=tuple(self._rows.values()),
        )
        self._folder.write(record)
        return record


# -- A suite on the terminal: a line for each task that ended, and below them what is being done right now ------------


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
    floor = f"{row.floor_said} of the floor" if row.floor_share is not None else row.floor_said
    text.append(
        f"  {row.timing.headline.speedup:>6.2f}x ({row.timing.headline.interval.said()})  "
        f"{row.timing.headline.ms:.4g} ms  {floor}  depth {row.depth}  {row.seconds:.0f} s"
        + (f"  {row.usage.cost}" if row.usage.tokens else "")
    )
    return text
