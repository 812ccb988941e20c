"""The outputs in float64, computed after the candidate has run.

Temporaries in float64 of a large tensor cost more time than the arithmetic. A pointwise forward gives the same values a
few rows at a time, whose temporaries stay in the cache: so it is computed by rows, where those agree with what PyTorch
made of the whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache, partial
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from harness.checks.choices import Further
from harness.checks.errors import explained_error, floor_of, scaled_error
from harness.checks.float8 import widened
from harness.checks.threads import one_thread
from harness.nouns.devices import on_gpu
from harness.nouns.errors import UserError
from harness.nouns.task import OpClass
from harness.trusted.gradients import backward_parts
from harness.trusted.noise_estimate import WIDE, distance, estimate_noise
from harness.trusted.reach import tensors_of
from harness.trusted.reference import Reference, Value
from harness.trusted.ties.breaks import TieBreaks
from harness.trusted.ties.fit import fit_ties
from harness.trusted.ties.recorder import MaskRecorder, OpRecorder, choice_of, shifts_of

PIECE = 1 << 17
"""Elements a piece has about: 1 MiB in float64."""
AGREES_EPS = 32.0
"""So many units of the type's last place PyTorch's own result on the whole may be away from the rows'."""
HUGE = 1e30
NEAR = 0.05
"""Beside it in a sum every other number vanishes, in float64, too; its powers are finite up to the tenth."""
UNRELATED = 0.05
"""PyTorch's result further (scaled, rms) from float64's than this, and than `UNRELATED_TIMES` what rounding explains,
is another function's: a forward that asks which type it works in."""
UNRELATED_TIMES = 16.0


