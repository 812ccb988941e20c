"""`make gpu-check`: does all of it work on this GPU, and how fast is what comes out? Leaves gpu-check.json.

The GPU-marked tests, a suite through the graph, ablations, profiles, and the seconds from a kernel's source to its
verdict. What the folder holds already is not done again: after `--minutes` are over the same command goes on.
"""

from __future__ import annotations

import shlex
import sys
import threading
import time
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from textwrap import indent
from typing import Annotated

import typer
from langgraph.runtime import RunControl
from pydantic import ValidationError
from rich.console import Console
from rich.text import Text

from bench.gpu_model import GpuResult, GpuTests, ProfiledKernel
from bench.gpu_tests import run_gpu_tests
from bench.phases import cuda_gemm, verdict_phases
from graph.api.calls import make_settings
from graph.cli.errors import IMPROVED, INTERRUPTED, NOTHING_FASTER, guarded
from graph.cli.suite import default_jobs
from graph.driving.loop import compare, drive
from graph.pages.ablation_page import ablation_of, write
from graph.runs.ablation import begin_ablation, one_gate, reopen_ablation
from graph.runs.folder import Manifest, RunFolder, replace_file
from graph.runs.machine import this_machine
from graph.runs.progress import Quiet
from graph.runs.record import RunRecord
from graph.runs.suite_record import Row
from graph.runs.tables import drawn, figures_sheet, rows_sheet
from graph.suites.folder import SuiteFolder, create_suite, reopen_suite
from graph.suites.run import SuiteRun, SuiteTerminal
from graph.suites.tasks import find_task, load_suite
from harness.judging.protocol import JudgeOrder
from harness.machine.gpu import Gpu, find_gpu
from harness.nouns.errors import CutegenError, MachineError
from harness.profile.render import render
from nodes.settings import Settings
from nodes.state import TaskInput
from tools.judges import choose_target, open_judge

SMOKE = "1,5,8,12,14,23,25"
"""One task of each family: a product, scaling, an unaligned product, a diagonal, a triangle, rows, an activation."""
GEMM = 1
PROFILED = (1, 24, 25)
"""Whose kernels' profiles are shown: a product, a reduction, an activation."""


