"""One FX graph as a program: its operations with plain arguments, by the names of the task's signature."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from typing import Any

import torch

from harness.checks.float8 import saturates
from harness.nouns.task import Argument, Atom, DTypeArg, Program, Ref, TensorSpec, TracedOp
from harness.trusted.facts.complexes import COMPLEX, ComplexSpec, PairlessError, in_pairs
from harness.trusted.keeping import gives_nothing
from harness.trusted.reference import DTYPES


class UntraceableError(Exception):
    """The forward cannot be written as a flat list of aten operations; the message says why."""


class KeptError(UntraceableError):
    """The forward reads a tensor that is neither parameter nor buffer, and that it may have made in the call before."""


class StatefulError(KeptError):
    """What the forward returns follows from the call before it: no kernel can be right."""


class Reader:
    """Turns one FX graph into a Program. `known` maps placeholder names to signature names."""

    def __init__(self, known: dict[str, str], tracer: str) -> None:
        self.tracer = tracer
        self.names = dict(known)
        self.taken = set(known.values())
        self.ops: list[TracedOp] = []
        self.given: dict[str, str] = {}
        """Names of the pairs of complex placeholders."""

    def read(self, module: torch.fx.GraphModule) -> Program:
        outputs: tuple[str, ...] = ()
        for node in module.graph.nodes:
            if node.op == "call_function":
                self._call(node)
            elif node.op == "output":
                outputs = self._outputs(node.args[0])
            elif node.op == "placeholder":
                self._pair(node)
            else:
                raise UntraceableError(f"it reads {node.target!r}, which is neither parameter nor buffer")
        try:
            ops = in_pairs(self.ops, self._given(module))
        except PairlessError as failure:
            raise UntraceableError(f"it has {failure}, which has no form in pairs of reals here") from None
        return Program(tracer=self.tracer, ops=ops, outputs=outputs, saturates=saturates())  # type: ignore[arg-type]

    def _given(self, module: torch.fx.GraphModule) -> Iterator[TensorSpec]:
        """The placeholders that a kernel could be given."""
        for node in module.graph.find_nodes(op="placeholder"):
            value = node.meta.get("val")
            if node.name not in self.names or not isinstance(value, torch.Tensor):
                continue
            if value.dtype in COMPLEX:
                value = torch.view_as_real(value)
            if value.dtype in DTYPES:
                yield spec_of(self.given.get(node.name, self.names[node.name]), value)

    def _pair(self, node: torch.fx.Node) -> None:
        """Complex numbers that a kernel is given in pairs become such numbers at the beginning."""
        value = node.meta.get("val")
        if node.name in self.names and isinstance(value, torch.Tensor) and value.dtype in COMPLEX:
            self.given[node.name] = given = self.names[node.name]
            self.names[node.name] = name = self._fresh(node.name)
            results = (_spec_between(name, value),)
            self.ops.append(TracedOp(target="aten.view_as_complex.default", args=(Ref(ref=given),), results=results))

    def _call(self, node: torch.fx.Node) -> None:
        if gives_nothing(node):
            return
        if node.target is operator.getitem:
            self.picked(node)
            return
        if isinstance(node.target, torch._ops.OpOverload) and node.target.namespace != "aten":
            return
        name = self._fresh(node.name)
        self.names[node.name] = name
        self.ops.append(self.traced(node, name, complex_too=True))

    def literal(self, placeholder: str, tensor: torch.Tensor) -> None:
        """A tensor of numbers that the forward spells out, as the operations that make it of them."""
        dtype: dict[str, Argument] = {"dtype": DTypeArg(dtype=spec_of(placeholder, tensor).dtype)}
        shape = tuple(tensor.shape)
        values = tensor.flatten().tolist()
        if not shape:
            name = self._made("scalar_tensor.default", placeholder, tensor, (values[0],), dtype)
        elif len(set(values)) < 2:
            name = self._made("full.default", placeholder, tensor, (shape, *(values[:1] or (0,))), dtype)
        else:
            parts = [self._made("scalar_tensor.default", f"{placeholder}_{place}", tensor.flatten()[0], (value,), dtype)
                     for place, value in enumerate(values)]  # fmt: skip
            name = self._made("stack.default", placeholder, tensor.flatten(), (tuple(Ref(ref=each) for each in parts),))
            if len(shape) > 1:
                name = self._made("view.default", placeholder, tensor, (Ref(ref=name), shape))
        self.names[placeholder] = name

    def _made(
        self, target: str, name: str, like: torch.Tensor, args: tuple[Argument, ...],
        kwargs: dict[str, Argument] | None = None,
    ) -> str:  # fmt: skip
        """Adds an operation; its result's name."""
        name = self._fresh(name)
        spec = spec_of(name, like.contiguous())
        self.ops.append(TracedOp(target=f"aten.{target}", args=args, kwargs=kwargs or {}, results=(spec,)))
        return name

    def picked(self, node: torch.fx.Node) -> None:
        """One of several results of an operation."""
        source, index = node.args
        assert isinstance(source, torch.fx.Node)
        self.names[node.name] = f"{self.names[source.name]}.{index}"

    def traced(self, node: torch.fx.Node, name: str, *, complex_too: bool = False) -> TracedOp:
        """The operation of a node, its result called `name`. Raises `UntraceableError`."""
        if not isinstance(node.target, torch._ops.OpOverload):
            raise UntraceableError(f"it calls {node.target!r}, which is no aten operation")
        return TracedOp(
            target=f"{node.target.namespace}.{node.target._opname}.{node.target._overloadname}",
            args=tuple(self.argument(argument) for argument in node.args),
            kwargs={key: self.argument(value) for key, value in node.kwargs.items()},
            results=_results(name, node.meta["val"], _spec_between if complex_too else spec_of),
        )

    def _fresh(self, name: str) -> str:
        while name in self.taken:
            name += "_"
        self.taken.add(name)
        return name

    def _outputs(self, returned: Any) -> tuple[str, ...]:
        nodes = returned if isinstance(returned, list | tuple) else [returned]
        return tuple(self.names[node.name] for node in nodes)

    def argument(self, value: Any) -> Argument:
        """An argument as plain data."""
        if isinstance(value, list | tuple):
            return tuple(self._atom(part) for part in value)
        return self._atom(value)

    def _atom(self, value: Any) -> Atom:
        if isinstance(value, torch.fx.Node):
            return Ref(ref=self.names[value.name])
        if isinstance(value, torch.dtype):
            return DTypeArg(dtype=DTYPES.get(value, str(value)))
        if value is None or isinstance(value, bool | int | float | str):
            return value
        return str(value)  # a device, a layout, a memory format


