"""What the samples say of the verifiers: who drops what, how true the probabilities are, what it costs and saves."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from statistics import fmean

from graph.pages.sheet import Sheet
from graph.verifiers.bench import Sample
from harness.nouns.frozen import Frozen
from tools.opinions import EVEN, EVIDENCE, Opinion, brier, score_of

BUCKETS = (0.05, 0.25, 0.5, 0.75, 1.0)
"""Upper ends of the ranges of probabilities that are counted together."""


class Counted(Frozen):
    """One verifier over a corpus: of the right and of the wrong kernels those that it calls wrong."""

    verifier: str
    right: int
    alarms: int
    wrong: int
    caught: int
    seconds: float
    dollars: float
    device_s_saved: float
    brier: float


def counted(samples: Sequence[Sample]) -> tuple[Counted, ...]:
    """Each verifier by itself, those that need no model together, and all together where models were asked."""
    held = [sample for sample in samples if sample.counts]
    names = list(dict.fromkeys(each.verifier for sample in held for each in sample.opinions))
    rows = [_counted(name, held, lambda each, name=name: each.verifier == name) for name in names]  # type: ignore[misc]
    rows.append(_counted("static and sanitizers", held, lambda each: each.verifier in EVIDENCE))
    if set(names) - set(EVIDENCE):
        rows.append(_counted("all", held, lambda _: True))
    return tuple(rows)


def _counted(name: str, samples: Sequence[Sample], whose: Callable[[Opinion], bool]) -> Counted:
    scored = [(sample, [each for each in sample.opinions if whose(each)]) for sample in samples]
    pairs = [(score_of(opinions), not sample.operator) for sample, opinions in scored]
    caught = [sample for (sample, _), (score, right) in zip(scored, pairs, strict=True) if score < EVEN and not right]
    return Counted(
        verifier=name,
        right=sum(right for _, right in pairs),
        alarms=sum(right and score < EVEN for score, right in pairs),
        wrong=sum(not right for _, right in pairs),
        caught=len(caught),
        seconds=fmean(sum(each.seconds for each in opinions) for _, opinions in scored) if scored else 0.0,
        dollars=fmean(sum(each.dollars for each in opinions) for _, opinions in scored) if scored else 0.0,
        device_s_saved=sum(sample.device_s for sample in caught),
        brier=brier(pairs),
    )


def sheets(samples: Sequence[Sample]) -> tuple[Sheet, Sheet, Sheet]:
    """All that is told of them."""
    return confusion(samples), by_operator(samples), calibration(samples)


def confusion(samples: Sequence[Sample]) -> Sheet:
    """A row a verifier."""
    rows = tuple(
        (
            each.verifier,
            f"{each.alarms} of {each.right}",
            f"{each.caught} of {each.wrong}",
            f"{each.caught / each.wrong:.0%}" if each.wrong else "",
            f"{each.brier:.3f}",
            f"{each.seconds:.2f}",
            f"{each.dollars:.3f}",
            f"{each.device_s_saved:.1f}",
        )
        for each in counted(samples)
    )
    head = ("verifier", "right, dropped", "wrong, dropped", "", "Brier", "s a kernel", "$ a kernel", "device s saved")
    return Sheet("Below one half is called wrong", head, rows)


def by_operator(samples: Sequence[Sample]) -> Sheet:
    """Of each operator's mutants those that the judge finds wrong, and those that each kind of evidence sees."""
    operators = sorted({sample.operator for sample in samples if sample.operator})
    return Sheet("", ("operator", "made", "wrong", *EVIDENCE, "either"), tuple(_rows(samples, operators)))


def _rows(samples: Sequence[Sample], operators: Sequence[str]) -> Iterator[tuple[str, ...]]:
    for operator in operators:
        made = [sample for sample in samples if sample.operator == operator]
        wrong = [sample for sample in made if sample.counts]
        seen = [{each.verifier for each in sample.opinions if each.right < EVEN} & set(EVIDENCE) for sample in wrong]
        each_alone = (str(sum(name in found for found in seen)) for name in EVIDENCE)
        yield operator, str(len(made)), str(len(wrong)), *each_alone, str(sum(map(bool, seen)))


def calibration(samples: Sequence[Sample]) -> Sheet:
    """Kernels by the probability that they were given, with the share of them that is right."""
    pairs = [(score_of(sample.opinions), not sample.operator) for sample in samples if sample.counts]
    rows = []
    for low, high in zip((-1.0, *BUCKETS), BUCKETS, strict=False):
        within = [(score, right) for score, right in pairs if low < score <= high]
        if within:
            said, came = fmean(score for score, _ in within), fmean(right for _, right in within)
            rows.append((f"to {high:g}", str(len(within)), f"{said:.2f}", f"{came:.2f}"))
    return Sheet("All verifiers together", ("probability", "kernels", "mean", "right"), tuple(rows))