class Check:
    """The parts of the check over one folder. Each stores what it found before the next begins."""

    def __init__(self, folder: Path, console: Console, gpu: Gpu, until: float) -> None:
        self.folder, self.console, self._until = folder, console, until
        self.file = folder / "gpu-check.json"
        folder.mkdir(parents=True, exist_ok=True)
        self.result = self._before() or GpuResult(
            machine=this_machine(), driver=gpu.driver, measured_at=datetime.now(UTC), commands=()
        )
        command = shlex.join(["python", "-m", "bench.gpu_check", *sys.argv[1:]])
        self.keep(commands=tuple(dict.fromkeys((*self.result.commands, command))), problems=())

    @property
    def minutes_left(self) -> float:
        """Until nothing more should begin."""
        return max(0.0, (self._until - time.monotonic()) / 60)

    def keep(self, **found: object) -> None:
        """Add to the result, and write it."""
        self.result = self.result.model_copy(update=found)
        replace_file(self.file, self.result.model_dump_json(indent=1) + "\n")

    def part(self, name: str, work: Callable[[], None]) -> None:
        """Do one part. What goes wrong with it is a sentence in the result, and does not end the others."""
        if self.minutes_left == 0:
            self._note(f"{name}: the minutes were over before it began.")
            return
        began = time.monotonic()
        try:
            work()
        except CutegenError as error:
            self._note(f"{name}: {error}")
        except Exception as error:  # noqa: BLE001 (minutes of the other parts must not be lost; it is told in full)
            traceback.print_exc()
            self._note(f"{name}: a defect of cutegen's own: {type(error).__name__}: {error}")
        self.console.print(f"{name}: {time.monotonic() - began:.0f} s")

    def tests(self) -> None:
        """The GPU-marked tests."""
        found = self.result.tests
        if found is None or not found.complete:
            found = run_gpu_tests(self.folder / "gpu-tests.jsonl", limit_s=60 * self.minutes_left)
            self.keep(tests=found)
        self.console.print(Text(_told(found)), soft_wrap=True)
        if not found.complete:
            self._note("tests: the minutes were over before all had ended; the same command goes on with them.")

    def suite(self, ids: str, settings: Settings, jobs: int) -> None:
        """The suite's tasks, as many as the time allows."""
        path = self.folder / "suite"
        if (path / "suite.json").exists():
            folder, manifest = reopen_suite(path)
        else:
            name, tasks = load_suite("level1", ids=ids)
            folder, manifest = create_suite(path, name=name, tasks=tasks, scale=1.0, settings=settings)
        facts = choose_target("cuda").facts()
        ended = sum(folder.row(task, facts) is not None for task in manifest.tasks)
        with SuiteTerminal(self.console, len(manifest.tasks), ended) as terminal:
            run = SuiteRun(folder, manifest, facts, terminal, jobs=jobs, minutes=self.minutes_left)
            record = run.run()
        self.keep(suite=record)
        self.console.print(drawn(rows_sheet("", record.rows)))
        self.console.print(drawn(figures_sheet((("all", record.figures),))))

    def compiled(self) -> None:
        """The best kernels beside torch.compile, as many as the time allows."""
        folder, manifest = reopen_suite(self.folder / "suite")
        facts = choose_target("cuda").facts()
        for task in manifest.tasks:
            if self.minutes_left > 0 and (record := folder.run_record(task)):
                compare(RunFolder(folder.path / task.name), record, manifest.settings)
        rows = {row.id: row for task in manifest.tasks if (row := folder.row(task, facts))}
        if self.result.suite is not None:
            merged = tuple(rows.get(row.id, row) for row in self.result.suite.rows)
            self.keep(suite=self.result.suite.model_copy(update={"rows": merged}))

    def ablations(self, tasks: list[str], settings: Settings) -> None:
        """Both schedules of each task, all side by side; those not done when the time is over show what they have."""
        runs = {task: self._ablation(task, settings) for task in tasks}
        every = [run for _, pairs in runs.values() for run in pairs]
        control = RunControl()  # one for all: it only carries the wish to end
        over = threading.Timer(60 * self.minutes_left, control.request_drain, ("time is over",))
        over.daemon = True
        over.start()
        with ThreadPoolExecutor(max(1, len(every))) as pool:
            records = list(pool.map(lambda run: drive(run[0], run[1], Quiet(), control=control), every))
        over.cancel()
        found = []
        for task, (path, pairs) in runs.items():
            mine = [record for record, run in zip(records, every, strict=True) if run in pairs]
            found.append(ablation_of(mine))
            write(path, found[-1])
            self.console.print(f"{task}: {', '.join(_best(record) for record in mine)}")
        self.keep(ablations=tuple(found))

    def phases(self, verdicts: int) -> None:
        """Seconds from a GEMM's source to its verdict."""
        if self.result.phases is None:
            task, kernel = self._gemm()
            self.keep(phases=verdict_phases("cuda", task, kernel, verdicts))
        for name, seconds in (self.result.phases or {}).items():
            self.console.print(f"  {name}: {seconds:.2f} s")

    def profiles(self) -> None:
        """What limits the best kernels of three tasks."""
        rows = self.result.suite.rows if self.result.suite else ()
        chosen = [row for row in rows if row.id in PROFILED and row.timing] or [row for row in rows if row.timing][:3]
        if [each.task for each in self.result.profiles] != [row.name for row in chosen]:
            self.keep(profiles=tuple(self._profile(row) for row in chosen))
        for each in self.result.profiles:
            self.console.print(f"\n{each.task}", style="bold")
            self.console.print(Text(each.text), soft_wrap=True)

    def _note(self, problem: str) -> None:
        self.keep(problems=(*self.result.problems, problem))
        self.console.print(Text(problem, style="red"), soft_wrap=True)

    def _before(self) -> GpuResult | None:
        try:
            return GpuResult.model_validate_json(self.file.read_bytes())
        except (OSError, ValidationError):
            return None

    def _ablation(self, task: str, settings: Settings) -> tuple[Path, list[tuple[RunFolder, Manifest]]]:
        path = self.folder / f"ablate-{task.replace(':', '-').replace('/', '-')}"
        if path.exists():
            return path, reopen_ablation(path)
        return begin_ablation(find_task(task, 1.0), settings, (1, 11), path)

    def _record(self, row: Row) -> RunRecord:
        file = SuiteFolder(self.folder / "suite").path / row.name / "record.json"
        return RunRecord.model_validate_json(file.read_bytes())

    def _gemm(self) -> tuple[TaskInput, str]:
        """A product and a right kernel for it: the suite's where it has one, else from a short run of its own."""
        for row in self.result.suite.rows if self.result.suite else ():
            best = self._record(row).best if row.id == GEMM and row.timing else None
            if best is not None:
                return find_task(f"level1:{GEMM}", 1.0), best.candidate.source
        return cuda_gemm(self.folder / "gemm")

    def _profile(self, row: Row) -> ProfiledKernel:
        record = self._record(row)
        assert record.best is not None and record.task is not None and row.timing is not None
        verdict = record.best.verdict
        if (profile := record.best.profile) is None:
            judge = open_judge(JudgeOrder("cuda", verdict.tier, verdict.precision, verdict.tolerance))
            profile = judge.profile(record.task, record.best.candidate, verdict)
        return ProfiledKernel(task=row.name, move=row.move, speedup=row.timing.speedup, text=render(profile))


