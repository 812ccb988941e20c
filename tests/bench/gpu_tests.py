"""Run the GPU-marked tests in processes of their own, and count."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from bench import gpu_test_log
from bench.gpu_model import FailedTest, GpuTests
from bench.gpu_test_log import ENDED_VARIABLE, LOG_VARIABLE, read_log
from harness.nouns.errors import MachineError

ROOT = Path(__file__).parents[2]
WORKERS = min(len(os.sched_getaffinity(0)) * 3 // 4, 12)
"""Most of these tests' time is a compiler's; but each worker holds PyTorch and a context on the GPU."""
_SLOWEST = 12
_TO_THE_END = (0, 1, 5)
"""pytest's exit codes where all passed, some failed, or all were left out; 2 is an error while collecting."""
_TIDYING_S = 10.0
"""What pytest is given to tidy up once its time is over."""


def run_gpu_tests(
    log: Path, *, limit_s: float, root: Path = ROOT, mark: str = "gpu", workers: int = WORKERS
) -> GpuTests:
    """Run those that `log` does not hold yet, for `limit_s` at most: the counts of all that have ended.

    Raises `MachineError` where pytest is missing, breaks down, or has nothing to show.
    """
    if find_spec("pytest") is None or not (root / "tests").is_dir():
        raise MachineError(
            "The GPU tests need pytest and a checkout with its tests.", "pip install pytest pytest-timeout hypothesis"
        )
    command = [
        sys.executable, "-m", "pytest", "-q", "-m", mark, "-p", "no:cacheprovider", "-p", gpu_test_log.__name__,
        *_beside_each_other(workers),
    ]  # fmt: skip
    path = os.pathsep.join(filter(None, (str(ROOT), str(ROOT / "tests"), os.environ.get("PYTHONPATH"))))
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", suffix=".txt") as ended:
        ended.writelines(f"{test}\n" for test, phase, *_ in read_log(log) if phase == "teardown")
        ended.flush()
        variables = {LOG_VARIABLE: str(log), ENDED_VARIABLE: ended.name, "PYTHONPATH": path}
        said, code = _ended(command, root, variables, limit_s)
    found = counted(read_log(log), complete=code in _TO_THE_END)
    if code is None and found.passed + found.failed + found.skipped == 0:
        raise MachineError(f"No GPU test was done within {limit_s:.0f} s.", "Give them more: --minutes.")
    if code not in (None, 2, *_TO_THE_END) or (code == 2 and not found.failed):
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
    if workers < 2 or find_spec("xdist") is None:
        return ()
    return "-n", str(workers), "--dist", "loadgroup", "--no-loadscope-reorder"


def counted(log: Iterable[Sequence[Any]], *, complete: bool) -> GpuTests:
    """The counts of `gpu_test_log`'s lines, in which a test that a run did not end may be begun more than once.

    A test that passes and cannot be torn down has failed; one that was only set up has not ended.
    """
    outcomes: dict[str, str] = {}
    taken: dict[str, float] = {}
    failures: dict[str, str] = {}
    for test, phase, outcome, duration, said in log:
        taken[test] = taken.get(test, 0.0) * (phase != "setup") + duration
        if outcome != "passed" or (phase == "call" and test not in outcomes):
            outcomes[test] = outcome
        if outcome == "failed":
            failures[test] = said
    kinds = Counter(outcomes.values())
    slowest = sorted(((taken[test], test) for test in outcomes), reverse=True)[:_SLOWEST]
    return GpuTests(
        passed=kinds["passed"],
        failed=kinds["failed"],
        skipped=kinds["skipped"],
        seconds=sum(taken.values()),
        complete=complete,
        failures=tuple(FailedTest(test=test, said=said) for test, said in failures.items()),
        slowest=tuple(f"{spent:.1f} s {test}" for spent, test in slowest),
    )
