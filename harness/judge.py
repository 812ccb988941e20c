"""The judge's front door: screen and build a candidate, evaluate it, profile it."""

from __future__ import annotations

import fcntl
import secrets
import signal
import socket
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from harness.build import Build
from harness.building.toolchain import tvm_ffi_folder
from harness.cache import cache_dir
from harness.candidate import Candidate
from harness.errors import MachineError
from harness.isolation.policy import Access, Limits
from harness.isolation.process import Completed, IsolatedProcess, interpreter_paths
from harness.profile.summary import Profile
from harness.screen.imports import screen_library
from harness.screen.refusal import Refusal
from harness.screen.source import screen_source
from harness.targets.target import DeviceFacts, Target
from harness.task import Task, TensorSpec, Workload
from harness.verdict import Correctness, Precision, Tier, Timing, Verdict
from harness.worker.client import ROOT, JobDiedError, usable_threads, warm_parent
from harness.worker.layout import slot_bytes

SCRATCH_BYTES = 4 << 30
"""What a kernel may allocate beside its arguments."""
SLOT_BUDGET_BYTES = 1 << 30
"""Memory for rotating slots; two slots of a larger task are allowed up to MEMORY_BYTES."""
MEMORY_BYTES = 16 << 30
WALL_S = 600.0
TIMING_S = 1.0
FLOOR_SLACK = 1.5
"""A bandwidth measured by a plain copy can be beaten a little, but not by half."""

_RUNNER = ROOT / "harness" / "worker" / "runner.py"
_turns = threading.Lock()


