"""A suite's tasks by workload: each is a file that declares it alone, and a second table sums up each file's."""

from __future__ import annotations

import pytest
from suite_records import row

from graph.suites.table import workloads_sheet
from graph.suites.tasks import SuiteTask
from graph.suites.workloads import each_workload
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