def main(
    out: Annotated[Path, typer.Option(help="Folder of the results; one that has some is gone on with.")] = Path(
        "runs/gpu-check"
    ),
    ids: Annotated[str, typer.Option(help="Of level1; empty: all.")] = SMOKE,
    depth: Annotated[int, typer.Option(help="Optimizations a task, at most.")] = 2,
    patience: Annotated[int, typer.Option(help="End a run after so many optimizations without a gain.")] = 3,
    profile_from: Annotated[
        int | None, typer.Option(help="Show profiles from this depth on.", show_default="as published, by op class")
    ] = None,
    jobs: Annotated[int, typer.Option(help="Tasks side by side; 0: as `cutegen suite`.")] = 0,
    minutes: Annotated[float, typer.Option(help="Begin nothing more after so many.")] = 7.6,
    tests: Annotated[bool, typer.Option(help="Run the GPU-marked tests.")] = True,
    ablate: Annotated[list[str] | None, typer.Option(help="Also this task's ablation, as level1:1.")] = None,
    ablate_depth: Annotated[int, typer.Option(help="Optimizations a schedule, at most.")] = 13,
    verdicts: Annotated[int, typer.Option(help="New kernels for the time of a verdict.")] = 3,
    sanitize: Annotated[bool, typer.Option(help="Watch each final kernel too: 15 to 60 s a task.")] = False,
    compile_baseline: Annotated[bool, typer.Option(help="At last, time the best beside torch.compile.")] = False,
) -> None:
    """Measure, and store after every part."""
    console = Console()
    if not console.is_terminal:
        console.width = 140

    def work() -> int:
        check = Check(out.absolute(), console, this_gpu(), time.monotonic() + 60 * minutes)
        gates = {} if profile_from is None else {"profile_from_depth": one_gate(profile_from)}
        asked = make_settings({"target": "cuda", "sanitize": sanitize, "patience": patience, "depth": depth, **gates})
        check.part("suite", lambda: check.suite(ids, asked, jobs or default_jobs("cuda")))
        check.part("phases", lambda: check.phases(verdicts))
        check.part("profiles", check.profiles)
        if ablate:
            gated = make_settings({"target": "cuda", "sanitize": sanitize, "depth": ablate_depth})
            check.part("ablations", lambda: check.ablations(ablate, gated))
        if tests:
            check.part("tests", check.tests)
        if compile_baseline:
            check.part("torch.compile", check.compiled)
        console.print(Text(f"In {check.file}"), soft_wrap=True)
        return exit_code(check.result)

    raise typer.Exit(guarded(work, as_json=False))


def this_gpu() -> Gpu:
    """The GPU that is checked. Raises `MachineError` where none answers, or kernels cannot be built or run for it."""
    gpu = find_gpu()
    if gpu is None:
        raise MachineError("No NVIDIA GPU answers on this machine.", "Run this where there is one.")
    choose_target("cuda")
    return gpu


def exit_code(result: GpuResult) -> int:
    """0 where all of it worked, 1 where a test failed or a part could not be measured, 130 where some of it waits."""
    if result.suite is None or result.suite.outcome != "finished":
        return INTERRUPTED
    failed = result.problems or (result.tests is not None and result.tests.failed)
    return NOTHING_FASTER if failed else IMPROVED


def _told(tests: GpuTests) -> str:
    failures = "".join(f"\n{failure.test}\n{indent(failure.said, '  ')}" for failure in tests.failures)
    return f"{tests.passed} passed, {tests.failed} failed, {tests.skipped} skipped{failures}"


def _best(record: RunRecord) -> str:
    timing = record.timing
    return f"{timing.speedup:.2f}x after {len(record.verdicts)} kernels" if timing else "no kernel"


if __name__ == "__main__":
    typer.run(main)
