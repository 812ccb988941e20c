"""A time is refused only where it is below what the device can do, measured several times."""

from __future__ import annotations

import pytest

from harness.judging.roofline_bound import MEASURED_AGAIN, below_floor
from harness.nouns.device_facts import DeviceFacts
from harness.nouns.task import DTYPE_BYTES, Program, ScalarSpec, Signature, Task, TensorSpec, TracedOp, Workload
from harness.nouns.verdict import Interval, Timing

FACTS = DeviceFacts(
    device="a device", threads=2, simd_floats=8, l1_bytes=1, l2_bytes=1, l3_bytes=1 << 20, peak_gb_s=10,
    peak_gflop_s=100, source="made up",
)  # fmt: skip


class Device:
    """Measures one set of facts after another, the last one again and again; the same until it is to measure again."""

    def __init__(self, *rates):
        self.rates, self.asked = list(rates), 0

    def facts(self, *, again=False):
        self.asked += again or not self.asked
        rates = self.rates[min(self.asked, len(self.rates)) - 1]
        return FACTS.model_copy(update=rates)


def spec(name, dtype="float32", nbytes=100_000_000):
    return TensorSpec(name=name, shape=(nbytes // DTYPE_BYTES[dtype],), strides=(1,), dtype=dtype)


def task(*ops, flops=0, dtype="float32", reads=("a", "b"), written=100_000_000):
    """300 MB, of which the reads and the output must be moved."""
    signature = Signature(inputs=(spec("a", dtype), spec("b", dtype)), outputs=(spec("c", dtype, written),))
    traced = tuple(TracedOp(target=f"aten.{op}.default", results=(spec(f"r{k}"),)) for k, op in enumerate(ops))
    return Task(
        name="task",
        source="",
        workloads=(Workload(name="given", signature=signature, flops=flops, bytes_moved=300_000_000),),
        op_class="gemm",
        program=Program(tracer="export", ops=traced, outputs=("r0",), reads=reads) if ops else None,
    )


def timing(ms):
    interval = Interval(low=1, high=1)
    return Timing(
        candidate_ms=ms, baseline_ms=9, speedup=1, speedup_interval=interval, rounds=8, threads=2, converged=True
    )


def test_bytes_take_their_time():
    """300 MB at 1.5 times 10 GB/s: 20 ms."""
    device = Device({})
    assert below_floor(task("relu"), timing(20.1), device) == ""
    assert device.asked == 1
    assert "19.9 ms is below 20 ms, the time to move 300000000 bytes" in below_floor(task("relu"), timing(19.9), device)


@pytest.mark.parametrize(("reads", "least_ms"), [((), 6.667), (("a",), 13.33), (("a", "b"), 20)])
def test_only_what_is_provably_read_counts(reads, least_ms):
    """100 MB each at 1.5 times 10 GB/s: 6.7 ms."""
    picked = task("embedding", reads=reads)
    assert below_floor(picked, timing(least_ms + 0.1), Device({})) == ""
    assert f"below {least_ms:g}" in below_floor(picked, timing(least_ms - 0.1), Device({}))


def test_of_a_forward_that_could_not_be_traced_the_outputs_count():
    assert below_floor(task(), timing(6.8), Device({})) == ""
    assert "below 6.667 ms" in below_floor(task(), timing(6.5), Device({}))


def test_what_fits_the_cache_has_no_floor():
    twice_the_cache = 2 * FACTS.l3_bytes
    assert below_floor(task("relu", reads=(), written=twice_the_cache - 4), timing(1e-6), Device({})) == ""
    assert below_floor(task("relu", reads=(), written=twice_the_cache), timing(1e-6), Device({}))


def test_a_ceiling_is_measured_again_before_it_refuses():
    low, right = {"peak_gb_s": 1}, {"peak_gb_s": 10}
    for busy in range(1, MEASURED_AGAIN + 1):
        device = Device(*[low] * busy, right)
        assert below_floor(task("relu"), timing(25), device) == ""
        assert device.asked == busy + 1
    assert below_floor(task("relu"), timing(25), Device(*[low] * (MEASURED_AGAIN + 1), right))


NUMBER = ScalarSpec(name="alpha", type="float", value=2.0)
NARROW = ("float16", "bfloat16", "int8", "uint8")
PRODUCTS = ("mm", "bmm", "matmul", "addmm", "baddbmm", "linear")
RELABELLING = (
    "view", "reshape", "unsqueeze", "squeeze", "permute", "transpose", "t", "alias", "clone", "contiguous", "detach",
    "flatten", "_unsafe_view",
)  # fmt: skip


@pytest.mark.parametrize("ops", [*((name,) for name in PRODUCTS), *((name, "mm", name) for name in RELABELLING)])
def test_one_product_takes_the_time_of_a_sixth_of_its_operations(ops):
    """1800 GFLOP, a sixth of them at 1.5 times 100 GFLOP/s: 2 s."""
    product = task(*ops, flops=1_800_000_000_000)
    assert below_floor(product, timing(2001), Device({})) == ""
    assert "operations at 1.5 times the measured 100 GFLOP/s" in below_floor(product, timing(1999), Device({}))


@pytest.mark.parametrize("ops", [(), ("diag", "mm"), ("mm", "mm"), ("mm", "slice"), ("mul", "mm"), ("convolution",)])
def test_longer_forwards_may_need_any_share_of_their_operations(ops):
    assert below_floor(task(*ops, flops=1_800_000_000_000), timing(25), Device({})) == ""


@pytest.mark.parametrize(
    ("dtype", "least_ms"),
    [*((full, 200) for full in ("float32", "float64", "int32")), *((half, 100) for half in NARROW)],
)
def test_the_fastest_unit_counts(dtype, least_ms):
    rates = {"tf32_gflop_s": 1000, "half_gflop_s": 2000}
    product = task("mm", flops=1_800_000_000_000, dtype=dtype)
    assert below_floor(product, timing(least_ms + 1), Device(rates)) == ""
    assert below_floor(product, timing(least_ms - 1), Device(rates))


def test_a_number_among_the_inputs_is_no_operand():
    product = task("addmm", flops=1_800_000_000_000)
    first = product.workloads[0]
    scaled = first.signature.model_copy(update={"inputs": (*first.signature.inputs, NUMBER)})
    product = product.model_copy(update={"workloads": (first.model_copy(update={"signature": scaled}),)})
    assert below_floor(product, timing(1999), Device({}))
