"""The profile of a kernel on a GPU: its place under the roofline, and what the counters say of each of its kernels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from harness.building.compilation import library_of
from harness.isolation.policy import Needs
from harness.nouns.build import Build
from harness.nouns.candidate import TargetName
from harness.nouns.device_facts import DeviceFacts
from harness.nouns.profile import Bottleneck, KernelProfile, Profile
from harness.nouns.task import Workload
from harness.nouns.tier import Tier
from harness.nouns.verdict import Timing
from harness.profile.counters import bottleneck, kernel_profiles
from harness.profile.nsight import MAX_LAUNCHES, UnprofiledError, read_counters
from harness.profile.roofline import roofline

_TARGET: TargetName = "cuda"
_PRODUCTS = 3
"""Tensor cores reach float32's error by three TF32 products."""

ADVICE: dict[Bottleneck, str] = {
    "memory": "device memory is busy: move fewer bytes (fuse, keep on chip what is used again), or be content",
    "on_chip": "shared memory and caches are busy: more work on each value in registers, wider accesses",
    "compute": "an arithmetic pipe is busy: fewer or cheaper instructions, or the tensor cores",
    "launch": "most of the time lies between kernels: fewer launches, more work in each",
    "occupancy": "too few warps to hide the waiting: smaller tiles, fewer registers, split the work further",
    "coalescing": "of the sectors that it moves most bytes are not used: neighbours in a warp must touch neighbours",
    "bank_conflicts": "shared memory serves conflicting banks one after the other: swizzle or pad its layout",
    "spills": "local memory is accessed: where registers are spilled (its build tells), smaller fragments, or fewer of "
    "them alive at once; where they are arrays, indices that are known when compiling",
    "latency": "no unit is busy, its warps wait: more independent work a thread, deeper pipelining",
}

_TENSOR_ADVICE = "the tensor cores are busy: fewer or narrower products, a newer instruction, or be content"


def profile_on_device(
    workload: Workload, timing: Timing, build: Build, facts: DeviceFacts, needs: Needs, *, tier: Tier
) -> Profile:
    """Roofline and counters. Where the counters cannot be read the roofline stands alone, and says so."""
    base = roofline(workload, timing, build, _roofs(workload, facts, timing), target=_TARGET)
    library = library_of(build)
    if library is None:
        raise ValueError("only a build that succeeded can be profiled")
    try:
        launches = read_counters(library, workload.signature, needs, tier=tier)
    except UnprofiledError as reason:
        return base.model_copy(update={"unprofiled": str(reason)})
    kernels = kernel_profiles(launches)
    limit = bottleneck(kernels, timing.candidate_ms, facts.multiprocessors)
    findings = (*base.findings[:1], *_findings(kernels, limit, timing), *base.findings[1:])
    return base.model_copy(update={"kernels": kernels, "bottleneck": limit, "findings": findings})


def _roofs(workload: Workload, facts: DeviceFacts, timing: Timing) -> DeviceFacts:
    """The facts with the arithmetic peak of the workload's type: half precision, or float32 by three TF32 products."""
    dtype = workload.signature.outputs[0].dtype
    tensor = facts.half_gflop_s if dtype in ("float16", "bfloat16") else facts.tf32_gflop_s / _PRODUCTS
    peak = facts.peak_gflop_s if dtype == "float64" else max(facts.peak_gflop_s, tensor)
    return facts.model_copy(update={"peak_gflop_s": peak, "threads": timing.threads})


def _findings(kernels: Sequence[KernelProfile], limit: Bottleneck, timing: Timing) -> Iterator[str]:
    slowest = kernels[0]
    inside = sum(kernel.time_ms for kernel in kernels)
    where = f"{slowest.name} takes {slowest.share:.0%} of the kernels' {inside:.3g} ms" if len(kernels) > 1 else ""
    between = timing.candidate_ms - inside
    if limit == "launch":
        where = f"the kernels take {inside:.3g} ms of a call's {timing.candidate_ms:.3g} ms"
    elif between > 0.1 * timing.candidate_ms and len(kernels) > 1:
        where += f", and {between:.3g} ms lie between them"
    tensor = limit == "compute" and slowest.tensor > slowest.fma
    advice = _TENSOR_ADVICE if tensor else ADVICE[limit]
    yield f"Limited by {limit.replace('_', ' ')}: {advice}{f'; {where}' if where else ''}."
    if sum(kernel.launches for kernel in kernels) >= MAX_LAUNCHES:
        yield f"Only the first {MAX_LAUNCHES} launches of a call were read."
    for kernel in kernels:
        for hint in kernel.hints:
            named = f"{kernel.name}: " if len(kernels) > 1 else ""
            yield f"{named}{hint.message} (Nsight Compute's estimate: {hint.gain:.0%} of the kernel's time)"
