"""The accepting job: an assembled model beside the eager one, right and faster, or without the regions that are not.

Its kernels are loaded into this process, each judged before by itself in its own. What is found here can lower what
that said of a kernel's use, and never raises it.
"""

from __future__ import annotations

import importlib.util
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import median
from types import ModuleType
from typing import Any

import torch

from harness.checks.errors import compare
from harness.checks.expected import Expected
from harness.nouns.acceptance import Acceptance, BesideCompiled, Inside, not_faster
from harness.nouns.events import WholeModel
from harness.nouns.model_budget import FEWEST_ROUNDS
from harness.nouns.verdict import Interval, OutputError
from harness.trusted.device import Device
from harness.trusted.devices import open_device
from harness.trusted.models.footprint import bytes_of, free_bytes
from harness.trusted.models.leaving import Leaving, copied
from harness.trusted.models.peak import peak_bytes
from harness.trusted.models.whole_compiled import CompiledWhole, compile_whole
from harness.trusted.oracle import Oracle
from harness.trusted.reach import tensors_of
from harness.trusted.reference import Reference, Value, one_line
from harness.trusted.timing.statistics import median_ratio
from harness.wire.job import AcceptJob
from harness.wire.telling import tell

ENOUGH_ROUNDS, MAX_ROUNDS = 11, 120
SEED = 20_011
"""Of the second set of inputs that outputs are compared on; the first are the model's own."""
TOO_LATE = "all together are wrong inside the model, and there was no time to ask it alone"
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
class _Whole:
    """The reference, its inputs, and the models that are made of it."""

    job: AcceptJob
    reference: Reference
    inputs: list[Value]
    device: Device
    file: ModuleType
    leaving: Leaving
    graphs: bool = False
    """Whether models are made that are replayed as CUDA graphs."""
    made: dict[tuple[tuple[str, ...], bool], torch.nn.Module] = field(default_factory=dict)
    programs: dict[str, Any] = field(default_factory=dict)
    """What was exported for one of them, for the others."""
    wanted: dict[int, _Wanted] = field(default_factory=dict)
    """By the inputs' seed. Found once, for every model asked."""

    @property
    def left_s(self) -> float:
        """Seconds until an answer is due; below 0 where it is late."""
        return self.job.ends_at - time.monotonic()

    def rounds_s(self, others: int) -> float:
        """What a comparison may take of what is left, where so many `others` follow it."""
        return min(self.job.limit_s, self.left_s / (others + 1))

    def with_regions(self, names: tuple[str, ...], *, graphs: bool | None = None) -> torch.nn.Module:
        """The model with these regions' kernels."""
        key = (names, self.graphs if graphs is None else graphs)
        if key not in self.made:
            self.leaving.restore(self.reference.model)
            args, kwargs = self.reference.arranged(self.inputs)
            self.made[key] = self.file.accelerate(
                self.reference.model, args, kwargs, regions=names, graphs=key[1], programs=self.programs
            )
        return self.made[key]

    def call(self, module: torch.nn.Module) -> Call:
        """A call on the model's own inputs."""
        args, kwargs = self.reference.arranged(self.inputs)
        return partial(module, *args, **kwargs)


@dataclass(frozen=True)
class _Graphs:
    """Whether calls are replayed as CUDA graphs, and the model without them / with them."""

    used: bool = False
    speedup: float | None = None
    interval: Interval | None = None


def accept(job: AcceptJob) -> dict[str, Any]:
    """The acceptance as JSON-ready data."""
    os.environ["OMP_NUM_THREADS"] = str(torch.get_num_threads())  # the kernels' own OpenMP reads it when it is loaded
    torch.backends.mha.set_fastpath_enabled(False)
    device = open_device(job.device, 0)
    if device.queues:
        device.prepare(job.precision)
    reference = Reference(job.source, job.name, torch.device(job.device), variant=job.variant)
    inputs = reference.inputs(reference.given_seed or 0)
    leaving = Leaving(reference)
    held = bytes_of([*tensors_of(reference.model), *(each for each in inputs if isinstance(each, torch.Tensor))])
    with torch.no_grad():
        if device.queues:
            reference.run(copied(inputs))  # libraries take room for themselves in their first call
        eager_peak = held + peak_bytes(device, partial(reference.run, copied(inputs)))
        # Before a kernel is loaded: what is compiled depends on nothing that one does.
        compiled = compile_whole(reference, inputs, device, job.compile, job.modes) if job.compile else []
        whole = _Whole(job, reference, inputs, device, _loaded(job), leaving)
        try:
            found = _accept(whole, compiled)
        except torch.OutOfMemoryError as full:
            found = Acceptance(accepted=False, reason=f"It does not fit into the memory: {one_line(full)}")
        compiled.clear()
        torch._dynamo.reset()  # which keeps what it compiled, and the memory of its graphs
        whole.made.clear()
        whole.wanted.clear()
        peaks = {"eager_peak_bytes": eager_peak, "peak_bytes": _fast_peak(whole, found, held)}
    return found.model_copy(update=peaks).model_dump(mode="json")


