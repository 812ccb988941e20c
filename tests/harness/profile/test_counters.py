"""What limits a kernel, at each threshold; and what of the counters is told."""

from __future__ import annotations

import pytest

from harness.nouns.device_facts import DeviceFacts
from harness.nouns.profile import Hint, KernelProfile
from harness.nouns.task import Signature, TensorSpec, Workload
from harness.nouns.verdict import Interval, Timing
from harness.profile import nsight as names
from harness.profile.counters import MAX_STALLS, bottleneck, kernel_profiles
from harness.profile.device import ADVICE, _findings, _roofs
from harness.profile.nsight import MAX_LAUNCHES, Launch, parse_answer

IDLE = KernelProfile(
    name="idle", launches=1, time_ms=1, share=1, grid=(11, 4, 3), block=(256, 1, 1), registers=32, shared_bytes=0,
    waves=1, compute=0, memory=0, dram=0, dram_bytes=0, fma=0, tensor=0, issue=0, l1_hits=0, l2_hits=0, occupancy=1,
    occupancy_possible=1, occupancy_limit="registers",
)  # fmt: skip
TIMING = Timing(
    candidate_ms=1, baseline_ms=1, speedup=1, speedup_interval=Interval(low=1, high=1), rounds=1, threads=77,
    converged=True,
)  # fmt: skip


def limit(call_ms=1.0, **fields):
    return bottleneck((IDLE.model_copy(update=fields),), call_ms, 132)


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"spills": 0.051}, "spills"), ({"spills": 0.05}, "latency"),
        ({"grid": (131, 1, 1)}, "occupancy"), ({"grid": (132, 1, 1)}, "latency"), ({"grid": (1, 1, 132)}, "latency"),
        ({"fma": 0.6}, "compute"), ({"fma": 0.59}, "latency"),
        ({"tensor": 0.5}, "compute"), ({"tensor": 0.49}, "latency"),
        ({"dram": 0.6}, "memory"), ({"dram": 0.59}, "latency"),
        ({"load_efficiency": 0.5}, "coalescing"), ({"load_efficiency": 0.51}, "latency"),
        ({"store_efficiency": 0.5, "load_efficiency": 1.0}, "coalescing"), ({"store_efficiency": 0.51}, "latency"),
        ({"bank_conflicts": 0.26}, "bank_conflicts"), ({"bank_conflicts": 0.25}, "latency"),
        ({"memory": 0.6}, "on_chip"), ({"memory": 0.59}, "latency"),
        ({"memory": 0.7, "compute": 0.7}, "on_chip"), ({"memory": 0.7, "compute": 0.71}, "compute"),
        ({"compute": 0.6}, "compute"), ({"compute": 0.59}, "latency"),
        ({"occupancy_possible": 0.49}, "occupancy"), ({"occupancy_possible": 0.5}, "latency"),
    ],
)  # fmt: skip
def test_a_limit_begins_at_its_threshold(fields, named):
    assert limit(**fields) == named


def test_the_sharper_reason_is_named_first():
    """Each of these holds by itself; those before it in the list win."""
    reasons = [
        ("spills", {"spills": 0.5}),
        ("occupancy", {"grid": (1, 1, 1)}),
        ("compute", {"fma": 0.9}),
        ("memory", {"dram": 0.9}),
        ("coalescing", {"load_efficiency": 0.1}),
        ("bank_conflicts", {"bank_conflicts": 0.9}),
        ("on_chip", {"memory": 0.9}),
        ("occupancy", {"occupancy_possible": 0.1}),
    ]
    for position, (named, _) in enumerate(reasons):
        fields = {name: value for _, each in reversed(reasons[position:]) for name, value in each.items()}
        assert limit(**fields) == named
        assert limit(2.1, **fields) == "launch"
    assert limit(2.0) == "latency"


def test_every_limit_has_its_advice():
    assert {"memory", "on_chip", "compute", "launch", "occupancy", "coalescing", "bank_conflicts", "spills"} < {*ADVICE}
    assert all(f": {advice}" in next(_findings((IDLE,), limit, TIMING)) for limit, advice in ADVICE.items())


