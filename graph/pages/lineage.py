"""An evolution in its report: which kernel came of which, and what each operator and each model was worth."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator

from graph.runs.record import Proposed, RunRecord
from harness.nouns.frozen import Frozen
from tools.opinions import EVEN, Opinion, brier


class Kin(Frozen):
    """A kernel's line in the tree, `level` steps from the first of its line. `second` is a crossover's other parent."""

    level: int
    kernel: str
    operator: str
    move: str
    model: str
    generation: int
    ended: str
    speedup: float | None
    best: bool
    second: str = ""


class Yield(Frozen):
    """What came of the proposals of one operator or model; `kept` became the best kernel of their time."""

    name: str
    proposals: int
    dropped: int
    passed: int
    kept: int
    fastest: float | None
    dollars: float


class Verified(Frozen):
    """A verifier's record in one run: of the kernels that it looked at, how the judge found those that it judged.

    Below one half a probability calls a kernel wrong; `brier` is over the judged ones.
    """

    name: str
    kernels: int
    unjudged: int
    right: int
    alarms: int
    wrong: int
    caught: int
    brier: float
    seconds: float
    dollars: float


def lineage(record: RunRecord) -> list[Kin]:
    """Every kernel below the first of its parents, in the order of their proposals."""
    if record.search is None:
        return []
    known = {each.kernel for each in record.search.proposals if not each.dropped}
    below: dict[str, list[Proposed]] = defaultdict(list)
    for each in record.search.proposals:
        first = each.order.parents[0] if each.order.parents else ""
        below[first if first in known else ""].append(each)
    return list(_below("", 0, below, record))


def yields(record: RunRecord, name: Callable[[Proposed], str]) -> list[Yield]:
    """One line for each name, the most proposals first."""
    made: dict[str, list[Proposed]] = defaultdict(list)
    for each in record.search.proposals if record.search else ():
        made[name(each)].append(each)
    return [_yield(key, group, record) for key, group in sorted(made.items(), key=lambda item: -len(item[1]))]


def verifiers_record(record: RunRecord) -> list[Verified]:
    """One line for each verifier that looked at a kernel of this run."""
    said: dict[str, list[tuple[Opinion, Proposed]]] = defaultdict(list)
    for each in record.search.proposals if record.search else ():
        for opinion in each.opinions:
            said[opinion.verifier].append((opinion, each))
    return [_verified(name, found, record) for name, found in said.items()]


def operator_of(proposed: Proposed) -> str:
    """How it was made."""
    return proposed.order.operator


def model_of(proposed: Proposed) -> str:
    """Who made it, and at which temperature where one was set."""
    warmth = proposed.order.temperature
    return proposed.order.model + (f" at {warmth:g}" if warmth is not None else "")


def _below(parent: str, level: int, below: dict[str, list[Proposed]], record: RunRecord) -> Iterator[Kin]:
    # Taken out, so that a record in which two kernels are each other's parent ends, too.
    for each in below.pop(parent, ()):
        yield _kin(each, level, record)
        if each.kernel and not each.dropped:
            yield from _below(each.kernel, level + 1, below, record)


def _kin(each: Proposed, level: int, record: RunRecord) -> Kin:
    verdict = record.verdicts.get(each.kernel)
    status = verdict.status if verdict else "not judged"
    return Kin(
        level=level,
        kernel=each.kernel,
        operator=each.order.operator,
        move=each.move,
        model=model_of(each),
        generation=each.order.generation,
        ended=each.dropped or status,
        speedup=None if each.dropped else _speedup(each, record),
        best=record.best is not None and not each.dropped and record.best.candidate.digest == each.kernel,
        second=each.order.parents[1] if len(each.order.parents) > 1 else "",
    )


def _yield(name: str, group: list[Proposed], record: RunRecord) -> Yield:
    judged = [each for each in group if not each.dropped]
    speedups = [speedup for each in judged if (speedup := _speedup(each, record)) is not None]
    kept = {step.candidate for step in record.steps if step.agent == "tester" and step.improved}
    return Yield(
        name=name,
        proposals=len(group),
        dropped=len(group) - len(judged),
        passed=len(speedups),
        kept=sum(each.kernel in kept for each in judged),
        fastest=max(speedups, default=None),
        dollars=sum(each.usage.dollars for each in group),
    )


def _verified(name: str, said: list[tuple[Opinion, Proposed]], record: RunRecord) -> Verified:
    verdicts = [(opinion, record.verdicts.get(each.kernel) if not each.dropped else None) for opinion, each in said]
    judged = [(opinion.right, verdict.passed) for opinion, verdict in verdicts if verdict]
    return Verified(
        name=name,
        kernels=len(said),
        unjudged=len(said) - len(judged),
        right=sum(passed for _, passed in judged),
        alarms=sum(right < EVEN for right, passed in judged if passed),
        wrong=sum(not passed for _, passed in judged),
        caught=sum(right < EVEN for right, passed in judged if not passed),
        brier=brier(judged),
        seconds=sum(opinion.seconds for opinion, _ in said),
        dollars=sum(opinion.dollars for opinion, _ in said),
    )


def _speedup(each: Proposed, record: RunRecord) -> float | None:
    verdict = record.verdicts.get(each.kernel)
    return verdict.timing.speedup if verdict and verdict.timing else None