def _accept(whole: _Whole, compiled: list[CompiledWhole]) -> Acceptance:
    tell(WholeModel(doing="comparing the model's outputs with eager's and float64's"))
    right, wrong = _right_regions(whole)
    graphs = _graphs(whole, right)
    whole.graphs = graphs.used
    if not right and not graphs.used:
        return Acceptance(accepted=False, reason="No region's kernel is right inside the model.", regions=tuple(wrong))
    inside = _inside(whole, right)
    kept = tuple(each.name for each in inside if not each.dropped)
    regions = (*inside, *wrong)
    if not kept and not graphs.used:
        return Acceptance(accepted=False, reason="No region gains inside the model.", regions=regions)
    errors, oracle = _errors(whole, kept)
    if any(error.bad_fraction for error in errors):
        return Acceptance(
            accepted=False, reason="The regions together are wrong.", regions=regions, errors=errors, oracle=oracle
        )
    return _timed(whole, kept, compiled).model_copy(
        update={
            "regions": regions,
            "errors": errors,
            "oracle": oracle,
            "graphs": graphs.used,
            "graphs_speedup": graphs.speedup,
            "graphs_interval": graphs.interval,
        }
    )


def _timed(whole: _Whole, kept: tuple[str, ...], compiled: list[CompiledWhole]) -> Acceptance:
    """The model with these regions by turns with eager and with what torch.compile made."""
    tell(WholeModel(doing="timing the model by turns with eager"))
    fast = whole.with_regions(kept)
    sides = {"eager": whole.call(whole.reference.model), "fast": whole.call(fast)}
    sides |= {f"compiled {each.mode}": each.call for each in compiled if each.call}
    times = _by_turns(sides, whole.device, whole.rounds_s(0))
    speedup, interval = _ratio(times["eager"], times["fast"])
    beside = tuple(_beside(each, times) for each in compiled)
    reason = not_faster(interval, beside)
    return Acceptance(
        accepted=not reason,
        reason=reason,
        eager_ms=median(times["eager"]) * 1e3,
        ms=median(times["fast"]) * 1e3,
        speedup=speedup,
        interval=interval,
        rounds=len(times["eager"]),
        compiled=beside,
    )


def _beside(compiled: CompiledWhole, times: dict[str, list[float]]) -> BesideCompiled:
    mine = times.get(f"compiled {compiled.mode}")
    if mine is None:
        return BesideCompiled(mode=compiled.mode, failure=compiled.failure)
    speedup, interval = _ratio(mine, times["fast"])
    return BesideCompiled(mode=compiled.mode, ms=median(mine) * 1e3, speedup=speedup, interval=interval)


def _graphs(whole: _Whole, names: tuple[str, ...]) -> _Graphs:
    """Whether the model with these regions is right and faster as CUDA graphs; there are none on a processor."""
    if not whole.device.queues:
        return _Graphs()
    plain = whole.with_regions(names) if names else whole.reference.model
    replayed = whole.with_regions(names, graphs=True)
    whole.graphs = True
    wrong = _wrong(whole, names)
    whole.graphs = False
    if wrong or not replayed.kernels.replays:  # type: ignore[union-attr]
        return _Graphs()
    sides = {"plain": whole.call(plain), "replayed": whole.call(replayed)}
    times = _by_turns(sides, whole.device, whole.rounds_s(2) / 2)
    speedup, interval = _ratio(times["plain"], times["replayed"])
    return _Graphs(interval.low > 1.0, speedup, interval)


def _right_regions(whole: _Whole) -> tuple[tuple[str, ...], list[Inside]]:
    """The regions that are right inside the model; each is asked alone where all together are not."""
    names = whole.job.regions
    if not names or not _wrong(whole, names):
        return names, []
    found = {name: _wrong(whole, (name,)) if whole.left_s > 0 else TOO_LATE for name in names}
    dropped = [Inside(name=name, dropped=why) for name, why in found.items() if why]
    return tuple(name for name, why in found.items() if not why), dropped


