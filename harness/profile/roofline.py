"""A kernel's place under the roofline: achieved rates, which roof is nearer, how far it is."""

from __future__ import annotations

from harness.nouns.build import Build, Diagnostic
from harness.nouns.candidate import TargetName
from harness.nouns.device_facts import DeviceFacts
from harness.nouns.profile import Profile
from harness.nouns.task import Workload
from harness.nouns.verdict import Timing

_NEAR_THE_ROOF = 0.8
_MAX_LOOPS = 8


def roofline(workload: Workload, timing: Timing, build: Build, facts: DeviceFacts, *, target: TargetName) -> Profile:
    """Rates from the workload's own bytes and FLOPs (1e9 per second) over the candidate's median time.

    The roof of a kernel is the longer of two times: its bytes at the peak bandwidth, its FLOPs at the peak rate.
    `share_of_roof` is that time over the measured one, at most 1: caches can serve faster than memory does. It
    is absent under load, for what an idle machine does cannot be told from that.
    """
    seconds = timing.candidate_ms * 1e-3
    memory_s = workload.bytes_moved / (facts.peak_gb_s * 1e9)
    compute_s = workload.flops / (facts.peak_gflop_s * 1e9)
    memory_bound = memory_s >= compute_s
    share = None if timing.under_load else max(memory_s, compute_s) / seconds
    return Profile(
        target=target,
        device=facts.device,
        time_ms=timing.candidate_ms,
        achieved_gb_s=workload.bytes_moved / seconds * 1e-9,
        peak_gb_s=facts.peak_gb_s,
        achieved_gflop_s=workload.flops / seconds * 1e-9,
        peak_gflop_s=facts.peak_gflop_s,
        bound="memory" if memory_bound else "compute",
        share_of_roof=None if share is None else min(share, 1.0),
        findings=(
            _roof_finding(memory_s, compute_s, share),
            *_thread_finding(timing, facts),
            *_cache_finding(workload, facts),
            *_loop_findings(build),
        ),
    )


def _roof_finding(memory_s: float, compute_s: float, share: float | None) -> str:
    if max(memory_s, compute_s) == 0:
        return "Nobody counted bytes or operations of it: there is no roof to hold it against."
    memory = f"moving its bytes takes at least {memory_s * 1e3:.3g} ms"
    compute = f"its products, all that is counted, take at least {compute_s * 1e3:.3g} ms"
    if memory_s >= compute_s:
        nearer, other = memory, compute
        advice = "touch each byte once: fuse passes, stream the stores, keep every thread reading ahead"
    else:
        nearer, other = compute, memory
        advice = "keep more operands in registers, and the multiply-add units busy with independent chains"
    if share is None:
        return f"{nearer.capitalize()} ({other}); a busy machine does not tell how much is left: {advice}."
    if share >= 1.0:
        why = "caches served it, or the roof was measured in a busy hour"
        return f"{nearer.capitalize()} ({other}); it is faster than that: {why}."
    if share >= _NEAR_THE_ROOF:
        return f"{nearer.capitalize()} ({other}); at {share:.0%} of that roof, at most {1 / share:.2f}x is left."
    return f"{nearer.capitalize()} ({other}); at {share:.0%} of that roof, up to {1 / share:.1f}x is left: {advice}."


def _thread_finding(timing: Timing, facts: DeviceFacts) -> tuple[str, ...]:
    if timing.threads >= facts.threads:
        return ()
    return (f"It was timed with {timing.threads} threads; the roofs were measured with {facts.threads}.",)


def _cache_finding(workload: Workload, facts: DeviceFacts) -> tuple[str, ...]:
    for level, size in (("L2", facts.l2_bytes), ("L3", facts.l3_bytes)):
        if workload.bytes_moved <= size:
            return (
                f"All its data ({workload.bytes_moved / 1e6:.3g} MB) fits one {level} cache ({size / 1e6:.3g} MB): "
                "the cost of starting threads and of the call weighs more than bandwidth.",
            )
    return ()


def _loop_findings(build: Build) -> tuple[str, ...]:
    return tuple(map(say_remark, build.remarks[:_MAX_LOOPS]))


def say_remark(remark: Diagnostic) -> str:
    """What the compiler says of a loop, as a finding."""
    return f"Line {remark.line}: {remark.message}."
