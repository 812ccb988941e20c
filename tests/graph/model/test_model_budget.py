"""One budget for all that is done with a model: its arithmetic, and what is ended, refused or left out by it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from captures import captured, two_layers
from command_line import BRIEF, UNWATCHED, cutegen
from hypothesis import given
from hypothesis import strategies as st
from langgraph.checkpoint.memory import InMemorySaver
from run_samples import DEVICE
from scripted_judge import ScriptedJudge
from test_model_flow import ScriptedBench

from graph.model import budget, steps, turns
from graph.model.budget import LEAST_REGION_S, End, affordable, allowance
from graph.model.plan import plan_of
from graph.model.run import ModelRecord, create_model, drive_model
from graph.model.state import NOT_BEGUN, ModelInput, ModelState, RegionState, RegionTask
from graph.model.steps import CUT_OFF
from graph.model.turns import allowance_of, phase_of
from graph.model.workbench import LocalWorkbench
from graph.model.workflow import build_model_graph
from harness.nouns.build import Build
from harness.nouns.candidate import Candidate
from harness.nouns.capture import Capture
from harness.nouns.errors import UserError
from harness.nouns.model_budget import ENDING_S, ModelCosts, refused
from harness.nouns.task import Task
from harness.wire.deadline import Deadline
from harness.wire.stopping import TimeIsOverError, pause
from nodes.settings import Settings

STUCK = """
import torch
from torch import nn

class Model(nn.Module):
    def forward(self, x):
        while x.sum() < 1e9 or True:
            x = x + 0
        return x

def get_inputs():
    return [torch.rand(16)]
"""
SMALL = """
import torch
from torch import nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(96, 96), nn.GELU(), nn.LayerNorm(96))

    def forward(self, x):
        return self.layers(x)

def get_inputs():
    return [torch.rand(512, 96)]
"""
SECONDS = st.floats(min_value=0.0, max_value=1e4)
HANGS_S = 300.0
"""What nobody ends lasts so long, and fails by the test's own limit."""


def settings(seconds: float, depth: int = 0) -> Settings:
    return Settings(target="cpu", max_depth=depth, sanitize=False, max_wall_s=seconds)


