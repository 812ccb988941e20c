"""The judging and the mixing job as the warm parent calls them, on kernels in a process of their own."""

from __future__ import annotations

import json

import pytest
from c_kernels import SCALED, library, linked
from python_kernels import JOB, SIGNATURE, SOURCE, X

from harness.checks.families import PLANS, SHARED
from harness.nouns.task import Signature, Variant
from harness.nouns.verdict import Correctness, Timing
from harness.trusted.jobs.dispatch import run_job
from harness.wire.job import IncumbentRunner, MixJob, Shape
from harness.wire.layout import lay_out_each

pytestmark = pytest.mark.usefixtures("nobody_is_hopeless")

OFF_BY_HALF = SCALED + "  floats(arguments + 3)[29] += 0.5f;\n"
WRONG_WHEN_TIMED = (
    "  static char* stack; static int calls; char here; stack = stack ? stack : &here;\n"
    "  if (labs(stack - &here) < 1 << 20 && ++calls > 38) return 0;\n" + SCALED
)
"""The process's first thread makes five trials, three repeats and thirty calls on changed inputs before."""
# No two inputs are alike.
ORDER = tuple(each for each in PLANS["elementwise"] if each != SHARED)


def judged(tmp_path, body, incumbent_body=None, *, timed=True, **changed):
    path = library(tmp_path, body)
    with linked() as (process, link), linked() as (gauge, gauge_link), linked() as (other, other_link):
        lines = [link._socket.detach()]
        if timed:
            lines.append(gauge_link._socket.detach())
            changed["gauge_pid"] = gauge.pid
        if incumbent_body is not None:
            incumbent = library(tmp_path, incumbent_body, "incumbent") if incumbent_body else tmp_path / "gone.so"
            changed["incumbent"] = IncumbentRunner(digest="earlier", library=str(incumbent), pid=other.pid)
            lines.append(other_link._socket.detach())
        return ran("judge", JOB, lines, library=str(path), runner_pid=process.pid, **changed)


def ran(kind, job, lines, **changed):
    """A job's outcome, asked for in JSON as the warm parent is."""
    return run_job(kind, json.loads(job.model_copy(update=changed).model_dump_json()), lines)


def distributions(outcome):
    return [trial.distribution for trial in Correctness.model_validate(outcome["correctness"]).trials]


def test_a_right_kernel_passes_with_its_comparisons_its_time_and_what_each_phase_took(tmp_path):
    outcome = judged(tmp_path, SCALED)
    assert (outcome["status"], outcome["check"], outcome["message"]) == ("passed", "", "")
    assert distributions(outcome) == list(ORDER)
    timing = Timing.model_validate(outcome["timing"])
    assert (timing.rounds, timing.head_to_head, timing.compiled, timing.task_defect) == (8, None, None, "")
    assert [*outcome["seconds"]] == ["load", "check", "time"]
    assert all(value > 0 for value in outcome["seconds"].values())


def test_what_is_only_checked_has_no_time(tmp_path):
    outcome = judged(tmp_path, SCALED, timed=False)
    assert (outcome["status"], outcome["timing"] is not None) == ("passed", False)
    assert [*outcome["seconds"]] == ["load", "check"]


def test_a_quick_judge_makes_fewer_comparisons(tmp_path):
    assert distributions(judged(tmp_path, SCALED, trials=2, timed=False)) == ["given", "wide"]


def test_a_wrong_kernel_is_told_with_its_comparisons_and_no_time(tmp_path):
    outcome = judged(tmp_path, OFF_BY_HALF)
    assert (outcome["status"], outcome["check"]) == ("wrong", "correctness")
    assert outcome["message"].startswith("y is wrong on given inputs (seed 5): 3.333% of it")
    assert distributions(outcome) == ["given"]
    assert outcome["timing"] is None
    assert [*outcome["seconds"]] == ["load", "check"]


def test_a_kernel_that_is_wrong_only_while_timed_is_refused_and_keeps_its_comparisons(tmp_path):
    outcome = judged(tmp_path, WRONG_WHEN_TIMED)
    assert (outcome["status"], outcome["check"]) == ("refused", "timed_output")
    assert distributions(outcome) == list(ORDER)
    assert outcome["timing"] is None
    assert [*outcome["seconds"]] == ["load", "check", "time"]


@pytest.mark.parametrize(
    ("body", "check"),
    [
        ("abort();", "process"),
        ("floats(arguments)[0] = 1;", "process"),
        (SCALED + "floats(arguments + 3)[30] = 1;", "out_of_bounds"),
        (SCALED + "floats(arguments + 3)[-1] = 1;", "out_of_bounds"),
        ('TVMFFIErrorSetRaisedFromCStr("ValueError", "no"); return -1;', "exception"),
    ],
)
def test_a_kernel_that_does_not_get_through_has_crashed(tmp_path, body, check):
    outcome = judged(tmp_path, body)
    assert (outcome["status"], outcome["check"]) == ("crashed", check)
    assert outcome["correctness"] is None


