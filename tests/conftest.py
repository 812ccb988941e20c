"""How the property tests draw their inputs, in which order files are begun, and what stays together."""

from __future__ import annotations

import gc
import os
import random
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from scheduling import LONG, LONG_ON_A_GPU, WAITS_ON_CLOCKS, begun_at, left_out, mixed, scope_of

# `make test` says the same of the same tree, whenever and wherever it is run; `make fuzz` looks for what it has missed.
# No deadlines: a busy machine is no failure.
settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.register_profile("fuzz", max_examples=2000, deadline=None)
settings.load_profile("repeatable")

# Before anybody imports torch: its threads sleep while they wait. By themselves they spin for milliseconds after each
# operation, which on two cores that three processes share is most of what tests with tensors cost.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

# Nor does Inductor build a file for each set of vector instructions, in each process that has a cache of its own.
os.environ.setdefault("TORCHINDUCTOR_VEC_ISA_OK", "1")

TESTS = Path(__file__).parent.resolve()
GOLDENS = ("trust", "prove", "renew")


def pytest_addoption(parser: pytest.Parser) -> None:
    """What becomes of kernels that are held as golden (`knowledge/goldens.py`)."""
    told = "kernels that passed before: trust what reads the same, prove it all again, or renew what has changed"
    parser.addoption("--goldens", choices=GOLDENS, default="trust", help=told)


def pytest_configure(config: pytest.Config) -> None:
    """Workers that collect all tests do so from different files on."""
    given = getattr(config, "workerinput", None)
    if given and [Path(each).resolve() for each in config.args] == [TESTS]:
        files = begun_at(sorted(TESTS.rglob("test_*.py")), int(given["workerid"][2:]), given["workercount"])
        config.args[:] = map(str, files)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mix the files of all folders, after what takes longest. What waits on clocks has two tries. Of tests that are
    marked `sampled(many)`, one case in so many is left to `make test`: the others are slow."""
    sampled: dict[tuple[str, int], list[pytest.Item]] = {}
    for item in items:
        if mark := item.get_closest_marker("sampled"):
            sampled.setdefault((item.nodeid.partition("[")[0], *mark.args), []).append(item)
    for (_, many), cases in sampled.items():
        for case in left_out(cases, many):
            case.add_marker(pytest.mark.slow)
    long = LONG_ON_A_GPU if config.getoption("markexpr") == "gpu" else LONG
    ranks = {name: rank for rank, name in enumerate(long)}
    for item in items:
        if item.path.stem in WAITS_ON_CLOCKS:
            item.add_marker(pytest.mark.flaky(reruns=1))
    items.sort(key=lambda item: (ranks.get(item.path.stem, len(long)), mixed(item.path), str(item.path)))


def pytest_runtest_setup() -> None:
    """What a test draws in its own process does not depend on those that ran there before it."""
    random.seed(0)
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(0)


def pytest_collection_finish() -> None:
    """What was collected stays: full collections need not look at the objects of ten thousand tests."""
    gc.freeze()


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Say what failed and was right when it was run again: a busy machine, or a test that fails by chance."""
    for report in terminalreporter.stats.get("rerun", []):
        terminalreporter.write_line(f"RERUN {report.nodeid} - {reason(report)}")


def reason(report: pytest.TestReport) -> str:
    """What the assertion said, in one line."""
    crash = getattr(report.longrepr, "reprcrash", None)
    return str(crash.message if crash else report.longreprtext).partition("\n")[0]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """`--dist loadgroup` by our own scopes: pytest-xdist 3.8 loses its own marks of groups with pytest 9.2."""
    if config.getoption("dist") != "loadgroup":
        return None
    from xdist.scheduler import LoadScopeScheduling

    class Scheduling(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return scope_of(nodeid)

    return Scheduling(config, log)
