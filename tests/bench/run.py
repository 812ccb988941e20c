"""`make bench`: what the whole loop costs on this machine, and what it gains on the examples, wins and losses alike."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from bench.model import BenchResult, ExampleResult, Limit
from bench.phases import cuda_gemm, verdict_phases
from bench.results_page import PROCESSOR, write_page
from bench.tables import sheets
from graph.api.calls import begin, load_task, make_settings
from graph.driving.loop import compare, drive
from graph.runs.folder import RUNS, compared
from graph.runs.machine import this_machine
from graph.runs.progress import Terminal
from graph.runs.record import RunRecord
from graph.runs.suite_record import shapes_of
from graph.runs.tables import drawn
from harness.nouns.errors import UserError
from harness.targets.select import resolve_target
from tools.judges import choose_target

ROOT = Path(__file__).parents[2]
WANTED = {
    "softsign": 1.8, "swish": None, "gelu": None, "softmax": None, "layer_norm": None, "matmul": None,
    "diag_matmul": 20.0, "linear_relu": None, "mean_field": 2.0,
}  # fmt: skip
"""The examples, and the speed-up that is asked of some of them."""

POINTWISE = "softsign"
CUDA_VERDICT = "source to verdict, CuTe GEMM of 4096 x 4096 on the GPU"
HELP_ROUNDS = 5


def main(
    only: Annotated[list[str] | None, typer.Option(help="Of the examples only this one; may be repeated.")] = None,
    verdicts: Annotated[int, typer.Option(min=1, help="New kernels to judge for the time of a verdict.")] = 5,
    write: Annotated[bool, typer.Option("--write", help="Also write docs/suites.json and docs/suites.md.")] = False,
) -> None:
    """Measure, print the tables, store the numbers."""
    console = Console()
    result = measure(tuple(only or WANTED), verdicts, console)
    for sheet in sheets(result):
        console.print()
        console.print(drawn(sheet))
    text = result.model_dump_json(indent=1)
    RUNS.mkdir(exist_ok=True)
    (RUNS / "bench.json").write_text(text, encoding="utf-8")
    if write:
        PROCESSOR.write_text(text + "\n", encoding="utf-8")
        write_page()


def measure(names: tuple[str, ...], verdicts: int, console: Console) -> BenchResult:
    """Run all of it. Raises `UserError` for an example that there is none of."""
    unknown = set(names) - set(WANTED)
    if unknown:
        raise UserError(f"There is no example {min(unknown)}.", f"Choose of {', '.join(WANTED)}.")
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory(prefix="cutegen-bench-") as scratch:
        runs = {name: run_example(name, Path(scratch), console) for name in names}
    records = {name: record for name, (record, _, _) in runs.items()}
    task = load_task(ROOT / "examples" / f"{POINTWISE}.py")
    phases = verdict_phases("cpu", task, _kernel_of(records), verdicts)
    steps = [overhead for _, overhead, _ in runs.values()]
    facts = choose_target("cpu").facts()
    cuda = cuda_phases(verdicts) if resolve_target("auto").name == "cuda" else None
    limits = (
        Limit(name="source to verdict, pointwise, 16M floats", measured=phases["in all"], allowed=6, unit="s"),
        Limit(name="the graph's own time a step", measured=statistics.median(steps), allowed=50, unit="ms"),
        Limit(name="cutegen --help", measured=help_seconds(), allowed=0.5, unit="s"),
        Limit(name="memory of the graph's process, peak", measured=peak_memory_mb(), allowed=250, unit="MB"),
        *((Limit(name=CUDA_VERDICT, measured=cuda["in all"], allowed=12, unit="s"),) if cuda else ()),
    )
    return BenchResult(
        machine=this_machine(),
        peak_gb_s=facts.peak_gb_s,
        peak_gflop_s=facts.peak_gflop_s,
        measured_at=datetime.now(UTC),
        load=load,
        limits=limits,
        verdicts=verdicts,
        phases=phases,
        cuda_phases=cuda,
        examples=tuple(summed_up(name, record, over) for name, (record, _, over) in runs.items()),
    )


def run_example(name: str, scratch: Path, console: Console) -> tuple[RunRecord, float, float | None]:
    """One example's run with default settings, the graph's own milliseconds a node in it, and what it is over
    torch.compile (None where that has no version of it).

    Own is what the nodes do not account for themselves: scheduling, checkpoints, progress, the artifacts' writing.
    """
    console.print(f"\n{name}", style="bold")
    task = load_task(ROOT / "examples" / f"{name}.py")
    settings = make_settings({"target": "cpu"})
    folder, manifest = begin(task, settings, scratch / name)
    watch = Stopwatch(console)
    record = drive(folder, manifest, watch)
    taken = time.monotonic() - watch.first
    watch.stop()
    compare(folder, record, settings)
    beside = compared(folder, record.best)
    compiled = beside.compiled if beside else None
    return record, 1e3 * (taken - record.seconds) / max(1, watch.nodes), compiled.speedup if compiled else None


class Stopwatch(Terminal):
    """Shows the run and notes when its first node began."""

    def __init__(self, console: Console) -> None:
        super().__init__(console)
        self.nodes = 0
        self.first = 0.0

    def started(self, agent: str) -> None:
        """Count a node."""
        self.first = self.first or time.monotonic()
        self.nodes += 1
        super().started(agent)


def cuda_phases(verdicts: int) -> dict[str, float]:
    """Median seconds of each phase from a CuTe GEMM's source to its verdict on the GPU."""
    with tempfile.TemporaryDirectory(prefix="cutegen-bench-") as scratch:
        task, kernel = cuda_gemm(Path(scratch) / "gemm")
        return verdict_phases("cuda", task, kernel, verdicts)


def help_seconds() -> float:
    """Median time of `cutegen --help`."""
    times = []
    for _ in range(HELP_ROUNDS):
        began = time.monotonic()
        subprocess.run(
            [sys.executable, "-c", "from graph.cli.main import app; app()", "--help"], cwd=ROOT, check=True,
            stdout=subprocess.DEVNULL,
        )  # fmt: skip
        times.append(time.monotonic() - began)
    return statistics.median(times)


def peak_memory_mb() -> float:
    """The largest resident set this process, which held the graph, ever had."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    kib = next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))
    return kib * 1024 / 1e6


def _kernel_of(records: dict[str, RunRecord]) -> str:
    """The pointwise example's kernel, as the runs before found it, or as its own short run finds it."""
    found = records.get(POINTWISE)
    if found is None:
        with tempfile.TemporaryDirectory(prefix="cutegen-bench-") as scratch:
            found, *_ = run_example(POINTWISE, Path(scratch), Console(quiet=True))
    if found.best is None:
        raise UserError(f"No kernel of {POINTWISE} passed: {found.stop_reason}", "See its steps above.")
    return found.best.candidate.source


def summed_up(name: str, record: RunRecord, over_compiled: float | None = None) -> ExampleResult:
    """What the tables show of an example's run."""
    profile = record.best.profile if record.best else None
    best = record.best.candidate.digest if record.best else None
    moves = [step.move for step in record.steps if step.agent == "tester" and step.candidate == best]
    return ExampleResult(
        name=name,
        shapes=shapes_of(record.task),
        outcome=record.outcome,
        timing=record.timing,
        move=moves[0] if moves else "",
        share_of_roof=profile.share_of_roof if profile else None,
        kernels_judged=len(record.verdicts),
        seconds=record.seconds,
        stop_reason=record.stop_reason,
        wanted=WANTED[name],
        over_compiled=over_compiled,
    )


if __name__ == "__main__":
    typer.run(main)
