"""The model graph from capture to acceptance on a scripted machine: what it asks, what it keeps, how it goes on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import pytest
from captures import captured, two_layers
from run_samples import DEVICE
from scripted_judge import ScriptedJudge

from graph.export.runtime import archive
from graph.model.plan import Plan
from graph.model.run import ModelRecord, create_model, drive_model, reopen_model
from graph.model.state import ModelInput
from graph.runs.interrupts import interruptible
from harness.judging.protocol import JudgeOrder
from harness.nouns.acceptance import Acceptance, BesideCompiled, Inside
from harness.nouns.build import Build
from harness.nouns.candidate import Candidate, TargetName
from harness.nouns.capture import Capture
from harness.nouns.device_facts import DeviceFacts
from harness.nouns.errors import MachineError, UserError
from harness.nouns.task import Task
from harness.nouns.tier import Tier
from harness.nouns.verdict import Interval
from harness.wire.deadline import Deadline
from harness.wire.job import RegionCut
from harness.wire.stopping import StoppedError, pause
from nodes.settings import Settings

REGION = """
import torch
from torch import nn


class Model(nn.Module):  # {name}
    def forward(self, x):
        return x / (1 + x.abs())


def get_inputs():
    return [torch.rand(16)]
"""
KILLED = """
import os, signal, sys
from pathlib import Path
from typing import Any
sys.path[:0] = sys.argv[1].split(":")
import test_model_flow as flow
from graph.model import steps
from scripted_judge import ScriptedJudge

folder, log = Path(sys.argv[2]), Path(sys.argv[3])
write = steps.write_assembled

def asked(what):
    with log.open("a") as file:
        file.write(what + " ")
    if what == lost:
        os.kill(os.getpid(), signal.SIGKILL)

class Bench(flow.ScriptedBench):
    def _ask(self, what):
        asked(what)

    def facts(self):
        asked("facts")
        return super().facts()

class Judge(ScriptedJudge):
    def build(self, task, candidate):
        asked("build")
        return super().build(task, candidate)

def write_assembled(*args, **more):
    asked("assemble")
    write(*args, **more)