def _results(name: str, value: Any, spec: Callable[[str, torch.Tensor], TensorSpec]) -> tuple[TensorSpec, ...]:
    """One spec named like the operation, or "name.0", "name.1" for an operation with several results."""
    if isinstance(value, torch.Tensor):
        return (spec(name, value),)
    if not isinstance(value, list | tuple):
        raise UntraceableError(f"{name} is a number that follows from values")
    return tuple(spec(f"{name}.{i}", part) for i, part in enumerate(value) if isinstance(part, torch.Tensor))


def spec_of(name: str, tensor: torch.Tensor) -> TensorSpec:
    """A tensor's spec. Raises `UntraceableError` for an element type that no kernel is given, and unknown sizes."""
    if tensor.dtype not in DTYPES:
        raise UntraceableError(f"{name} has the unsupported type {tensor.dtype}")
    if not all(isinstance(each, int) for each in (*tensor.shape, *tensor.stride())):
        raise UntraceableError(f"{name} has sizes that follow from values")
    return TensorSpec(name=name, shape=tuple(tensor.shape), strides=tuple(tensor.stride()), dtype=DTYPES[tensor.dtype])


def _spec_between(name: str, tensor: torch.Tensor) -> TensorSpec:
    """As `spec_of`, of what operations hand on."""
    if tensor.dtype not in COMPLEX:
        return spec_of(name, tensor)
    real = spec_of(name, tensor.real)
    return ComplexSpec(name=name, shape=real.shape, strides=tuple(tensor.stride()), dtype=COMPLEX[tensor.dtype])
