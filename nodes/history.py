"""What the history tells: which moves were tried from a kernel and how they ended, how long there was no gain."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from harness.nouns.batches import OTHER_BATCHES
from harness.nouns.frozen import Frozen
from harness.nouns.verdict import HeadToHead, Outcome, Verdict, outcome_of
from nodes.settings import Settings
from nodes.state import Best, RunState, Step, Variant, require
from tools.sweep import say_values


class Tried(Frozen):
    """One optimization: its move, the kernel it started from, the kernel it came to (after repairs), and its end.

    Of a sweep, `variants` tells each. `met` is its head-to-head with the best kernel of its time.
    """

    move: str
    parent: str | None
    kernel: str
    outcome: str
    gained: bool
    variants: tuple[str, ...] = ()
    failed: bool = False
    undecided: bool = False
    met: HeadToHead | None = None


Made = TypeVar("Made", Tried, Step)


def optimizations(history: Sequence[Step]) -> tuple[Tried, ...]:
    """Every optimization so far, the oldest first. The last test after a move tells how it ended, repairs included."""
    told: list[Tried] = []
    for step in history:
        if step.agent == "optimizer" and step.candidate is not None:
            told.append(_begun(step, step.candidate))
        elif step.agent == "sweeper":
            told[-1] = told[-1].model_copy(update={"variants": tuple(map(say_variant, step.variants))})
        elif step.agent == "tester" and told:
            told[-1] = _ended(told[-1], step)
    return tuple(told)


def gains(history: Sequence[Step]) -> int:
    """How many optimizations were kept."""
    return sum(tried.gained for tried in optimizations(history))


def tried_from(history: Sequence[Step], digest: str) -> tuple[Tried, ...]:
    """The optimizations that started from the kernel with this digest."""
    return tuple(tried for tried in optimizations(history) if tried.parent == digest)


def led_to(history: Sequence[Step], digest: str) -> tuple[Tried, ...]:
    """The optimizations that the kernel with this digest is made of, the oldest first."""
    return path_to({tried.kernel: tried for tried in optimizations(history)}, digest)


def path_to(made: dict[str, Made], digest: str) -> tuple[Made, ...]:
    """What led to the kernel with this digest, the oldest first; `made` holds what made each kernel, by its digest."""
    left, path = dict(made), list[Made]()
    at: str | None = digest
    while at in left:
        # Taken out, so that a history in which two kernels are each other's parent ends, too.
        step = left.pop(at)
        path.append(step)
        at = step.parent
    return tuple(reversed(path))


def say_in_vain(tried: Sequence[Tried]) -> str:
    """What moves from one kernel have shown: how many failed, and what the fastest came to. Empty without any."""
    failed = sum(each.failed for each in tried)
    said = [f"{failed} of {len(tried)} gave no right kernel"] if failed else []
    best = max((each.met for each in tried if each.met), key=lambda met: met.speedup, default=None)
    if best:
        said.append(f"the fastest that came of them is {best.speedup:.2f}x the best kernel of its time {best.within}")
    return "; ".join(said)


def over_the_first(history: Sequence[Step], digest: str) -> tuple[float, float] | None:
    """How many times the first right kernel of a run a later one is, by the head-to-heads from the one to the other,
    and how many times eager that first one was in the rounds that it shared with it.

    So neither number moves with the time that eager takes beside a later kernel. None where no head-to-head leads from
    this kernel to another.
    """
    tests = {step.candidate: step for step in history if step.agent == "tester" and step.candidate_speedup}
    at, factor, links = digest, 1.0, 0
    while (step := tests.pop(at, None)) and step.head_to_head:
        factor, at, links = factor * step.head_to_head.speedup, step.head_to_head.incumbent, links + 1
    return (factor, step.candidate_speedup) if step and step.candidate_speedup and links else None


def failed_elsewhere(history: Sequence[Step], digest: str) -> tuple[Tried, ...]:
    """The optimizations from other kernels that the judge did not pass, repairs included."""
    return tuple(tried for tried in optimizations(history) if tried.failed and tried.parent != digest)


def said_by_user(history: Sequence[Step]) -> tuple[Step, ...]:
    """The tests of kernels that somebody was asked about, and had something to say."""
    return tuple(
        step for step in history if step.agent == "tester" and step.status == "passed" and ": " in step.message
    )


def steps_without_gain(history: Sequence[Step]) -> int:
    """How many optimizations brought no gain since the last that did. Those that stayed undecided are none of them."""
    count = 0
    for tried in reversed(optimizations(history)):
        if tried.gained:
            break
        count += not tried.undecided
    return count


def failed_builds(history: Sequence[Step]) -> int:
    """How many tests in a row, the last one back to where the kernel at hand was written, found it not to compile."""
    count = 0
    for step in reversed(history):
        if step.agent in ("generator", "optimizer") or (step.agent == "tester" and step.status != "build_failed"):
            break
        count += step.agent == "tester"
    return count


def outcome_against(verdict: Verdict, best: Best | None) -> Outcome | None:
    """What a verdict says of its kernel against the best one; None where the kernel did not pass.

    The first that passes is the faster one. A later one must be faster beyond the noise: the judge has run both in
    the same rounds, and the whole interval of their ratio lies above 1. Where they did not meet (the best's library
    is gone), the interval over the common baseline must lie above the best's median.
    """
    if verdict.timing is None:
        return None
    if best is None or best.verdict.timing is None:
        return "faster"
    head_to_head = head_to_head_with(best, verdict)
    return (
        head_to_head.outcome
        if head_to_head
        else outcome_of(verdict.timing.speedup_interval, best.verdict.timing.speedup)
    )


def head_to_head_with(best: Best | None, verdict: Verdict) -> HeadToHead | None:
    """The verdict's head-to-head, where it was against this kernel."""
    head_to_head = verdict.timing.head_to_head if verdict.timing else None
    return head_to_head if head_to_head and best and head_to_head.incumbent == best.candidate.digest else None