class Judge:
    """Judges candidates for one target. Threads may share it; evaluations take turns, builds do not."""

    def __init__(self, target: Target, *, tier: Tier, precision: Precision = "ieee") -> None:
        self.target = target
        self.tier = tier
        self.precision = precision

    def build(self, candidate: Candidate) -> Build:
        """Compile the candidate in isolation."""
        return self.target.compile(candidate, tier=self.tier)

    def screen(self, task: Task, candidate: Candidate) -> Refusal | None:
        """Why the candidate's source may not run, told within milliseconds; None where nothing speaks against it."""
        tensors = (spec for work in task.workloads for spec in work.signature.arguments if isinstance(spec, TensorSpec))
        return screen_source(candidate.source, frozenset({self.precision, *(spec.dtype for spec in tensors)}))

    def screen_build(self, build: Build) -> Refusal | None:
        """Why the built library may not be loaded, or None."""
        return screen_library(build.library) if build.library is not None else None

    def evaluate(
        self,
        task: Task,
        candidate: Candidate,
        build: Build | None = None,
        *,
        seed: int | None = None,
        rival: Verdict | None = None,
    ) -> Verdict:
        """Screen, build unless a `build` is given, check, then time the candidate. `seed` replays a verdict.

        A source that the screen refuses is not built: its verdict holds a build only where one was given.
        With the passed verdict of a `rival` that kernel runs in the same rounds, and the timing holds their duel.
        Raises `MachineError` where the machine, not the candidate, failed.
        """
        chosen = secrets.randbits(31) if seed is None else seed
        facts: dict[str, Any] = {
            "candidate": candidate.digest,
            "task": task.digest,
            "seed": chosen,
            "tier": self.tier,
            "precision": self.precision,
        }
        if refusal := self.screen(task, candidate):
            return _refused(refusal, build=build, **facts)
        build = build or self.build(candidate)
        facts["build"] = build
        if build.library is None:
            return Verdict(**facts, status="build_failed", check="build", message=_first_error(build))
        if refusal := self.screen_build(build):
            return _refused(refusal, **facts)
        self.target.require_device()
        with _one_at_a_time():
            outcome = self._run(task, build.library, chosen, rival)
        seconds = {"build": build.seconds, **outcome["seconds"]}
        timing = Timing.model_validate(outcome["timing"]) if "timing" in outcome else None
        correctness = Correctness.model_validate(outcome["correctness"]) if "correctness" in outcome else None
        status, check, message = outcome["status"], outcome["check"], outcome["message"]
        if timing is not None and (floor := self._below_floor(task, timing)):
            status, check, message, timing = "refused", "floor", floor, None
        return Verdict(
            **facts,
            status=status,
            check=check,
            message=message,
            correctness=correctness,
            timing=timing,
            seconds={name: round(value, 4) for name, value in seconds.items()},
        )

    def profile(self, task: Task, verdict: Verdict) -> Profile:
        """What limits a candidate that passed (`verdict.timing` and `verdict.build` are present)."""
        if verdict.timing is None or verdict.build is None:
            raise ValueError("only a passed verdict can be profiled")
        return self.target.profile(task.workloads[0], verdict.timing, verdict.build)

    def _run(self, task: Task, library: Path, seed: int, rival: Verdict | None) -> dict[str, Any]:
        """Start each kernel's runner in a cage of its own, and beside them the judging child that drives them."""
        memory_bytes = _memory_budget(task)
        with ExitStack() as held:
            scratch = Path(held.enter_context(tempfile.TemporaryDirectory(prefix="cutegen-")))
            runner, link = _start_runner(held, library, memory_bytes, self.tier, scratch / "candidate")
            payload = {
                "source": task.source,
                "name": task.name,
                "signature": task.signature.model_dump(mode="json"),
                "library": str(library),
                "seed": seed,
                "runner_pid": runner.pid,
                "slot_target_bytes": 2 * self.target.facts().l3_bytes,
                "memory_bytes": memory_bytes,
                "timing_s": TIMING_S,
            }
            links = [link.fileno()]
            if rival and rival.build and rival.build.library and rival.build.library.exists():
                other, link = _start_runner(held, rival.build.library, memory_bytes, self.tier, scratch / "rival")
                payload["rival"] = {
                    "digest": rival.candidate,
                    "library": str(rival.build.library),
                    "pid": other.pid,
                }
                links.append(link.fileno())
            outcome = self._drive(payload, links, scratch, memory_bytes)
            ended = runner.wait(2.0) if outcome["check"] == "process" else None
        return outcome if ended is None else outcome | _how_it_ended(ended)

    def _drive(self, payload: dict[str, Any], links: list[int], scratch: Path, memory_bytes: int) -> dict[str, Any]:
        limits = Limits(
            wall_s=WALL_S,
            memory_bytes=64 << 30,  # the reference's own: it ran before under the same limit
            processes=512,
            file_bytes=memory_bytes + (1 << 30),  # shared memory counts as a file
        )
        try:
            return warm_parent().run(
                "judge", payload, tier=self.tier, cwd=scratch, limits=limits, descriptors=tuple(links)
            )
        except JobDiedError as died:
            raise MachineError(
                f"The judging process for {payload['name']} ended without a verdict, {died.reason}.",
                "Is there enough memory for the task? Smaller shapes need less.",
            ) from died

    def _below_floor(self, task: Task, timing: Timing) -> str:
        """Why the time is impossible, or nothing. Only where the data cannot stay in the cache between calls.

        Before a refusal the bandwidth is measured once more: on a busy machine it may have come out too low.
        """
        workload = task.workloads[0]
        facts = self.target.facts()
        if workload.bytes_moved < 2 * facts.l3_bytes or timing.candidate_ms >= _floor_ms(workload, facts):
            return ""
        facts = self.target.facts(again=True)
        floor_ms = _floor_ms(workload, facts)
        if timing.candidate_ms >= floor_ms:
            return ""
        return (
            f"{timing.candidate_ms:.4g} ms is below {floor_ms:.4g} ms, the time to move {workload.bytes_moved} bytes "
            f"at {FLOOR_SLACK:g} times the measured {facts.peak_gb_s:.4g} GB/s."
        )


