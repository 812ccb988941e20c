"""A court for cheats and twins. What is judged next is built by a few threads while others are judged."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache

import pytest
from brief_terms import MANY_BYTES, brief
from cheat_catalogue import Entry, task_source
from lenient_judge import Lenient
from own_turns import own_turns

from harness.isolation.tiers import resolve_tier
from harness.judging.foreign import ModuleJudge
from harness.judging.local import LocalJudge
from harness.judging.protocol import Judge
from harness.judging.terms import Terms
from harness.nouns.build import Build
from harness.nouns.candidate import Candidate
from harness.nouns.task import Task
from harness.nouns.verdict import Verdict
from harness.targets.cpu import CpuTarget
from harness.targets.cuda import CudaTarget
from harness.tasks.describing import describe_task

BUILDERS = max(2, len(os.sched_getaffinity(0)) // 2)
AHEAD = 2
"""Builds that are begun before they are wanted, for each builder."""
SEED = 1
"""Which check catches a cheat that looks at samples is a matter of luck: the suite says the same of the same tree."""


class Court:
    """Judges entries of the catalogue as `cutegen verify` would."""

    def __init__(self, wanted: list[Entry]) -> None:
        self.tier = resolve_tier("auto")
        terms, of_twins = brief(Terms(self.tier), MANY_BYTES), brief(Terms(self.tier))
        targets = {"cpu": CpuTarget(), "cuda": CudaTarget()}
        self.judges = {name: LocalJudge(target, terms) for name, target in targets.items()}
        self.lenient = {name: Lenient(target, terms) for name, target in targets.items()}
        self.of_twins = {name: LocalJudge(target, of_twins) for name, target in targets.items()}
        self.task = cache(self._task)
        self.modules = ModuleJudge(targets["cpu"], terms)
        self._builders = ThreadPoolExecutor(BUILDERS)
        self._wanted = [entry for entry in wanted if not entry.screened and entry.path.suffix != ".py"]
        self._builds: dict[Entry, Future[Build]] = {}

    def verdict(self, entry: Entry) -> Verdict:
        build = self._built(entry) if entry in self._wanted else None
        with own_turns():
            return self._judge(entry).evaluate(self.task(entry.task), candidate(entry), build, seed=SEED)

    def _built(self, entry: Entry) -> Build:
        """The entry's build; those after it are begun meanwhile. Not all: other processes judge some of them."""
        place = self._wanted.index(entry)
        for each in self._wanted[place : place + 1 + AHEAD * BUILDERS]:
            if each not in self._builds:
                self._builds[each] = self._builders.submit(self._build, each)
        return self._builds[entry].result()

    def _build(self, entry: Entry) -> Build:
        return self._judge(entry).build(self.task(entry.task), candidate(entry))

    def close(self) -> None:
        self._builders.shutdown(cancel_futures=True)

    def _judge(self, entry: Entry) -> Judge:
        if entry.path.suffix == ".py":
            return self.modules
        judges = self.lenient if entry.keeps else self.judges if entry.checks else self.of_twins
        return judges["cuda" if entry.gpu else "cpu"]

    def _task(self, name: str) -> Task:
        return describe_task(task_source(name), name=name, tier=self.tier)


def candidate(entry: Entry) -> Candidate:
    return Candidate(
        source=entry.path.read_text(encoding="utf-8"), target="cuda" if entry.gpu else "cpu", author="test"
    )


@pytest.fixture(scope="session")
def court(request: pytest.FixtureRequest) -> Iterator[Court]:
    chosen = [item.callspec.params["entry"] for item in request.session.items if "court" in item.fixturenames]
    here = [entry for entry in chosen if not entry.gpu or _gpu_missing() == ""]
    held = Court(here)
    yield held
    held.close()


@pytest.fixture
def judged(court: Court, entry: Entry) -> Verdict:
    """The verdict on the test's entry; the test is skipped where the entry needs a GPU and none answers."""
    if entry.gpu and (reason := _gpu_missing()):
        pytest.skip(reason)
    return court.verdict(entry)


@cache
def _gpu_missing() -> str:
    from harness.nouns.errors import MachineError

    try:
        CudaTarget().require_device()
    except MachineError as error:
        return error.problem
    return ""
