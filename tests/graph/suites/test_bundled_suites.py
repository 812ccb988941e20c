"""The bundled suites of a model's parts and of forwards and backwards: each runs, on tensors without memory."""

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from graph.runs.suite_record import SuiteTask
from graph.suites.tasks import load_suite
from harness.trusted.reference import Reference

WORKLOADS = {1: 8, 2: 8, 3: 4, 4: 8, 5: 2, 6: 8, 7: 9, 8: 2, 9: 2, 10: 13, 11: 9} | {
    12: 9, 13: 4, 14: 8, 15: 2, 16: 8, 17: 8, 18: 2, 19: 9,
}  # fmt: skip
TASKS = load_suite("robust")[1]


def test_eleven_forwards_and_eight_backwards() -> None:
    directions = [Reference(task.source, task.name).direction for task in TASKS]
    assert directions == ["forward"] * 11 + ["backward"] * 8


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
def test_every_workload_runs(task: SuiteTask) -> None:
    variants = Reference.variants(task.source, task.name)
    assert len(variants) == WORKLOADS[task.id]
    seen = set()
    for variant in variants:
        with FakeTensorMode():
            reference = Reference(task.source, task.name, variant=variant)
            values = reference.inputs(0)
            results = reference.run(values)
        weights = [tuple(weight.shape) for weight in reference.parameters().values()] + [tuple(results[0].shape)]
        shapes = [tuple(value.shape) for value in values]  # type: ignore[union-attr]
        seen.add((str(variant.arguments.get("start")), *map(str, (*shapes, *weights))))
        if reference.direction == "backward":
            trained = [tuple(each.shape) for each in reference.model.parameters()]
            assert [tuple(each.shape) for each in results] == [shapes[0], *trained]
    assert len(seen) == len(variants)  # none twice


@pytest.mark.parametrize("task", load_suite("sixteen_bit")[1], ids=lambda task: task.name)
def test_each_sixteen_bit_task_runs(task: SuiteTask) -> None:
    with FakeTensorMode():
        reference = Reference(task.source, task.name)
        results = reference.run(reference.inputs(0))
    assert [result.dtype for result in results] == [torch.bfloat16]
    assert results[0].numel() >= 16 * 4096