steps.write_assembled = write_assembled
for lost in ("capture", "facts", "cut", "build", "assemble", "accept", ""):
    child = os.fork()
    if not child:
        record = flow.drive_model(*flow.reopen_model(folder), open_workbench=lambda _: Bench(), open_judge=Judge)
        os._exit(0 if record.accepted else 1)
    print(lost, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
SETTINGS = Settings(target="cpu", max_depth=0, sanitize=False)


class ScriptedBench:
    """Two equal layers of three regions. The acceptance keeps what is not in `losing`; `fails` fails once each.

    On "cuda" it finds that CUDA graphs gain, or, where Inductor compiles, that max-autotune is the best mode.
    """

    tier: Tier = "landlock"

    def __init__(
        self,
        *,
        fails: tuple[str, ...] = (),
        losing: tuple[str, ...] = (),
        no_task: str = "",
        target: TargetName = "cpu",
    ) -> None:
        self.target: TargetName = target
        self.asked: Counter[str] = Counter()
        self.fails, self.losing, self.no_task = set(fails), losing, no_task

    def _ask(self, what: str) -> None:
        self.asked[what] += 1
        if what in self.fails:
            self.fails.remove(what)
            raise MachineError(f"The machine went away in {what}.")

    def facts(self) -> DeviceFacts:
        return DEVICE

    def counted(self) -> AbstractContextManager[None]:
        return nullcontext()

    def models(self) -> int:
        return 1

    def capture(self, model: ModelInput, deadline: Deadline) -> Capture:
        self._ask("capture")
        return captured(two_layers(), whole_ms=22.0)

    def cut(self, model: ModelInput, regions: tuple[RegionCut, ...]) -> dict[str, str]:
        self._ask("cut")
        said = {each.name: REGION.format(name=each.name) for each in regions}
        return {name: f"{text}# judge: no task\n" if name.startswith(self.no_task or "-") else text
                for name, text in said.items()}  # fmt: skip

    def accept(
        self,
        model: ModelInput,
        folder: Path,
        file: str,
        regions: tuple[str, ...],
        deadline: Deadline,
        compile_s: float,
    ) -> Acceptance:
        self._ask("accept")
        compile((folder / file).read_text(), file, "exec")
        inside = tuple(
            Inside(
                name=name,
                speedup=1.2,
                interval=Interval(low=1.1, high=1.3),
                dropped="no gain is shown inside the model" if name.startswith(self.losing) else "",
            )
            for name in regions
        )
        graphs = self.target == "cuda" and not model.compiled
        compiled = {"form": "compiled", "mode": "max-autotune"} if self.target == "cuda" and model.compiled else {}
        gains = graphs or any(not each.dropped for each in inside)
        beside = BesideCompiled(mode="default", ms=13.2, speedup=1.2, interval=Interval(low=1.1, high=1.3))
        absent = BesideCompiled(mode="max-autotune", failure="over its time of 150 s")
        return Acceptance(
            accepted=gains, reason="" if gains else "No region gains inside the model.", regions=inside,
            eager_ms=22.0, ms=11.0, speedup=2.0, interval=Interval(low=1.9, high=2.1), rounds=11,
            compiled=(beside, absent), graphs=graphs, graphs_speedup=1.5, graphs_interval=Interval(low=1.4, high=1.6),
            eager_peak_bytes=3 << 20, peak_bytes=5 << 20, **compiled,
        )  # fmt: skip


def open_judge(order: JudgeOrder) -> ScriptedJudge:
    return ScriptedJudge(order)


def begun(folder: Path, **asked: bool) -> None:
    create_model(folder, ModelInput(source="class Model: ...\n", name="toy", **asked), SETTINGS)


def driven(folder: Path, bench: ScriptedBench) -> ModelRecord:
    return drive_model(*reopen_model(folder), open_workbench=lambda _: bench, open_judge=open_judge)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    begun(tmp_path / "toy")
    return tmp_path / "toy"


def test_each_region_has_a_run_of_its_own_and_the_winners_are_assembled(folder: Path) -> None:
    record = driven(folder, ScriptedBench(losing=("norm",)))
    assert record.accepted
    assert [outcome.improved for outcome in record.outcomes] == [True] * 3
    runs = {run.name: {file.name for file in run.iterdir()} for run in (folder / "regions").iterdir()}
    assert len(runs) == 3
    assert all({"kernel.cu", "record.json", "report.html", "run.json"} <= files for files in runs.values())
    text, _, told = (folder / "model_fast.py").read_text().partition("\nTOLD =")
    assert "'norm-" in told, "the file says what became of each"
    assert text.count("'product-") == 2
    assert "'norm-" not in text, "a region that does not gain inside the model goes"
    report = (folder / "report.md").read_text()
    assert "2.00x over eager" in report
    assert "1.20x (1.10 to 1.30) over torch.compile, 13.2 ms, in the same rounds" in report
    assert "torch.compile (max-autotune) is no baseline: over its time of 150 s" in report
    assert "at its peak: 5.0 MiB, eager 3.0 MiB" in report
    assert "CUDA graph" not in report
    tree = (folder / "report.html").read_text()
    assert tree.count('<tr class="kept">') == 4, "two regions at two places each"
    assert tree.count('<tr class="dropped">') == 2
    assert "2.00x over eager" in tree
    assert "dropped: no gain is shown inside the model" in report


def test_without_a_gain_inside_no_model_is_handed_out(folder: Path) -> None:
    record = driven(folder, ScriptedBench(losing=("norm", "product")))
    assert not record.accepted
    assert not (folder / "model_fast.py").exists()


class Refused(ScriptedBench):
    """Its regions gain inside, and torch.compile is as fast as the whole."""

    def accept(self, *given: Any) -> Acceptance:
        refused = {"accepted": False, "reason": "The model is not shown to be faster than torch.compile."}
        return super().accept(*given).model_copy(update=refused)


def test_a_table_of_a_model_that_is_refused_keeps_no_region(folder: Path) -> None:
    assert not driven(folder, Refused(losing=("norm",))).accepted
    rows = [line for line in (folder / "report.md").read_text().splitlines() if line.startswith("| ")]
    fates = {line.split("|")[1].strip().partition("-")[0]: line.split("|")[-2].strip() for line in rows}
    assert fates["norm"] == "dropped: no gain is shown inside the model"
    assert fates["product"] == "gains inside, but the whole is not handed out"
    assert not any(fate.startswith("kept") for fate in fates.values())


class Elsewhere(ScriptedBench):
    """Another device, on which nothing gains."""

    def facts(self) -> DeviceFacts:
        return DEVICE.model_copy(update={"device": "another device"})


def test_a_model_that_was_timed_on_another_device_is_timed_anew_on_this_one(folder: Path) -> None:
    here = ScriptedBench(losing=("norm",))
    assert driven(folder, here).accepted
    again = driven(folder, here)
    assert again.accepted
    assert here.asked == Counter(capture=1, cut=1, accept=1), "here it has been timed"
    there = Elsewhere(losing=("norm", "product"))
    record = driven(folder, there)
    assert there.asked == Counter(accept=1), "what was captured and judged stays"
    assert record.acceptance is not None
    assert (record.accepted, record.acceptance.device) == (False, "another device")
    assert not (folder / "model_fast.py").exists()
    assert 0 <= record.seconds < 60.0, "its budget counts from there on"


class Compiled(ScriptedBench):
    """On a processor, in what Inductor makes."""

    def accept(self, *given: Any) -> Acceptance:
        return super().accept(*given).model_copy(update={"form": "compiled", "mode": "default"})


def test_kernels_that_gain_inside_what_inductor_makes_are_found_for_other_models(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive, "own_cache", lambda _: tmp_path)
    record = driven(folder, Compiled(losing=("norm",)))
    assert record.acceptance is not None
    found = archive.entries(archive.device_name("cpu", None))
    assert {each.folder for each in found} == {folder / "regions" / name for name in record.acceptance.kept}
    assert {each.speedup for each in found} == {1.2}, "inside, not alone"


def test_the_model_is_compiled_in_the_mode_that_was_accepted(folder: Path) -> None:
    assert driven(folder, ScriptedBench(losing=("norm",), target="cuda")).accepted
    text = (folder / "model_fast.py").read_text()
    assert 'MODE = "max-autotune"' in text
    assert "GRAPHS = False" in text
    assert "compiled by torch.compile (max-autotune), with the kernels inside" in (folder / "report.md").read_text()


def test_a_model_that_only_gains_as_a_cuda_graph_says_that_no_kernel_is_in_it(tmp_path: Path) -> None:
    folder = tmp_path / "toy"
    begun(folder, assembly=True)
    record = driven(folder, ScriptedBench(losing=("norm", "product"), target="cuda"))
    assert record.accepted
    text = (folder / "model_fast.py").read_text()
    assert "GRAPHS = True" in text
    assert "REGIONS = {}" in text
    assert "no kernel is in it" in (folder / "report.md").read_text()


@pytest.mark.parametrize("lost", ["capture", "cut", "accept"])
def test_what_was_done_before_the_machine_failed_is_not_done_again(folder: Path, lost: str) -> None:
    bench = ScriptedBench(fails=(lost,))
    with pytest.raises(MachineError, match="went away"):
        driven(folder, bench)
    assert driven(folder, bench).accepted
    assert bench.asked == Counter(capture=1, cut=1, accept=1) + Counter([lost])
    assert driven(folder, bench).accepted, "an ended one is only read"
    assert bench.asked["accept"] <= 2


def test_after_kill_9_in_each_node_only_that_node_is_begun_again(folder: Path, tmp_path: Path) -> None:
    """A process of its own for each, forked from one that has all imported."""
    here, log = Path(__file__).parent, tmp_path / "asked"
    paths = f"{here}:{here.parents[1] / 'support'}"
    run = subprocess.run(
        [sys.executable, "-c", KILLED, paths, str(folder), str(log)], capture_output=True, text=True, check=False
    )
    ends = dict(line.split(" ") for line in run.stdout.splitlines())
    nodes = ("capture", "facts", "cut", "build", "assemble", "accept")
    assert ends == {**{node: str(-signal.SIGKILL) for node in nodes}, "": "0"}, run.stderr
    # Three regions, each built once; the acceptor writes the model once more, and notes its device.
    once = Counter({"capture": 1, "facts": 2, "cut": 1, "build": 3, "assemble": 2, "accept": 1})
    assert Counter(log.read_text().split()) == once + Counter(nodes)
    assert "2.00x over eager" in (folder / "report.md").read_text()


def test_a_region_that_is_no_task_leaves_the_others(folder: Path) -> None:
    record = driven(folder, ScriptedBench(no_task="norm"))
    by_name = {outcome.name.split("-")[0]: outcome for outcome in record.outcomes}
    assert not by_name["norm"].improved
    assert by_name["norm"].reason
    assert by_name["product"].improved


def test_the_plan_is_told_before_any_kernel_is_written(folder: Path) -> None:
    bench, told = ScriptedBench(), list[tuple[Plan, int]]()
    drive_model(
        *reopen_model(folder), open_workbench=lambda _: bench, open_judge=open_judge,
        planned=lambda plan: told.append((plan, bench.asked["cut"])),
    )  # fmt: skip
    assert [cut for _, cut in told] == [0]
    assert bench.asked["accept"] == 1


def test_a_folder_that_holds_something_is_refused(folder: Path) -> None:
    with pytest.raises(UserError, match="is not empty"):
        begun(folder)
    with pytest.raises(UserError, match="holds no model"):
        reopen_model(folder / "regions")


def test_an_interrupt_ends_the_regions_that_run_and_those_that_wait(folder: Path) -> None:
    ended: list[str] = []

    class Judge(ScriptedJudge):
        def build(self, task: Task, candidate: Candidate) -> Build:
            os.kill(os.getpid(), signal.SIGTERM)
            try:
                pause(60.0)
            except StoppedError:
                ended.append("stopped")
                raise
            ended.append("slept")
            return super().build(task, candidate)

    with interruptible(), pytest.raises(KeyboardInterrupt):
        drive_model(*reopen_model(folder), open_workbench=lambda _: ScriptedBench(), open_judge=Judge)
    assert ended == ["stopped"]
    bench = ScriptedBench()
    assert driven(folder, bench).accepted
    assert bench.asked["capture"] == 0
