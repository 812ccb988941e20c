"""Run the GPU-marked tests in a process of their own, and count."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

from graph import gpu_test_log
from graph.gpu_model import GpuTests
from graph.gpu_test_log import LOG_VARIABLE
from harness.errors import MachineError

ROOT = Path(__file__).parents[1]
WORKERS = min(len(os.sched_getaffinity(0)) * 3 // 4, 12)
"""Most of these tests' time is a compiler's; but each worker holds PyTorch and a context on the GPU."""
_SLOWEST = 12
_TIDYING_S = 10.0
"""What pytest is given to tidy up once its time is over."""


def run_gpu_tests(*, limit_s: float, root: Path = ROOT, mark: str = "gpu", workers: int = WORKERS) -> GpuTests:
    """The counts; of what had ended after `limit_s`, if not all had. Raises `MachineError` where pytest is missing,
    breaks down, or has nothing to show."""
    if find_spec("pytest") is None or not (root / "tests").is_dir():
        raise MachineError(
            "The GPU tests need pytest and a checkout with its tests.", "pip install pytest pytest-timeout hypothesis"
        )
    with tempfile.TemporaryDirectory(prefix="cutegen-tests-") as scratch:
        log = Path(scratch) / "tests.jsonl"
        log.touch()
        command = [
            sys.executable, "-m", "pytest", "-q", "-m", mark, "-p", "no:cacheprovider", "-p", gpu_test_log.__name__,
            *_beside_each_other(workers),
        ]  # fmt: skip
        path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
        began = time.monotonic()
        said, code = _ended(command, root, {LOG_VARIABLE: str(log), "PYTHONPATH": path}, limit_s)
        found = counted(log.read_text(encoding="utf-8"), seconds=time.monotonic() - began, complete=code is not None)
    if code is None and found.passed + found.failed + found.skipped == 0:
        raise MachineError(f"No GPU test was done within {limit_s:.0f} s.", "Give them more: --minutes.")
    if code not in (None, 0) and not found.failed:
        raise MachineError(f"pytest broke down with exit code {code}: {said[-400:]}.", "Run it by hand.")
    return found


def _ended(command: Sequence[str], root: Path, settings: Mapping[str, str], limit_s: float) -> tuple[str, int | None]:
    """What the tests print, and their exit code; None where they were interrupted, as by Ctrl-C, for want of time."""
    with subprocess.Popen(
        command, cwd=root, env={**os.environ, **settings}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        start_new_session=True,
    ) as running:  # fmt: skip
        try:
            return running.communicate(timeout=limit_s)[0].strip(), running.returncode
        except subprocess.TimeoutExpired:
            running.send_signal(signal.SIGINT)
            with suppress(subprocess.TimeoutExpired):
                running.communicate(timeout=_TIDYING_S)
            return "", None
        finally:
            with suppress(ProcessLookupError):
                os.killpg(running.pid, signal.SIGKILL)


def _beside_each_other(workers: int) -> tuple[str, ...]:
    """Options for so many processes. What has to stay in one of them, tests/conftest.py says."""
    return (
        ("-n", str(workers), "--dist", "loadgroup", "--no-loadscope-reorder")
        if workers > 1 and find_spec("xdist")
        else ()
    )


def counted(log: str, *, seconds: float, complete: bool) -> GpuTests:
    """The counts of `gpu_test_log`'s lines. A test that passes and cannot be torn down has failed; one that was only
    set up has not ended."""
    outcomes: dict[str, str] = {}
    taken: dict[str, float] = {}
    for test, phase, outcome, duration in map(json.loads, log.splitlines()):
        taken[test] = taken.get(test, 0.0) + duration
        if outcome != "passed" or (phase == "call" and test not in outcomes):
            outcomes[test] = outcome
    kinds = Counter(outcomes.values())
    slowest = sorted(((taken[test], test) for test in outcomes), reverse=True)[:_SLOWEST]
    return GpuTests(
        passed=kinds["passed"],
        failed=kinds["failed"],
        skipped=kinds["skipped"],
        seconds=seconds,
        complete=complete,
        failures=tuple(test for test, outcome in outcomes.items() if outcome == "failed"),
        slowest=tuple(f"{spent:.1f} s {test}" for spent, test in slowest),
    )
