"""`python -m bench.full_size FOLDER`: the playbook's first kernels of many tasks beside eager, without the judge.

Each task at its own size on this machine's GPU: whether the kernel's outputs are eager's, and both times. Seconds where
verdicts take hours; nothing is varied and nobody is kept from cheating, so that it finds wrong and slow kernels of our
own, and is no evidence of right ones. With `--compiled`, torch.compile's time too, and how long each kernel of both
sides takes.
"""

from __future__ import annotations

import gc
import importlib.util
import multiprocessing
import os
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor, as_completed
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from queue import Queue
from threading import Lock
from typing import Annotated, Any

import torch
import tvm_ffi
import typer

from graph.model.writers import problem_of
from graph.suites.tasks import load_suite
from harness.building.compilation import library_of
from harness.judging.protocol import JudgeOrder
from harness.nouns.candidate import Candidate
from harness.nouns.device_facts import DeviceFacts
from harness.nouns.errors import CutegenError
from harness.nouns.verdict import Precision
from knowledge.compiler.plan import Decline, Draft, Plan
from knowledge.compiler.problem import Problem
from knowledge.compiler.search.first import first_draft
from knowledge.compiler.search.moves import next_draft
from tools.judges import open_judge

CALLS, CLOCKED_S, CHECKED_WITHIN_S, COMPILED_WITHIN_S = 12, 0.8, 30.0, 120.0
# A process that begins beside many compilers imports PyTorch and reaches the GPU for the first time.
BEGUN_WITHIN_S = 120.0
PREPARED = "prepared"
# Relative, and of an output's mean magnitude: far above rounding, to TF32 too where it is on, far below wrong elements.
TOLERANCE, IN_TF32 = 1e-3, 1e-2


@dataclass(frozen=True)
class Prepared:
    """A task's first kernel: built into `library`, or why there is none."""

    name: str
    source: str
    recipe: str = ""
    library: str = ""
    parameters: tuple[str, ...] = ()
    precision: Precision = "default"
    failure: str = ""


def prepared(name: str, source: str, facts: DeviceFacts, precision: Precision, depth: int) -> Prepared:
    """Describe the task, write its kernel after so many moves, and build it as the judge would."""
    try:
        judge = open_judge(JudgeOrder("cuda"))
        task = judge.describe(source, name=name)
        if task.program is None:
            return Prepared(name, source, failure=f"not traced: {task.trace_failure}")
        problem = problem_of(task, "cuda", facts, precision)  # type: ignore[arg-type]
        draft = first_draft(problem)
        if isinstance(draft, Decline):
            return Prepared(name, source, failure=f"declined: {draft.reason}")
        draft = _moved(problem, draft, depth)
        build = judge.build(task, Candidate(source=draft.source, target="cuda", author="generator:playbook"))
        library, plan = library_of(build), Plan.read(draft.source)
        if library is None:
            return Prepared(name, source, failure=f"not built: {build.diagnostics[0].message}")
        parameters = tuple(each.name for each in task.signature.parameters)
        recipe = f"{plan.recipe}, {draft.move}" if plan else ""
        return Prepared(name, source, recipe, str(library), parameters, precision)
    except CutegenError as failure:
        return Prepared(name, source, failure=str(failure))


def _moved(problem: Problem, draft: Draft, depth: int) -> Draft:
    """Each move the first that there is, untried."""
    for _ in range(depth):
        after = next_draft(problem, draft.source, ())
        draft = draft if isinstance(after, Decline) else after
    return draft