def _wrong(whole: _Whole, names: tuple[str, ...]) -> str:
    """What is wrong with the model that has these regions' kernels; empty where it is right."""
    try:
        errors, _ = _errors(whole, names)
    except Exception as error:  # noqa: BLE001 (a kernel that fails in place may raise anything: it is dropped, and said)
        return f"it fails inside the model: {one_line(error)}"
    bad = next((error for error in errors if error.bad_fraction), None)
    return f"its outputs are wrong inside the model, by {bad.max_scaled:.2g}" if bad else ""


def _errors(whole: _Whole, names: tuple[str, ...]) -> tuple[tuple[OutputError, ...], str]:
    """How far off the model's outputs are on its own inputs and on others, beside eager's; and what was the oracle."""
    module, reference = whole.with_regions(names), whole.reference
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


def _errors_on(whole: _Whole, module: torch.nn.Module, seed: int, inputs: list[Value]) -> tuple[list[OutputError], str]:
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


def _wanted(whole: _Whole, inputs: list[Value]) -> _Wanted:
    """What a call leaves behind is held against what eager leaves; its outputs against float64's."""
    run = whole.leaving.run(inputs)
    exact, oracle = _oracle(whole, copied(inputs), run.outputs)
    changed = whole.leaving.changed(inputs, run)
    eager = run.results(changed)
    return _Wanted(eager, [*exact, *eager[len(exact) :]], oracle, changed)


def _oracle(whole: _Whole, inputs: list[Value], eager: list[torch.Tensor]) -> tuple[list[torch.Tensor], str]:
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


def _inside(whole: _Whole, names: tuple[str, ...]) -> list[Inside]:
    """Each region's gain inside: all regions against all but this one. Dropped where the interval is not above 1."""
    if not names:
        return []
    tell(WholeModel(doing="timing the model with and without each region"))
    sides = {"all": whole.with_regions(names)}
    for name in names:
        rest = tuple(other for other in names if other != name)
        sides[name] = whole.with_regions(rest) if rest or whole.graphs else whole.reference.model
    calls = {name: whole.call(module) for name, module in sides.items()}
    times = _by_turns(calls, whole.device, whole.rounds_s(1))
    return [_said(name, *_ratio(times[name], times["all"])) for name in names]


def _said(name: str, speedup: float, interval: Interval) -> Inside:
    dropped = "" if interval.low > 1.0 else "no gain is shown inside the model"
    return Inside(name=name, speedup=speedup, interval=interval, dropped=dropped)


def _by_turns(sides: dict[str, Call], device: Device, limit_s: float) -> dict[str, list[float]]:
    """Seconds of each side's call, one of each in a round, in an order that turns. There are enough rounds for an
    interval, however little time there is."""
    for call in sides.values():
        call()
    device.finish()
    names = list(sides)
    times: dict[str, list[float]] = {name: [] for name in names}
    began, rounds = time.perf_counter(), 0
    while rounds < FEWEST_ROUNDS or (rounds < MAX_ROUNDS and time.perf_counter() - began < limit_s):
        turn = rounds % len(names)
        for name in (*names[turn:], *names[:turn]):
            started = time.perf_counter()
            sides[name]()
            device.finish()
            times[name].append(time.perf_counter() - started)
        rounds += 1
    return times


def _ratio(slow: list[float], fast: list[float]) -> tuple[float, Interval]:
    """The median of paired ratios with its 95 % interval; of few rounds it is all that they showed.

    A bootstrap of few values is narrower than what is known: the smallest and the largest of n hold the median in
    1 - 2^(1 - n) of all cases, whatever the noise.
    """
    speedup, interval = median_ratio(slow, fast)
    if len(slow) >= ENOUGH_ROUNDS:
        return speedup, interval
    ratios = [one / other for one, other in zip(slow, fast, strict=True)]
    return speedup, Interval(low=min(ratios), high=max(ratios))


def _fast_peak(whole: _Whole, found: Acceptance, held: int) -> int | None:
    """Of the model that is handed out, made anew and called: what a graph keeps is taken when it is captured."""
    if not found.accepted or whole.left_s < 0:
        return None
    return held + peak_bytes(whole.device, lambda: whole.call(whole.with_regions(found.kept))())


def _loaded(job: AcceptJob) -> ModuleType:
    spec = importlib.util.spec_from_file_location("assembled", Path(job.folder, job.file))
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
