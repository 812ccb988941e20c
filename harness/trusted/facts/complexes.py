"""Complex numbers within a forward as pairs of reals: every operation on them as operations on their two parts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import torch

from harness.nouns.aten import ALIASING, of_kinds
from harness.nouns.task import Argument, DType, DTypeArg, Ref, ScalarSpec, TensorSpec, TracedOp

ComplexType = Literal["complex64", "complex128"]
REAL: dict[str, DType] = {"complex64": "float32", "complex128": "float64"}
COMPLEX: dict[torch.dtype, ComplexType] = {torch.complex64: "complex64", torch.complex128: "complex128"}
_LINEAR = of_kinds("reshape", "permute", "expand", "part", "alias", "copy", "rearrange", "gather") | {
    "add", "sub", "neg", "sum", "mean", "cumsum", "where", "zeros_like", "new_zeros", "empty_like",
}  # fmt: skip
_BILINEAR = ("mul", "mm", "bmm", "matmul", "mv", "outer", "einsum")
_SHARING = ALIASING | {"view_as_complex", "view_as_real", "real", "imag", "_conj", "resolve_conj"}


class PairlessError(Exception):
    """An operation on complex numbers that has no form in pairs here; the message names it."""


class ComplexSpec(TensorSpec):
    """A value between operations: no kernel is given one, or returns one."""

    dtype: ComplexType  # type: ignore[assignment]


def in_pairs(ops: Iterable[TracedOp], given: Iterable[TensorSpec | ScalarSpec]) -> tuple[TracedOp, ...]:
    """The operations without complex numbers between them; those that meet none stay as they are.

    `given` are the inputs and parameters. Raises `PairlessError`.
    """
    ops = tuple(ops)
    if not any(isinstance(result, ComplexSpec) for op in ops for result in op.results):
        return ops
    made = _Pairs(given)
    for op in ops:
        made.add(op)
    return tuple(made.ops)


class _Pairs:
    """The operations so far. `parts` are the names of each complex value's two parts."""

    def __init__(self, given: Iterable[TensorSpec | ScalarSpec]) -> None:
        self.ops: list[TracedOp] = []
        self.parts: dict[str, tuple[str, str]] = {}
        self.tensors = {each.name: each for each in given if isinstance(each, TensorSpec)}
        # Of a value that shares another's memory, whose it is; and whose memory was looked at as complex numbers.
        self.roots: dict[str, str] = {}
        self.looked: set[str] = set()

    def add(self, op: TracedOp) -> None:
        """One operation, or what it is of parts. Raises `PairlessError` where it has no such form."""
        name = op.target.split(".")[1] if op.target.startswith("aten.") else ""
        flat = [atom for each in op.args for atom in (each if isinstance(each, tuple) else (each,))]
        named = [each.ref for each in flat if isinstance(each, Ref)]
        met = any(each in self.parts for each in named)
        whole = all(isinstance(each, ComplexSpec) for each in op.results)
        if name in _SHARING and named:
            self.roots |= {each.name: self.roots.get(named[0], named[0]) for each in op.results}
        elif name.endswith("_") and named and self.roots.get(named[0], named[0]) in self.looked:
            raise PairlessError(f"{op.target} on the memory of complex numbers")
        made = getattr(self, f"_on_{name.lstrip('_')}", None)
        if met or any(isinstance(each, ComplexSpec) for each in op.results):
            self.looked |= {self.roots.get(each.name, each.name) for each in op.results}
            if made is not None:
                made(op)
            elif name in _LINEAR and whole:
                self._linear(op)
            elif name in _BILINEAR and whole:
                self._bilinear(op)
            else:
                raise PairlessError(f"{op.target} of complex numbers")
        else:
            self._keep(op)

    def _keep(self, op: TracedOp) -> None:
        self.ops.append(op)
        self.tensors |= {each.name: each for each in op.results}

    def _make(self, target: str, *args: Argument, like: TensorSpec, name: str = "", **kwargs: Argument) -> Ref:
        """A real operation whose result has the shape of `like`."""
        name = name or f"{like.name}.{len(self.ops)}"
        result = _real(like, name)
        self._keep(TracedOp(target=f"aten.{target}", args=args, kwargs=kwargs, results=(result,)))
        return Ref(ref=name)

    def _is(self, op: TracedOp, *parts: Ref, place: int = 0) -> None:
        real, imaginary = parts
        self.parts[op.results[place].name] = real.ref, imaginary.ref
        self.tensors[op.results[place].name] = op.results[place]

    def _pair(self, argument: Argument) -> tuple[Ref, Ref]:
        """A tensor's parts."""
        assert isinstance(argument, Ref)
        if argument.ref not in self.parts:
            return argument, self._nothing(argument)
        one, other = self.parts[argument.ref]
        return Ref(ref=one), Ref(ref=other)

    def _nothing(self, argument: Ref) -> Ref:
        """A real operand's imaginary part."""
        like = self.tensors[argument.ref]
        return self._make("zeros_like.default", argument, like=_real(like, f"{like.name}.i"))

    def _of_part(self, argument: Argument, part: int, numbers: bool) -> Argument:
        """An operand's part; a real one is its own real part. `numbers` are operands, too."""
        if isinstance(argument, tuple) and any(isinstance(each, Ref) for each in argument):
            return tuple(self._of_part(each, part, numbers) for each in argument)  # type: ignore[misc]
        if isinstance(argument, DTypeArg):
            return DTypeArg(dtype=REAL.get(argument.dtype, argument.dtype))
        if isinstance(argument, Ref) and argument.ref in self.parts:
            return Ref(ref=self.parts[argument.ref][part])
        if isinstance(argument, Ref) and part and self.tensors[argument.ref].dtype.startswith("float"):
            return self._nothing(argument)
        if numbers and (number := _complex_number(argument)) is not None:
            return number.imag if part else number.real
        number = numbers and isinstance(argument, int | float) and not isinstance(argument, bool)
        return 0 if number and part else argument

    def _linear(self, op: TracedOp) -> None:
        """The same operation on both parts."""
        numbers = op.target.split(".")[1] in ("add", "sub")
        made = []
        for part in (0, 1):
            args = tuple(self._of_part(each, part, numbers) for each in op.args)
            kwargs = {name: self._of_part(each, part, False) for name, each in op.kwargs.items()}
            results = tuple(_real(each, f"{each.name}.{'ri'[part]}") for each in op.results)
            self._keep(TracedOp(target=op.target, args=args, kwargs=kwargs, results=results))
            made.append([Ref(ref=each.name) for each in results])
        for place, (one, other) in enumerate(zip(*made, strict=True)):
            self._is(op, one, other, place=place)

    def _bilinear(self, op: TracedOp) -> None:
        """(a + bi)(c + di) for whatever multiplies two operands."""
        listed = op.args[1] if op.target.split(".")[1] == "einsum" else op.args[:2]
        assert isinstance(listed, tuple)
        (like,) = op.results

        def product(one: Argument, other: Argument) -> Ref:
            both = (one, other)
            args = (op.args[0], both, *op.args[2:]) if listed is not op.args[:2] and op.args[1] is listed else both
            return self._make(op.target.removeprefix("aten."), *args, like=like)  # type: ignore[arg-type]

        if len(listed) != 2:
            raise PairlessError(f"{op.target} of {len(listed)} operands, complex ones among them,")
        (a, b), (c, d) = map(self._factor, listed)
        if b is None and d is None:
            raise PairlessError(f"{op.target} of complex numbers")
        if b is None or d is None:
            self._is(op, product(a, c), product(a, d) if b is None else product(b, c))
            return
        real = self._make("sub.Tensor", product(a, c), product(b, d), like=like)
        self._is(op, real, self._make("add.Tensor", product(a, d), product(b, c), like=like))

    def _factor(self, argument: Argument) -> tuple[Argument, Argument | None]:
        """An operand's parts; None for the second of a real one."""
        number = _complex_number(argument)
        if number is not None:
            return number.real, number.imag
        known = isinstance(argument, Ref) and argument.ref in self.parts
        return self._pair(argument) if known else (argument, None)

    def _on_div(self, op: TracedOp) -> None:
        """By a real number, or (a + bi)(c - di) / (c^2 + d^2)."""
        (like,), (one, other) = op.results, op.args[:2]
        if not isinstance(one, Ref) or _complex_number(other) is not None:
            raise PairlessError(f"{op.target} of a number and complex numbers")
        a, b = self._pair(one)
        if not isinstance(other, Ref) or other.ref not in self.parts:
            self._is(op, *(self._make("div.Tensor", each, other, like=like) for each in (a, b)))
            return
        c, d = self._pair(other)

        def mul(left: Ref, right: Ref) -> Ref:
            return self._make("mul.Tensor", left, right, like=like)

        def add(left: Ref, right: Ref) -> Ref:
            return self._make("add.Tensor", left, right, like=like)

        size = add(mul(c, c), mul(d, d))
        turned = self._make("sub.Tensor", mul(b, c), mul(a, d), like=like)
        self._is(op, self._make("div.Tensor", add(mul(a, c), mul(b, d)), size, like=like),
                 self._make("div.Tensor", turned, size, like=like))  # fmt: skip

    def _on_to_copy(self, op: TracedOp) -> None:
        """From real numbers; between complex types it is linear."""
        (argument, *_), (like,) = op.args, op.results
        assert isinstance(argument, Ref)
        if argument.ref in self.parts and isinstance(like, ComplexSpec):
            self._linear(op)
        elif argument.ref in self.parts:
            raise PairlessError(f"{op.target} of complex numbers to real ones")
        else:
            real = self._make("to.dtype", argument, DTypeArg(dtype=REAL[like.dtype]), like=like)
            self._is(op, real, self._nothing(real))

    _on_to = _on_to_copy

    def _on_view_as_complex(self, op: TracedOp) -> None:
        like = op.results[0]
        self._is(op, *(self._make("select.int", op.args[0], -1, part, like=like) for part in (0, 1)))

    def _on_view_as_real(self, op: TracedOp) -> None:
        pair = self._pair(op.args[0])
        self._make("stack.default", pair, -1, like=op.results[0], name=op.results[0].name)

    def _on_real(self, op: TracedOp) -> None:
        self._make("alias.default", self._pair(op.args[0])[0], like=op.results[0], name=op.results[0].name)

    def _on_imag(self, op: TracedOp) -> None:
        self._make("alias.default", self._pair(op.args[0])[1], like=op.results[0], name=op.results[0].name)

    def _on_abs(self, op: TracedOp) -> None:
        self._make("hypot.default", *self._pair(op.args[0]), like=op.results[0], name=op.results[0].name)

    def _on_angle(self, op: TracedOp) -> None:
        one, other = self._pair(op.args[0])
        self._make("atan2.default", other, one, like=op.results[0], name=op.results[0].name)

    def _on_conj(self, op: TracedOp) -> None:
        one, other = self._pair(op.args[0])
        self._is(op, one, self._make("neg.default", other, like=op.results[0]))

    _on_conj_physical = _on_conj

    def _on_resolve_conj(self, op: TracedOp) -> None:
        self._is(op, *self._pair(op.args[0]))

    def _on_complex(self, op: TracedOp) -> None:
        one, other = op.args[:2]
        assert isinstance(one, Ref) and isinstance(other, Ref)
        shape = op.results[0]
        self._is(op, *(self._make("expand.default", each, shape.shape, like=shape) for each in (one, other)))

    def _on_polar(self, op: TracedOp) -> None:
        size, angle = op.args[:2]
        (like,) = op.results
        turns = (self._make(f"{name}.default", angle, like=self.tensors[angle.ref]) for name in ("cos", "sin"))  # type: ignore[union-attr]
        self._is(op, *(self._make("mul.Tensor", size, each, like=like) for each in turns))

    def _on_exp(self, op: TracedOp) -> None:
        one, other = self._pair(op.args[0])
        (like,) = op.results
        size = self._make("exp.default", one, like=like)
        turns = (self._make(f"{name}.default", other, like=like) for name in ("cos", "sin"))
        self._is(op, *(self._make("mul.Tensor", size, each, like=like) for each in turns))


def _complex_number(argument: Argument) -> complex | None:
    """One among the arguments, which a trace spells as text."""
    try:
        return complex(argument) if isinstance(argument, str) and argument.endswith(("j", "j)")) else None
    except ValueError:
        return None


def _real(like: TensorSpec, name: str) -> TensorSpec:
    """A value of the same shape, whose elements are the parts' where they were complex."""
    dtype: DType = REAL.get(like.dtype, like.dtype)
    return TensorSpec(name=name, shape=like.shape, strides=like.strides, dtype=dtype)
