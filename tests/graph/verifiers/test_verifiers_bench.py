"""The verifiers' bench: what its mutants are, what it counts, and one kernel with a mutant before the real judge."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from brief_judge import brief_here
from hypothesis import given
from hypothesis import strategies as st
from run_samples import passed, wrong
from typer.testing import CliRunner

from graph.cli.main import app
from graph.verifiers.bench import (
    Bench,
    ModelVerifiers,
    Sample,
    by_operator,
    calibration,
    confusion,
    counted,
    looks,
    read_samples,
)
from graph.verifiers.corpus import Kernel, Mutant, chosen, mutants_of
from harness.judging.protocol import JudgeOrder, KernelJudge
from harness.nouns.candidate import Candidate
from harness.nouns.errors import UserError
from harness.nouns.task import Task
from harness.nouns.verdict import Verdict
from harness.wire.stopping import pause
from knowledge.compiler.search.exemplars import load, names
from nodes.settings import Settings
from tools.judges import open_judge
from tools.opinions import Opinion, Verifier

SUMS = """
void run(tvm::ffi::TensorView x, tvm::ffi::TensorView y) {
  auto in = static_cast<const float*>(x.data_ptr());
  auto out = static_cast<float*>(y.data_ptr());
  int const n = 40;
  for (int i = 0; i < n; ++i) out[i] = in[i] + 1.5f;
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
"""
TASK = """
import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return x + 1.5


def get_inputs():
    return [torch.randn(40)]


def get_init_inputs():
    return []
"""


def test_the_exemplars_give_mutants_of_twelve_operators_on_each_target() -> None:
    made: dict[str, set[str]] = {"cpu": set(), "cuda": set()}
    for name in names():
        exemplar = load(name)
        target = "cpu" if exemplar.architecture == "cpu" else "cuda"
        for mutant in mutants_of(exemplar.shown, target):
            assert mutant.source != exemplar.shown
            made[target].add(mutant.operator)
    assert len(made["cpu"]) >= 12 and len(made["cuda"]) >= 12, made
    assert {"missing barrier", "missing wait"} <= made["cuda"]


def test_a_mutant_differs_in_one_line_and_leaves_comments_and_guards_alone() -> None:
    guard = "void require(int n) {\n  for (int i = 0; i < n; ++i) {}\n}\n"
    source = f"// for (int i = 0; i < n; ++i)\n\n    // C += or C =\n{guard}{SUMS}"
    found = list(mutants_of(source, "cpu"))
    assert [(each.operator, each.line) for each in found] == [
        ("loop one too far", 12), ("loop begins late", 12), ("wrong constant", 12)
    ]  # fmt: skip
    for each in found:
        apart = [a != b for a, b in zip(source.splitlines(), each.source.splitlines(), strict=True)]
        assert sum(apart) == 1 and apart[each.line - 1]


@given(st.lists(st.integers(0, 9), max_size=40), st.integers(1, 12), st.integers(0, 30))
def test_as_many_operators_as_there_is_room_for_are_chosen(kinds: list[int], most: int, seed: int) -> None:
    made = [Mutant(f"operator {kind}", line, f"{kind} {line}") for line, kind in enumerate(kinds)]
    taken = chosen(made, most, seed)
    assert len(taken) == min(most, len(made)) and len(set(taken)) == len(taken)
    assert len({each.operator for each in taken}) == min(most, len(set(kinds)))


def sample(operator: str, status: str, **right: float) -> Sample:
    opinions = tuple(
        Opinion(verifier=name, right=said, seconds=2.0, dollars=0.01)
        for name, said in right.items()  # type: ignore[arg-type]
    )
    return Sample.model_validate(
        {"kernel": "k", "digest": f"{operator}{right}", "operator": operator, "status": status, "device_s": 3.0}
        | {"opinions": opinions}
    )


SAMPLES = [
    sample("", "passed", static=0.7, sanitizers=0.7),
    sample("", "passed", static=0.7, sanitizers=0.02),
    sample("lost sum", "wrong", static=0.7, sanitizers=0.7),
    sample("wrong step", "crashed", static=0.7, sanitizers=0.02),
    sample("wrong step", "wrong", static=0.1, sanitizers=0.7),
    sample("lost sum", "passed"),
]


def test_the_matrix_counts_alarms_and_what_is_caught() -> None:
    rows = {each.verifier: each for each in counted(SAMPLES)}
    both = rows["static and sanitizers"]
    assert (both.right, both.alarms, both.wrong, both.caught) == (2, 1, 3, 2)
    assert (rows["static"].caught, rows["sanitizers"].caught) == (1, 1)
    assert both.device_s_saved == 6.0 and both.seconds == pytest.approx(4.0) and both.dollars == pytest.approx(0.02)
    assert confusion(SAMPLES).rows[-1][:4] == ("static and sanitizers", "1 of 2", "2 of 3", "67%")
    assert by_operator(SAMPLES).rows == (("lost sum", "2", "1", "0", "0", "0"), ("wrong step", "2", "2", "1", "1", "2"))
    assert [row[:2] + row[3:] for row in calibration(SAMPLES).rows] == [
        ("to 0.05", "2", "0.50"), ("to 0.25", "1", "0.00"), ("to 0.75", "2", "0.50")
    ]  # fmt: skip


def corpus(judge: KernelJudge, jobs: int) -> list[Kernel]:
    assert jobs > 0
    return [Kernel("sums", judge.describe(TASK, name="sums"), Candidate(source=SUMS, target="cpu", author="one"))]


def test_a_real_kernel_its_mutants_and_a_second_go(tmp_path: Path) -> None:
    """One mutant of three is seen by the sanitizer, one by nobody. What was judged is not judged again; who has not
    looked yet does so then."""
    with brief_here(), mock.patch("graph.verifiers.bench.right_kernels", corpus):
        judge = open_judge(JudgeOrder("cpu"))

        def go(*, watched: bool) -> list[Sample]:
            bench = Bench(judge, tmp_path, verifiers=looks(judge, watched=watched), mutants=3, jobs=2)
            told: list[int] = []
            found = bench.measured(lambda samples: told.append(len(samples)))
            assert found.left == 0 and told == list(range(1, len(found.samples) + 1))
            return list(found.samples)

        alone = go(watched=False)
        with mock.patch.object(judge, "evaluate", side_effect=AssertionError):
            first = go(watched=True)
            with mock.patch.object(judge, "sanitize", side_effect=AssertionError):
                assert go(watched=True) == first
    assert {each.verifier for sample in alone for each in sample.opinions} == {"static"}
    seen = {each.operator: {said.verifier: said.right < 0.5 for said in each.opinions} for each in first}
    assert {each.operator: each.counts for each in first} == dict.fromkeys(seen, True), [each.status for each in first]
    assert seen[""] == {"static": False, "sanitizers": False}
    assert seen["loop begins late"]["sanitizers"] and not any(seen["wrong constant"].values())
    written = {each.digest: each for each in read_samples(tmp_path / "samples.jsonl")}
    assert [written[each.digest] for each in first] == first, "in whatever order they were done"


def test_when_the_minutes_are_over_what_is_being_done_is_ended_and_what_is_done_stays(tmp_path: Path) -> None:
    """Looks at mutants take an hour, unless somebody ends them."""

    def look(task: Task, candidate: Candidate) -> list[Opinion]:
        if candidate.author == "mutant":
            pause(3600)
        return [Opinion(verifier="static", right=0.7)]

    def verdict(task: Task, candidate: Candidate, *_: Any, **__: Any) -> Verdict:
        return wrong(candidate) if candidate.author == "mutant" else passed(candidate, 1.0)

    with mock.patch("graph.verifiers.bench.right_kernels", corpus):
        judge = open_judge(JudgeOrder("cpu"))
        with mock.patch.object(judge, "evaluate", side_effect=verdict):
            bench = Bench(judge, tmp_path, verifiers={"static": look}, mutants=3)
            found = bench.measured(lambda _: None, minutes=0.1)
    assert 3 <= found.left == 4 - len(found.samples)
    assert read_samples(tmp_path / "samples.jsonl") == list(found.samples)


def test_the_command_writes_its_matrix_as_kernels_are_done(tmp_path: Path) -> None:
    command = [
        "verifiers",
        "bench",
        "--target",
        "cpu",
        "--mutants",
        "1",
        "--without-sanitizers",
        "--out",
        str(tmp_path),
    ]
    with mock.patch("graph.verifiers.bench.right_kernels", corpus):
        stopped = CliRunner().invoke(app, [*command, "--minutes", "0"])
        ended = CliRunner().invoke(app, [*command, "--json"])
    assert stopped.exit_code == 130 and "2 kernels are left: the same command goes on with them." in stopped.stderr
    assert ended.exit_code == 1, ended.output
    said = json.loads(ended.stdout)
    assert said["left"] == 0 and {each["verifier"] for each in said["verifiers"]} == {"static", "static and sanitizers"}
    assert "| static | 0 of 1 | 0 of 1 |" in (tmp_path / "matrix.md").read_text()


def test_models_are_asked_outside_of_a_run() -> None:
    from evolution_script import kernel
    from scripted_judge import ScriptedJudge, softsign_task

    from nodes.models.local import ScriptedModel

    judge = ScriptedJudge(JudgeOrder("cpu"))
    model = ScriptedModel(answers=['{"checked": ["all"], "faults": [], "right": 0.8}'], repeat_last=True)
    aspects: tuple[Verifier, ...] = ("compile", "numerics")
    with pytest.raises(UserError, match="playbook verifies no kernels"):
        ModelVerifiers(Settings(verifiers=aspects), judge)
    with mock.patch("graph.verifiers.bench.open_model", lambda *_: model):
        ask = ModelVerifiers(Settings(verifiers=aspects, model="openai:x"), judge)
        candidate = Candidate(source=kernel("k", "passed 1x"), target="cpu", author="one")
        said = list(ask(softsign_task("torch.rand(64, 256)", "softsign"), candidate))
    assert [(each.verifier, each.right) for each in said] == [("compile", 0.8), ("numerics", 0.8)]
    assert model.calls("verifier") == 4
