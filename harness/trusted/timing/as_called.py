"""The exported drop-in beside the reference, as a caller meets both. Runs in a locked child that has torch.

The candidate's library is loaded into this process, so what it says is the candidate's word: it can make itself look
faster than it is, never slower. Nobody may use it but to lower what the judge's own clock found.
"""

from __future__ import annotations

import importlib.util
import os
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from types import ModuleType
from typing import Any

import torch

from harness.checks.errors import scaled_error
from harness.nouns.verdict import SHORT_MS
from harness.trusted.devices import open_device
from harness.trusted.reference import Reference
from harness.trusted.timing.statistics import median_ratio
from harness.trusted.timing.turns import by_turns
from harness.wire.gate import have_device_alone
from harness.wire.job import AsCalledJob

BURST_S = 0.015
MOST_CALLS = 200
MIN_ROUNDS, MAX_ROUNDS = 8, 60
WARM_CALLS = 3
GRAPHED_CALLS = 20
"""In one CUDA graph: its own launch, of some microseconds, is shared out among them."""
MOST_SAID = 200
MOST_OFF = 0.03
"""A result that is further from eager's was not computed. How exact it is the judge has found by its own trials."""

Call = Callable[[], object]


def time_as_called(job: AsCalledJob) -> dict[str, Any]:
    """Both sides by turns on the file's own inputs: calls back to back, and, on a GPU, each waited for.

    The result: `rounds` and, for `back_to_back`, `synchronized` (None on a processor) and `graphed` (None where eager's
    call is not short, or `ungraphed` says why), ms, baseline_ms, speedup and interval.
    """
    os.environ["OMP_NUM_THREADS"] = str(torch.get_num_threads())  # the kernel's own OpenMP reads it when it is loaded
    device = open_device(job.device, 0)
    if device.queues:
        device.prepare(job.precision)
    place, variant = torch.device(job.device), job.variant
    reference = Reference(job.source, job.name, place, variant=variant)
    inputs = reference.inputs(0)
    given, named = reference.arranged(inputs)
    loaded = _loaded(Path.cwd() / job.drop_in, Path(job.library))
    drop_in = loaded.ModelNew(*reference.arguments).eval().to(place)
    if variant.dtype:
        drop_in.to(getattr(torch, variant.dtype))
    drop_in.load_state_dict(reference.model.state_dict())  # weights are drawn anew each time
    sides: tuple[Call, Call] = (
        reference.prepared(reference.model, reference.model, inputs),
        partial(drop_in, *given, **named),
    )
    state = [".".join(path) for path, _ in loaded.KERNEL.state]
    if state:
        sides = (_from_the_start(reference.model, state, sides[0]), _from_the_start(drop_in, state, sides[1]))
    have_device_alone()
    last: list[object] = [None, None]
    kept = (partial(_keeping, last, 0, sides[0]), partial(_keeping, last, 1, sides[1]))
    with torch.no_grad():
        compare = partial(_require_alike, reference, last)
        found = _timed_by_turns(kept, device.finish, job.limit_s, queues=device.queues, compare=compare)
        if device.queues and found["back_to_back"]["baseline_ms"] < SHORT_MS:
            found |= graphed(sides, device.finish, captured)
        return found


def _from_the_start(model: torch.nn.Module, state: Sequence[str], call: Call) -> Call:
    """A call before which what the one before wrote is undone: a position would run out of its cache."""
    places = [(model.get_submodule(path), leaf) for path, _, leaf in (name.rpartition(".") for name in state)]
    started = [(*place, getattr(*place).detach().clone()) for place in places]

    def once() -> object:
        for owner, leaf, value in started:
            getattr(owner, leaf).copy_(value)
        return call()

    return once


def captured(side: Call) -> Call:
    """So many calls of a side as one CUDA graph. Raises `RuntimeError` where they cannot be captured."""
    beside = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    beside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(beside):
        for _ in range(WARM_CALLS):
            side()
    torch.cuda.current_stream().wait_stream(beside)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(GRAPHED_CALLS):
            side()
    return graph.replay


def graphed(sides: tuple[Call, Call], finish: Call, capture: Callable[[Call], Call]) -> dict[str, Any]:
    """Both sides without what launches cost: replayed by turns, a graph of each, `GRAPHED_CALLS` calls a replay."""
    try:
        replays = (capture(sides[0]), capture(sides[1]))
        calls = min(_calls(replay, finish) for replay in replays)
        bursts = {str(side): partial(_burst, replay, finish, calls) for side, replay in enumerate(replays)}
        baseline, drop_in = by_turns(bursts, least=MIN_ROUNDS, most=MIN_ROUNDS, limit_s=0.0).values()
    except RuntimeError as error:
        return {"graphed": None, "ungraphed": " ".join(str(error).split())[:MOST_SAID]}
    shared = ([spent / GRAPHED_CALLS for spent in side] for side in (baseline, drop_in))
    return {"graphed": _summed(*shared), "ungraphed": ""}


def _loaded(file: Path, library: Path) -> ModuleType:
    """The drop-in, with the library that was judged in place of one that it would compile."""
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.KERNEL.library.path = lambda _: library
    return module


def _keeping(last: list[object], side: int, call: Call) -> None:
    """Call a side and keep its result."""
    last[side] = call()


def _require_alike(reference: Reference, last: Sequence[object]) -> None:
    """Raise `RuntimeError` where the drop-in's last result is not eager's: it was timed without its work."""
    wanted, got = (reference.opened(result) for result in last)
    for want, have in zip(wanted, got, strict=True):
        if want.is_floating_point() and not scaled_error(have, want) <= MOST_OFF:
            raise RuntimeError("its results are not the reference's while it is timed")


def _timed_by_turns(
    sides: tuple[Call, Call], finish: Call, limit_s: float, *, queues: bool, compare: Call = lambda: None
) -> dict[str, Any]:
    waits = {"back_to_back": False, "synchronized": True} if queues else {"back_to_back": False}
    calls = min(_calls(side, finish) for side in sides)
    bursts = {  # in this order each side goes before the other as often as behind it, however it is waited for
        f"{name} {number}": partial(_burst, side, finish, calls, waiting=waiting)
        for number, side in enumerate(sides)
        for name, waiting in waits.items()
    }
    found = by_turns(bursts, least=MIN_ROUNDS, most=MAX_ROUNDS, limit_s=limit_s, after=compare)
    told = {name: _summed(found[f"{name} 0"], found[f"{name} 1"]) for name in waits}
    return {"rounds": len(found["back_to_back 0"]), "synchronized": None} | told


def _calls(side: Call, finish: Call) -> int:
    """How many calls of a side fill a burst, told by one after a few that warm it up."""
    for _ in range(WARM_CALLS):
        side()
    finish()
    return max(1, min(MOST_CALLS, int(BURST_S / _burst(side, finish, 1, waiting=True))))


def _burst(side: Call, finish: Call, calls: int, *, waiting: bool = False) -> float:
    """Seconds a call, up to the end of the last one's work."""
    began = time.perf_counter()
    for _ in range(calls):
        side()
        if waiting:
            finish()
    finish()
    return (time.perf_counter() - began) / calls


def _summed(baseline: list[float], drop_in: list[float]) -> dict[str, Any]:
    speedup, interval = median_ratio(baseline, drop_in)
    return {
        "ms": median(drop_in) * 1e3,
        "baseline_ms": median(baseline) * 1e3,
        "speedup": speedup,
        "interval": interval.model_dump(),
    }
