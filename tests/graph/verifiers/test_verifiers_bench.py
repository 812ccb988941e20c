"""The verifiers' bench: what its mutants are, what it counts, and one kernel with a mutant before the real judge."""

from __future__ import annotations

from pathlib import Path
from unittest import mock

import pytest
from brief_judge import brief_here
from hypothesis import given
from hypothesis import strategies as st

from graph.verifiers.bench import Sample, looks, measured, read_samples
from graph.verifiers.by_model import ModelVerifiers
from graph.verifiers.corpus import Kernel
from graph.verifiers.matrix import by_operator, calibration, confusion, counted
from graph.verifiers.mutants import Mutant, chosen, mutants_of
from harness.judging.protocol import Judge, JudgeOrder
from harness.nouns.candidate import Candidate
from harness.nouns.errors import UserError
from knowledge.exemplars.source import load, names
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


def test_a_real_kernel_its_mutants_and_a_second_go(tmp_path: Path) -> None:
    """One mutant of three is seen by the sanitizer, one by nobody; what was judged is not judged again."""

    def corpus(judge: Judge) -> list[Kernel]:
        candidate = Candidate(source=SUMS, target="cpu", author="one")
        return [Kernel("sums", judge.describe(TASK, name="sums"), candidate)]

    told: list[str] = []
    with brief_here(), mock.patch("graph.verifiers.bench.right_kernels", corpus):
        judge = open_judge(JudgeOrder("cpu"))
        first = measured(judge, tmp_path, verifiers=looks(judge), mutants=3, told=told.append, jobs=2)
        with mock.patch.object(judge, "evaluate", side_effect=AssertionError):
            assert measured(judge, tmp_path, verifiers=looks(judge), mutants=3, told=told.append) == first
    seen = {each.operator: {said.verifier: said.right < 0.5 for said in each.opinions} for each in first}
    assert {each.operator: each.counts for each in first} == dict.fromkeys(seen, True), [each.status for each in first]
    assert seen[""] == {"static": False, "sanitizers": False}
    assert seen["loop begins late"]["sanitizers"] and not any(seen["wrong constant"].values())
    written = {each.digest: each for each in read_samples(tmp_path / "samples.jsonl")}
    assert [written[each.digest] for each in first] == first, "in whatever order they were done"


def test_models_are_asked_outside_of_a_run() -> None:
    from evolution_script import kernel
    from scripted_judge import ScriptedJudge, softsign_task

    from nodes.models.scripted import ScriptedModel

    judge = ScriptedJudge(JudgeOrder("cpu"))
    model = ScriptedModel(answers=['{"checked": ["all"], "faults": [], "right": 0.8}'], repeat_last=True)
    aspects: tuple[Verifier, ...] = ("compile", "numerics")
    with pytest.raises(UserError, match="playbook verifies no kernels"):
        ModelVerifiers(Settings(verifiers=aspects), judge)
    with mock.patch("graph.verifiers.by_model.open_model", lambda *_: model):
        ask = ModelVerifiers(Settings(verifiers=aspects, model="openai:x"), judge)
        candidate = Candidate(source=kernel("k", "passed 1x"), target="cpu", author="one")
        said = list(ask(softsign_task("torch.rand(64, 256)", "softsign"), candidate))
    assert [(each.verifier, each.right) for each in said] == [("compile", 0.8), ("numerics", 0.8)]
    assert model.calls("verifier") == 4
