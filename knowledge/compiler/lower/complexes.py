"""Complex numbers within a forward as pairs of reals: every operation on them as operations on their two parts."""

from __future__ import annotations

from collections.abc import Callable

from harness.nouns.aten import of_kinds
from knowledge.compiler.ir.expressions import Node, UnwritableError
from knowledge.compiler.problem import Argument, DTypeArg, Op, Problem, Ref, Tensor

REAL = {"complex64": "float32", "complex128": "float64"}
NAMES = (
    "view_as_complex", "view_as_real", "real", "imag", "_conj", "conj_physical", "resolve_conj", "polar", "complex",
    "angle",
)  # fmt: skip
_LINEAR = of_kinds("reshape", "permute", "expand", "part", "alias", "copy", "rearrange", "gather") | {
    "add", "sub", "neg", "sum", "mean", "cumsum", "where", "zeros_like", "new_zeros", "empty_like",
}  # fmt: skip
_BILINEAR = ("mul", "mm", "bmm", "matmul", "mv", "outer", "einsum")


def _declined(_: object, op: Op) -> Node:
    raise UnwritableError(f"{op.target} of a complex argument")


COMPLEX: dict[str, Callable[[object, Op], Node]] = dict.fromkeys(NAMES, _declined)
"""What is left of them meets no pairs."""


def in_pairs(problem: Problem) -> Problem:
    """The problem without complex numbers between its operations; as it is where there are none."""
    if not any(result.dtype in REAL for op in problem.ops for result in op.results):
        return problem
    made = _Pairs(problem)
    for op in problem.ops:
        made.add(op)
    return problem.model_copy(update={"ops": tuple(made.ops)})