def say_variant(variant: Variant) -> str:
    """A variant of a sweep in words: its values, then what it was ranked by, or why it has no rank; whether it was
    chosen."""
    within = f" ({variant.interval.said(3)})" if variant.interval else ""
    by = "" if variant.measure == "wall time" else f", by {variant.measure}"
    if variant.gain is not None:
        rank = f"{variant.gain:.3f}x the kernel before the move{within}{by}"
    elif variant.speedup is not None:
        rank = f"{variant.speedup:.3f}x eager{within}{by}"
    else:
        rank = variant.status or "not tried, a budget was spent"
    return f"{say_values(variant.values)}: {'; '.join([rank, *_choice(variant, None)])}"


def say_tried(variant: Variant, judged: HeadToHead | None = None) -> str:
    """What came of a variant: that it was chosen, how it did against the first, or why it is not right.

    `judged` is how the chosen one did against the best kernel of its time when it was judged in full: in rounds of its
    own, so that the figure differs from the sweep's.
    """
    return "; ".join(filter(None, [*_choice(variant, judged), variant.message]))


def _choice(variant: Variant, judged: HeadToHead | None) -> list[str]:
    met = variant.met
    told = [f"{met.speedup:.2f}x the first of them {met.within}"] if met else []
    if variant.chosen:
        decided = judged if judged and not judged.identical else None
        full = f": {decided.speedup:.2f}x the best before it {decided.within}" if decided else ""
        told.append(f"chosen, and judged in full{full}")
    return told


def say_kept(step: Step) -> str:
    """Whether a kernel was kept; empty where not. One that serves other batches is, where it costs no time."""
    return "kept" if step.improved or step.move == OTHER_BATCHES else "undecided" if step.undecided else ""


def say_decision(step: Step) -> str:
    """What a test decided, and by which head-to-head against the best kernel of its time; empty where nothing was
    decided."""
    if step.agent == "ablator":
        return _without(step.head_to_head)
    decision = say_kept(step) or "not kept"
    if step.head_to_head is None:
        return decision if step.candidate_speedup is not None and step.agent == "tester" else ""
    met = step.head_to_head
    if met.identical:
        return decision if step.message else f"{decision}, the machine code of the best before it"
    return f"{decision}, {met.speedup:.2f}x the best before it {met.within}"


def _without(met: HeadToHead | None) -> str:
    if met is None:
        return ""
    return f"without it {met.speedup:.2f}x the best {met.within}"


def _begun(move: Step, kernel: str) -> Tried:
    return Tried(move=move.move, parent=move.parent, kernel=kernel, outcome="not tested", gained=False)


def _ended(tried: Tried, test: Step) -> Tried:
    end = {
        "outcome": _outcome(test),
        "gained": test.improved,
        "failed": test.status != "passed",
        "undecided": test.undecided,
        "met": test.head_to_head,
    }
    return tried.model_copy(update={**end, "kernel": test.candidate or tried.kernel})


_TOO_BUSY = "the machine was too busy to tell. The run times it again at its end; do not propose it alone"


def _outcome(step: Step) -> str:
    if step.undecided:
        return f"{say_decision(step)}: {_TOO_BUSY}"
    if step.candidate_speedup is not None:
        return "; ".join(filter(None, [say_decision(step), step.message]))
    return f"failed ({step.status}): {step.message}"


# -- The switch that withholds the profiler's word until a kernel's structure is sound --------------------------------


def gate_open(state: RunState, settings: Settings) -> bool:
    """Whether the optimizer is shown a profile: from its depth on, or while moves bring nothing.

    Who has tried in vain what the class suggests is helped more by a measurement than by one guess more.
    """
    gates = settings.profile_from_depth
    stuck = gates.when_stuck is not None and steps_without_gain(state.history) >= gates.when_stuck
    return stuck or state.depth >= gates.depth(require(state.task, "task").op_class)