def checked(kernel: Prepared, compiled: bool, wait: Callable[[], object]) -> str:
    """A kernel's speed-up over eager, and over torch.compile where asked, and how far its outputs are from eager's.

    `wait` returns when the clock is this process's.
    """
    torch.set_default_device("cuda")
    torch.manual_seed(3)
    torch.backends.cuda.matmul.allow_tf32 = kernel.precision == "tf32"
    torch.backends.cudnn.allow_tf32 = kernel.precision != "ieee"
    model, inputs = _made(kernel)
    held = {**dict(model.named_parameters(remove_duplicate=False)), **dict(model.named_buffers(remove_duplicate=False))}
    with torch.no_grad():
        expected = _outputs(model(*inputs))
        outputs = [torch.empty_strided(each.shape, each.stride(), dtype=each.dtype) for each in expected]
        for each in outputs:
            each.fill_(torch.nan if each.is_floating_point() else 1)
        entry = tvm_ffi.load_module(kernel.library).run
        arguments = [*inputs, *(held[name] for name in kernel.parameters), *outputs]
        entry(*arguments)
        torch.cuda.synchronize()
        tolerance = TOLERANCE if kernel.precision == "ieee" else IN_TF32
        said = "; ".join(_compared(*each, tolerance) for each in zip(outputs, expected, strict=True))
        del expected
        sides: dict[str, Callable[[], object]] = {"ours": lambda: entry(*arguments), "eager": lambda: model(*inputs)}
        if compiled:
            inductor = torch.compile(model)
            inductor(*inputs)
            sides["compiled"] = lambda: inductor(*inputs)
        wait()
        ms = {name: _clocked(call) for name, call in sides.items()}
        kernels = {name: _kernels(sides[name]) for name in ("ours", "compiled") if compiled}
    line = f"{kernel.recipe}: {ms['eager'] / ms['ours']:.2f}x, {ms['ours']:.3f} ms, eager {ms['eager']:.3f} ms; {said}"
    if compiled:
        line += f"; {ms['compiled'] / ms['ours']:.2f}x over torch.compile, {ms['compiled']:.3f} ms"
    return "\n    ".join([line, *(f"{name}: {each}" for name, each in kernels.items())])


