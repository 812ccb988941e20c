"""cutegen from Python: load a task, optimize it, read the result. Sync and async do the same."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self

from langchain_core.runnables import RunnableConfig
from langgraph.runtime import RunControl

from graph.driving.keeping import keep_winner
from graph.driving.loop import affordable, compare, drive, save
from graph.export.training import training_files
from graph.fields import make_settings as make_settings
from graph.fields import raised as raised
from graph.loading import load as load
from graph.loading import load_task as load_task
from graph.runs.folder import RUNS, Kind, Manifest, RunFolder, create, machine_error, reopen
from graph.runs.progress import Callback, Observer, Quiet, watching
from graph.runs.record import RunRecord
from graph.runs.store import record_on
from harness.nouns.errors import UserError
from harness.nouns.verdict import Verdict
from nodes.events import Progress
from nodes.settings import Settings
from nodes.state import TaskInput

if TYPE_CHECKING:
    from graph.model.door import ModelResult

Watch = Observer | Callback
"""Who hears of the work while it goes on: an observer of steps, or a function that is called with every event."""


class RunResult:
    """What a run found; `record` holds all of it, and `folder` the artifacts."""

    def __init__(self, folder: RunFolder, record: RunRecord) -> None:
        self.folder = folder.path
        self.record = record

    @classmethod
    def of(cls, graph: Any, config: RunnableConfig, out: str | Path | None = None) -> RunResult:
        """What a thread of the graph `cutegen` has found by now; `graph` is compiled here, or a `RemoteGraph`.

        Record, report, kernel and drop-in are written to `out`, or to `runs/thread-<id>`; to go on, give the
        thread itself more. The drop-in brings its library where this machine judged the kernel. Raises `UserError` for
        a thread of another graph or without a run, and `MachineError`.
        """
        record = record_on(graph, config)
        folder = RunFolder(Path(out) if out else RUNS / f"thread-{record.id}")
        try:
            folder.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise machine_error(error, folder.path, "write to") from error
        save(folder, record)
        return cls(folder, record)

    @property
    def improved(self) -> bool:
        """Whether the best kernel is faster than the baseline beyond the noise."""
        return self.record.outcome == "improved"

    @property
    def question(self) -> str | None:
        """What a run waits with, by the model "manual" or for approval; None where it does not wait."""
        return RunFolder(self.folder).question.read_text(encoding="utf-8") if self.record.outcome == "waiting" else None

    @property
    def verdict(self) -> Verdict | None:
        """The judge's word on the best kernel, or on the last one where none passed."""
        if self.record.best is not None:
            return self.record.best.verdict
        return next(reversed(self.record.verdicts.values()), None)

    @property
    def speedup(self) -> float | None:
        """Baseline / kernel, of the best kernel, as `Timing.headline` has it; None where none passed."""
        timing = self.record.timing
        return timing.headline.speedup if timing is not None else None

    @property
    def kernel(self) -> str | None:
        """The best kernel's source; None where none passed."""
        return self.record.best.candidate.source if self.record.best is not None else None

    @property
    def reason(self) -> str:
        """Why the run did not improve: what is wrong with the task, or else why it ended; empty where it did."""
        return "" if self.improved else self.record.degenerate or self.record.stop_reason

    def deeper(self, depth: int | None = None, *, observer: Watch | None = None, **more: Any) -> RunResult:
        """Go on from the best kernel, in the same folder: to this depth, or `max_depth` and other budgets raised.

        Raises like `optimize`, and `UserError` for what is no budget.
        """
        if depth is not None:
            more["max_depth"] = depth
        return resume(self.folder, observer=observer, **more)

    def module(self, module: Any = None, *, fallback: Literal["reference", "error"] = "reference") -> Any:
        """The drop-in as an `nn.Module`; or the given module itself, whose forward is the kernel's from now on.

        Without one it is constructed as the task does, in evaluation mode, on the kernel's device. Calls that the
        kernel was not made for are computed by the reference, counted and told once a kind, or raise with
        `fallback="error"` (docs/drop-in.md). Raises `UserError` where no kernel passed, or the module has other
        weights.
        """
        if not RunFolder(self.folder).drop_in.exists():
            raise UserError(f"There is no kernel in {self.folder}: none passed.", "See `result.reason`.")
        return load(self.folder, module, fallback=fallback)

    def save(self, folder: str | Path) -> Path:
        """Copy kernel, drop-in and all that it needs, record and report into a folder. Raises `MachineError`."""
        target, run = Path(folder), RunFolder(self.folder)
        try:
            target.mkdir(parents=True, exist_ok=True)
            (target / run.runtime.name).mkdir(exist_ok=True)
            for file in run.saved:
                _put(file, target / file.relative_to(run.path))
        except OSError as error:
            raise machine_error(error, target, "write to") from error
        return target

    def __repr__(self) -> str:
        speed = f"{self.speedup:.2f}x" if self.speedup is not None else "no kernel"
        why = f" ({self.reason})" if self.reason else ""
        return f"RunResult({self.record.name}: {self.record.outcome}{why}, {speed}, {self.folder})"


