"""A computation as a graph of aten operations that write nothing in place, none of them taken apart.

Patterns of kernels and the graphs that Dynamo hands to a backend go through the same steps, so that what computes the
same in the same way is the same here. The steps are those of `torch.export` before its decompositions.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch.autograd.graph import saved_tensors_hooks
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._pytree import tree_leaves, tree_map

_aten = torch.ops.aten
_ENTER, _EXIT = torch.amp.autocast_mode._enter_autocast, torch.amp.autocast_mode._exit_autocast
_SET_GRAD: Any = torch._C._set_grad_enabled
_sync: Any = torch._sync  # type: ignore[attr-defined]
GETITEM: Any = operator.getitem
CONSTANT = "cutegen_constant"


class Untraceable(Exception):  # noqa: N818 (an answer, not a failure)
    """Why a computation has no such graph, as the end of a sentence."""


def traced(run: Callable[..., Any], values: Sequence[Any]) -> torch.fx.Graph:
    """The graph of `run` on fake tensors and numbers: its placeholders are `values` in order, its output is flat.

    What is written to a value of `values` is written at the end of the graph. A tensor that `run` makes of numbers is a
    node that has it as the meta `CONSTANT`. Raises `Untraceable`.
    """
    written: list[int] = []

    def functional(*given: Any) -> list[Any]:
        mode = _functional_mode()
        with mode:
            wrapped = [_wrapped(each) for each in given]
            results = tree_leaves(run(*wrapped))
        written.extend(_written(wrapped))
        return [_unwrapped(each) for each in (*results, *(wrapped[k] for k in written))]

    try:
        # What is traced saves nothing for a backward: a checkpoint around the caller counts what its own forward saves.
        # A graph that turns gradients off for what follows it has not been called yet.
        with saved_tensors_hooks(_itself, _itself), torch.set_grad_enabled(torch.is_grad_enabled()):
            made = make_fx(functional, pre_dispatch=True)(*values)
    except Untraceable:
        raise
    except Exception as error:  # a trace may raise anything; the graph is then PyTorch's
        first = (str(error).strip().splitlines() or [""])[0]
        raise Untraceable(f"it cannot be traced: {type(error).__name__}: {first}") from error
    graph: torch.fx.Graph = made.graph
    for node in graph.find_nodes(op="get_attr"):
        node.meta[CONSTANT] = getattr(made, node.target)
    _write_at_the_end(graph, written)
    _update_statistics_in_place(graph)
    _tidy(graph)
    return graph


def _itself(value: Any) -> Any:
    return value


class Dynamo(torch.fx.Interpreter):
    """Runs Dynamo's graph on what it is given; tensors that the graph holds come in as further values.

    Raises `Untraceable` for what is not computed as it stands there: autocast, operators of higher order.
    """

    def __init__(self, module: torch.fx.GraphModule, held: Sequence[str]) -> None:
        super().__init__(module, garbage_collect_values=False)
        self._held_names = held

    def run_on(self, *values: Any) -> Any:
        """The results on the graph's inputs, and the tensors that it holds behind them."""
        count = len(values) - len(self._held_names)
        self._held = dict(zip(self._held_names, values[count:], strict=True))
        return self.run(*values[:count], enable_io_processing=False)

    def get_attr(self, target: Any, args: Any, kwargs: Any) -> Any:
        """A tensor that the graph holds, as it was given."""
        if target not in self._held:
            raise Untraceable("it has operators of higher order")
        return self._held[target]

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        """Leaves out what changes no mode that is on."""
        if target is _ENTER:
            device, _, enabled, *_ = args
            if enabled or torch.is_autocast_enabled(device):
                raise Untraceable("it computes under autocast")
            return None
        if target is _EXIT or (target is _SET_GRAD and args[0] == torch.is_grad_enabled()):
            return None
        return super().call_function(target, args, kwargs)


def stretches(graph: torch.fx.Graph) -> dict[torch.fx.Node, int]:
    """For each node how many of those lie before it that nothing may move past."""
    found, count = {}, 0
    for node in graph.nodes:
        count += is_barrier(node)
        found[node] = count
    return found


def is_barrier(node: torch.fx.Node) -> bool:
    """Whether it turns a mode on or off, checks something or writes."""
    return node.op == "call_function" and node.is_impure(impure_random=False)


def arguments(node: torch.fx.Node) -> list[Any]:
    """An operation's arguments by the order of its schema, those left out as they are by default.

    Without the hints which library may compute it.
    """
    if not isinstance(node.target, torch._ops.OpOverload):
        return [*node.args, *(node.kwargs[key] for key in sorted(node.kwargs))]
    declared = node.target._schema.arguments
    given = dict(zip((each.name for each in declared), node.args, strict=False)) | dict(node.kwargs)
    return [given.get(each.name, each.default_value) for each in declared if not each.name.startswith("cudnn_enable")]


def is_view(node: torch.fx.Node) -> bool:
    """Whether it is another look at memory."""
    if node.target is GETITEM:
        return True
    target = node.target
    return isinstance(target, torch._ops.OpOverload) and any(each.alias_info for each in target._schema.returns)


def results_of(graph: torch.fx.Graph) -> list[Any]:
    """What the graph returns."""
    return list(next(iter(graph.find_nodes(op="output"))).args[0])