class Oracle:
    """A task's model that computes in float64. `absent` says why it last gave nothing; empty where it never did."""

    def __init__(self, reference: Reference, op_class: OpClass) -> None:
        self._reference = reference
        self._model: torch.nn.Module | None = None
        # By rows, threads would share the model that writes its state.
        self._pointwise = op_class == "elementwise" and not on_gpu(reference.place.type) and not reference.state
        self._kept: list[torch.Tensor] = []
        self._types = _float_types(tensors_of(reference.model))
        self.absent = ""

    def run(
        self, inputs: list[Value], weights: dict[str, torch.Tensor], results: Sequence[torch.Tensor]
    ) -> list[torch.Tensor]:
        """The outputs, valid until the next call; empty where the forward cannot compute them in float64.

        `results` are PyTorch's own on the same inputs.
        """
        try:
            model = self._loaded(weights)
            with _float64_by_default():
                found = (self._pointwise and self._rows(model, inputs, results)) or self._whole(model, inputs)
        except (UserError, RuntimeError) as error:
            if isinstance(error, torch.OutOfMemoryError):
                raise
            self.absent = f"in float64, {error}"
            return []
        if why := self._unlike(found, inputs, weights, results):
            self.absent = why
            return []
        return found

    def forget(self) -> None:
        """Give back what is kept between calls."""
        self._kept = []

    def further(
        self, inputs: list[Value], weights: dict[str, torch.Tensor], got: Sequence[torch.Tensor], tolerance: float
    ) -> list[Callable[[], Further]]:
        """For each of the outputs what else is right on these inputs, as they are now; found out when one is asked.

        `got` are the candidate's, where they lie when it is.
        """
        kept: list[Value] = [value.clone() if isinstance(value, torch.Tensor) else value for value in inputs]
        copies = {name: weight.clone() for name, weight in weights.items()}
        found = cache(lambda: self._further(kept, copies, got, tolerance))
        return [partial(lambda position: found()[position], position) for position in range(len(got))]

    def _further(
        self, inputs: list[Value], weights: dict[str, torch.Tensor], got: Sequence[torch.Tensor], tolerance: float
    ) -> list[Further]:
        model = self._reference.replica()
        self._reference.load(model, weights)
        with OpRecorder() as rounded:
            results = self._reference.run(inputs, model)
        try:
            wide = self._loaded(weights)
            with _float64_by_default(), torch.no_grad():
                with OpRecorder() as exact:
                    outputs = self._whole(wide, inputs)
                shifts = shifts_of(exact.steps, rounded.steps, tolerance)
                signs = (1, -1) if any(shift is not None for shift in shifts) else ()
                others = [self._shifted(wide, inputs, shifts, sign) for sign in signs]
        except (UserError, RuntimeError):
            return [Further()] * len(results)
        chosen = [
            choice_of(exact.chosen(o), rounded.chosen(r), tolerance) for o, r in zip(outputs, results, strict=True)
        ]
        theirs = [*map(widened, results)], [*map(widened, got)]
        fitted = cache(lambda: self._fitted(inputs, weights, model, theirs, tolerance))
        return [
            Further(choice, tuple(other[k] for other in others), partial(lambda at: tuple(fitted()[at]), k))
            for k, choice in enumerate(chosen)
        ]

    def _fitted(
        self,
        inputs: list[Value],
        weights: dict[str, torch.Tensor],
        model: torch.nn.Module,
        theirs: Sequence[Sequence[torch.Tensor]],
        tolerance: float,
    ) -> list[list[torch.Tensor]]:
        """For each output its oracles, one for each of several results: see `fit_ties`. None where that fails."""
        tensors = [value for value in inputs if isinstance(value, torch.Tensor)]

        def filled(given: Sequence[torch.Tensor]) -> list[Value]:
            following = iter(given)
            return [next(following) if isinstance(value, torch.Tensor) else value for value in inputs]

        try:
            wide = self._loaded(weights)
            with _float64_by_default():
                ties = TieBreaks(
                    lambda *given: self._whole(wide, filled(given)), [*map(_wide, tensors)],
                    lambda *given: self._reference.run(filled(given), model), tensors, tolerance,
                    backward_parts(),
                )  # fmt: skip
                own = fit_ties(ties, theirs[0])
                errors = map(explained_error, theirs[0], own)
                enough = [tolerance * max(error, floor_of(each.dtype)) for error, each in zip(errors, own, strict=True)]
                found = [own, *(fit_ties(ties, results, enough) for results in theirs[1:])]
        except Exception:  # noqa: BLE001 (a forward that cannot be traced, or differentiated twice, in whatever way)
            return [[] for _ in theirs[0]]
        return [[*oracles] for oracles in zip(*found, strict=True)]

    def reached(
        self, inputs: list[Value], weights: dict[str, torch.Tensor], outputs: int
    ) -> list[Callable[[torch.Tensor], torch.Tensor]]:
        """For each of the outputs, which elements of a result are wrong for inputs that are NaN or infinity.

        An element depends on these inputs if huge numbers of either sign in their place change it. What is multiplied
        by an exact zero does not: a kernel may leave such terms out. Nor is an element wrong that has the limit: what
        the oracle gives with a huge number for each infinity, whichever number stands for NaN. A key whose infinity
        makes a score of -infinity weighs nothing; eager's NaN is then another key's, which the row does not see.
        """
        copies = {name: weight.clone() for name, weight in weights.items()}
        sides = [[_with_huge(value, *signs) for value in inputs] for signs in ((1, 1), (-1, -1), (-1, 1))]
        computed = cache(lambda: self._on_sides(sides, copies))
        return [partial(lambda at, got: _is_wrong(got, *computed()[at]), position) for position in range(outputs)]

    def without_hidden(
        self,
        inputs: list[Value],
        weights: dict[str, torch.Tensor],
        own: tuple[list[Value], dict[str, torch.Tensor]],
        outputs: int,
    ) -> list[Callable[[], torch.Tensor | None]]:
        """For each of the outputs what it is where masks of zeros and ones hide what they multiply by zero.

        What a mask is, the file's `own` inputs and weights show. None where the forward multiplies by none.
        """
        kept: list[Value] = [value.clone() if isinstance(value, torch.Tensor) else value for value in inputs]
        copies = {name: weight.clone() for name, weight in weights.items()}
        computed = cache(lambda: self._without_hidden(kept, copies, *own))
        return [partial(lambda at: found[at] if (found := computed()) else None, at) for at in range(outputs)]

    def _without_hidden(
        self, inputs: list[Value], weights: dict[str, torch.Tensor], pattern: list[Value], own: dict[str, torch.Tensor]
    ) -> list[torch.Tensor]:
        try:
            with _float64_by_default():
                with MaskRecorder() as seen:
                    self._whole(self._loaded(own), pattern)
                if not any(map(any, seen.found)):
                    return []
                with MaskRecorder(seen.found) as hidden:
                    found = self._whole(self._loaded(weights), inputs)
        except (UserError, RuntimeError):
            return []
        return found if len(hidden.found) == len(seen.found) else []

    def _on_sides(self, sides: list[list[Value]], weights: dict[str, torch.Tensor]) -> list[tuple[torch.Tensor, ...]]:
        model = self._loaded(weights)
        with _float64_by_default():
            return [*zip(*(self._whole(model, inputs) for inputs in sides), strict=True)]

    def _shifted(
        self, model: torch.nn.Module, inputs: list[Value], shifts: list[torch.Tensor | None], sign: int
    ) -> list[torch.Tensor]:
        """The outputs with each step's first operand moved by what rounding may have done to it."""
        with OpRecorder([None if shift is None else shift * sign for shift in shifts]):
            return self._whole(model, inputs)

    def _loaded(self, weights: dict[str, torch.Tensor]) -> torch.nn.Module:
        """The model over these weights, made when it is needed first. Raises `UserError`, `RuntimeError`."""
        self._model = self._model or self._reference.double()
        self._reference.load(self._model, {name: _wide(weight) for name, weight in weights.items()})
        return self._model

    def _whole(self, model: torch.nn.Module, inputs: list[Value]) -> list[torch.Tensor]:
        wide = [_wide(value) if isinstance(value, torch.Tensor) else value for value in inputs]
        types = self._types | _float_types(value for value in inputs if isinstance(value, torch.Tensor))
        with _Double(torch.float32 if types == {torch.float32} else torch.float64):
            return [_wide(output) for output in self._reference.run(wide, model)]

    def _rows(self, model: torch.nn.Module, inputs: list[Value], results: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """The outputs, row by row; empty from the first time on that this cannot be done, or gave something else."""
        if self._kept:
            self._compute(model, inputs)
            return self._kept
        self._pointwise = _alike(inputs, results)
        if self._pointwise:
            self._kept = [torch.empty(result.shape, dtype=torch.float64) for result in results]
            try:
                self._compute(model, inputs)
            except (UserError, RuntimeError):  # it asks for the whole shape; a piece of another one does not fit
                self._pointwise = False
            else:
                self._pointwise = all(map(_agree, self._kept, results))
        if not self._pointwise:
            self._kept = []
        return self._kept

    def _compute(self, model: torch.nn.Module, inputs: list[Value]) -> None:
        rows = self._kept[0].shape[0]
        step = max(1, PIECE * rows // self._kept[0].numel())
        parts = [slice(start, start + step) for start in range(0, rows, step)]
        with one_thread() as threads, ThreadPoolExecutor(threads) as pool:
            shares = [parts[first::threads] for first in range(threads)]
            for done in [pool.submit(self._compute_some, model, inputs, share) for share in shares]:
                done.result()

    def _compute_some(self, model: torch.nn.Module, inputs: list[Value], parts: Sequence[slice]) -> None:
        """Some of the rows; each thread has parts of its own, so that none waits for another."""
        for part in parts:
            cut = [value[part] if isinstance(value, torch.Tensor) else value for value in inputs]
            for kept, output in zip(self._kept, self._whole(model, cut), strict=True):
                kept[part] = output

    def _unlike(
        self,
        found: list[torch.Tensor],
        inputs: list[Value],
        weights: dict[str, torch.Tensor],
        results: Sequence[torch.Tensor],
    ) -> str:
        """Why what was computed in float64 is no oracle for these results; empty where it is one."""
        if [output.shape for output in found] != [result.shape for result in results]:
            return "in float64 the outputs have other shapes"
        if all(distance(result, exact) <= UNRELATED for result, exact in zip(results, found, strict=True)):
            return ""
        noise = self.noise(inputs, weights, results)
        for result, exact, likely in zip(results, found, noise, strict=True):
            off = distance(result, exact)
            if off > max(UNRELATED, UNRELATED_TIMES * likely):
                return f"in float64 the forward computes something else: it is {off:.2g} of the result away"
        return ""

    def noise(
        self,
        inputs: list[Value],
        weights: dict[str, torch.Tensor],
        results: Sequence[torch.Tensor],
        *,
        wide: bool = False,
    ) -> list[float]:
        """How far off (scaled) each of PyTorch's results may be, by itself: see `estimate_noise`. `wide`: numbers of 16
        bits are as exact as they are."""
        model = self._reference.replica()
        self._reference.load(model, weights)
        types = {"types": WIDE} if wide else {}
        return estimate_noise(lambda given: self._reference.run(given, model), inputs, results, **types)


@contextmanager
def _float64_by_default() -> Iterator[None]:
    """What a forward makes without naming a type is float64. The setting is the process's, not a thread's."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


_WIDER: dict[Any, Any] = {
    torch.float32: torch.float64, torch.complex64: torch.complex128,
    torch.FloatTensor: torch.DoubleTensor, "torch.FloatTensor": "torch.DoubleTensor",
}  # fmt: skip


def _float_types(tensors: Iterable[torch.Tensor]) -> frozenset[torch.dtype]:
    return frozenset(tensor.dtype for tensor in tensors if tensor.is_floating_point())


class _Double(TorchFunctionMode):
    """Within a forward, float32 by name is float64: a norm that says `x.float()` would have no oracle otherwise.

    Who rounds to a narrower type means it: the value is rounded, and computed with in float64 from there on, as
    weights of that type are. Asked for a tensor's type, float64 says that it is `named`: a forward may go by it.
    """

    def __init__(self, named: torch.dtype) -> None:
        super().__init__()
        self._named = named

    def __torch_function__(
        self, func: Callable[..., Any], types: object, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Called by torch for each function of the forward."""
        if func == _TYPE_OF:
            found = func(*args)
            return self._named if found == torch.float64 else found
        keywords = {name: _doubled(value) for name, value in (kwargs or {}).items()}
        return _widened((torch.Tensor.double if func is torch.Tensor.float else func)(*map(_doubled, args), **keywords))


_TYPE_OF = torch.Tensor.dtype.__get__  # type: ignore[attr-defined]


def _doubled(argument: Any) -> Any:
    return _WIDER.get(argument, argument) if isinstance(argument, torch.dtype | type | str) else argument


def _widened(result: Any) -> Any:
    if isinstance(result, torch.Tensor):
        return result.double() if result.is_floating_point() and result.dtype != torch.float64 else result
    if type(result) in (list, tuple):
        return type(result)(map(_widened, result))
    return result


def _alike(inputs: Sequence[Value], results: Sequence[torch.Tensor]) -> bool:
    """Have all tensors one shape, of several pieces, and the results numbers with a fraction?"""
    shape = results[0].shape
    shapes = {value.shape for value in (*inputs, *results) if isinstance(value, torch.Tensor)}
    floating = all(result.is_floating_point() for result in results)
    return shapes == {shape} and floating and shape.numel() > PIECE and shape[0] > 1


def _agree(rows: torch.Tensor, result: torch.Tensor) -> bool:
    return scaled_error(rows, result) <= AGREES_EPS * torch.finfo(result.dtype).eps


def _with_huge(value: Value, nan: int, infinity: int) -> Value:
    """With `HUGE` of these signs for NaN and infinity. Minus infinity stays, for masks are made of it."""
    if not isinstance(value, torch.Tensor) or not value.is_floating_point():
        return value
    return value.double().nan_to_num(nan=nan * HUGE, posinf=infinity * HUGE, neginf=-torch.inf)


def _is_wrong(got: torch.Tensor, above: torch.Tensor, below: torch.Tensor, limit: torch.Tensor) -> torch.Tensor:
    """Where the signs matter, and `got` is not the limit: the oracle's number with either sign for NaN."""
    matters = torch.isfinite(above) & torch.isfinite(below) & (above != below)
    room = NEAR * (limit.abs() + limit[torch.isfinite(limit)].abs().median().nan_to_num(0.0))
    return matters & ~((above == limit) & ((got.double() - limit).abs() <= room))


def _wide(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.double() if tensor.is_floating_point() else tensor
