"""A suite's kernels before KernelBench's evaluator: which are shown to it, what becomes of each, and the figures."""

from __future__ import annotations

import json
import os
import random
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from threading import Thread

import pytest
from command_line import here
from exported_runs import FORWARD, GATED, record
from third_parties import checkout

from graph.cli.options import Suite
from graph.cli.settings import settings_of
from graph.runs.record import RunRecord
from graph.runs.suite_record import SuiteTask
from graph.suites import kernelbench
from graph.suites.folder import SuiteFolder, create_suite
from graph.suites.kernelbench import Scored, Scores, Scoring, chosen_ids
from graph.suites.kernelbench_child import scores
from harness.nouns.errors import MachineError, UserError
from harness.tasks.declaring import directed
from nodes.settings import Settings

EVALUATOR = """
import os, signal
from pathlib import Path
from types import SimpleNamespace

properties = SimpleNamespace(total_memory=4 << 20)
cuda = SimpleNamespace(empty_cache=lambda: None, get_device_properties=lambda device: properties)
torch = SimpleNamespace(device=str, cuda=cuda)


def load_original_model_and_inputs(source, context):
    context["FATE"] = source.partition('FATE = "')[2].partition('"')[0]  # running it would import PyTorch
    return None, list, list


def load_custom_model(source, context, build_dir):
    return "class ModelNew(Model):" in source and "__global__" in source and "TensorView" in source


def load_custom_model_with_tempfile(source):
    raise AssertionError("for another backend")


def eval_kernel_against_ref(reference, ours, *, num_correct_trials, num_perf_trials, measure_performance, build_dir,
                            device, backend):
    assert (num_correct_trials, num_perf_trials, measure_performance) == (5, 100, True)
    assert (device, backend) == ("cuda:0", "cuda")
    print("what its evaluator says goes to the log")
    seen = Path(__file__).with_name("seen")
    with seen.open("a") as told:
        told.write(build_dir + chr(10))
    context = {}
    _, _, get_inputs = load_original_model_and_inputs(reference, context)
    get_inputs()
    assert load_custom_model(ours, context, build_dir)
    fate = context["FATE"]
    if fate == "hangs":
        signal.pause()
    if fate == "dies":
        os._exit(3)
    right = fate == "right"
    metadata = {} if right else {"correctness_issue": "Output mismatch", "max_difference": ["0.5"]}
    return SimpleNamespace(compiled=True, correctness=right, runtime=2.0 if right else -1.0,
                           ref_runtime=5.0 if right else -1.0, metadata=metadata)
"""
SCORE = """
import numpy as np


def fastp(is_correct, baseline_speed, actual_speed, n, p):
    return np.sum((baseline_speed / actual_speed)[is_correct] > p) / n


def geometric_mean_speed_ratio_correct_only(is_correct, baseline_speed, actual_speed, n):
    return np.exp(np.mean(np.log((baseline_speed / actual_speed)[is_correct])))
"""
GPU_KERNEL = "__global__ void rows() {}\n" + FORWARD
FATES = ("right", "wrong", "dies")


@pytest.fixture
def evaluator(tmp_path: Path) -> Path:
    """In the place of a checkout: an evaluator that does as the task's file says."""
    package = tmp_path / "KernelBench" / "src" / "kernelbench"
    package.mkdir(parents=True)
    for name, text in (("__init__", ""), ("eval", EVALUATOR), ("score", SCORE)):
        (package / f"{name}.py").write_text(text)
    return package.parents[1]


def suite(folder: Path, runs: dict[str, RunRecord | None]) -> tuple[SuiteFolder, tuple[SuiteTask, ...]]:
    tasks = tuple(
        SuiteTask(id=k, name=name, source=run.task.source if run and run.task else GATED)
        for k, (name, run) in enumerate(runs.items(), start=1)
    )
    made, manifest = create_suite(folder, name="level1", tasks=tasks, scale=1.0, settings=Settings(target="cuda"))
    for name, run in runs.items():
        (folder / name).mkdir()
        if run is not None:
            (folder / name / "record.json").write_text(run.model_dump_json())
    return made, manifest.tasks


def run_of(fate: str, extra: str = "") -> RunRecord:
    source = directed(GATED, "forward") + f'\nFATE = "{fate}"\n{extra}'
    return record(source, GPU_KERNEL + f"// {fate}", fate, "cuda")


def rounded(scores: Scores) -> Scores:
    return Scores(**{name: round(value, 9) for name, value in scores.model_dump().items()})


