"""The bundled level1 suite: 32 tasks of the published shapes that trace, and that the playbook writes or declines."""

import pytest

from graph.suites.tasks import load_suite
from harness.isolation.tiers import resolve_tier
from harness.nouns.task import Task
from harness.tasks.describing import describe_task
from knowledge.compiler.plan import Decline, Draft
from knowledge.compiler.problem import Problem
from knowledge.compiler.search.first import first_draft

Shape = tuple[int, ...]

SHAPES: dict[int, tuple[Shape, ...]] = {  # inputs, then the output; () is a number
    1: ((4096, 4096), (4096, 4096), (4096, 4096)),
    2: ((2048, 8192), (8192, 4096), (2048, 4096)),
    3: ((128, 512, 1024), (128, 1024, 2048), (128, 512, 2048)),
    4: ((2048, 1048576), (1048576, 1), (2048, 1)),
    5: ((65536, 16384), (), (65536, 16384)),
    6: ((256, 524288), (524288, 256), (256, 256)),
    7: ((32768, 64), (64, 32768), (32768, 32768)),
    8: ((8205, 2949), (2949, 5921), (8205, 5921)),
    9: ((32768, 32), (32, 32768), (32768, 32768)),
    10: ((16, 1024, 2048), (2048, 768), (16, 1024, 768)),
    11: ((8, 256, 512, 256), (256, 768), (8, 256, 512, 768)),
    12: ((4096,), (4096, 4096), (4096, 4096)),
    13: ((4096, 4096), (4096, 4096), (4096, 4096)),
    14: ((4096, 4096), (4096, 4096), (4096, 4096)),
    15: ((4096, 4096), (4096, 4096), (4096, 4096)),
    16: ((8192, 2048), (8192, 4096), (2048, 4096)),
    17: ((2048, 8192), (4096, 8192), (2048, 4096)),
    18: ((8192, 2048), (4096, 8192), (2048, 4096)),
    **dict.fromkeys(range(19, 33), ((4096, 393216), (4096, 393216))),
}
ELEMENTWISE = {5, 12, 19, 20, 21, 22, 25, 26, 27, 28, 29, 30, 31, 32}
REDUCTION = {23, 24}


@pytest.fixture(scope="module")
def described() -> dict[int, Task]:
    _, tasks = load_suite("level1")
    tier = resolve_tier("auto")
    return {task.id: describe_task(task.source, name=task.name, tier=tier) for task in tasks}


def problem(task: Task, target: str) -> Problem:
    """What the playbook is asked, as its model reads it from a task."""
    assert task.program is not None, task.trace_failure
    device = {"architecture": "sm_90a", "multiprocessors": 132, "shared_bytes": 232448} if target == "cuda" else {}
    return Problem.model_validate(
        {
            "target": target,
            **task.signature.model_dump(),
            "ops": [op.model_dump() for op in task.program.ops],
            "returns": task.program.outputs,
            "device": device,
        }
    )


def test_the_shapes_are_the_published_ones(described: dict[int, Task]) -> None:
    found = {}
    for number, task in described.items():
        inputs = tuple(spec.shape if spec.kind == "tensor" else () for spec in task.signature.inputs)
        found[number] = (*inputs, *(spec.shape for spec in task.signature.outputs))
    assert found == SHAPES
    dtypes = {spec.dtype for task in described.values() for spec in task.signature.arguments if spec.kind == "tensor"}
    assert dtypes == {"float32"}


def test_the_op_classes_are_right(described: dict[int, Task]) -> None:
    found = {number: task.op_class for number, task in described.items()}
    expected = {n: "elementwise" if n in ELEMENTWISE else "reduction" if n in REDUCTION else "gemm" for n in SHAPES}
    assert found == expected


def test_the_operations_counted_are_those_of_the_shapes(described: dict[int, Task]) -> None:
    assert described[1].workloads[0].flops == 2 * 4096**3
    assert described[8].workloads[0].flops == 2 * 8205 * 2949 * 5921
    assert described[11].workloads[0].flops == 2 * 8 * 256 * 512 * 256 * 768
    assert described[19].workloads[0].bytes_moved == 2 * 4 * 4096 * 393216


@pytest.mark.sampled(2)
@pytest.mark.parametrize("target", ["cpu", "cuda"])
def test_the_playbook_writes_or_declines_each(described: dict[int, Task], target: str) -> None:
    answers = {number: first_draft(problem(task, target)) for number, task in described.items()}
    for answer in answers.values():
        assert isinstance(answer, Draft | Decline)
    if target == "cpu":
        declined = {number for number, answer in answers.items() if isinstance(answer, Decline)}
        assert declined <= {4}, "its matrix has 2**31 elements"


@pytest.mark.sampled(3)
@pytest.mark.parametrize("number", [5, 8, 13, 14, 23])
def test_a_scaled_task_runs_on_real_values(number: int) -> None:
    (task,) = load_suite("level1", ids=str(number), scale=1 / 64)[1]
    small = describe_task(task.source, name=task.name, tier=resolve_tier("auto"))
    assert small.workloads[0].bytes_moved < 64 << 20
    full = SHAPES[number][0]
    shape = small.signature.inputs[0].shape
    assert all(abs(extent - size / 64) <= 1 for extent, size in zip(shape, full, strict=True))