def save_training(forward: RunResult, backward: RunResult, folder: str | Path) -> Path:
    """The kernels of two runs on one module, one in each direction, as a drop-in that trains.

    `folder` gets `model_new.py` and both kernels. Raises `UserError` where a run has no kernel, or the two do not
    belong together, and `MachineError`.
    """
    pair = []
    for result in (forward, backward):
        if result.record.task is None or result.record.best is None:
            raise UserError(f"The run on {result.record.name} has no kernel.", "Both directions need one that passed.")
        pair.append((result.record.task, result.record.best.candidate))
    target = Path(folder)
    try:
        for name, text in training_files(*pair).items():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            (target / name).write_text(text, encoding="utf-8")
    except OSError as error:
        raise machine_error(error, target, "write to") from error
    return target


def optimize(
    task: TaskInput | str | Path,
    *,
    out: str | Path | None = None,
    observer: Watch | None = None,
    compile_baseline: bool | None = None,
    **settings: Any,
) -> RunResult:
    """Run the agents on a task and return the fastest verified kernel.

    `settings` are the fields of `nodes.settings.Settings`; `depth` may be said for `max_depth`. The artifacts lie in
    `out`, or in `runs/<task>-<id>`. A terminal or a notebook shows its progress; an `observer` hears of it instead.
    `compile_baseline` is as in `carry_on`. Raises `UserError` and `MachineError`; what was verified by then is kept
    there.
    """
    return begin_and_run("optimize", task, out, observer, settings, None, compile_baseline)


def evolve(
    task: TaskInput | str | Path, *, out: str | Path | None = None, observer: Watch | None = None, **settings: Any
) -> RunResult:
    """Search for the fastest kernel by generations of proposals, and return it; otherwise like `optimize`.

    `settings` say how: `generations`, `proposals` of each, the `proposers` who take turns, and all that a run has.
    """
    return begin_and_run("evolve", task, out, observer, settings, None)


def accelerate(
    module: Any,
    inputs: Sequence[Any] | Mapping[str, Any] | None = None,
    *,
    budget: float | None = None,
    out: str | Path | None = None,
    observer: Watch | None = None,
    compile_baseline: bool = True,
    assembly: bool = False,
    **settings: Any,
) -> ModelResult:
    """Make a whole model faster: the regions worth a kernel, each by the agents, and kept where it gains inside.

    `module` is an `nn.Module` with the `inputs` that it is called with, or a file as `cutegen model` takes it. `budget`
    is the seconds of the whole wait, within which the answer comes, or 15 s later. `result.module()` is the fast one,
    `result.record` says all, with `compile_baseline` also how torch.compile does in the same rounds. Inductor compiles
    what is around the kernels; with `assembly`, and without `compile_baseline`, the exported operations run one by one,
    on a GPU as a CUDA graph. An `observer` hears of each step and event, regions' included; without one a terminal or a
    notebook shows them.
    Raises `UserError` and `MachineError`.
    """
    from graph.model.door import accelerate_model  # slow to import, and a run of one kernel does without

    more = settings if budget is None else settings | {"max_wall_s": budget}
    asked = make_settings(more)
    return accelerate_model(
        module, inputs, asked, out, observer=observer, compile_baseline=compile_baseline, assembly=assembly
    )


def resume(run: str | Path, *, observer: Watch | None = None, trust: bool = False, **more: Any) -> RunResult:
    """Go on with a run that was interrupted, with the settings it began with. Raises like `optimize`.

    `more` are budgets that are raised; `depth` may be said for `max_depth`. With them a run that had ended goes on from
    its best kernel. With `trust` a folder from elsewhere may turn isolation off and send keys to its own endpoints.
    """
    folder, manifest = reopen(Path(run), trust=trust)
    wanted = raised(manifest.settings, more)
    return carry_on(folder, folder.rewrite(manifest, wanted), observer, deeper=wanted != manifest.settings)


async def aoptimize(
    task: TaskInput | str | Path, *, out: str | Path | None = None, observer: Watch | None = None, **settings: Any
) -> RunResult:
    """`optimize`, with the event loop free meanwhile. Cancelled, it ends after the present step and can be resumed."""
    return await _beside("optimize", task, out, observer, settings)


async def aevolve(
    task: TaskInput | str | Path, *, out: str | Path | None = None, observer: Watch | None = None, **settings: Any
) -> RunResult:
    """`evolve`, with the event loop free meanwhile, as with `aoptimize`."""
    return await _beside("evolve", task, out, observer, settings)


