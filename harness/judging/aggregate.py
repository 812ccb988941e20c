"""One timing for several workloads."""

from __future__ import annotations

import math
from collections.abc import Sequence

from harness.nouns.verdict import AsCalled, CallerTiming, Compiled, HeadToHead, Interval, Timing


def combined(timings: Sequence[Timing]) -> Timing:
    """The only timing itself, or the geometric mean of several.

    Times and speed-ups are geometric means. The interval takes the workloads' own as independent: in logarithms its
    half widths are the root of the sum of their squares, divided by their number. A head-to-head and a
    compiled baseline stand where all have one. Of the clocks those are kept that moved, and of busy hours the first.
    Rounds stay with each workload.
    """
    if len(timings) == 1:
        return timings[0]
    head_to_heads = [timing.head_to_head for timing in timings if timing.head_to_head is not None]
    compiled = [timing.compiled for timing in timings if timing.compiled is not None]
    return timings[0].model_copy(
        update={
            "candidate_ms": _mean([timing.candidate_ms for timing in timings]),
            "baseline_ms": _mean([timing.baseline_ms for timing in timings]),
            "speedup": _mean([timing.speedup for timing in timings]),
            "speedup_interval": _interval([(timing.speedup, timing.speedup_interval) for timing in timings]),
            "rounds": min(timing.rounds for timing in timings),
            "converged": all(timing.converged for timing in timings),
            "head_to_head": _head_to_head(head_to_heads) if len(head_to_heads) == len(timings) else None,
            "compiled": _compiled(compiled) if len(compiled) == len(timings) else None,
            "compiled_failure": next((timing.compiled_failure for timing in timings if timing.compiled_failure), ""),
            "clocks": next(
                (timing.clocks for timing in timings if timing.clocks and not timing.clocks.steady), timings[0].clocks
            ),
            "busy": next((timing.busy for timing in timings if timing.busy and timing.busy.said), timings[0].busy),
            "samples": None,
            "hopeless": next((timing.hopeless for timing in timings if timing.hopeless), ""),
            "influence": next((each.influence for each in timings if each.influence_said), timings[0].influence),
            "task_defect": next((timing.task_defect for timing in timings if timing.task_defect), ""),
        }
    )


def as_called(parts: Sequence[CallerTiming]) -> CallerTiming:
    """The only one, or the geometric mean of several workloads', with intervals as `combined` has them."""
    if len(parts) == 1:
        return parts[0]
    waited = [part.synchronized for part in parts if part.synchronized is not None]
    graphed = [part.graphed for part in parts if part.graphed is not None]
    return CallerTiming(
        back_to_back=_called([part.back_to_back for part in parts]),
        synchronized=_called(waited) if len(waited) == len(parts) else None,
        graphed=_called(graphed) if len(graphed) == len(parts) else None,
        ungraphed=next((part.ungraphed for part in parts if part.ungraphed), ""),
        rounds=min(part.rounds for part in parts),
    )


def _called(parts: list[AsCalled]) -> AsCalled:
    return AsCalled(
        ms=_mean([part.ms for part in parts]),
        baseline_ms=_mean([part.baseline_ms for part in parts]),
        speedup=_mean([part.speedup for part in parts]),
        interval=_interval([(part.speedup, part.interval) for part in parts]),
    )


def _head_to_head(head_to_heads: list[HeadToHead]) -> HeadToHead:
    return head_to_heads[0].model_copy(
        update={
            "incumbent_ms": _mean([head_to_head.incumbent_ms for head_to_head in head_to_heads]),
            "speedup": _mean([head_to_head.speedup for head_to_head in head_to_heads]),
            "interval": _interval([(head_to_head.speedup, head_to_head.interval) for head_to_head in head_to_heads]),
            "rounds": min(head_to_head.rounds for head_to_head in head_to_heads),
        }
    )


def _compiled(baselines: list[Compiled]) -> Compiled:
    return Compiled(
        ms=_mean([baseline.ms for baseline in baselines]),
        speedup=_mean([baseline.speedup for baseline in baselines]),
        interval=_interval([(baseline.speedup, baseline.interval) for baseline in baselines]),
    )


def _mean(values: list[float]) -> float:
    return math.exp(sum(map(math.log, values)) / len(values))


def _interval(pairs: list[tuple[float, Interval]]) -> Interval:
    middle = _mean([speedup for speedup, _ in pairs])
    below = math.hypot(*(math.log(speedup / interval.low) for speedup, interval in pairs)) / len(pairs)
    above = math.hypot(*(math.log(interval.high / speedup) for speedup, interval in pairs)) / len(pairs)
    return Interval(low=middle * math.exp(-below), high=middle * math.exp(above))
