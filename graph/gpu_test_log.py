"""A pytest plugin, `-p graph.gpu_test_log`: lines for each test that has ended, so that a stopped run has counts.

Each is a JSON list: the test, its phase ("collect", "setup", "call", "teardown"), its outcome and its seconds.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Protocol

LOG_VARIABLE = "CUTEGEN_TEST_LOG"


class _Report(Protocol):
    nodeid: str
    when: str
    outcome: str
    duration: float


def pytest_configure(config: object) -> None:
    """Of several processes only the first hears of all tests: the others keep silent."""
    if hasattr(config, "workerinput"):
        os.environ.pop(LOG_VARIABLE, None)


def pytest_collectreport(report: _Report) -> None:
    """A file that cannot be read is a failure; one that can is no test."""
    if report.outcome == "failed":
        _append(report.nodeid, "collect", "failed", 0.0)


def pytest_runtest_logreport(report: _Report) -> None:
    """A phase of a test has ended."""
    _append(report.nodeid, report.when, report.outcome, report.duration)


def _append(*facts: object) -> None:
    if path := os.environ.get(LOG_VARIABLE):
        with Path(path).open("a", encoding="utf-8") as log:
            log.write(json.dumps(facts) + "\n")
