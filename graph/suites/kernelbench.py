"""Score a suite's kernels with KernelBench's own evaluator: each export in a process of its own, one row a task."""

from __future__ import annotations

import json
import math
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from pydantic import ValidationError

from graph.packages.form import export
from graph.runs.folder import replace_file
from graph.runs.machine import Machine, this_machine
from graph.runs.record import RunRecord
from graph.runs.suite_record import SuiteTask
from graph.suites.folder import SuiteFolder
from harness.nouns.devices import on_gpu
from harness.nouns.errors import MachineError, UserError
from harness.nouns.frozen import Frozen, SanitizedText
from harness.nouns.reading import read_bounded

CHECKOUT = "CUTEGEN_KERNELBENCH"
RECORD = "kernelbench.json"
CORRECT_TRIALS, PERF_TRIALS = 5, 100
"""What its own scripts ask for."""
TASK_S = 600.0
NEAR = 0.1
"""A share: by so much its speed-up may differ from ours as called."""
_HELD = 2.5
"""How many times the bytes of a task its evaluator holds, at most while it waits and partly while it compares."""
_SAID = 300
_CHILD = "graph.suites.kernelbench_child"

Backend = Literal["cuda", "triton", "tilelang", "cute"]
"""Of its evaluator: all but the first load the file from a temporary one."""


class Scored(Frozen):
    """One task. `judge` is our judge's speed-up, `as_called` the drop-in's for its caller; absent without a kernel.

    `refused` says why there is no export, `note` what the evaluator said of one that is not correct.
    """

    id: int
    name: str
    judge: float | None = None
    as_called: float | None = None
    exported: bool = False
    refused: SanitizedText = ""
    compiled: bool = False
    correct: bool = False
    ms: float | None = None
    reference_ms: float | None = None
    note: SanitizedText = ""

    @property
    def speedup(self) -> float | None:
        """By KernelBench's clock."""
        return self.reference_ms / self.ms if self.correct and self.ms and self.reference_ms else None

    @property
    def ratio(self) -> float | None:
        """Its speed-up over ours as called, or, where that was not measured, as judged."""
        ours = self.as_called or self.judge
        return self.speedup / ours if self.speedup and ours else None


class Scores(Frozen):
    """As KernelBench defines them, over all rows: those without a correct kernel count in fast_p, not in the mean."""

    fast_0: float
    fast_1: float
    fast_15: float
    fast_2: float
    geomean: float


class KernelBenchRecord(Frozen):
    """What its evaluator found, at this commit of it, of some of the suite's `tasks`; in the end of all.

    `scored` are the figures over the rows so far, `judged` the same by our judge.
    """

    schema_version: Literal[1] = 1
    suite: str
    tasks: int
    commit: str
    backend: str
    created: datetime
    machine: Machine
    rows: tuple[Scored, ...]
    scored: Scores | None = None
    judged: Scores | None = None

    @property
    def complete(self) -> bool:
        """Whether each task has its row."""
        return len(self.rows) == self.tasks

    @property
    def near(self) -> tuple[int, int]:
        """Of how many kernels its speed-up is within 10 % of ours as called, and of how many both are known."""
        ratios = [row.ratio for row in self.rows if row.ratio is not None]
        return sum(1 - NEAR <= ratio <= 1 + NEAR for ratio in ratios), len(ratios)


def find_checkout(named: Path | None) -> Path:
    """KernelBench's folder: the one that is named, else $CUTEGEN_KERNELBENCH. Raises `UserError`."""
    variable = os.environ.get(CHECKOUT)
    found = named or (Path(variable) if variable else None)
    if found is None or not (found / "src" / "kernelbench" / "eval.py").is_file():
        where = f"{found} is no checkout of KernelBench." if found else "KernelBench's own evaluator is not here."
        raise UserError(
            where,
            "git clone https://github.com/ScalingIntelligence/KernelBench, and name the folder with --kernelbench or "
            f"{CHECKOUT}.",
        )
    return found.absolute()


