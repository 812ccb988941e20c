"""Two floors under a task's time, from what must be moved and computed at the device's measured rates.

No kernel comes below the lower one, `below_floor`: a shorter time was not measured right. The other one, `floor_ms`, is
what a good kernel is held against; one that finds a shorter way may come below it.
"""

from __future__ import annotations

import math

from harness.nouns.aten import of_kinds
from harness.nouns.device_facts import DeviceFacts
from harness.nouns.task import WHOLE, DType, Program, Task, TensorSpec, Workload
from harness.nouns.verdict import Precision, Timing, Verdict
from harness.targets.target import Target

SLACK = 1.5
"""A rate measured by a plain probe can be beaten a little, but not by half."""
TRIANGLES = 6
"""So many times fewer operations does the product of two triangular matrices need than that of two full ones."""
MEASURED_AGAIN = 3
"""Times that the rates are measured before they refuse anybody: on a busy machine they may have come out too low."""

_PRODUCTS = frozenset({"mm", "bmm", "matmul", "addmm", "baddbmm", "linear"})
_RELABELLING = of_kinds("reshape", "permute") | {"alias", "detach", "clone", "contiguous"}


def below_floor(task: Task, timing: Timing, target: Target) -> str:
    """Why a time on the task's first workload is impossible; empty where it is not."""
    taken_ms = timing.candidate_ms
    reason = _reason(task, taken_ms, target.facts())
    for _ in range(MEASURED_AGAIN):
        if reason:
            reason = _reason(task, taken_ms, target.facts(again=True))
    return reason


def floor_ms(task: Task, facts: DeviceFacts, verdict: Verdict) -> float:
    """The larger of the bytes at the measured copy rate and the FLOPs at the device's best rate for the precision.

    A kernel may need fewer operations than the reference spells out (a triangle, a diagonal): where it beats the time
    of the FLOPs, the bytes alone are its floor.
    """
    moving, computing = needed_ms(task, facts, verdict.precision)
    taken = verdict.timing.candidate_ms if verdict.timing else math.inf
    return computing if moving < computing <= taken else moving


def needed_ms(task: Task, facts: DeviceFacts, precision: Precision) -> tuple[float, float]:
    """What the bytes of the task's first workload take, and its FLOPs."""
    workload = task.workloads[0]
    rate = exact_gflop_s(task.signature.dtypes, facts, products_of(task.program, precision))
    return workload.bytes_moved / (facts.peak_gb_s * 1e6), workload.flops / (rate * 1e6)


def _reason(task: Task, taken_ms: float, facts: DeviceFacts) -> str:
    """Only where the data cannot stay in the cache between calls."""
    workload = task.workloads[0]
    least_bytes = _least_bytes(workload, task.program)
    if least_bytes < 2 * facts.l3_bytes:
        return ""
    moving_ms = least_bytes / (SLACK * facts.peak_gb_s * 1e6)
    if taken_ms < moving_ms:
        return (
            f"{taken_ms:.4g} ms is below {moving_ms:.4g} ms, the time to move {least_bytes} bytes "
            f"at {SLACK:g} times the measured {facts.peak_gb_s:.4g} GB/s."
        )
    rate = _highest_gflop_s(task, facts)
    computing_ms = workload.flops / TRIANGLES / (SLACK * rate * 1e6)
    if _is_one_product(task.program) and taken_ms < computing_ms:
        return (
            f"{taken_ms:.4g} ms is below {computing_ms:.4g} ms, the time for a sixth of {workload.flops} operations "
            f"at {SLACK:g} times the measured {rate:.4g} GFLOP/s."
        )
    return ""


def _least_bytes(workload: Workload, program: Program | None) -> int:
    """What every kernel moves: all outputs, and the inputs that the traced forward provably reads as a whole."""
    signature, reads = workload.signature, program.reads if program else ()
    read = (spec for spec in (*signature.inputs, *signature.parameters) if spec.name in reads)
    return sum(spec.nbytes for spec in (*read, *signature.outputs) if isinstance(spec, TensorSpec))


def _is_one_product(program: Program | None) -> bool:
    """Is the whole forward one product of matrices? In longer ones algebra may save any share of the operations."""
    if program is None:
        return False
    names = [op.target.split(".")[1] for op in program.ops]
    return sum(name in _PRODUCTS for name in names) == 1 and set(names) <= _PRODUCTS | _RELABELLING


def _highest_gflop_s(task: Task, facts: DeviceFacts) -> float:
    """The fastest that any unit of the device multiplies in the task's types, TF32 for float32."""
    narrow = task.signature.dtypes & {"float16", "bfloat16", "int8", "uint8"}
    return max(facts.peak_gflop_s, facts.tf32_gflop_s, facts.half_gflop_s if narrow else 0.0)


def exact_gflop_s(dtypes: frozenset[DType], facts: DeviceFacts, products: int) -> float:
    """The best rate at which products in these types keep their exactness.

    Tensor cores multiply float32 by so many TF32 `products`; two-byte types have a rate of their own, float64 is taken
    to have float32's. Integers and masks beside them are no factors, or become such.
    """
    floats = dtypes.difference(WHOLE)
    if "float64" in floats:
        return facts.peak_gflop_s
    if floats and floats <= {"float16", "bfloat16"}:
        return max(facts.peak_gflop_s, facts.half_gflop_s)
    return max(facts.peak_gflop_s, facts.tf32_gflop_s / products)


def products_of(program: Program | None, precision: Precision) -> int:
    """TF32 products for one of float32: one where the precision allows it anywhere in the forward, else three."""
    convolves = program is not None and any(is_convolution(op.target) for op in program.ops)
    return 1 if precision == "tf32" or (precision == "default" and convolves) else 3


def is_convolution(target: str) -> bool:
    """Whether a traced operation is a convolution, or one's gradients: where PyTorch rounds to TF32 by default."""
    return target.split(".")[1].startswith("conv")
