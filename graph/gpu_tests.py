"""Run the GPU-marked tests in a process of their own, and count."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET
from importlib.util import find_spec
from pathlib import Path

from graph.gpu_model import GpuTests
from harness.errors import MachineError

ROOT = Path(__file__).parents[1]
WORKERS = min(len(os.sched_getaffinity(0)) // 2, 8)
"""Most of these tests' time is a compiler's; but each worker holds PyTorch and a context on the GPU."""


def run_gpu_tests(*, limit_s: float, root: Path = ROOT, mark: str = "gpu", workers: int = WORKERS) -> GpuTests:
    """The counts. Raises `MachineError` where pytest is missing, breaks down, or is not done within `limit_s`."""
    if find_spec("pytest") is None or not (root / "tests").is_dir():
        raise MachineError(
            "The GPU tests need pytest and a checkout with its tests.", "pip install pytest pytest-timeout hypothesis"
        )
    with tempfile.TemporaryDirectory(prefix="cutegen-tests-") as scratch:
        report = Path(scratch) / "report.xml"
        command = [
            sys.executable, "-m", "pytest", "-q", "-m", mark, f"--junitxml={report}", "-p", "no:cacheprovider",
            *_beside_each_other(workers),
        ]  # fmt: skip
        began = time.monotonic()
        try:
            done = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=limit_s, check=False)
        except subprocess.TimeoutExpired as error:
            raise MachineError(f"The GPU tests were not done within {limit_s:.0f} s.", "Give them more.") from error
        if not report.exists():
            said = (done.stdout + done.stderr).strip()[-400:]
            raise MachineError(f"pytest broke down with exit code {done.returncode}: {said}.", "Run it by hand.")
        return counted(report.read_text(encoding="utf-8"), seconds=time.monotonic() - began)


def _beside_each_other(workers: int) -> tuple[str, ...]:
    """Options for so many processes. A file's tests stay in one of them: most share a build."""
    return ("-n", str(workers), "--dist", "loadfile") if workers > 1 and find_spec("xdist") else ()


def counted(report: str, *, seconds: float) -> GpuTests:
    """The counts in a JUnit report; an error while collecting or setting up is a failure."""
    cases = list(ET.fromstring(report).iter("testcase"))
    failed = [case for case in cases if case.find("failure") is not None or case.find("error") is not None]
    skipped = sum(case.find("skipped") is not None for case in cases)
    return GpuTests(
        passed=len(cases) - len(failed) - skipped,
        failed=len(failed),
        skipped=skipped,
        seconds=seconds,
        failures=tuple(f"{case.get('classname', '')}::{case.get('name', '')}" for case in failed),
    )