def chosen_ids(checkout: Path, level: int, count: int | None, seed: int) -> str:
    """So many of the level's ids, drawn under the seed, as `--ids` takes them; empty for all."""
    if count is None:
        return ""
    names = sorted((checkout / "KernelBench" / f"level{level}").glob("*.py"))
    ids = sorted(int(name.name.split("_")[0]) for name in names if name.name[0].isdigit())
    return ",".join(map(str, sorted(random.Random(seed).sample(ids, min(count, len(ids))))))


class Scoring:
    """One go at a suite's kernels: what `kernelbench.json` has already is not evaluated again."""

    def __init__(
        self, folder: SuiteFolder, tasks: Sequence[SuiteTask], checkout: Path, *, backend: Backend, device: int = 0
    ) -> None:
        self._folder, self._tasks, self._checkout = folder, tuple(tasks), checkout
        self._backend, self._device = backend, device
        self.file = folder.path / RECORD
        self._writing = threading.Lock()
        self._children: set[subprocess.Popen[str]] = set()
        self._stopped = threading.Event()
        self._record = self._before() or KernelBenchRecord(
            suite=folder.path.name,
            tasks=len(self._tasks),
            commit=_commit(checkout),
            backend=backend,
            created=datetime.now(UTC),
            machine=this_machine(),
            rows=(),
        )

    def run(self, told: Callable[[Scored], None], *, jobs: int, over: Callable[[], bool]) -> KernelBenchRecord:
        """Evaluate what is left until it is `over`, so many side by side, the smallest first.

        Each row is written and told at once. A task whose run has not ended is left for another go.
        """
        done = {row.id for row in self._record.rows}
        runs = {task.id: self._run_of(task) for task in self._tasks if task.id not in done}
        suite = self._folder.record()
        ended = {row.id: row for row in (suite.rows if suite else ()) if row.ended}
        waiting = sorted((task for task in self._tasks if task.id in runs), key=lambda task: _bytes(runs[task.id]))

        def one(task: SuiteTask) -> None:
            run = runs[task.id]
            if over():
                return
            if run is not None and run.outcome in ("improved", "nothing_faster"):
                row = self._scored(task, run)
                if not self._stopped.is_set():
                    told(self._keep(row))
            elif task.id in ended:
                told(self._keep(Scored(id=task.id, name=task.name, refused=ended[task.id].reason)))

        pool = ThreadPoolExecutor(jobs)
        try:
            for _ in pool.map(one, waiting):
                pass
        except BaseException:
            self._stop()
            raise
        finally:
            pool.shutdown(cancel_futures=True)
        return self._finished()

    def _run_of(self, task: SuiteTask) -> RunRecord | None:
        """The task's own run; None for one of another task, whatever its name."""
        record = self._folder.run_record(task)
        return record if record and (record.task is None or record.task.source == task.source) else None

    def _scored(self, task: SuiteTask, record: RunRecord) -> Scored:
        timing = record.timing
        row = Scored(
            id=task.id,
            name=task.name,
            judge=timing.speedup if timing else None,
            as_called=timing.caller.back_to_back.speedup if timing and timing.caller else None,
        )
        if record.best is None:
            return row.model_copy(update={"refused": "no kernel passed the judge"})
        if not on_gpu(record.best.candidate.target):
            return row.model_copy(update={"refused": "the kernel is for a processor, and KernelBench runs on GPUs"})
        try:
            (file,) = export(record, "kernelbench", self._folder.path / task.name / "kernelbench")
        except (UserError, MachineError) as error:
            return row.model_copy(update={"refused": error.problem})
        return row.model_copy(update={"exported": True, **self._evaluated(task, record, file)})

    def _evaluated(self, task: SuiteTask, record: RunRecord, file: Path) -> dict[str, Any]:
        reference = file.with_name("reference.py")
        replace_file(reference, task.source)
        job = {
            "task": str(reference),
            "export": str(file),
            "build_dir": str(file.parent / "build"),
            "turns": str(self._folder.path),
            "needed": int(_HELD * _bytes(record)),
            "device": self._device,
            "backend": self._backend,
            "correct_trials": CORRECT_TRIALS,
            "perf_trials": PERF_TRIALS,
        }
        found, said = self._child(job, file.with_name("evaluation.log"))
        if found is None:
            return {"note": said}
        wrong = "" if found["correct"] else _told(found["metadata"])
        times = {name: found[name] for name in ("ms", "reference_ms") if found.get(name, 0) > 0}
        return {"compiled": found["compiled"], "correct": found["correct"], "note": wrong, **times}

    def _finished(self) -> KernelBenchRecord:
        """With the scores over the rows."""
        rows = self._record.rows
        if rows:
            scored = self._scores([row.speedup for row in rows])
            judged = self._scores([row.judge for row in rows])
            self._record = self._record.model_copy(update={"scored": scored, "judged": judged})
            self._write()
        return self._record

    def _scores(self, speedups: Sequence[float | None]) -> Scores | None:
        """By its own functions, which take times: the speed-up against one."""
        lists = {
            "correct": [each is not None for each in speedups],
            "reference_ms": [each or 1.0 for each in speedups],
            "ms": [1.0 for _ in speedups],
        }
        found, _ = self._child({"scores": lists}, self._folder.path / "scores.log")
        if found is None:
            return None
        return Scores(**{name.replace("fast_1.5", "fast_15"): value for name, value in found.items()})

    def _child(self, job: dict[str, Any], log: Path) -> tuple[dict[str, Any] | None, str]:
        """What the child found, or why there is nothing; what its evaluator printed goes into `log`."""
        with tempfile.NamedTemporaryFile("w", suffix=".json") as told, log.open("w") as kept:
            json.dump({"kernelbench": str(self._checkout), **job}, told)
            told.flush()
            with self._own_group([sys.executable, "-m", _CHILD, told.name], kept) as child:
                try:
                    out, _ = child.communicate(timeout=TASK_S)
                except subprocess.TimeoutExpired:
                    return None, f"no result after {TASK_S:.0f} s"
        try:
            found: dict[str, Any] = json.loads(out.strip().splitlines()[-1])
        except (IndexError, ValueError):
            lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
            return None, f"the evaluator ended with exit code {child.returncode}: {(lines or [''])[-1]}"[:_SAID]
        return found, ""

    @contextmanager
    def _own_group(self, command: list[str], log: Any) -> Iterator[subprocess.Popen[str]]:
        """A child whose compilers end with it."""
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True, start_new_session=True) as child:
            self._children.add(child)
            try:
                if self._stopped.is_set():
                    _kill(child)
                yield child
            finally:
                _kill(child)
                self._children.discard(child)

    def _stop(self) -> None:
        """End the children: an interrupt reaches this process alone."""
        self._stopped.set()
        for child in tuple(self._children):
            _kill(child)

    def _keep(self, row: Scored) -> Scored:
        with self._writing:
            rows = sorted((*self._record.rows, row), key=lambda each: each.id)
            self._record = self._record.model_copy(update={"rows": tuple(rows)})
            self._write()
        return row

    def _write(self) -> None:
        replace_file(self.file, self._record.model_dump_json(indent=1) + "\n")

    def _before(self) -> KernelBenchRecord | None:
        try:
            found = KernelBenchRecord.model_validate_json(read_bounded(self.file))
        except (OSError, ValidationError):
            return None
        return found if found.backend == self._backend else None


def _kill(child: subprocess.Popen[str]) -> None:
    if child.poll() is None:
        with suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)


def _bytes(record: RunRecord | None) -> int:
    """Of a task's arguments and results, as KernelBench hands them over: every number a float."""
    if record is None or record.task is None:
        return 0
    of = record.task.signature
    return 4 * sum(
        math.prod(spec.shape) for spec in (*of.inputs, *of.parameters, *of.outputs) if hasattr(spec, "shape")
    )


def _told(metadata: dict[str, str]) -> str:
    """Why it is not correct, in the evaluator's words."""
    names = ("compilation_error", "runtime_error", "correctness_issue", "max_difference", "error")
    return "; ".join(f"{name}: {' '.join(metadata[name].split())}" for name in names if name in metadata)[:_SAID]


def _commit(checkout: Path) -> str:
    """Of the checkout itself: a plain copy of it may lie in another repository."""
    command = ["git", "-C", str(checkout), "rev-parse", "--show-toplevel", "HEAD"]
    found = subprocess.run(command, capture_output=True, text=True).stdout.split("\n")
    return found[1] if Path(found[0]) == checkout.resolve() else "unknown"
