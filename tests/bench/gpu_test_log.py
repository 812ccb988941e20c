"""A pytest plugin, `-p bench.gpu_test_log`: it writes down what has ended, so that a run that is stopped can go on.

A line is a JSON list: the test, its phase ("collect", "setup", "call", "teardown"), its outcome, its seconds and, of
what failed, the end of what pytest says.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

LOG_VARIABLE, ENDED_VARIABLE = "CUTEGEN_TEST_LOG", "CUTEGEN_TESTS_ENDED"
_SAID = 2000


class _Report(Protocol):
    nodeid: str
    when: str
    outcome: str
    duration: float
    longreprtext: str


class _Item(Protocol):
    nodeid: str


def pytest_configure(config: object) -> None:
    """Of several processes only the first hears of all tests: the others keep silent."""
    if hasattr(config, "workerinput"):
        os.environ.pop(LOG_VARIABLE, None)


def pytest_collection_modifyitems(config: Any, items: list[_Item]) -> None:
    """Leave out the tests that ended in an earlier run: the file of that variable names them, one a line."""
    ended = set(Path(os.environ[ENDED_VARIABLE]).read_text(encoding="utf-8").splitlines())
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid in ended])
    items[:] = [item for item in items if item.nodeid not in ended]


def pytest_collectreport(report: _Report) -> None:
    """A file that cannot be read is a failure; one that can is no test."""
    if report.outcome == "failed":
        _append(report.nodeid, "collect", "failed", 0.0, report.longreprtext[-_SAID:])


def pytest_runtest_logreport(report: _Report) -> None:
    """A phase of a test has ended."""
    said = report.longreprtext[-_SAID:] if report.outcome == "failed" else ""
    _append(report.nodeid, report.when, report.outcome, report.duration, said)


def _append(*facts: object) -> None:
    if path := os.environ.get(LOG_VARIABLE):
        with Path(path).open("a", encoding="utf-8") as log:
            log.write(f"\n{json.dumps(facts)}")  # what a killed process left unfinished stays a line of its own


def read_log(log: Path) -> list[Sequence[Any]]:
    """The lines so far; an unfinished one is none."""
    found = []
    for line in log.read_text(encoding="utf-8").splitlines() if log.exists() else ():
        with suppress(json.JSONDecodeError):
            found.append(json.loads(line))
    return found
