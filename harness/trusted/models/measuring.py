"""The time of each operation of a program, and of the model as a whole, on the device that it runs on."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile, record_function

from harness.trusted.models.exporting import Exported

LIMIT_S = 6.0
"""Rounds of a measurement end after about so long; one is always made."""
MOST_ROUNDS = 7
Call = Callable[[], object]
Finish = Callable[[], None]
_MARK = "operation:"
_PROFILED = 3


@dataclass
class Times:
    """Milliseconds of a call of the model, and of each part's operations by their nodes' names.

    Each is the shortest of `calls`: what disturbs a call makes it longer, and does not come twice at the same place.
    `mean_s` is what a call took with all that disturbed it, in seconds.
    """

    whole_ms: float = math.inf
    calls: int = 0
    mean_s: float = 0.0
    operations: list[dict[str, float]] = field(default_factory=list)

    def take(self, whole_s: float, operations: list[dict[str, float]]) -> None:
        """One round, in seconds."""
        before = self.operations or [{} for _ in operations]
        self.calls += 1
        self.mean_s += (whole_s - self.mean_s) / self.calls
        self.whole_ms = min(self.whole_ms, whole_s * 1e3)
        self.operations = [
            {name: min(known.get(name, math.inf), seconds * 1e3) for name, seconds in now.items()}
            for known, now in zip(before, operations, strict=True)
        ]


def times_of(call: Call, finish: Finish, parts: list[Exported], first_s: float, *, queues: bool) -> Times:
    """The model and the operations of its parts by turns, so that both meet the same disturbances.

    Where calls only queue, the operations' times are the device's own, of one profiled run. A model whose first call,
    of `first_s`, took longer than the limit is not called again: that time is the whole's.
    """
    times, began = Times(), time.perf_counter()
    while not times.calls or (times.calls < MOST_ROUNDS and time.perf_counter() - began < LIMIT_S):
        whole_s = first_s if first_s > LIMIT_S else seconds(call, finish)
        times.take(whole_s, [] if queues else [_wall_s(part) for part in parts])
    if queues:
        times.operations = [_device_ms(part) for part in parts]
    return times


def seconds(call: Call, finish: Finish) -> float:
    """What one call takes that is waited for."""
    started = time.perf_counter()
    call()
    finish()
    return time.perf_counter() - started


def modules_ms(modules: Mapping[str, torch.nn.Module], call: Call, finish: Finish) -> dict[str, float]:
    """Milliseconds within one call of the model, by path; a module that is called several times has them together."""
    spent = dict.fromkeys(modules, 0.0)
    with ExitStack() as hooks:
        for path, module in modules.items():
            began: list[float] = []
            hooks.callback(module.register_forward_pre_hook(partial(_begin, began, finish)).remove)
            hooks.callback(module.register_forward_hook(partial(_end, began, finish, spent, path)).remove)
        call()
    return {path: seconds * 1e3 for path, seconds in spent.items()}


def _begin(began: list[float], finish: Finish, *_call: Any) -> None:
    finish()
    began.append(time.perf_counter())


def _end(began: list[float], finish: Finish, spent: dict[str, float], path: str, *_call: Any) -> None:
    finish()
    spent[path] += time.perf_counter() - began.pop()


def _wall_s(exported: Exported) -> dict[str, float]:
    """Seconds of each operation by the wall clock; what reads arguments and frees values does not count."""
    clock = _Clock(exported.program.graph_module)
    clock.run(*exported.arguments)
    return clock.seconds


def _device_ms(exported: Exported) -> dict[str, float]:
    """Of one profiled run of some rounds: the time of the kernels that each operation started."""
    marked = _Marked(exported.program.graph_module)
    marked.run(*exported.arguments)
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA], acc_events=True) as profiler:
        for _ in range(_PROFILED):
            marked.run(*exported.arguments)
        torch.cuda.synchronize()
    return {
        event.key.removeprefix(_MARK): event.device_time_total / _PROFILED / 1e3
        for event in profiler.key_averages()
        if event.key.startswith(_MARK) and event.device_type.name == "CPU"
    }


class _Nodes(torch.fx.Interpreter):
    """Runs a graph; values are freed after their last use, as in a forward."""

    def run_node(self, n: torch.fx.Node) -> Any:
        """Remembers which operation is being run."""
        self.present = n.name
        return super().run_node(n)


class _Clock(_Nodes):
    def __init__(self, module: torch.fx.GraphModule) -> None:
        super().__init__(module)
        self.seconds: dict[str, float] = {}

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        """Run one operation by the clock."""
        started = time.perf_counter()
        result = target(*args, **kwargs)
        self.seconds[self.present] = time.perf_counter() - started
        return result


class _Marked(_Nodes):
    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        """Run one operation under its name."""
        with record_function(_MARK + self.present):
            return target(*args, **kwargs)