class _Pairs:
    """The operations so far. `parts` are the names of each complex value's two parts."""

    def __init__(self, problem: Problem) -> None:
        self.ops: list[Op] = []
        self.parts: dict[str, tuple[str, str]] = {}
        given = (each for each in (*problem.inputs, *problem.parameters) if isinstance(each, Tensor))
        self.tensors = {each.name: each for each in given}

    def add(self, op: Op) -> None:
        """One operation, or what it is of parts. What has no such form stays, and is declined by name."""
        name = op.target.split(".")[1] if op.target.startswith("aten.") else ""
        flat = [atom for each in op.args for atom in (each if isinstance(each, tuple) else (each,))]
        met = any(isinstance(each, Ref) and each.ref in self.parts for each in flat)
        made = getattr(self, f"_on_{name.strip('_')}", None)
        if not met and not any(each.dtype in REAL for each in op.results):
            self._keep(op)
        elif made is not None:
            made(op)
        elif name in _LINEAR and met:
            self._linear(op)
        elif name in _BILINEAR and met:
            self._bilinear(op)
        else:
            self._keep(op)

    def _keep(self, op: Op) -> None:
        self.ops.append(op)
        self.tensors |= {each.name: each for each in op.results}

    def _make(self, target: str, *args: Argument, like: Tensor, name: str = "", **kwargs: Argument) -> Ref:
        """A real operation whose result has the shape of `like`."""
        name = name or f"{like.name} {len(self.ops)}"
        result = like.model_copy(update={"name": name, "dtype": REAL.get(like.dtype, like.dtype)})
        self._keep(Op(target=f"aten.{target}", args=args, kwargs=kwargs, results=(result,)))
        return Ref(ref=name)

    def _is(self, op: Op, real: Ref, imaginary: Ref, place: int = 0) -> None:
        self.parts[op.results[place].name] = real.ref, imaginary.ref
        self.tensors[op.results[place].name] = op.results[place]

    def _pair(self, argument: Argument) -> tuple[Ref, Ref]:
        if not isinstance(argument, Ref) or argument.ref not in self.parts:
            raise UnwritableError("a complex argument")
        one, other = self.parts[argument.ref]
        return Ref(ref=one), Ref(ref=other)

    def _of_part(self, argument: Argument, part: int, numbers: bool) -> Argument:
        """An operand's part; a real one is its own real part. `numbers` are operands, too."""
        if isinstance(argument, tuple) and any(isinstance(each, Ref) for each in argument):
            return tuple(self._of_part(each, part, numbers) for each in argument)  # type: ignore[misc]
        if isinstance(argument, DTypeArg):
            return DTypeArg(dtype=REAL.get(argument.dtype, argument.dtype))
        if isinstance(argument, Ref) and argument.ref in self.parts:
            return Ref(ref=self.parts[argument.ref][part])
        if isinstance(argument, Ref) and part and self.tensors[argument.ref].dtype.startswith("float"):
            return self._make("zeros_like.default", argument, like=self.tensors[argument.ref].model_copy(
                update={"name": f"{argument.ref} imaginary"}))  # fmt: skip
        number = numbers and isinstance(argument, int | float) and not isinstance(argument, bool)
        return 0 if number and part else argument

    def _linear(self, op: Op) -> None:
        """The same operation on both parts."""
        numbers = op.target.split(".")[1] in ("add", "sub")
        made = []
        for part in (0, 1):
            args = tuple(self._of_part(each, part, numbers) for each in op.args)
            kwargs = {name: self._of_part(each, part, False) for name, each in op.kwargs.items()}
            results = tuple(each.model_copy(update={"name": f"{each.name} {'ri'[part]}", "dtype": REAL[each.dtype]})
                            for each in op.results)  # fmt: skip
            self._keep(Op(target=op.target, args=args, kwargs=kwargs, results=results))
            made.append([Ref(ref=each.name) for each in results])
        for place, (one, other) in enumerate(zip(*made, strict=True)):
            self._is(op, one, other, place)

    def _bilinear(self, op: Op) -> None:
        """(a + bi)(c + di) for whatever multiplies two operands."""
        listed = op.args[1] if op.target.split(".")[1] == "einsum" else op.args[:2]
        assert isinstance(listed, tuple)
        (like,) = op.results

        def product(one: Argument, other: Argument) -> Ref:
            both = (one, other)
            args = (op.args[0], both, *op.args[2:]) if listed is not op.args[:2] and op.args[1] is listed else both
            return self._make(op.target.removeprefix("aten."), *args, like=like)  # type: ignore[arg-type]

        if len(listed) != 2:
            raise UnwritableError(f"{op.target} of complex numbers")
        one, other = listed
        is_pair = [isinstance(each, Ref) and each.ref in self.parts for each in listed]
        if all(is_pair):
            (a, b), (c, d) = self._pair(one), self._pair(other)
            real = self._make("sub.Tensor", product(a, c), product(b, d), like=like)
            self._is(op, real, self._make("add.Tensor", product(a, d), product(b, c), like=like))
        elif is_pair[0]:
            a, b = self._pair(one)
            self._is(op, product(a, other), product(b, other))
        else:
            c, d = self._pair(other)
            self._is(op, product(one, c), product(one, d))

    def _on_div(self, op: Op) -> None:
        """By a real number, or (a + bi)(c - di) / (c^2 + d^2)."""
        (like,), (one, other) = op.results, op.args[:2]
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

    def _on_view_as_complex(self, op: Op) -> None:
        like = op.results[0]
        self._is(op, *(self._make("select.int", op.args[0], -1, part, like=like) for part in (0, 1)))

    def _on_view_as_real(self, op: Op) -> None:
        pair = self._pair(op.args[0])
        self._make("stack.default", pair, -1, like=op.results[0], name=op.results[0].name)

    def _on_real(self, op: Op) -> None:
        self._make("alias.default", self._pair(op.args[0])[0], like=op.results[0], name=op.results[0].name)

    def _on_imag(self, op: Op) -> None:
        self._make("alias.default", self._pair(op.args[0])[1], like=op.results[0], name=op.results[0].name)

    def _on_abs(self, op: Op) -> None:
        self._make("hypot.default", *self._pair(op.args[0]), like=op.results[0], name=op.results[0].name)

    def _on_angle(self, op: Op) -> None:
        one, other = self._pair(op.args[0])
        self._make("atan2.default", other, one, like=op.results[0], name=op.results[0].name)

    def _on_conj(self, op: Op) -> None:
        one, other = self._pair(op.args[0])
        self._is(op, one, self._make("neg.default", other, like=op.results[0]))

    _on_conj_physical = _on_conj

    def _on_resolve_conj(self, op: Op) -> None:
        self._is(op, *self._pair(op.args[0]))

    def _on_complex(self, op: Op) -> None:
        one, other = op.args[:2]
        assert isinstance(one, Ref) and isinstance(other, Ref)
        shape = op.results[0]
        self._is(op, *(self._make("expand.default", each, shape.shape, like=shape) for each in (one, other)))

    def _on_polar(self, op: Op) -> None:
        size, angle = op.args[:2]
        (like,) = op.results
        turns = (self._make(f"{name}.default", angle, like=self.tensors[angle.ref]) for name in ("cos", "sin"))  # type: ignore[union-attr]
        self._is(op, *(self._make("mul.Tensor", size, each, like=like) for each in turns))

    def _on_exp(self, op: Op) -> None:
        one, other = self._pair(op.args[0])
        (like,) = op.results
        size = self._make("exp.default", one, like=like)
        turns = (self._make(f"{name}.default", other, like=like) for name in ("cos", "sin"))
        self._is(op, *(self._make("mul.Tensor", size, each, like=like) for each in turns))