def test_each_kernel_is_evaluated_once_and_scored(evaluator: Path, tmp_path: Path) -> None:
    runs: dict[str, RunRecord | None] = {fate: run_of(fate) for fate in FATES}
    runs["mode"] = run_of("mode", "class Other:\n    norm = torch.nn.BatchNorm1d\n")
    runs["none"] = run_of("none").model_copy(update={"best": None, "outcome": "nothing_faster"})
    runs["processor"] = record(directed(GATED, "forward"), FORWARD)
    late = runs["late"] = run_of("right", "LATE = True\n")
    folder, tasks = suite(tmp_path / "suite", runs)
    (folder.path / "late" / "record.json").write_text(run_of("wrong").model_dump_json())  # another task's
    told: list[Scored] = []
    found = Scoring(folder, tasks, evaluator, backend="cuda").run(told.append, jobs=2, over=lambda: False)
    assert not found.complete
    rows = {row.name: row for row in found.rows}
    assert sorted(rows) == sorted({row.name for row in told}) == sorted(set(runs) - {"late"})
    assert found.scored is not None
    assert found.scored.fast_0 == pytest.approx(1 / 6)
    right = rows["right"]
    assert (right.exported, right.correct, right.speedup, right.judge, right.ratio) == (True, True, 2.5, 2.0, 1.25)
    assert rows["wrong"].note == "correctness_issue: Output mismatch; max_difference: ['0.5']"
    assert rows["dies"].note.startswith("the evaluator ended with exit code 3")
    assert "in training mode" in rows["mode"].refused
    assert rows["none"].refused == "no kernel passed the judge"
    assert "for a processor" in rows["processor"].refused
    (folder.path / "late" / "record.json").write_text(late.model_dump_json())
    found = Scoring(folder, tasks, evaluator, backend="cuda").run(told.append, jobs=1, over=lambda: False)
    assert told[-1].name == "late"
    seen = (evaluator / "src" / "kernelbench" / "seen").read_text().split()
    assert len(seen) == len(set(seen)) == len(FATES) + 1
    assert found.scored is not None
    assert found.judged is not None
    two, six = round(2 / 7, 9), round(6 / 7, 9)
    assert rounded(found.scored) == Scores(fast_0=two, fast_1=two, fast_15=two, fast_2=two, geomean=2.5)
    assert rounded(found.judged) == Scores(fast_0=six, fast_1=six, fast_15=six, fast_2=0, geomean=2.0)
    assert found.complete
    assert found.near == (0, 2)
    assert json.loads((folder.path / "kernelbench.json").read_text())["rows"][0]["correct"]


def test_nothing_is_begun_when_the_minutes_are_over(evaluator: Path, tmp_path: Path) -> None:
    folder, tasks = suite(tmp_path / "suite", {"right": run_of("right")})
    found = Scoring(folder, tasks, evaluator, backend="cuda").run(lambda row: None, jobs=1, over=lambda: True)
    assert found.rows == ()


def test_an_evaluator_that_hangs_is_ended(evaluator: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernelbench, "TASK_S", 5.0)
    folder, tasks = suite(tmp_path / "suite", {"hangs": run_of("hangs")})
    found = Scoring(folder, tasks, evaluator, backend="cuda").run(lambda row: None, jobs=1, over=lambda: False)
    assert [row.note for row in found.rows] == ["no result after 5 s"]


def test_an_interrupt_ends_the_evaluators(evaluator: Path, tmp_path: Path) -> None:
    folder, tasks = suite(tmp_path / "suite", {"hangs": run_of("hangs")})
    scoring = Scoring(folder, tasks, evaluator, backend="cuda")
    seen = evaluator / "src" / "kernelbench" / "seen"

    def interrupt() -> None:
        while not seen.exists():
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
    Thread(target=interrupt, daemon=True).start()
    began = time.monotonic()
    try:
        with pytest.raises(KeyboardInterrupt):
            scoring.run(lambda row: None, jobs=2, over=lambda: False)
    finally:
        signal.signal(signal.SIGINT, before)
    assert time.monotonic() - began < kernelbench.TASK_S / 2
    assert not scoring.file.exists()


