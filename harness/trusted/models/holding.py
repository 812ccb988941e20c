"""A model and what is made of it: whether that is right, and how long it takes beside others, by turns."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from statistics import median
from types import ModuleType
from typing import Any

import torch

from harness.checks.errors import Expected, compare
from harness.nouns.acceptance import Acceptance, BesideCompiled, not_faster
from harness.nouns.events import WholeModel
from harness.nouns.model_budget import FEWEST_ROUNDS
from harness.nouns.verdict import Interval, OutputError
from harness.trusted.device import Device
from harness.trusted.models.footprint import free_bytes
from harness.trusted.models.leaving import Leaving, copied
from harness.trusted.models.measuring import seconds
from harness.trusted.models.whole_compiled import CompiledWhole
from harness.trusted.oracle import Oracle
from harness.trusted.reference import Reference, Value
from harness.trusted.task_file import one_line
from harness.trusted.timing.statistics import median_ratio
from harness.trusted.timing.turns import by_turns
from harness.wire.job import AcceptJob
from harness.wire.telling import tell

ENOUGH_ROUNDS, MAX_ROUNDS = 11, 120
SEED = 20_011
"""Of the second set of inputs that outputs are compared on; the first are the model's own."""
TOO_LARGE = "eager itself: in float64 the model does not fit into the memory"

Call = Callable[[], Any]


@dataclass(frozen=True)
class _Wanted:
    """Eager's results, those in float64, and what these are; `changed` are the inputs and buffers among the results."""

    eager: list[torch.Tensor]
    exact: list[torch.Tensor]
    oracle: str
    changed: list[int]


@dataclass
class Whole:
    """The reference, its inputs, and the models that are made of it."""

    job: AcceptJob
    reference: Reference
    inputs: list[Value]
    device: Device
    file: ModuleType
    leaving: Leaving
    graphs: bool = False
    """Whether models are made that are replayed as CUDA graphs."""
    made: dict[tuple[tuple[str, ...], bool, str], torch.nn.Module] = field(default_factory=dict)
    programs: dict[str, Any] = field(default_factory=dict)
    """What was exported for one of them, for the others."""
    wanted: dict[int, _Wanted] = field(default_factory=dict)
    """By the inputs' seed. Found once, for every model asked."""
    compile_s: float = 0.0
    """The longest time that torch.compile has taken for one of them."""

    @property
    def left_s(self) -> float:
        """Seconds until an answer is due; below 0 where it is late."""
        return self.job.ends_at - time.monotonic()

    def rounds_s(self, others: int) -> float:
        """What a comparison may take of what is left, where so many `others` follow it."""
        return min(self.job.limit_s, self.left_s / (others + 1))

    def with_regions(self, names: tuple[str, ...], *, graphs: bool | None = None, mode: str = "") -> torch.nn.Module:
        """The model with these regions' kernels, assembled, or to be compiled in a mode of torch.compile."""
        key = (names, self.graphs if graphs is None else graphs, mode)
        if key not in self.made:
            self.leaving.restore(self.reference.model)
            args, kwargs = self.reference.arranged(self.inputs)
            self.made[key] = self.file.accelerate(
                self.reference.model, args, kwargs, regions=names, graphs=key[1], programs=self.programs, mode=mode
            )
        return self.made[key]

    def call(self, module: torch.nn.Module) -> Call:
        """A call on the model's own inputs."""
        args, kwargs = self.reference.arranged(self.inputs)
        return partial(module, *args, **kwargs)


def wrong_with(whole: Whole, make: Callable[[], torch.nn.Module]) -> str:
    """What is wrong with the model that has some regions' kernels; empty where it is right."""
    try:
        errors, _ = errors_of(whole, make())
    except Exception as error:  # noqa: BLE001 (a kernel that fails in place may raise anything: it is dropped, and said)
        return f"it fails inside the model: {one_line(error)}"
    bad = next((error for error in errors if error.bad_fraction), None)
    return f"its outputs are wrong inside the model, by {bad.max_scaled:.2g}" if bad else ""


def errors_of(whole: Whole, module: torch.nn.Module) -> tuple[tuple[OutputError, ...], str]:
    """How far off the model's outputs are on its own inputs and on others, beside eager's; and what was the oracle."""
    reference = whole.reference
    kernels: Any = module.kernels
    kernels.strict = True
    try:
        found = [_errors_on(whole, module, 0, whole.inputs)]
        if kernels.fallbacks:
            raise ValueError(f"its kernels are not called: {', '.join(kernels.fallbacks)}")
        found.append(_errors_on(whole, module, SEED, reference.inputs(SEED)))
    finally:
        kernels.strict = False
    return tuple(error for errors, _ in found for error in errors), found[0][1]


