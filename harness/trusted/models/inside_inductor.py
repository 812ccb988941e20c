"""Kernels inside what torch.compile makes of a model: each is kept only where the compiled whole with it beats that
without it, by turns in one process."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch

from harness.nouns.acceptance import Acceptance, Inside, compiled_in
from harness.nouns.events import WholeModel
from harness.trusted.models.ending import Timer, ended_after
from harness.trusted.models.holding import Call, Whole, beside_baselines, call_by_turns, errors_of, ratio, wrong_with
from harness.trusted.models.whole_compiled import CompiledWhole
from harness.trusted.task_file import one_line
from harness.trusted.timing.compiled import WARM_CALLS
from harness.wire.telling import tell

LEAST_END_S = 3.0
"""For the comparison at the end, beside what its calls take."""
NO_TIME = "not tried inside the model: there was no time for it"
NOWHERE = "it computes nothing that torch.compile's graph of the model has in one place"
RECOMPILES = 256
"""Of one forward: each set of kernels compiles it anew."""


@dataclass
class _Trials:
    """What was kept by now, and the compiled model with that."""

    whole: Whole
    best: Call
    kept: tuple[str, ...] = ()
    module: torch.nn.Module | None = None
    regions: list[Inside] = field(default_factory=list)

    @property
    def end_s(self) -> float:
        """What the comparison at the end needs."""
        return LEAST_END_S + self.whole.job.limit_s / 4

    def room_s(self) -> float:
        """What one more compilation may take."""
        return self.whole.left_s - self.end_s


def accept_inside(whole: Whole, base: CompiledWhole, compiled: list[CompiledWhole]) -> Acceptance:
    """The model compiled with those regions' kernels that gain inside it, beside its baselines.

    `base` is the model compiled without kernels, in the mode that regions are tried in.
    """
    assert base.call is not None
    torch._dynamo.config.recompile_limit = RECOMPILES
    whole.compile_s = base.seconds
    trials = _Trials(whole, base.call)
    for name in whole.job.regions:
        trials.regions.append(_tried(trials, name))
    if trials.module is None:
        found = Acceptance(accepted=False, reason=_nothing(trials.regions, base.mode))
    else:
        fast = {base.mode: trials.module} | dict(_in_other_modes(trials, base, compiled))
        found = beside_baselines(whole, fast, compiled)
        chosen = fast[found.mode]
        errors, oracle = errors_of(whole, chosen)
        found = found.model_copy(update={"errors": errors, "oracle": oracle})
        if any(error.bad_fraction for error in errors):
            found = found.model_copy(update={"accepted": False, "reason": "The regions together are wrong."})
    return found.model_copy(update={"form": "compiled", "regions": tuple(trials.regions)})


def _nothing(regions: list[Inside], mode: str) -> str:
    if not regions:
        return "No kernel won by itself."
    late = sum(each.dropped == NO_TIME for each in regions)
    told = f"No kernel gains inside {compiled_in(mode)}"
    return f"{told}; {late} of {len(regions)} were not tried." if late else f"{told}."


def _tried(trials: _Trials, name: str) -> Inside:
    """The region beside those kept before it; kept where the interval is above 1."""
    whole = trials.whole
    if trials.room_s() < whole.compile_s:
        return Inside(name=name, dropped=NO_TIME)
    tell(WholeModel(doing=f"compiling the model with the kernel {name} in it"))
    names, timer = (*trials.kept, name), Timer()
    try:
        with ended_after(trials.room_s()) as timer:
            module = _compiled(whole, names, whole.job.within)
    except Exception as error:  # noqa: BLE001 (a kernel that fails in place may raise anything: it is dropped, and said)
        return Inside(name=name, dropped=NO_TIME if timer.over else f"it fails inside the model: {one_line(error)}")
    kernels: Any = module.kernels
    places = kernels.placed[name]
    if not places:
        said = next((each for each in kernels.reasons if name not in each), "")
        return Inside(name=name, places=0, dropped=f"{NOWHERE}{f' ({said})' if said else ''}")
    if why := wrong_with(whole, lambda: module):
        return Inside(name=name, places=places, dropped=why)
    tell(WholeModel(doing=f"timing the compiled model with the kernel {name} and without"))
    times = call_by_turns({"without": trials.best, "with": whole.call(module)}, whole.device, _rounds_s(trials))
    speedup, interval = ratio(times["without"], times["with"])
    gains = interval.low > 1.0
    if gains:
        trials.kept, trials.module, trials.best = names, module, whole.call(module)
    dropped = "" if gains else "no gain is shown inside the compiled model"
    return Inside(name=name, places=places, speedup=speedup, interval=interval, dropped=dropped)


def _rounds_s(trials: _Trials) -> float:
    """Of one comparison, where as many follow as regions are left, and the one at the end."""
    left = len(trials.whole.job.regions) - len(trials.regions)
    free_s = trials.whole.left_s - left * trials.whole.compile_s
    return min(trials.whole.job.limit_s, max(0.0, free_s) / (left + 1))


def _in_other_modes(
    trials: _Trials, base: CompiledWhole, compiled: list[CompiledWhole]
) -> Iterator[tuple[str, torch.nn.Module]]:
    """The same kernels in the other modes that are baselines, where there is time to compile them."""
    for each in compiled:
        if each.call is None or each.mode == base.mode or trials.room_s() < max(trials.whole.compile_s, each.seconds):
            continue
        tell(WholeModel(doing=f"compiling the model with its kernels, {each.mode}"))
        try:
            with ended_after(trials.room_s()):
                module = _compiled(trials.whole, trials.kept, each.mode)
        except Exception:  # noqa: BLE001 (the same kernels stand in another mode: there is a model to hand out)
            continue
        if not wrong_with(trials.whole, partial(_itself, module)):
            yield each.mode, module


def _itself(module: torch.nn.Module) -> torch.nn.Module:
    return module


def _compiled(whole: Whole, names: tuple[str, ...], mode: str) -> torch.nn.Module:
    """The model with these regions' kernels, compiled and warm."""
    began = time.perf_counter()
    module = whole.with_regions(names, mode=mode)
    kernels: Any = module.kernels
    kernels.strict = True
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(WARM_CALLS + 1):  # with CUDA graphs, the third call is the first replay
            whole.call(module)()
    whole.device.finish()
    kernels.strict = False
    whole.compile_s = max(whole.compile_s, time.perf_counter() - began)
    return module
