"""`python -m bench.evolve_beside`: an evolution by the playbook beside its single trajectory, in the same time.

Both search at once, so that they meet the same machine and share what is built; then their best kernels meet.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Annotated, Any

import typer

from graph.api.calls import RunResult, begin_and_run
from graph.runs.folder import Kind, replace_file
from graph.runs.progress import Quiet
from graph.runs.suite_record import SuiteTask
from graph.runs.tables import markdown
from graph.suites.tasks import load_suite
from harness.judging.protocol import JudgeOrder
from harness.nouns.candidate import TargetChoice
from harness.nouns.errors import CutegenError
from harness.nouns.frozen import Frozen
from harness.nouns.verdict import HeadToHead
from nodes.events import AgentStarted, Progress
from nodes.state import TaskInput
from tools.judges import open_judge

KINDS: tuple[Kind, Kind] = ("optimize", "evolve")
ENDLESS = {"max_depth": 1000, "generations": 1000, "max_attempts": 10_000}
"""Time ends both, or that nothing is left to try."""


class Side(Frozen):
    """What one search found. `speedup` is over eager, in its own rounds; absent where no kernel passed."""

    speedup: float | None = None
    judged: int
    device_s: float
    ended: str


class Row(Frozen):
    """One task. `duel` is the evolution's kernel against the trajectory's; `why` there is none says a sentence."""

    id: int
    name: str
    trajectory: Side | None = None
    evolution: Side | None = None
    duel: HeadToHead | None = None
    why: str = ""

    @property
    def won_by(self) -> str:
        """Whose kernel is faster by the whole interval, or is the only one."""
        first, second = (bool(side and side.speedup) for side in (self.trajectory, self.evolution))
        if self.duel:
            first, second = self.duel.interval.high < 1, self.duel.interval.low > 1
        return "neither" if first == second else "evolution" if second else "trajectory"


class DeviceClock(Quiet):
    """How long a run has had the device, by now."""

    seconds = 0.0

    def heard(self, progress: Progress) -> None:
        """Read it where a node begins."""
        if isinstance(progress.event, AgentStarted):
            self.seconds = max(self.seconds, progress.event.device_seconds)


def main(
    suite: Annotated[str, typer.Argument(help="A bundled suite, or a folder of task files.")] = "level1",
    ids: Annotated[str, typer.Option(help="Of its tasks these, as 1-18,23.")] = "",
    target: Annotated[str, typer.Option(help="cpu or cuda.")] = "cuda",
    seconds: Annotated[float, typer.Option(help="That each search may take.")] = 40.0,
    device_seconds: Annotated[float, typer.Option(help="That each may have the device.")] = 3600.0,
    jobs: Annotated[int, typer.Option(min=1, help="Tasks at once.")] = 1,
    out: Annotated[Path, typer.Option(help="Tasks with a row there are left out.")] = Path("runs/evolve-beside"),
) -> None:
    """Search each task by both, let the best kernels meet, and write rows.jsonl and table.md as each task ends."""
    out.mkdir(parents=True, exist_ok=True)
    file = out / "rows.jsonl"
    rows = [Row.model_validate_json(line) for line in (file.read_text().splitlines() if file.exists() else [])]
    tasks = [task for task in load_suite(suite, ids=ids)[1] if task.id not in {row.id for row in rows}]
    most: dict[str, Any] = ENDLESS | {"max_wall_s": seconds, "max_device_s": device_seconds}
    settings = most | {"target": target, "archive": "none", "sanitize": False}
    with ThreadPoolExecutor(jobs) as pool:
        for done in as_completed([pool.submit(beside, task, settings, out) for task in tasks]):
            rows.append(done.result())
            with file.open("a", encoding="utf-8") as log:
                log.write(rows[-1].model_dump_json() + "\n")
            replace_file(out / "table.md", table(rows))
            print(f"{rows[-1].name}: {rows[-1].won_by}", flush=True)
    print(table(rows))


def beside(task: SuiteTask, settings: dict[str, Any], out: Path) -> Row:
    """One task's row; what goes wrong is its row, too."""

    def searched(kind: Kind) -> tuple[RunResult, Side]:
        folder, clock = out / kind / task.name, DeviceClock()
        shutil.rmtree(folder, ignore_errors=True)  # of a task that was cut off
        given = TaskInput(source=task.source, name=task.name)
        result = begin_and_run(kind, given, folder, clock, settings, None, compile_baseline=False)
        judged, ended = len(result.record.verdicts), result.record.stop_reason
        return result, Side(speedup=result.speedup, judged=judged, device_s=clock.seconds, ended=ended)

    try:
        with ThreadPoolExecutor(len(KINDS)) as both:
            (single, trajectory), (evolved, evolution) = both.map(searched, KINDS)
        met = _met(single, evolved, settings["target"])
        return Row(id=task.id, name=task.name, trajectory=trajectory, evolution=evolution, **met)
    except CutegenError as error:
        return Row(id=task.id, name=task.name, why=str(error))


def _met(single: RunResult, evolved: RunResult, target: TargetChoice) -> dict[str, Any]:
    """What the best kernels' head-to-head says, or why there is none."""
    task, first, second = single.record.task, single.record.best, evolved.record.best
    if task is None or first is None or second is None:
        return {"why": "a side has no kernel"}
    if first.candidate.digest == second.candidate.digest:
        return {"why": "the same kernel"}
    verdict = open_judge(JudgeOrder(target)).evaluate(task, second.candidate, incumbent=first.candidate)
    if verdict.timing is None:
        return {"why": f"the evolution's kernel is {verdict.status}: {verdict.message}"}
    return {"duel": verdict.timing.head_to_head}


def table(rows: Sequence[Row]) -> str:
    """The rows by id, and how many each has won."""
    won = ", ".join(f"{who} {times}" for who, times in sorted(Counter(row.won_by for row in rows).items()))
    head = ("task", "trajectory", "evolution", "evolution's over trajectory's", "won by", "judged in device time")
    lines = markdown(head, [_cells(row) for row in sorted(rows, key=lambda row: row.id)])
    return f"{lines}\n\nWon of {len(rows)}: {won}.\n"


def _cells(row: Row) -> tuple[str, ...]:
    sides = (row.trajectory, row.evolution)
    speed = [f"{side.speedup:.2f}x" if side and side.speedup else "none" for side in sides]
    spent = " / ".join(f"{side.judged} in {side.device_s:.0f} s" for side in sides if side)
    met = (
        f"{row.duel.speedup:.3f}x ({row.duel.interval.low:.3f} to {row.duel.interval.high:.3f})"
        if row.duel
        else row.why
    )
    return (row.name, *speed, met, row.won_by, spent)


if __name__ == "__main__":
    typer.run(main)