def _floor_ms(workload: Workload, facts: DeviceFacts) -> float:
    return workload.bytes_moved / (FLOOR_SLACK * facts.peak_gb_s * 1e9) * 1e3


def _memory_budget(task: Task) -> int:
    """Bytes for the slots: the usual budget, or two slots of a task that is larger than that."""
    each = slot_bytes(task.signature)
    if each > MEMORY_BYTES:
        raise MachineError(
            f"{task.name} needs {each} bytes for one set of arguments; the judge allows {MEMORY_BYTES}.",
            "Choose smaller shapes.",
        )
    return max(SLOT_BUDGET_BYTES, min(2 * each, MEMORY_BYTES))


def _start_runner(
    held: ExitStack, library: Path, memory_bytes: int, tier: Tier, scratch: Path
) -> tuple[IsolatedProcess, socket.socket]:
    """A runner for one library, and the judge's end of the line to it; both live as long as `held`."""
    scratch.mkdir()
    ours, theirs = socket.socketpair()
    held.enter_context(ours)
    with theirs:
        return held.enter_context(_runner(library, theirs.fileno(), memory_bytes, tier, scratch)), ours


def _runner(library: Path, link_fd: int, memory_bytes: int, tier: Tier, scratch: Path) -> IsolatedProcess:
    runtime = tvm_ffi_folder() / "lib" / "libtvm_ffi.so"
    threads = str(usable_threads())
    return IsolatedProcess(
        [sys.executable, "-I", "-S", str(_RUNNER), str(link_fd), str(runtime)],
        cwd=scratch,
        access=Access(read=(*interpreter_paths(), str(_RUNNER.parent), str(runtime.parent), str(library.parent))),
        limits=Limits(memory_bytes=memory_bytes + SCRATCH_BYTES, processes=64, file_bytes=64 << 20),
        environment={"OMP_NUM_THREADS": threads, "PYTHONDONTWRITEBYTECODE": "1"},
        tier=tier,
        pass_fds=(link_fd,),
    )


@contextmanager
def _one_at_a_time() -> Iterator[None]:
    """Two timings at once would disturb each other: threads of this process take turns, and so do processes."""
    cache_dir().mkdir(parents=True, exist_ok=True)
    with _turns, (cache_dir() / "timing.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _how_it_ended(ended: Completed) -> dict[str, str]:
    """Status, check and message for a runner that was gone in the middle of a call."""
    if ended.outcome == "signalled":
        known = {
            "SIGSEGV": "an address that is not its own; inputs are mapped read-only, a write to one ends like this",
            "SIGBUS": "an address beyond the end of a mapping",
            "SIGFPE": "an integer division by zero",
            "SIGILL": "an instruction that this processor lacks",
            "SIGABRT": "an abort, as by an uncaught exception or a failed assertion",
        }
        name = ended.signal or signal.SIGKILL.name
        reason = f": {known[name]}" if name in known else ""
        return {
            "status": "crashed",
            "check": "signal",
            "message": f"The kernel's process was killed by {name}{reason}.",
        }
    if ended.outcome == "out_of_memory":
        return {"status": "crashed", "check": "memory", "message": f"The kernel {ended.note}."}
    if ended.outcome == "setup_failed":
        raise MachineError(f"The kernel's process could not be started: {ended.note}.", "See `cutegen doctor`.")
    note = ended.note or f"it exited with code {ended.exit_code}"
    said = ended.stderr.decode(errors="replace").strip()[-500:]
    return {"status": "crashed", "check": "exit", "message": f"The kernel ended its process: {note}. {said}".strip()}


def _refused(refusal: Refusal, **facts: Any) -> Verdict:
    return Verdict(**facts, status="refused", check=refusal.check, message=str(refusal))


def _first_error(build: Build) -> str:
    first = next(d for d in build.diagnostics if d.severity == "error")
    return f"{first.file}:{first.line}: {first.message}"