def driven(
    folder: Path, bench: ScriptedBench, asked: Settings, judge: type[ScriptedJudge] = ScriptedJudge, source: str = "..."
) -> ModelRecord:
    made = create_model(folder, ModelInput(source=source, name="toy", compile_baseline=False), asked)
    return drive_model(*made, open_workbench=lambda _: bench, open_judge=judge)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Regions of which each takes a second, and an end that takes two."""
    for module in (turns, steps):
        monkeypatch.setattr(module, "LEAST_REGION_S", 1.0)
    monkeypatch.setattr(turns, "TAIL_S", 0.1)
    monkeypatch.setattr(steps, "STOPPING_S", 0.0)
    monkeypatch.setattr(budget, "ENDING_S", 1.0)


@given(
    room_s=SECONDS, gains=st.lists(st.floats(min_value=0.01, max_value=100.0), min_size=1, max_size=12),
    used=st.lists(st.floats(min_value=0.0, max_value=1.0), min_size=12, max_size=12),
    first_s=st.floats(min_value=0.5, max_value=60.0),
)  # fmt: skip
def test_one_after_the_other_regions_never_have_more_than_is_left(
    room_s: float, gains: list[float], used: list[float], first_s: float
) -> None:
    left_s = room_s
    for index, (gain, share) in enumerate(zip(gains, used, strict=False)):
        allowed = allowance(left_s, gain / sum(gains[index:]), 1, first_s)
        assert 0.0 <= allowed.soft_s <= allowed.hard_s <= left_s
        left_s -= share * allowed.hard_s
    assert left_s >= -1e-6


@given(room_s=SECONDS, share=st.floats(min_value=0.0, max_value=1.0), places=st.integers(1, 8))
def test_side_by_side_none_has_more_than_the_seconds_that_pass(room_s: float, share: float, places: int) -> None:
    assert allowance(room_s, share, places, LEAST_REGION_S).hard_s <= room_s


@given(
    left_s=SECONDS, regions=st.integers(0, 20), places=st.integers(1, 8), models=st.integers(1, 4),
    called_s=st.floats(min_value=0.0, max_value=20.0), compiled=st.booleans(),
)  # fmt: skip
def test_what_is_begun_and_the_end_fit_into_what_is_left(
    left_s: float, regions: int, places: int, models: int, called_s: float, compiled: bool
) -> None:
    end = End(ModelCosts(called_s=called_s), "cpu", left_s + 10.0, models, compiled)
    number = affordable(left_s, end, regions, places, LEAST_REGION_S)
    assert 0 <= number <= regions
    if number:
        rows = -(-number // places)
        assert rows * LEAST_REGION_S + end.kept_s(number) <= left_s + 1e-6


def test_torch_compile_has_time_of_its_own_only_in_a_large_budget() -> None:
    kept = [End(ModelCosts(), "cuda", seconds, compiled=True).kept_s(1) for seconds in (60.0, 3600.0)]
    plain = [End(ModelCosts(), "cuda", seconds).kept_s(1) for seconds in (60.0, 3600.0)]
    assert kept[0] == plain[0]
    assert kept[1] == plain[1] + 150.0


def test_where_kernels_are_put_into_what_torch_compile_makes_its_time_is_kept_from_a_small_budget_on() -> None:
    def kept_s(seconds: float, compiled_s: float = 0.0, models: int = 1) -> float:
        costs = ModelCosts(compiled_s=compiled_s)
        inside = End(costs, "cuda", seconds, models, compiled=True, inside=True)
        return inside.kept_s(2) - End(costs, "cuda", seconds, models).kept_s(2)

    assert [round(kept_s(seconds), 6) for seconds in (50.0, 120.0, 3600.0)] == [0.0, 36.0, 300.0]
    assert round(kept_s(120.0, 20.0), 6) == 16.0, "what compiled before is in the caches"
    assert round(kept_s(120.0, 100.0), 6) == 10.8
    assert round(kept_s(120.0, models=2), 6) == 36.0, "each has its part"
    assert budget.clocking_s(120.0) == pytest.approx(25.2)


def test_beside_other_models_torch_compile_takes_no_more_of_the_device_than_all_have_kept() -> None:
    alone, four = (End(ModelCosts(), "cuda", 3600.0, models, compiled=True) for models in (1, 4))
    assert alone.compile_s(1000.0, 1) == 150.0
    assert four.compile_s(1000.0, 1) == pytest.approx(88.5)
    assert four.kept_s(1) - End(ModelCosts(), "cuda", 3600.0, 4).kept_s(1) == pytest.approx(4 * 88.5)
    assert End(ModelCosts(), "cuda", 170.0, 4, compiled=True).compile_s(100.0, 1) == 0.0
    assert alone.compile_s(1.0, 1) == 0.0


def test_the_budget_is_shared_out_by_gain(tmp_path: Path) -> None:
    large, small = (RegionTask(name=name, source=name, gain_ms=gain) for name, gain in (("a", 30.0), ("b", 10.0)))
    first = RegionState(region=large, tasks=(large, small), seconds=40.0, until_s=440.0)
    with phase_of(first, tmp_path, 500.0) as phase:
        assert phase.room_s == pytest.approx(400.0, abs=1.0)
        assert allowance_of(first, tmp_path, phase).soft_s == pytest.approx(300.0, abs=1.0)
        second = RegionState(region=small, tasks=(large, small), seconds=40.0, until_s=440.0)
        with phase_of(second, tmp_path, 500.0) as same:
            assert same is phase


def test_beside_a_gpu_regions_go_side_by_side(tmp_path: Path) -> None:
    tasks = tuple(RegionTask(name=name, source=name, gain_ms=1.0) for name in "abcd")
    places = max(1, min(8, len(os.sched_getaffinity(0)) // 2))
    state = RegionState(region=tasks[0], tasks=tasks, target="cuda")
    with phase_of(state, tmp_path, 400.0) as phase:
        assert allowance_of(state, tmp_path, phase).soft_s == pytest.approx(min(355.0, 100.0 * places), abs=1.0)


@pytest.mark.usefixtures("quick")
def test_the_best_gain_comes_first_whichever_thread_does(tmp_path: Path) -> None:
    described: list[str] = []

    class Judge(ScriptedJudge):
        def describe(self, source: str, *, name: str) -> Task:
            described.append(name)
            return super().describe(source, name=name)

    record = driven(tmp_path / "toy", ScriptedBench(), settings(600.0), Judge)
    assert record.plan
    gains = {region.name: region.gain_ms for region in record.plan.regions}
    assert [gains[name] for name in described] == sorted(gains.values(), reverse=True)
    assert record.seconds < 60.0, "regions that wait for one another count once"


@pytest.mark.usefixtures("quick")
def test_a_region_that_never_ends_is_ended_and_its_best_kernel_counts(tmp_path: Path) -> None:
    built: dict[str, int] = {}

    class Judge(ScriptedJudge):
        def build(self, task: Task, candidate: Candidate) -> Build:
            built[task.name] = built.get(task.name, 0) + 1
            if built[task.name] == 2:
                pause(HANGS_S)
            return super().build(task, candidate)

    record = driven(tmp_path / "toy", ScriptedBench(), settings(14.0, depth=3), Judge)
    assert record.seconds < HANGS_S
    assert record.accepted
    cut_off = [outcome for outcome in record.outcomes if outcome.reason == CUT_OFF]
    assert cut_off, "it was in the middle of a step"
    assert all(outcome.improved and outcome.speedup == 1.5 for outcome in cut_off)
    report = (tmp_path / "toy" / "report.md").read_text()
    assert f"kept, {CUT_OFF}" in report


def test_without_time_for_a_region_none_is_begun_and_the_report_says_so(tmp_path: Path) -> None:
    record = driven(tmp_path / "toy", ScriptedBench(), settings(12.0))
    assert not record.accepted
    assert {outcome.reason for outcome in record.outcomes} == {NOT_BEGUN}
    assert not (tmp_path / "toy" / "regions").exists()
    assert "Nothing faster in this time" in (tmp_path / "toy" / "report.md").read_text()


def test_a_budget_that_no_answer_fits_into_is_refused_with_one_that_would_do(tmp_path: Path) -> None:
    costs = ModelCosts(made_s=3.0, called_s=2.0)

    class Bench(ScriptedBench):
        def capture(self, model: ModelInput, deadline: Deadline) -> Capture:
            return super().capture(model, deadline).model_copy(update={"costs": costs})

    error = refused("toy", 20.0, 9.0, costs, "cpu")
    assert error
    wanted = float(error.remedy.split()[3])
    assert refused("toy", wanted, 9.0, costs, "cpu") is None
    end = End(costs, "cpu", wanted)
    assert affordable(wanted - 9.0 - costs.made_s, end, 3, 1, LEAST_REGION_S) in (0, 1), (
        "no more is promised than a first region"
    )
    with pytest.raises(UserError, match=r"toy has no answer within 20 s: .* A budget of \d+ s would do"):
        driven(tmp_path / "toy", Bench(), settings(20.0))
    assert not (tmp_path / "toy").exists()


def test_a_model_whose_call_never_ends_is_refused_when_its_time_is_over(tmp_path: Path) -> None:
    asked = settings(ENDING_S + 9.0)
    made = create_model(tmp_path / "stuck", ModelInput(source=STUCK, name="stuck"), asked)
    with pytest.raises(UserError, match=r"one call of it.* had not ended by then\. Try a budget of \d+ s"):
        drive_model(*made, open_workbench=LocalWorkbench)
    assert not (tmp_path / "stuck").exists()


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    file = tmp_path / "small.py"
    file.write_text(SMALL)
    yield file


def test_the_command_ends_with_an_answer(small: Path, tmp_path: Path) -> None:
    options = ("--depth", "0", "--no-compile-baseline", "--set", "max_wall_s=200")
    ended = cutegen("model", small, *options, *UNWATCHED, "--out", tmp_path / "out", command=BRIEF)
    assert ended.returncode in (0, 1), ended.stderr
    said = " ".join(ended.stdout.split())
    assert "over eager" in said or "Nothing faster" in said


def test_a_plan_that_takes_too_long_is_ended_between_two_questions() -> None:
    plan_of(captured(two_layers(), whole_ms=22.0), "cpu", DEVICE)
    with pytest.raises(TimeIsOverError), Deadline.of(5.0, spent_s=6.0).limiting():
        pause(0.0)
        plan_of(captured(two_layers(), whole_ms=22.0), "cpu", DEVICE)


@pytest.mark.usefixtures("quick")
def test_on_a_server_the_graph_ends_with_its_budget(tmp_path: Path) -> None:
    class Judge(ScriptedJudge):
        def build(self, task: Task, candidate: Candidate) -> Build:
            pause(HANGS_S)
            return super().build(task, candidate)

    graph = build_model_graph(lambda _: ScriptedBench(), Judge).compile(checkpointer=InMemorySaver())
    asked = settings(12.0).model_copy(update={"run_dir": str(tmp_path)})
    given = ModelInput(source="...", name="toy")
    found = asyncio.run(graph.ainvoke(given, {"configurable": {"thread_id": "one"}}, context=asked))
    state = ModelState.model_validate(found)
    assert {outcome.reason for outcome in state.outcomes} == {CUT_OFF, NOT_BEGUN}
    assert state.seconds < HANGS_S