def _functional_mode() -> Any:
    from torch._subclasses.functional_tensor import FunctionalTensorMode

    return FunctionalTensorMode(pre_dispatch=True, export=True)


def _wrapped(value: Any) -> Any:
    from torch._subclasses.functional_tensor import FunctionalTensor

    return FunctionalTensor.to_functional(value) if isinstance(value, torch.Tensor) else value


def _unwrapped(value: Any) -> Any:
    from torch._subclasses.functional_tensor import FunctionalTensor

    if not isinstance(value, FunctionalTensor):
        return value
    _sync(value)
    return value.from_functional()


def _written(wrapped: Sequence[Any]) -> Iterator[int]:
    for place, each in enumerate(wrapped):
        if isinstance(each, torch.Tensor):
            _sync(each)
            inner: Any = each.elem  # type: ignore[attr-defined]
            if torch._functionalize_has_metadata_mutation(inner):
                raise Untraceable("it changes the shape of what it is given")
            if torch._functionalize_has_data_mutation(inner):  # type: ignore[attr-defined]
                yield place


def _write_at_the_end(graph: torch.fx.Graph, written: Sequence[int]) -> None:
    """The new values of what is written come last among the results. One that is also returned is returned as written.

    So that who writes to the result later writes to what they gave, as in eager. Views of it have no such node.
    """
    output, given = next(iter(graph.find_nodes(op="output"))), list(graph.find_nodes(op="placeholder"))
    results = list(output.args[0])
    count = len(results) - len(written)
    returned, values = results[:count], dict(zip(results[count:], written, strict=True))
    shared = {_storage(value) for value in values} | {_storage(given[place]) for place in written}
    if any(isinstance(each, torch.fx.Node) and each not in values and _storage(each) in shared for each in returned):
        raise Untraceable("it returns a view of what it writes to")
    if len(values) < len(written):
        raise Untraceable("it writes one result to two of its inputs")
    with graph.inserting_before(output):
        made = {
            value: graph.call_function(_aten.copy_.default, (given[place], value)) for value, place in values.items()
        }
    output.args = ([made.get(each, each) for each in returned],)


def _update_statistics_in_place(graph: torch.fx.Graph) -> None:
    """Batch norms write their running statistics themselves again.

    The functional form keeps the old ones for its backward, and PyTorch refuses that once they were written to.
    """
    for node in graph.find_nodes(op="call_function", target=_aten._native_batch_norm_legit_functional.default):
        old: list[Any] = [node.args[k] for k in (3, 4)]
        writes = [user for each in old for user in each.users if user.target is _aten.copy_.default]
        new: list[Any] = [user for k in (3, 4) for user in node.users if user.args[1] == k]
        kept = [write.args for write in writes] == list(zip(old, new, strict=False))
        if writes and kept and all(len(each.users) == 1 for each in new):
            for each in (*writes, *new):
                graph.erase_node(each)
            node.target, node.meta["val"] = _aten._native_batch_norm_legit.default, node.meta["val"][:3]
        elif writes and torch.is_grad_enabled():
            raise Untraceable("two of its norms update the same statistics")


def _storage(node: torch.fx.Node) -> Any:
    value = node.meta.get("val")
    return value.untyped_storage()._cdata if isinstance(value, torch.Tensor) else node


def _tidy(graph: torch.fx.Graph) -> None:
    """Without checks of types that are known, copies of what is not kept, unused operations and repeated ones."""
    for node in list(graph.nodes):
        if node.target is _aten._assert_tensor_metadata.default:
            graph.erase_node(node)
    returned = {each for each in results_of(graph) if isinstance(each, torch.fx.Node)}
    for node in list(graph.nodes):
        if _gives_its_argument(node) and node not in returned:
            node.replace_all_uses_with(node.args[0])
            graph.erase_node(node)
    seen: dict[Any, torch.fx.Node] = {}
    stretch = stretches(graph)
    for node in list(graph.nodes):
        if node in returned or not _repeatable(node):
            continue
        key = (stretch[node], node.target, _hashable(arguments(node)))
        first = seen.setdefault(key, node)
        if first is not node:
            node.replace_all_uses_with(first)
            graph.erase_node(node)
    graph.eliminate_dead_code()


def _gives_its_argument(node: torch.fx.Node) -> bool:
    """Dropout that drops nothing, and copies of what an operation has just made, laid out as that is."""
    if node.target is _aten.dropout.default:
        return bool(not node.args[2] or node.args[1] == 0)
    if node.target is _aten.clone.default and not node.kwargs:
        source: Any = node.args[0]
        return _is_made(source) and source.meta["val"].stride() == node.meta["val"].stride()
    return False


def _is_made(node: torch.fx.Node) -> bool:
    while is_view(node):
        node = node.all_input_nodes[0]
    return node.op == "call_function"


def _repeatable(node: torch.fx.Node) -> bool:
    if node.target is GETITEM:
        return True
    target = node.target
    return (
        isinstance(target, torch._ops.OpOverload)
        and not target._schema.is_mutable
        and torch.Tag.nondeterministic_seeded not in target.tags
    )


def _hashable(value: Any) -> Any:
    def plain(each: Any) -> Any:
        return each if isinstance(each, torch.fx.Node) else (type(each).__name__, repr(each))

    return repr(tree_map(lambda each: f"%{each.name}" if isinstance(each, torch.fx.Node) else plain(each), value))