async def _beside(
    kind: Kind,
    task: TaskInput | str | Path,
    out: str | Path | None,
    observer: Watch | None,
    settings: dict[str, Any],
) -> RunResult:
    control = RunControl()
    work = asyncio.ensure_future(asyncio.to_thread(begin_and_run, kind, task, out, observer, settings, control))
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        control.request_drain("cancelled")
        await asyncio.wait([work])
        raise


def answer(run: str | Path, text: str, *, observer: Watch | None = None) -> RunResult:
    """Answer the question that a run waits with, a model's or one for approval; go on to the next one or the end.

    Raises `UserError` where no question waits, and like `optimize`.
    """
    return carry_on(*reopen(Path(run)), observer, answer=text)


def begin(task: TaskInput, settings: Settings, out: Path | None, kind: Kind = "optimize") -> tuple[RunFolder, Manifest]:
    """Make the folder of a new run."""
    return create(out, name=task.name, source=task.source, settings=settings, kind=kind)


def carry_on(
    folder: RunFolder,
    manifest: Manifest,
    observer: Watch | None = None,
    control: RunControl | None = None,
    answer: str | None = None,
    *,
    deeper: bool = False,
    compile_baseline: bool | None = None,
) -> RunResult:
    """Run from the last checkpoint, or from the start, to the end or to the next question.

    With `deeper` a run that has ended goes on, as far as its settings allow more by now. At the end the best kernel is
    timed beside torch.compile's version, too, where `compile_baseline` asks for it or is None on a GPU.
    """
    with watching(observer) as watch:
        record = drive(folder, manifest, watch, control=control, answer=answer, deeper=deeper)
    if affordable(record) if compile_baseline is None else compile_baseline:
        with folder.claimed():
            compare(folder, record, manifest.settings)
    keep_winner(folder, record, manifest.settings)
    return RunResult(folder, record)


def begin_and_run(
    kind: Kind,
    task: TaskInput | str | Path,
    out: str | Path | None,
    observer: Watch | None,
    settings: dict[str, Any],
    control: RunControl | None,
    compile_baseline: bool | None = None,
) -> RunResult:
    """What `optimize` and `evolve` do; `control` has it end after the present step. Raises as they do."""
    loaded = task if isinstance(task, TaskInput) else load_task(task, direction=settings.get("direction"))
    folder, manifest = begin(loaded, make_settings(settings), Path(out) if out is not None else None, kind)
    return carry_on(folder, manifest, observer, control, compile_baseline=compile_baseline)


def _put(file: Path, place: Path) -> None:
    """Copy a file whole: a process may have the one that lay there loaded."""
    scratch = place.with_name(f".{place.name}.{os.getpid()}")
    shutil.copyfile(file, scratch)
    scratch.replace(place)


# -- A run beside an event loop: its events as they happen, its result when it has ended, and an end on leaving ear ---


class Running:
    """`async with Running(task, **settings) as run`: iterate over its events, then `await run.result()`.

    `task`, `out` and `settings` are those of `optimize` above; `kind` "evolve" searches as `evolve` does. The run
    begins on entering. Who leaves the block before its end, or is cancelled in it, ends it after the present step: the
    block is left once all that was verified lies in its folder, from which `resume` goes on.
    """

    def __init__(
        self, task: TaskInput | str | Path, *, out: str | Path | None = None, kind: Kind = "optimize", **settings: Any
    ) -> None:
        self._asked = (kind, task, out)
        self._settings = settings
        self._control = RunControl()
        self._told: asyncio.Queue[Progress | None] = asyncio.Queue()
        self._work: asyncio.Future[RunResult] | None = None

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()

        def tell(progress: Progress | None) -> None:
            loop.call_soon_threadsafe(self._told.put_nowait, progress)

        def work() -> RunResult:
            try:
                return begin_and_run(*self._asked, _Listener(tell), self._settings, self._control)
            finally:
                tell(None)

        self._work = asyncio.ensure_future(asyncio.to_thread(work))
        return self

    async def __aiter__(self) -> AsyncIterator[Progress]:
        """Every event from here on; the iteration ends with the run, which it does not fail with."""
        while (progress := await self._told.get()) is not None:
            yield progress
        self._told.put_nowait(None)  # for whoever iterates once more

    async def result(self) -> RunResult:
        """What it found, once it has ended. Raises as `optimize` does; who is cancelled here leaves the run alone."""
        if self._work is None:
            raise RuntimeError("The run has not begun: enter it by `async with`.")
        return await asyncio.shield(self._work)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._work is not None
        self._control.request_drain("left")
        await asyncio.wait([self._work])
        if kind is not None and not self._work.cancelled():
            self._work.exception()  # the block's own failure is told, and this one looked at


class _Listener(Quiet):
    def __init__(self, tell: Callable[[Progress], None]) -> None:
        self._tell = tell

    def heard(self, progress: Progress) -> None:
        """Pass it on."""
        self._tell(progress)
