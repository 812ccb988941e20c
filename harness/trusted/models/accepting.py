"""The accepting job: an assembled model beside the eager one, right and faster, or without the regions that are not.

Its kernels are loaded into this process, each judged before by itself in its own. What is found here can lower what
that said of a kernel's use, and never raises it.
"""

from __future__ import annotations

import importlib.util
import os
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from harness.nouns.acceptance import Acceptance, Inside
from harness.nouns.events import WholeModel
from harness.nouns.verdict import Interval
from harness.trusted.devices import open_device
from harness.trusted.models.conditions import conditions
from harness.trusted.models.footprint import bytes_of, peak_bytes
from harness.trusted.models.holding import Whole, beside_baselines, call_by_turns, errors_of, ratio, wrong_with
from harness.trusted.models.inside_inductor import accept_inside
from harness.trusted.models.leaving import Leaving, copied
from harness.trusted.models.whole_compiled import CompiledWhole, compile_whole
from harness.trusted.reach import tensors_of
from harness.trusted.reference import Reference
from harness.trusted.task_file import one_line
from harness.wire.job import AcceptJob
from harness.wire.telling import tell

TOO_LATE = "all together are wrong inside the model, and there was no time to ask it alone"


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
        whole = Whole(job, reference, inputs, device, _loaded(job), leaving)
        try:
            found = _accept_in_form(whole, compiled)
        except torch.OutOfMemoryError as full:
            found = Acceptance(accepted=False, reason=f"It does not fit into the memory: {one_line(full)}")
        compiled.clear()
        torch._dynamo.reset()  # which keeps what it compiled, and the memory of its graphs
        whole.made.clear()
        whole.wanted.clear()
        told = {
            "gpu": torch.cuda.get_device_name() if device.queues else "",
            "conditions": conditions(job.device, job.modes),
            "eager_peak_bytes": eager_peak,
            "peak_bytes": _fast_peak(whole, found, held),
        }
    return found.model_copy(update=told).model_dump(mode="json")


def _accept_in_form(whole: Whole, compiled: list[CompiledWhole]) -> Acceptance:
    """As it was asked for; assembled where there is nothing that kernels could be put into."""
    if whole.job.form == "assembled":
        return _accept(whole, compiled)
    base = next((each for each in compiled if each.mode == whole.job.within), None)
    if base is None or base.call is None:
        why = f"torch.compile did not compile the model: {base.failure if base is not None else 'left out'}"
    else:
        found = accept_inside(whole, base, compiled)
        if not found.regions or any(each.places != 0 for each in found.regions):
            return found
        why = f"No kernel finds its place in what torch.compile makes of the model: {found.regions[0].dropped}"
    return _accept(whole, compiled).model_copy(update={"instead": why})


def _accept(whole: Whole, compiled: list[CompiledWhole]) -> Acceptance:
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
    errors, oracle = errors_of(whole, whole.with_regions(kept))
    if any(error.bad_fraction for error in errors):
        return Acceptance(
            accepted=False, reason="The regions together are wrong.", regions=regions, errors=errors, oracle=oracle
        )
    return beside_baselines(whole, {"": whole.with_regions(kept)}, compiled).model_copy(
        update={
            "regions": regions,
            "errors": errors,
            "oracle": oracle,
            "graphs": graphs.used,
            "graphs_speedup": graphs.speedup,
            "graphs_interval": graphs.interval,
        }
    )


def _graphs(whole: Whole, names: tuple[str, ...]) -> _Graphs:
    """Whether the model with these regions is right and faster as CUDA graphs; there are none on a processor."""
    if not whole.device.queues:
        return _Graphs()
    plain = whole.with_regions(names) if names else whole.reference.model
    replayed = whole.with_regions(names, graphs=True)
    whole.graphs = True
    wrong = wrong_with(whole, partial(whole.with_regions, names))
    whole.graphs = False
    if wrong or not replayed.kernels.replays:  # type: ignore[union-attr]
        return _Graphs()
    sides = {"plain": whole.call(plain), "replayed": whole.call(replayed)}
    times = call_by_turns(sides, whole.device, whole.rounds_s(2) / 2)
    speedup, interval = ratio(times["plain"], times["replayed"])
    return _Graphs(interval.low > 1.0, speedup, interval)


def _right_regions(whole: Whole) -> tuple[tuple[str, ...], list[Inside]]:
    """The regions that are right inside the model; each is asked alone where all together are not."""
    names = whole.job.regions
    if not names or not wrong_with(whole, partial(whole.with_regions, names)):
        return names, []
    found = {
        name: wrong_with(whole, partial(whole.with_regions, (name,))) if whole.left_s > 0 else TOO_LATE
        for name in names
    }
    dropped = [Inside(name=name, dropped=why) for name, why in found.items() if why]
    return tuple(name for name, why in found.items() if not why), dropped


def _inside(whole: Whole, names: tuple[str, ...]) -> list[Inside]:
    """Each region's gain inside: all regions against all but this one. Dropped where the interval is not above 1."""
    if not names:
        return []
    tell(WholeModel(doing="timing the model with and without each region"))
    sides = {"all": whole.with_regions(names)}
    for name in names:
        rest = tuple(other for other in names if other != name)
        sides[name] = whole.with_regions(rest) if rest or whole.graphs else whole.reference.model
    calls = {name: whole.call(module) for name, module in sides.items()}
    times = call_by_turns(calls, whole.device, whole.rounds_s(1))
    return [_said(name, *ratio(times[name], times["all"])) for name in names]


def _said(name: str, speedup: float, interval: Interval) -> Inside:
    dropped = "" if interval.low > 1.0 else "no gain is shown inside the model"
    return Inside(name=name, speedup=speedup, interval=interval, dropped=dropped)


def _fast_peak(whole: Whole, found: Acceptance, held: int) -> int | None:
    """Of the model that is handed out, made anew and called: what a graph keeps is taken when it is captured."""
    if not found.accepted or whole.left_s < whole.compile_s:
        return None
    if found.form == "compiled" and not whole.device.queues:  # compiling takes memory there that no call does
        whole.call(whole.with_regions(found.kept, mode=found.mode))()
    return held + peak_bytes(whole.device, lambda: whole.call(whole.with_regions(found.kept, mode=found.mode))())


def _loaded(job: AcceptJob) -> ModuleType:
    spec = importlib.util.spec_from_file_location("assembled", Path(job.folder, job.file))
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
