"""A suite's tasks by workload: each is a file that declares it alone, and a second table sums up each file's."""

from __future__ import annotations

import pytest
from suite_records import row

from graph.runs.suite_record import SuiteTask
from graph.runs.tables import directions_sheet, over_sheets, workloads_sheet
from graph.suites.tasks import each_workload
from harness.nouns.errors import UserError
from harness.nouns.task import Task, Workload
from harness.trusted.reference import Reference

FILE = """
import torch
WORKLOADS = [{"rows": rows, "name": name, "dtype": "bfloat16"} for rows, name in ((2, "a/b"), (5, "wide"))]
class Model(torch.nn.Module):
    def forward(self, x):
        return x + 1
def get_inputs(rows=1):
    return [torch.ones(rows, 3)]
"""
TASK = SuiteTask(id=7, name="7_more", source=FILE)


def described(task: SuiteTask) -> Task:
    """What matters here of a file's description."""
    if not task.source:
        raise UserError("no task")
    works = (
        Workload.model_construct(name=each.name, variant=each) for each in Reference.variants(task.source, task.name)
    )
    return Task.model_construct(workloads=tuple(works))


def test_each_workload_is_a_task_that_declares_it_alone() -> None:
    empty = SuiteTask(id=8, name="8_nothing", source="")
    first, second, third = each_workload((TASK, empty), described, 2)
    assert [(each.id, each.name, each.whole) for each in (first, second)] == [
        (701, "7_more a_b", "7_more"), (702, "7_more wide", "7_more"),
    ]  # fmt: skip
    assert third == empty
    (variant,) = Reference.variants(second.source, second.name)
    assert (variant.name, variant.arguments, variant.dtype) == ("wide", {"rows": 5}, "bfloat16")
    assert each_workload((second,), described, 1) == (second,)


def test_a_task_of_too_many_workloads_is_refused() -> None:
    many = TASK.model_copy(update={"source": FILE + "WORKLOADS = [{'rows': k} for k in range(100)]\n"})
    with pytest.raises(UserError, match="100 workloads"):
        each_workload((many,), described, 1)


def test_a_files_workloads_are_summed_up() -> None:
    rows = (row(701, 0.5), row(702, 2.0), row(703, None), row(901, None), row(1, 3.0))
    wholes = ("7_more", "7_more", "7_more", "9_none", "")
    found = [each.model_copy(update={"whole": whole}) for each, whole in zip(rows, wholes, strict=True)]
    assert workloads_sheet(found).rows == (
        ("7_more (3)", "2", "1", "0.50x", "1.00x", "2.00x"), ("9_none (1)", "0", "0", "", "", ""),
    )  # fmt: skip
    assert not workloads_sheet(rows).rows


def test_a_modules_forward_and_backward_stand_side_by_side() -> None:
    names = (("03_norm", "a"), ("03_norm", "b"), ("13_norm_backward", "a"), ("13_norm_backward", "c"), ("04_conv", "a"))
    rows = [
        row(number, speedup, whole=whole, name=f"{whole} {work}")
        for number, ((whole, work), speedup) in enumerate(zip(names, (2.0, None, 0.5, 3.0, 1.0), strict=True))
    ]
    assert directions_sheet(rows).rows == (
        ("norm", "a", "2.00x", "0.50x", ""), ("norm", "b", "no kernel", "", ""), ("norm", "c", "", "3.00x", ""),
    )  # fmt: skip
    whole = [row(1, 2.0, name="1_relu"), row(2, 3.0, name="2_relu_both")]
    assert directions_sheet(whole).rows == (("relu", "", "2.00x", "", "3.00x"),)
    assert [sheet.title for sheet in over_sheets(rows)] == ["Over each file's workloads", "Forward and backward"]
    assert over_sheets(rows[-1:]) and not over_sheets([row(1, 2.0)])