def test_evaluators_wait_for_memory(tmp_path: Path) -> None:
    """Of 16 shares two take 10 each: the second has them once the first has ended."""
    take = "import sys; from pathlib import Path; from graph.suites.kernelbench_child import _shares; "
    take += "held = _shares(Path(sys.argv[1]), 10); print(len(held), flush=True); sys.stdin.read()"
    command = [sys.executable, "-c", take, str(tmp_path)]
    both = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    pipes = {each.stdout: each for each in both}
    ready, _, _ = select.select(pipes, [], [], 60)
    for _ in range(2):
        (first,) = ready
        assert first.readline() == "10\n"
        pipes.pop(first).communicate()
        ready, _, _ = select.select(pipes, [], [], 60) if pipes else ([], [], [])
    assert not pipes


def test_tasks_are_drawn_under_a_seed(tmp_path: Path) -> None:
    level = tmp_path / "KernelBench" / "level1"
    level.mkdir(parents=True)
    for number in range(1, 41):
        (level / f"{number}_task.py").write_text("")
    drawn = chosen_ids(tmp_path, 1, 24, 7)
    assert drawn == chosen_ids(tmp_path, 1, 24, 7) != chosen_ids(tmp_path, 1, 24, 8)
    assert len(set(map(int, drawn.split(",")))) == 24
    assert chosen_ids(tmp_path, 1, None, 7) == ""


def test_where_its_evaluator_is_said_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUTEGEN_KERNELBENCH", raising=False)
    done = here("bench", "kernelbench")
    assert done.exit_code == 2
    assert "git clone https://github.com/ScalingIntelligence/KernelBench" in done.stderr
    with pytest.raises(UserError, match="is no checkout of KernelBench"):
        kernelbench.find_checkout(tmp_path)


def test_without_a_gpu_it_is_refused(evaluator: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(target: str, device: int) -> None:
        raise MachineError("None answers.", "Use --target cpu.")

    monkeypatch.setattr("graph.cli.bench.choose_target", none)
    given = ["bench", "kernelbench", "--kernelbench", str(evaluator)]
    assert "None answers. KernelBench's evaluator runs on GPUs alone; cutegen suite" in here(*given).stderr
    done = here(*given, "--target", "cpu")
    assert (done.exit_code, "Leave --target cpu out" in done.stderr) == (2, True)


@pytest.mark.parametrize(("given", "served"), [((), False), (("--set", "serve_batches=true"), True)])
def test_kernels_are_tried_at_other_batches_where_that_is_asked_for(
    evaluator: Path, monkeypatch: pytest.MonkeyPatch, given: tuple[str, ...], served: bool
) -> None:
    """The evaluator calls them at their task's sizes alone."""
    begun: list[Settings] = []

    def suite_of(options: Suite) -> int:
        begun.append(settings_of(options.settings))
        raise UserError("Enough is known.", "")

    monkeypatch.setattr("graph.cli.bench.choose_target", lambda target, device: None)
    monkeypatch.setattr("graph.cli.bench.run_suite", suite_of)
    here("bench", "kernelbench", "--kernelbench", str(evaluator), *given)
    assert [settings.serve_batches for settings in begun] == [served]


def test_a_suite_of_somebody_elses_is_not_run(evaluator: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its kernels would run without isolation: `create_suite` notes who began it, a changed manifest is not that."""
    monkeypatch.setattr("graph.cli.bench.choose_target", lambda target, device: None)
    folder, _ = suite(tmp_path / "suite", {"none": None})
    given = ["bench", "kernelbench", "--kernelbench", str(evaluator), "--suite", str(folder.path)]
    assert "Go on with" in here(*given).stderr
    done = here(*given, "--tasks", "3")
    assert (done.exit_code, "has its tasks, its settings and its folder" in done.stderr) == (2, True)
    folder.manifest_file.write_text(folder.manifest_file.read_text() + " ")
    done = here(*given)
    assert done.exit_code == 2
    assert "its kernels would run without isolation" in done.stderr


def test_the_figures_are_kernelbenchs_own() -> None:
    """For any times: what its functions give is what their definitions say."""
    draw = random.Random(1)
    correct = [draw.random() < 0.7 for _ in range(20)]
    reference_ms, ms = ([draw.uniform(1, 9) for _ in range(20)] for _ in range(2))
    found = scores(checkout("CUTEGEN_KERNELBENCH", "KernelBench"), correct, reference_ms, ms)
    ratios = [r / m for r, m, right in zip(reference_ms, ms, correct, strict=True) if right]
    assert found["fast_1.5"] == sum(ratio > 1.5 for ratio in ratios) / 20
    assert found["fast_0"] == len(ratios) / 20
    product = 1.0
    for ratio in ratios:
        product *= ratio
    assert found["geomean"] == pytest.approx(product ** (1 / len(ratios)))
