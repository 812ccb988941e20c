"""Judges of several devices in one process, and judges that go away while they are asked."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path
from typing import Any

import pytest
from scripted_judge import Scripted, ScriptedJudge
from softsign_script import SOURCE
from suite_records import FACTS
from test_suite_jobs import Nobody

from graph.driving.loop import drive
from graph.runs.folder import create, reopen
from graph.runs.progress import Quiet
from graph.runs.suite_record import SuiteRecord, SuiteTask
from graph.suites.folder import create_suite
from graph.suites.run import SuiteRun
from harness.judging.protocol import JudgeOrder, OpenJudge
from harness.machine.gpu import Gpu
from harness.nouns.device import DeviceName
from harness.nouns.errors import MachineError
from nodes.settings import Settings
from tools.pool import pool

SETTINGS = Settings(target="cpu", max_depth=1)


def run_suite(folder: Path, judges: tuple[OpenJudge, ...], tasks: int = 4) -> SuiteRecord:
    named = tuple(SuiteTask(id=number, name=f"task{number}", source=f"{SOURCE}# {number}\n") for number in range(tasks))
    made, manifest = create_suite(folder, name="devices", tasks=named, scale=1.0, settings=SETTINGS)
    return SuiteRun(made, manifest, FACTS, Nobody(), jobs=2, judges=judges).run()


class Described(Scripted):
    """Keeps which tasks its judges described, and waits with the first until another device has one, too."""

    def __init__(self, device: DeviceName, both: Any) -> None:
        super().__init__(device)
        self.both = both
        self.tasks: list[str] = []

    def __call__(self, order: JudgeOrder) -> ScriptedJudge:
        judge = super().__call__(order)
        described = type(judge).describe

        def describe(source: str, *, name: str) -> Any:
            if not self.tasks:
                self.both.wait(60)
            self.tasks.append(name)
            return described(judge, source, name=name)

        judge.describe = describe  # type: ignore[method-assign]
        return judge


def test_judges_of_two_devices_serve_one_suite(tmp_path: Path) -> None:
    both = threading.Barrier(2)
    first, second = (Described(DeviceName(target="cpu", ordinal=number), both) for number in (0, 1))
    record = run_suite(tmp_path / "suite", (first, second))
    assert (record.outcome, len(record.rows)) == ("finished", 4)
    assert all(row.timing is not None for row in record.rows), [row.reason for row in record.rows]
    assert first.tasks and second.tasks
    assert sorted(first.tasks + second.tasks) == [f"task{number}" for number in range(4)], "each task is one device's"
    assert all(judge.device.ordinal == 1 for judge in second.judges.values())


def test_a_judge_that_goes_away_costs_its_own_runs_and_no_others(tmp_path: Path) -> None:
    record = run_suite(tmp_path / "suite", (Scripted(), GoesAway(0)))
    statuses = [row.status for row in record.rows]
    assert "machine_failed" in statuses
    assert all("Its device was lost" in row.reason for row in record.rows if row.status == "machine_failed")


def gpu(number: int, name: str = "NVIDIA H200") -> Gpu:
    return Gpu(f"GPU-{number}", name, (9, 0), "580.1")


def test_a_pool_is_a_judge_of_each_gpu_and_of_gpus_of_one_kind_only() -> None:
    opened: list[JudgeOrder] = []
    judges = pool(lambda: (gpu(0), gpu(1)), lambda order: (opened.append(order), Scripted()(order))[1], in_actors=False)
    for judge in judges:
        judge(JudgeOrder("cuda", precision="tf32"))
    assert opened == [JudgeOrder("cuda", precision="tf32", ordinal=number) for number in (0, 1)]
    with pytest.raises(MachineError, match="not of one kind: NVIDIA B200, NVIDIA H200"):
        pool(lambda: (gpu(0), gpu(1, "NVIDIA B200")))
    with pytest.raises(MachineError, match="none answers"):
        pool(lambda: ())


class GoesAway(Scripted):
    """Judges that give so many verdicts, and then their device is lost."""

    def __init__(self, verdicts: int) -> None:
        super().__init__()
        self.left = verdicts

    def __call__(self, order: JudgeOrder) -> ScriptedJudge:
        judge = super().__call__(order)
        evaluate = type(judge).evaluate

        def counted(*arguments: Any, **named: Any) -> Any:
            if self.left == 0:
                raise MachineError("Its device was lost.", "Go on with --resume.")
            self.left -= 1
            return evaluate(judge, *arguments, **named)

        judge.evaluate = counted  # type: ignore[method-assign]
        return judge


@pytest.mark.parametrize("verdicts", [0, 1, 2])
def test_a_run_whose_judge_goes_away_goes_on_with_another_one_in_a_copied_folder(tmp_path: Path, verdicts: int) -> None:
    settings = SETTINGS.model_copy(update={"max_depth": 3})
    folder, manifest = create(tmp_path / "run", name="softsign", source=SOURCE, settings=settings)
    with pytest.raises(MachineError, match="Its device was lost"):
        drive(folder, manifest, Quiet(), open_judge=GoesAway(verdicts))
    assert folder.kernel.exists() is (verdicts > 0), "what was verified is kept"
    shutil.move(folder.path, tmp_path / "copied")
    folder, manifest = reopen(tmp_path / "copied")
    record = drive(folder, manifest, Quiet(), open_judge=Scripted())
    whole = drive(*create(tmp_path / "whole", name="softsign", source=SOURCE, settings=settings), open_judge=Scripted())
    assert [(step.agent, step.candidate, step.status) for step in record.steps] == [
        (step.agent, step.candidate, step.status) for step in whole.steps
    ], "nothing was lost, and nothing done twice"
    assert record.outcome == whole.outcome == "improved"
    for file in (tmp_path / "copied").rglob("*"):
        if file.is_file() and file.name != "run.json":
            assert str(tmp_path / "run").encode() not in file.read_bytes(), file.name