def _kernels(call: Callable[[], object]) -> str:
    """What each kernel of one call takes, in ms, the longest first."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profiled:
        call()
        torch.cuda.synchronize()
    each = [(event.device_time_total / 1e3, event.count, event.key) for event in profiled.key_averages()]
    named = ((ms, count, name.replace("void ", "").split("<")[0].split("(")[0][:60]) for ms, count, name in each)
    return ", ".join(f"{name} x {count} {ms:.3f}" for ms, count, name in sorted(named, reverse=True)[:8])


def _made(kernel: Prepared) -> tuple[torch.nn.Module, list[Any]]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "task.py")
        path.write_text(kernel.source)
        spec = importlib.util.spec_from_file_location("task", path)
        assert spec is not None and spec.loader is not None
        file = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(file)
    model = file.Model(*file.get_init_inputs()).cuda().eval()
    return model, [each.cuda() if isinstance(each, torch.Tensor) else each for each in file.get_inputs()]


def _outputs(found: Any) -> list[torch.Tensor]:
    if isinstance(found, dict):
        return list(found.values())
    return list(found) if isinstance(found, tuple | list) else [found]


def _compared(mine: torch.Tensor, eager: torch.Tensor, tolerance: float) -> str:
    if not eager.is_floating_point():
        return f"{int((mine != eager).sum())} elements differ"
    allowed = tolerance * eager.abs().mean().clamp(min=1e-6).item()
    off = ~torch.isclose(mine, eager, rtol=tolerance, atol=allowed, equal_nan=True)
    far = (mine.double() - eager.double()).norm() / eager.double().norm().clamp(min=1e-30)
    return f"{int(off.sum())} elements wrong, {far.item():.1e} away in all"


def _clocked(call: Callable[[], object]) -> float:
    """The shortest of several calls, in ms."""
    began, best = time.monotonic(), float("inf")
    call()
    for _ in range(CALLS):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
        start.record()
        call()
        end.record()
        end.synchronize()
        best = min(best, start.elapsed_time(end))
        if time.monotonic() - began > CLOCKED_S:
            break
    return best


def serve(pipe: Connection, compiled: bool) -> None:
    """A process that says that it has begun and checks kernels, one after the other, until its context is lost."""
    torch.zeros(1, device="cuda")
    pipe.send("begun")

    def wait() -> None:
        pipe.send(PREPARED)
        pipe.recv()

    while True:
        kernel = pipe.recv()
        try:
            said, lost = checked(kernel, compiled, wait), False
        except Exception as failure:  # noqa: BLE001 (a kernel may do anything)
            said = f"raised {failure!r:.200}"
            lost = "CUDA error" in said
        pipe.send(said)
        if lost:
            return
        gc.collect()
        torch.cuda.empty_cache()


class Checker:
    """A process that checks kernels, made anew where it ends or hangs; several share the clock.

    The lock is this process's: one that is killed while it is clocked keeps nobody waiting.
    """

    def __init__(self, compiled: bool, clock: Lock) -> None:
        self.compiled, self.clock = compiled, clock
        self.process: Any = None

    def line(self, kernel: Prepared) -> str:
        """What is said of a kernel."""
        if kernel.failure:
            return f"{kernel.name} {kernel.failure:.200}".replace("\n", " ")
        if self.process is None or not self.process.is_alive():
            self._begin()
        with suppress(OSError):
            self.pipe.send(kernel)
        said = self._answer(COMPILED_WITHIN_S if self.compiled else CHECKED_WITHIN_S)
        if said == PREPARED:
            with self.clock, suppress(OSError):
                self.pipe.send(None)
                said = self._answer(CHECKED_WITHIN_S)
        return f"{kernel.name} {said}"

    def _begin(self) -> None:
        self.pipe, theirs = multiprocessing.Pipe()
        # No daemon: Inductor compiles in processes of its own.
        self.process = multiprocessing.Process(target=serve, args=(theirs, self.compiled))
        self.process.start()
        theirs.close()
        self._answer(BEGUN_WITHIN_S)

    def _answer(self, within_s: float) -> str:
        """What the process says within that time, or how it ended."""
        try:
            if self.pipe.poll(within_s):
                return str(self.pipe.recv())
            self.process.kill()
            said = f"took longer than {within_s:.0f} s"
        except (EOFError, OSError):
            said = "ended its process"
        self.process.join(5)
        return f"{said}, exit code {self.process.exitcode}"


def main(
    folder: Annotated[str, typer.Argument(help="A bundled suite or a folder of task files.")],
    ids: Annotated[str, typer.Option(help="Only these, as 1-18,23.")] = "",
    jobs: Annotated[int, typer.Option(min=1, help="Builds side by side.")] = 14,
    minutes: Annotated[float, typer.Option(min=0.0, help="Then end.")] = 8.0,
    precision: Annotated[Precision, typer.Option(help="default, ieee or tf32, of eager too.")] = "default",
    depth: Annotated[int, typer.Option(min=0, help="Moves made of the first kernel, unmeasured.")] = 0,
    compiled: Annotated[bool, typer.Option("--compiled", help="Beside torch.compile, too.")] = False,
    checkers: Annotated[int, typer.Option(min=1, help="Processes that check; they share the clock.")] = 1,
) -> None:
    """Print a line for each task."""
    multiprocessing.set_start_method("spawn")
    began = time.monotonic()
    _, tasks = load_suite(folder, ids=ids, scale=1.0)
    facts, pool = open_judge(JudgeOrder("cuda")).facts(), ProcessPoolExecutor(jobs)
    futures = [pool.submit(prepared, task.name, task.source, facts, precision, depth) for task in tasks]
    clock = Lock()
    idle: Queue[Checker] = Queue()
    for _ in range(checkers):
        idle.put(Checker(compiled, clock))

    def said(future: Future[Prepared]) -> str:
        kernel, checker = future.result(), idle.get()
        try:
            return checker.line(kernel)
        finally:
            idle.put(checker)

    threads = ThreadPoolExecutor(len(futures) or 1)
    for line in as_completed([threads.submit(said, future) for future in futures]):
        print(line.result(), flush=True)
        if time.monotonic() - began > 60 * minutes:
            print("out of time", flush=True)
            break
    pool.shutdown(wait=False, cancel_futures=True)
    for checker in multiprocessing.active_children():
        checker.kill()
    os._exit(0)


if __name__ == "__main__":
    typer.run(main)