def launched(hints=(), **metrics):
    return Launch("kernel(int)", (1, 1, 1), (32, 1, 1), {"gpu__time_duration.sum": 1e6, **metrics}, list(hints))


def stall(name):
    return f"{names.STALL_PREFIX}{name}{names.STALL_SUFFIX}"


def test_the_largest_stalls_are_told_as_shares_of_all_that_warps_do():
    waits = {"wait": 4.0, "barrier": 30.0, "long_scoreboard": 26.0, "membar": 10.0, "drain": 9.0, "sleeping": 1.0}
    metrics = {stall(name): value for name, value in {**waits, "selected": 20.0}.items()}
    (kernel,) = kernel_profiles([launched(**metrics)])
    told = [(each.reason, each.share) for each in kernel.stalls]
    assert told == [
        ("waiting at a barrier", 0.3),
        ("waiting for device memory or the L2", 0.26),
        ("waiting for a memory fence", 0.1),
        ("waiting for stores to drain before the end", 0.09),
    ]
    assert len(told) == MAX_STALLS
    (kernel,) = kernel_profiles([launched(**{stall("wait"): 5.0, stall("selected"): 95.0})])
    assert [each.share for each in kernel.stalls] == [0.05]
    (kernel,) = kernel_profiles([launched(**{stall("wait"): 4.9, stall("selected"): 95.1})])
    assert kernel.stalls == ()


def test_hints_are_worth_two_hundredths_and_lesser_kernels_have_one():
    hints = [Hint(message=f"Rule {number}.", gain=gain) for number, gain in enumerate((0.02, 0.3, 0.019, 0.2, 0.1))]
    (alone,) = kernel_profiles([launched(hints)])
    assert [hint.gain for hint in alone.hints] == [0.3, 0.2, 0.1]
    other = Launch("other()", (1, 1, 1), (32, 1, 1), {"gpu__time_duration.sum": 2e6}, hints)
    first, second = kernel_profiles([launched(hints), other])
    assert (first.name, len(first.hints), len(second.hints)) == ("other", 3, 1)
    assert [hint.gain for hint in kernel_profiles([launched([hints[0], hints[2]])])[0].hints] == [0.02]


def test_what_was_not_counted_is_not_told():
    (kernel,) = kernel_profiles([launched()])
    assert (kernel.load_efficiency, kernel.store_sectors, kernel.occupancy_limit) == (None, None, "")
    assert (kernel.bank_conflicts, kernel.spills, kernel.stalls, kernel.time_ms, kernel.share) == (0, 0, (), 1, 1)
    metrics = {names.LOAD_EFFICIENCY: 120.0, names.LOAD_SECTORS: 4.0, names.STORE_EFFICIENCY: 25.0}
    metrics |= {names.SHARED_STATIC: 100, names.SHARED_DYNAMIC: 28, names.DRAM_READ: 3.0, names.DRAM_WRITTEN: 4.0}
    metrics |= {"Block Limit Registers": 4.0, "Block Limit Warps": 3.0, "Block Limit SM": 32.0}
    (kernel,) = kernel_profiles([launched(**metrics)])
    assert (kernel.load_efficiency, kernel.load_sectors, kernel.store_efficiency) == (1.0, 4.0, None)
    assert (kernel.shared_bytes, kernel.dram_bytes, kernel.occupancy_limit) == (128, 7.0, "the block's size")
    (empty,) = kernel_profiles([Launch("k", (1, 1, 1), (1, 1, 1))])
    assert (empty.time_ms, empty.share) == (0, 0)