def _errors_on(whole: Whole, module: torch.nn.Module, seed: int, inputs: list[Value]) -> tuple[list[OutputError], str]:
    if seed not in whole.wanted:
        whole.wanted[seed] = _wanted(whole, inputs)
    wanted = whole.wanted[seed]
    got = whole.leaving.run(inputs, module).results(wanted.changed)
    tolerance = whole.job.tolerance
    if len(got) != len(wanted.eager) or any(
        a.shape != b.shape or a.dtype != b.dtype for a, b in zip(got, wanted.eager, strict=False)
    ):
        raise ValueError("the outputs have other shapes or types than eager's")
    return [
        compare(mine, Expected(f"output{k}", oracle=wide, reference=theirs, tolerance=tolerance))
        for k, (mine, wide, theirs) in enumerate(zip(got, wanted.exact, wanted.eager, strict=True))
    ], wanted.oracle


def _wanted(whole: Whole, inputs: list[Value]) -> _Wanted:
    """What a call leaves behind is held against what eager leaves; its outputs against float64's."""
    run = whole.leaving.run(inputs)
    exact, oracle = _oracle(whole, copied(inputs), run.outputs)
    changed = whole.leaving.changed(inputs, run)
    eager = run.results(changed)
    return _Wanted(eager, [*exact, *eager[len(exact) :]], oracle, changed)


def _oracle(whole: Whole, inputs: list[Value], eager: list[torch.Tensor]) -> tuple[list[torch.Tensor], str]:
    """In float64, where that fits; else eager's own result, whose error is then the floor of its type."""
    reference = whole.reference
    weights = reference.parameters()
    given = [value for value in inputs if isinstance(value, torch.Tensor)]
    needed = 6 * sum(each.numel() * each.element_size() for each in (*weights.values(), *given, *eager))
    if needed > free_bytes(reference.place):
        return eager, TOO_LARGE
    oracle = Oracle(reference, "other")
    try:
        exact = oracle.run(inputs, weights, eager)
    except torch.OutOfMemoryError:
        return eager, TOO_LARGE
    return (exact, "float64") if exact else (eager, f"eager itself: {oracle.absent}")


def beside_baselines(
    whole: Whole, fast: Mapping[str, torch.nn.Module], compiled: Sequence[CompiledWhole]
) -> Acceptance:
    """The fastest of these models, by the mode of torch.compile that each is of, by turns with the baselines."""
    tell(WholeModel(doing="timing the model by turns with eager"))
    sides = {"eager": whole.call(whole.reference.model)}
    sides |= {f"fast {mode}": whole.call(module) for mode, module in fast.items()}
    sides |= {f"compiled {each.mode}": each.call for each in compiled if each.call}
    times = call_by_turns(sides, whole.device, whole.rounds_s(0))
    mode = min(fast, key=lambda each: median(times[f"fast {each}"]))
    mine = times[f"fast {mode}"]
    speedup, interval = ratio(times["eager"], mine)
    beside = tuple(_beside(each, times.get(f"compiled {each.mode}"), mine) for each in compiled)
    reason = not_faster(interval, beside)
    return Acceptance(
        accepted=not reason,
        reason=reason,
        mode=mode,
        eager_ms=median(times["eager"]) * 1e3,
        ms=median(mine) * 1e3,
        speedup=speedup,
        interval=interval,
        rounds=len(mine),
        compiled=beside,
    )


def _beside(compiled: CompiledWhole, theirs: list[float] | None, mine: list[float]) -> BesideCompiled:
    if theirs is None:
        return BesideCompiled(mode=compiled.mode, failure=compiled.failure)
    speedup, interval = ratio(theirs, mine)
    return BesideCompiled(mode=compiled.mode, ms=median(theirs) * 1e3, speedup=speedup, interval=interval)


def call_by_turns(sides: Mapping[str, Call], device: Device, limit_s: float) -> dict[str, list[float]]:
    """Seconds of each side's call. There are enough rounds for an interval, however little time there is."""
    for call in sides.values():
        call()
    device.finish()
    clocked = {name: partial(seconds, call, device.finish) for name, call in sides.items()}
    return by_turns(clocked, least=FEWEST_ROUNDS, most=MAX_ROUNDS, limit_s=limit_s)


def ratio(slow: list[float], fast: list[float]) -> tuple[float, Interval]:
    """The median of paired ratios with its 95 % interval; of few rounds it is all that they showed.

    A bootstrap of few values is narrower than what is known: the smallest and the largest of n hold the median in
    1 - 2^(1 - n) of all cases, whatever the noise.
    """
    speedup, interval = median_ratio(slow, fast)
    if len(slow) >= ENOUGH_ROUNDS:
        return speedup, interval
    ratios = [one / other for one, other in zip(slow, fast, strict=True)]
    return speedup, Interval(low=min(ratios), high=max(ratios))
