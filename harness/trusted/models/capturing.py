"""The capturing job: a model's operations with their times, or a sentence that says why there are none."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from harness.nouns.capture import Capture, Missed
from harness.nouns.devices import on_gpu
from harness.nouns.errors import MachineError, UserError
from harness.nouns.model_budget import ModelCosts, refused
from harness.trusted.device import Device
from harness.trusted.devices import open_device
from harness.trusted.facts.recurrent_shapes import by_shapes
from harness.trusted.facts.watching import flop_counter
from harness.trusted.models.ending import ended_after
from harness.trusted.models.exporting import Exported, Failed, export_model
from harness.trusted.models.footprint import FollowedEnough, Footprint, bytes_of, free_bytes
from harness.trusted.models.inductor_times import inductor_ms
from harness.trusted.models.measuring import Times, modules_ms, seconds, times_of
from harness.trusted.models.reading import part_of
from harness.trusted.reach import tensors_of
from harness.trusted.reference import Reference
from harness.trusted.task_file import one_line
from harness.trusted.timing.compiled import point_at
from harness.wire.job import CaptureJob, ReferenceJob

FOLLOW_S = 8.0
"""Of processor time, for a model's sizes; what was seen until then counts."""
_ROOM = 1.25
"""A call needs more than its tensors: workspaces of the libraries, and the allocator's own gaps."""


@dataclass(frozen=True)
class _Size:
    """What a model needs, by shapes alone; nothing is known of one whose forward needs values."""

    weights: int = 0
    total: int = 0
    flops: int = 0


def capture(job: CaptureJob) -> dict[str, Any]:
    """The capture as JSON-ready data.

    Raises `UserError` for a file that is none, and where no answer fits into the budget; `MachineError` for a large
    model.
    """
    torch.backends.mha.set_fastpath_enabled(False)  # attention in evaluation mode would be one operation of its own
    if job.compile is not None:  # before export imports Inductor, which reads its folders then
        point_at(Path(job.compile.cache), job.compile.environment)
    place = torch.device(job.device)
    size = _size(job)
    _require_room(job, size.total)
    device = open_device(job.device, 0)
    if device.queues:
        device.prepare(job.precision)
    began = time.monotonic()
    reference = Reference(job.source, job.name, place, variant=job.variant)
    inputs = reference.inputs(reference.given_seed or 0)
    args, kwargs = reference.arranged(inputs)
    made_s = time.monotonic() - began
    with torch.no_grad():
        call = partial(reference.guarded, "forward", partial(reference.model, *args, **kwargs))
        first_s = seconds(call, device.finish)  # what fails, fails here, and libraries warm up
        _require_time(job, made_s, first_s, lambda: seconds(call, device.finish))
        began = time.monotonic()
        done, failed = export_model(reference, inputs)
        exported_s = time.monotonic() - began
        times = times_of(call, device.finish, done, first_s, queues=device.queues)
        began = time.monotonic()
        compiled_ms, uncompiled = _compiled(job, done, times, device) if job.compile and not failed else (None, "")
        compiled_s = time.monotonic() - began
        parts = tuple(map(part_of, done, times.operations))
        told: list[Exported | Failed] = [*done, *failed]
        inner = {each.path: each.module for each in told if each.path}
        inner_ms = modules_ms(inner, call, device.finish) if failed else {}
        missed = tuple(_missed(failed, done, {"": times.whole_ms} | inner_ms))
    return Capture(
        name=job.name,
        parts=parts,
        missed=missed,
        whole_ms=times.whole_ms,
        calls=times.calls,
        memory_bytes=size.total,
        weight_bytes=size.weights,
        flops=size.flops,
        costs=ModelCosts(made_s=made_s, exported_s=exported_s, called_s=times.mean_s, compiled_s=compiled_s),
        compiled_ms=compiled_ms,
        uncompiled=uncompiled,
    ).model_dump(mode="json")


def _compiled(job: CaptureJob, done: list[Exported], times: Times, device: Device) -> tuple[float | None, str]:
    """One call's milliseconds, compiled by Inductor, with the operations' times put in the place of eager's.

    None, and why, where it does not compile, or not in time.
    """
    with ended_after(job.compile_s) as timer:
        try:
            found = [inductor_ms(each, ms, device.finish, queues=device.queues)
                     for each, ms in zip(done, times.operations, strict=True)]  # fmt: skip
        except Exception as error:  # noqa: BLE001 (compilers may raise anything; what eager took is known)
            why = f"it took more than {job.compile_s:.0f} s" if timer.over else one_line(error)
            return None, why
    times.operations = [{name: of.get(name, 0.0) for name in ms}
                        for (of, _), ms in zip(found, times.operations, strict=True)]  # fmt: skip
    return sum(whole_ms for _, whole_ms in found), ""


def _size(job: ReferenceJob) -> _Size:
    """Told on tensors that have a shape and no memory."""
    try:
        with FakeTensorMode(), by_shapes(), torch.no_grad(), warnings.catch_warnings(action="ignore"):
            reference = Reference(job.source, job.name, variant=job.variant)
            inputs = reference.inputs(0)
            given = [value for value in inputs if isinstance(value, torch.Tensor)]
            with Footprint(FOLLOW_S) as footprint, flop_counter() as counter, suppress(FollowedEnough):
                reference.run(inputs)
            weights = bytes_of(list(tensors_of(reference.model)))
            return _Size(weights, weights + bytes_of(given) + footprint.peak_bytes, int(counter.get_total_flops()))
    except Exception:  # noqa: BLE001 (values are needed, or the file is wrong: the real run tells which)
        return _Size()


def _require_room(job: ReferenceJob, needed: int) -> None:
    free, what = free_bytes(torch.device(job.device)), "the device" if on_gpu(job.device) else "this machine"
    if needed * _ROOM > free:
        raise MachineError(
            f"{job.name} needs about {needed * _ROOM / 2**30:.1f} GiB for one call by the sizes of its tensors, and "
            f"{what} has {free / 2**30:.1f} GiB free.",
            "Give it smaller inputs, or a machine with more memory.",
        )


def _require_time(job: CaptureJob, made_s: float, first_s: float, called: Callable[[], float]) -> None:
    """Refuse a budget that no answer fits into.

    Libraries load in the first call, which takes a GPU a hundred times as long as the next: before a refusal the model
    is called once more.
    """

    def error(call_s: float) -> UserError | None:
        spent_s = job.budget_s - (job.ends_at - time.monotonic())
        return refused(job.name, job.budget_s, spent_s, ModelCosts(made_s=made_s, called_s=call_s), job.device)

    if error(first_s) and (refusal := error(called())):
        raise refusal


def _missed(failed: list[Failed], done: list[Exported], times: dict[str, float]) -> Iterator[Missed]:
    """Each with the time that it takes itself, without that of the modules inside it which are told of apart."""
    paths = [*(each.path for each in done), *(each.path for each in failed)]
    for each in failed:
        inside = [path for path in paths if _within(path, each.path)]
        nearest = [path for path in inside if not any(_within(path, other) for other in inside)]
        ms = max(0.0, times[each.path] - sum(times[path] for path in nearest))
        yield Missed(path=each.path, module_type=type(each.module).__name__, ms=ms, reason=each.reason)


def _within(path: str, other: str) -> bool:
    """Whether a module lies inside another one; all lie inside the model, whose path is empty."""
    return path != other and (not other or path.startswith(f"{other}."))