def test_time_between_kernels_is_told():
    half = IDLE.model_copy(update={"time_ms": 0.44, "share": 0.5})
    said = next(_findings((half, half), "memory", TIMING))
    assert said.endswith("; idle takes 50% of the kernels' 0.88 ms, and 0.12 ms lie between them.")
    busy = IDLE.model_copy(update={"time_ms": 0.46, "share": 0.5})
    assert next(_findings((busy, busy), "memory", TIMING)).endswith("; idle takes 50% of the kernels' 0.92 ms.")
    assert next(_findings((half,), "memory", TIMING)).endswith(f"{ADVICE['memory']}.")
    assert next(_findings((half,), "launch", TIMING)).endswith("; the kernels take 0.44 ms of a call's 1 ms.")
    tensor = IDLE.model_copy(update={"tensor": 0.6, "fma": 0.5})
    assert "the tensor cores are busy" in next(_findings((tensor,), "compute", TIMING))
    assert "an arithmetic pipe" in next(_findings((tensor.model_copy(update={"fma": 0.6}),), "compute", TIMING))
    assert next(_findings((IDLE,), "bank_conflicts", TIMING)).startswith("Limited by bank conflicts: ")


def test_hints_name_their_kernel_where_there_are_several():
    hinted = IDLE.model_copy(update={"hints": (Hint(message="Do it.", gain=0.25),)})
    assert [*_findings((hinted,), "memory", TIMING)][1] == (
        "Do it. (Nsight Compute's estimate: 25% of the kernel's time)"
    )
    assert [*_findings((hinted, IDLE), "memory", TIMING)][1].startswith("idle: Do it.")
    many = IDLE.model_copy(update={"launches": MAX_LAUNCHES - 1})
    assert len([*_findings((many,), "memory", TIMING)]) == 1
    assert "first 24 launches" in [*_findings((many, IDLE), "memory", TIMING)][1]


@pytest.mark.parametrize(
    ("dtype", "peak"),
    [("float32", 200), ("float64", 100), ("float16", 900), ("bfloat16", 900), ("int32", 200)],
)
def test_the_arithmetic_roof_is_that_of_the_type(dtype, peak):
    facts = DeviceFacts(
        device="d", threads=9, simd_floats=1, l1_bytes=1, l2_bytes=1, l3_bytes=1, peak_gb_s=1, peak_gflop_s=100,
        source="s", multiprocessors=1, tf32_gflop_s=600, half_gflop_s=900,
    )  # fmt: skip
    spec = TensorSpec(name="y", shape=(1,), strides=(1,), dtype=dtype)
    workload = Workload(name="w", signature=Signature(inputs=(), outputs=(spec,)), flops=1, bytes_moved=1)
    roofs = _roofs(workload, facts, TIMING)
    assert (roofs.peak_gflop_s, roofs.threads) == (peak, 77)
    slow = facts.model_copy(update={"tf32_gflop_s": 60, "half_gflop_s": 90})
    assert _roofs(workload, slow, TIMING).peak_gflop_s == 100


def test_a_table_is_read_by_its_first_values_and_its_rules_of_the_whole_kernel():
    head = '"ID","Kernel Name","Block Size","Grid Size","Metric Name","Metric Value","Rule Description",'
    head += '"Estimated Speedup Type","Estimated Speedup"'
    rows = [
        '"7","k","(32, 2, 1)","(3, 1, 9)","Memory Throughput","12.5","","",""',
        '"7","k","(32, 2, 1)","(3, 1, 9)","Memory Throughput","99999","","",""',
        '"7","k","(32, 2, 1)","(3, 1, 9)","Waves","n/a","","",""',
        '"7","k","(32, 2, 1)","(3, 1, 9)","","","Do it.","global","12.5"',
        '"7","k","(32, 2, 1)","(3, 1, 9)","","","Or not.","local","50"',
        '"7","k","(32, 2, 1)","(3, 1, 9)","","","Unknown.","global",""',
        '"8","l","(1, 1, 1)","(1, 1, 1)","Waves","2","","",""',
    ]
    first, second = parse_answer(['"0","before the head"', "==PROF== noise", head, "==PROF== noise", *rows])
    assert (first.name, first.block, first.grid) == ("k", (32, 2, 1), (3, 1, 9))
    assert first.metrics == {"Memory Throughput": 12.5}
    assert first.hints == [Hint(message="Do it.", gain=0.125), Hint(message="Unknown.", gain=0)]
    assert (second.name, second.metrics) == ("l", {"Waves": 2})
