"""A pytest plugin, `-p graph.gpu_test_log`: a line for each test that has ended, so that a stopped run has counts."""

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


def pytest_configure(config: object) -> None:
    """Of several processes only the first hears of all tests: the others keep silent."""
    if hasattr(config, "workerinput"):
        os.environ.pop(LOG_VARIABLE, None)


def pytest_collectreport(report: _Report) -> None:
    """A file that cannot be read is a failure; one that can is no test."""
    if report.outcome == "failed":
        _append(report.nodeid, "failed")


def pytest_runtest_logreport(report: _Report) -> None:
    """A test has an outcome once its call has ended, or its setup where that did not pass; its teardown may add one."""
    if report.when == "call" or report.outcome != "passed":
        _append(report.nodeid, report.outcome)


def _append(test: str, outcome: str) -> None:
    if path := os.environ.get(LOG_VARIABLE):
        with Path(path).open("a", encoding="utf-8") as log:
            log.write(json.dumps([test, outcome]) + "\n")