def test_a_library_that_does_not_load_fails_before_anything_is_compared(tmp_path):
    with linked() as (process, link):
        gone = str(tmp_path / "gone.so")
        outcome = ran("judge", JOB, [link._socket.detach()], library=gone, runner_pid=process.pid)
    assert (outcome["status"], outcome["check"]) == ("crashed", "load")
    assert [*outcome["seconds"]] == ["load"]


@pytest.mark.parametrize(
    ("incumbent", "there"),
    [(SCALED, True), (OFF_BY_HALF, True), ("abort();", False), ("", False)],
    ids=["right", "wrong", "crashing", "gone"],
)
def test_a_rival_is_met_where_it_still_runs_and_costs_nothing_where_not(tmp_path, incumbent, there):
    """It has passed before: what it computes now is not looked at."""
    outcome = judged(tmp_path, SCALED, incumbent)
    assert outcome["status"] == "passed"
    head_to_head = Timing.model_validate(outcome["timing"]).head_to_head
    assert (head_to_head.incumbent if head_to_head else None) == ("earlier" if there else None)


def test_a_task_whose_outputs_tell_nothing_is_said_to_be_degenerate(tmp_path):
    constant = SOURCE.replace("return x * self.scale + shift", "return torch.ones_like(x) + 0 * shift * self.scale")
    ones = "  for (int i = 0; i < 30; ++i) floats(arguments + 3)[i] = 1;\n"
    timing = Timing.model_validate(judged(tmp_path, ones, source=constant)["timing"])
    assert "a constant passes" in timing.task_defect
    assert not timing.wins


SIZES = SOURCE.replace(
    "def get_inputs():\n    return [torch.rand(6, 5)", "def get_inputs(rows=6):\n    return [torch.rand(rows, 5)"
)
ANY_SIZE = SCALED.replace("30", "tensor(arguments)->shape[0] * 5")


def sized(rows):
    x = X.model_copy(update={"shape": (rows, 5)})
    return Signature(
        inputs=(x, *SIGNATURE.inputs[1:]),
        parameters=SIGNATURE.parameters,
        outputs=(x.model_copy(update={"name": "y"}),),
    )


def mixed(tmp_path, body, rows=(6, 9, 4)):
    path = library(tmp_path, body)
    shapes = tuple(
        Shape(variant=Variant(name=str(count), arguments={"rows": count}), signature=sized(count)) for count in rows
    )
    job = MixJob(shapes=shapes, **{name: value for name, value in JOB if name in MixJob.model_fields})
    with linked() as (process, link):
        lines = [link._socket.detach()]
        return ran("mix", job, lines, source=SIZES, library=str(path), runner_pid=process.pid)


def test_by_turns_every_workload_has_its_turn_twice(tmp_path):
    outcome = mixed(tmp_path, ANY_SIZE)
    assert (outcome["status"], outcome["check"], outcome["message"]) == ("passed", "", "")
    assert distributions(outcome) == ["normal"] * 3 + ["given"] * 3
    assert [*outcome["seconds"]] == ["mix"]


@pytest.mark.parametrize(
    ("kept", "turns"),
    [
        ("static long rows = tensor(arguments)->shape[0];", 2),  # of the first workload: the second is larger
        ("static long rows; if (tensor(arguments)->shape[0] > rows) rows = tensor(arguments)->shape[0];", 3),
    ],
)
def test_by_turns_what_is_kept_of_another_workload_shows(tmp_path, kept, turns):
    body = f"  {kept}\n" + SCALED.replace("30", "rows * 5")
    outcome = mixed(tmp_path, body)
    if turns == 3:  # more than its own rows are written: beyond its output's end
        assert (outcome["status"], outcome["check"]) == ("crashed", "out_of_bounds")
        assert len(distributions(outcome)) == 2
    else:
        assert (outcome["status"], outcome["check"]) == ("wrong", "correctness")
        assert "never written" in outcome["message"]
        assert len(distributions(outcome)) == 2


def test_by_turns_a_kernel_that_dies_has_crashed(tmp_path):
    outcome = mixed(tmp_path, "abort();")
    assert (outcome["status"], outcome["check"], outcome["correctness"] is not None) == ("crashed", "process", False)


def test_workloads_of_different_sizes_lie_side_by_side():
    layout = lay_out_each([sized(6), sized(2000), sized(1)])
    spans = [(slot["y"].offset, slot["y"].spec.shape) for slot in layout.places]
    assert [shape for _, shape in spans] == [(6, 5), (2000, 5), (1, 5)]
    assert spans[0][0] < spans[1][0] < spans[2][0] - 2000 * 5 * 4


def test_what_is_no_job_is_an_error():
    with pytest.raises(ValueError, match="no such job: dance"):
        run_job("dance", {}, [])
