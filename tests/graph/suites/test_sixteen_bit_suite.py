"""The bundled suite of a language model's parts: each runs, in bfloat16, on tensors without memory."""

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from graph.runs.suite_record import SuiteTask
from graph.suites.tasks import load_suite
from harness.trusted.reference import Reference


@pytest.mark.parametrize("task", load_suite("sixteen_bit")[1], ids=lambda task: task.name)
def test_each_task_runs(task: SuiteTask) -> None:
    with FakeTensorMode():
        reference = Reference(task.source, task.name)
        results = reference.run(reference.inputs(0))
    assert [result.dtype for result in results] == [torch.bfloat16]
    assert results[0].numel() >= 16 * 4096
