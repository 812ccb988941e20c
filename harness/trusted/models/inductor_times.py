"""What each operation of a program takes within what Inductor makes of the program: kernels of one call, mapped back.

Inductor tells of each kernel that it starts which operations it computes, and those have the names of the program's own
that they come from. A kernel's time is shared out among them as eager's times are. Names of this are private to torch:
where they have moved, `ImportError` or `AttributeError` is raised.
"""

from __future__ import annotations

import copy
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

import torch
from torch.profiler import ProfilerActivity, profile

from harness.trusted.models.exporting import Exported
from harness.trusted.models.measuring import MOST_ROUNDS, seconds

LEAST_MS = 1e-6
_LIBRARY = ("extern_kernels", "aten", "torch.ops")


class Started(NamedTuple):
    """One kernel that a call starts, or one call of a library, and the program's operations that it computes."""

    kernel: str
    nodes: tuple[str, ...]

    @property
    def generated(self) -> bool:
        """Whether Inductor wrote it."""
        return not self.kernel.startswith(_LIBRARY)


class Spent(NamedTuple):
    """Milliseconds of one call: of each generated kernel by its name, in all its places; of libraries; of the whole."""

    kernels: dict[str, float]
    libraries_ms: float
    whole_ms: float


def inductor_ms(
    exported: Exported, eager_ms: Mapping[str, float], finish: Callable[[], None], *, queues: bool
) -> tuple[dict[str, float], float]:
    """Milliseconds of each operation by its node's name, and of one call, compiled by Inductor.

    Where calls only queue, that is the device's time alone: a CUDA graph leaves nothing between kernels. Raises what
    compilers raise.
    """
    with _provenance() as started:
        from torch._inductor.compile_fx import compile_fx

        compiler: Any = compile_fx
        module = copy.deepcopy(exported.program.graph_module)
        for node in module.graph.nodes:
            node.meta.pop("from_node", None)  # names of what it was before it was exported
        made = compiler(module, exported.arguments, config_patches=_patches(started))
        call = partial(made, *exported.arguments)
        call()
    spent = _spent(call, finish, started.kernels, queues=queues)
    return shared_out(started.kernels, spent, eager_ms), spent.whole_ms


def shared_out(started: Sequence[Started], spent: Spent, eager_ms: Mapping[str, float]) -> dict[str, float]:
    """Each kernel's time among the operations that it computes, as eager's times are to one another.

    What libraries take is shared out among all operations that they compute. An operation that no kernel computes takes
    no time.
    """
    found: dict[str, float] = defaultdict(float)
    places = Counter(each.kernel for each in started)
    for each in started:
        if each.generated:
            _give(found, each.nodes, spent.kernels.get(each.kernel, 0.0) / places[each.kernel], eager_ms)
    libraries = [node for each in started if not each.generated for node in each.nodes]
    _give(found, libraries, spent.libraries_ms, eager_ms)
    return dict(found)


def _give(found: dict[str, float], nodes: Sequence[str], ms: float, eager_ms: Mapping[str, float]) -> None:
    weights = [max(eager_ms.get(node, 0.0), LEAST_MS) for node in nodes]
    for node, weight in zip(nodes, weights, strict=True):
        found[node] += ms * weight / sum(weights)


class _Told:
    """What Inductor told while it compiled."""

    def __init__(self) -> None:
        self.sources: dict[str, tuple[str, ...]] = {}
        self.names: dict[str, list[str]] = {}

    @property
    def kernels(self) -> list[Started]:
        """In the order in which they are started; the name has a number behind it for each place."""
        return [
            Started(name.rpartition(":")[0] or name, tuple(dict.fromkeys(
                source for node in nodes for source in self.sources.get(node, ())
            )))
            for name, nodes in self.names.items()
        ]  # fmt: skip


@contextmanager
def _provenance() -> Iterator[_Told]:
    """Keeps what Inductor forgets when it has compiled: which kernel computes which nodes of its last graph."""
    from torch._inductor import debug

    told, dump = _Told(), debug.dump_inductor_provenance_info

    def keep() -> Any:
        told.names.update({name: list(nodes) for name, nodes in kernels().items()})
        return dump()

    def kernels() -> dict[str, list[str]]:
        return debug._inductor_triton_kernel_to_post_grad_node_info

    kernels()
    debug.dump_inductor_provenance_info = keep
    try:
        yield told
    finally:
        debug.dump_inductor_provenance_info = dump


def _patches(told: _Told) -> dict[str, Any]:
    from torch._inductor.custom_graph_pass import CustomGraphPass

    class Sources(CustomGraphPass):
        """Reads, of Inductor's last graph, which operations of the program each node comes from."""

        def __call__(self, graph: torch.fx.Graph) -> None:
            for node in graph.nodes:
                told.sources[node.name] = tuple(dict.fromkeys(_first_names(node.meta.get("from_node") or ())))

        def uuid(self) -> None:
            return None

    return {
        "post_grad_custom_post_pass": Sources(),
        "trace.provenance_tracking_level": 1,
        "cpp.enable_kernel_profile": True,
        "fx_graph_cache": False,
    }


def _first_names(sources: Sequence[Any]) -> Iterator[str]:
    """The names of the nodes that others come from, in the graph that was given first."""
    for each in sources:
        if each.from_node:
            yield from _first_names(each.from_node)
        else:
            yield each.name


def _spent(
    call: Callable[[], object], finish: Callable[[], None], started: Sequence[Started], *, queues: bool
) -> Spent:
    places = Counter(each.kernel for each in started if each.generated)
    whole_ms = min(seconds(call, finish) for _ in range(MOST_ROUNDS)) * 1e3
    kinds = [ProfilerActivity.CPU, ProfilerActivity.CUDA] if queues else [ProfilerActivity.CPU]
    with profile(activities=kinds, acc_events=True) as profiler:
        for _ in range(MOST_ROUNDS):
            call()
        finish()
    took: dict[str, list[float]] = defaultdict(list)
    others_ms = 0.0
    for event in profiler.events() or ():
        name = event.name if queues else _own_name(event.name, places)
        if queues and (event.device_type.name != "CUDA" or event.is_user_annotation or name.startswith("#")):
            continue  # of the CPU, or a name that somebody gave to a stretch of time
        if name in places:
            took[name].append(event.time_range.elapsed_us() / 1e3)
        elif queues:
            others_ms += event.time_range.elapsed_us() / 1e3
    found = {name: _least(ms, places[name]) for name, ms in took.items()}
    generated_ms = sum(found.values())
    if queues:
        libraries_ms = others_ms / MOST_ROUNDS
        return Spent(found, libraries_ms, generated_ms + libraries_ms)
    return Spent(found, max(0.0, whole_ms - generated_ms), whole_ms)


def _least(took: list[float], places: int) -> float:
    """Of a kernel that each call starts at so many places: of the call in which it took least."""
    return min(sum(took[start : start + places]) for start in range(0, len(took) - places + 1, places))


def _own_name(event: str, own: Mapping[str, int]) -> str:
    """Of a C++ kernel; its events begin with the number of its graph."""
    _, _, name = event.partition("_cpp_")
    return f"cpp_{name}" if name and f"cpp_{name}" in own else event
