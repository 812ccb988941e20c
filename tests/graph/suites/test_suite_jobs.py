"""A suite against an endpoint that takes its time: as many conversations at once as there are jobs, on two cores."""

from __future__ import annotations

from pathlib import Path

import pytest
from chat_server import chat_endpoint
from softsign_script import SOURCE
from suite_records import FACTS

from graph.runs.progress import Observer, Quiet
from graph.runs.suite_record import Row, SuiteRecord, SuiteTask
from graph.suites.folder import create_suite, reopen_suite
from graph.suites.run import SuiteRun
from nodes.settings import Settings

JOBS, LOOKUPS, DELAY_S = 8, 4, 1.0


class Nobody:
    """Watches a suite without a word."""

    def began(self, task: SuiteTask) -> Observer:
        return Quiet()

    def ended(self, row: Row) -> None:
        pass


def run_suite(
    folder: Path, tasks: int, settings: Settings, *, jobs: int = JOBS, dollars: float | None = None
) -> SuiteRecord:
    if folder.exists():
        made, manifest = reopen_suite(folder)
    else:
        named = tuple(SuiteTask(id=number, name=f"task{number}", source=SOURCE) for number in range(tasks))
        made, manifest = create_suite(folder, name="jobs", tasks=named, scale=1.0, settings=settings)
    return SuiteRun(made, manifest, FACTS, Nobody(), jobs=jobs, dollars=dollars).run()


@pytest.mark.alone
def test_eight_conversations_go_on_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with chat_endpoint("looks_up", answer="CANNOT: nothing to gain here") as endpoint:
        endpoint.lookups = LOOKUPS
        settings = Settings(model="openai:m", base_url=endpoint.base_url, target="cpu", max_tool_calls=LOOKUPS)
        run_suite(tmp_path / "first", 1, settings)  # the task is described, the client imported
        endpoint.began.clear()
        endpoint.delay_s = DELAY_S
        rows = run_suite(tmp_path / "all", JOBS, settings).rows
    assert {row.status for row in rows} == {"no_kernel"}
    assert [row.usage.calls for row in rows] == [LOOKUPS + 1] * JOBS
    assert endpoint.at_once == JOBS
    took = max(endpoint.began) - min(endpoint.began) + DELAY_S
    ideal = (LOOKUPS + 1) * DELAY_S
    assert took < 1.5 * ideal, f"{took:.1f} s for {JOBS * (LOOKUPS + 1)} answers, {ideal:.1f} s at best"


def test_a_suite_ends_at_its_dollars_and_goes_on_with_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with chat_endpoint("looks_up", answer="CANNOT: nothing to gain here") as endpoint:
        endpoint.lookups = 1
        settings = Settings(model="openai:m", base_url=endpoint.base_url, target="cpu")
        first = run_suite(tmp_path / "suite", 3, settings, jobs=1, dollars=0.006)
        asked = len(endpoint.requests)
        second = run_suite(tmp_path / "suite", 3, settings, jobs=1, dollars=1.0)
    assert (first.outcome, asked) == ("interrupted", 3), "each of the answers costs $0.0025"
    assert first.figures.dollars == pytest.approx(0.005), "the third is of a turn that has not ended"
    assert (second.outcome, len(endpoint.requests)) == ("finished", 6), "what was answered is not asked again"
    assert second.figures.dollars == pytest.approx(0.015)
