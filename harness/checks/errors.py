"""How far an output is from the float64 oracle, beside how far PyTorch's own result is, in the same measure.

An element's error is scaled: |got - oracle| / (|oracle| + scale), the scale being the rms over the output's finite
elements. So elements of cancelled sums are judged by the size of the terms around them, and outputs of any magnitude
alike: a softmax over 400,000 columns is as strict as a matrix product.

Where reference or oracle is infinite or NaN a result must be what either says: the reference overflowed on its way, or
lost a sign with what vanished, and a better formula need not. Where the reference overflowed on its way, a result may
be infinite, NaN or zero as well: an fma overflows elsewhere, and a number over an infinity is zero. Among special
inputs the reference is not always defined: see `Scope`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import torch

from harness.checks.choices import Further
from harness.checks.float8 import FLOAT8, widened
from harness.checks.pattern import pattern_of
from harness.checks.threads import Mapped, side_by_side
from harness.nouns.verdict import FirstBad, OutputError

MULTIPLE = 4.0
"""A candidate may be this many times as far off as the reference: another order of summation, another exp()."""
DEVIATIONS = 3.0
"""Of few elements the largest error is a matter of luck: it counts as this many times their root mean square at least,
which is about the largest of a few hundred."""
FLOOR_EPS = 8.0
"""... plus this many units of the output type's epsilon, for references that happen to be exact."""
_FLOORS = {torch.float16: 1.0, torch.bfloat16: 1.0, torch.float64: 1024.0} | dict.fromkeys(FLOAT8, 1.0)
"""... or this many of these: the next number in 8 bits; two roundings to 16 bits (eight units of bfloat16 are 6 %: a
line in the place of exp() is nearer); in float64 the oracle is the reference, and no more exact than another order of
sums."""
UNDEFINED = 0.05
"""A reference that is this far (scaled) from its own oracle has no result there that anybody could be held to."""

DOUBTFUL = 16.0
"""PyTorch's result further off than so many floors may be on the other side of a step than the oracle's."""

FEW = 1024
"""Outputs of fewer elements say little of how far off PyTorch is on such inputs: see `compare`."""

RMS_OF_A_MEDIAN = 1.4826
"""Standard normal numbers have a median magnitude of 1 over this."""

NEAR_A_SIDE = 0.01
"""Relative to an element, or to its output's scale: whether it is that side's is asked, not how exact it is."""
NEAR_MISS = 32.0
"""An error of at most so many times what is allowed may be allowed by more of PyTorch's results: see `is_near_miss`."""

PIECES = {"cpu": 1 << 17, "cuda": 1 << 24}
"""Elements compared at a time: 1 MiB in float64, which stay in a core's cache; 128 MiB on a GPU, one launch each."""


Scope = Literal["all", "defined", "reduced", "finite"]
"""What is compared: all elements; or those on which reference and oracle agree in kind (NaN, an infinity, finite) and
roughly in size; or the same for reductions, where a NaN may be an infinity instead, and the other way round: a running
mean of inf is NaN, the sum over the count is inf; or those that are finite, for products, where 0 * inf depends on
which terms are left out, and a result may be NaN: sums and differences of blocks, made first, spread it."""


@dataclass(frozen=True)
class Expected:
    """What one output should be: `oracle` by a forward in float64, `reference` as PyTorch has it.

    Without an oracle the reference stands in its place, and `noise` says how far off (scaled) it may be; with one, how
    far PyTorch's results on such inputs are, where that is known of more than this one. `tolerance`:
    errors so many times as large as the reference's own allow are right. `further` is asked where a result seems wrong.
    `reached` says of a result that is finite where the reference is not: where is it wrong for what is not finite
    among the inputs? `shown` is what the output is without what masks multiply by zero, None where there are none.
    """

    name: str
    oracle: torch.Tensor
    reference: torch.Tensor
    scope: Scope = "all"
    noise: float = 0.0
    tolerance: float = 1.0
    further: Callable[[], Further] | None = None
    reached: Callable[[torch.Tensor], torch.Tensor] | None = None
    shown: Callable[[], torch.Tensor | None] | None = None


def compare(got: torch.Tensor, expected: Expected, draws: Sequence[Expected] = ()) -> OutputError:
    """The error of one output; `bad_fraction` above 0 is a wrong output. Shapes and types agree by construction.

    `draws` are what the output should be on other inputs of the same kind. With them the scale, and how far PyTorch's
    own result is off, are those of all draws together: a single sum may cancel, or happen to be exact.
    """
    if got.dtype in FLOAT8:
        wide = replace(expected, oracle=widened(expected.oracle), reference=expected.reference.float())
        wrong = _wrong_exactly(got.float(), wide) & ~_undefined(wide)
        return with_wrong(_error_of_exact(expected.name, wrong), wrong, got.float(), wide)
    if not expected.reference.is_floating_point():
        wrong = _wrong_exactly(got, expected) | no_flags(got)
        return with_wrong(_error_of_exact(expected.name, wrong), wrong, got, expected)
    with side_by_side(got, PIECES["cpu"]) as mapped:
        error = _compare_rounded(got, expected, draws, mapped)
    if error.bad_fraction and (pardoned := _pardoned(got, expected)) is not None:
        return compare(torch.where(pardoned, expected.reference, got), replace(expected, shown=None), draws)
    if error.bad_fraction or expected.reached is None:
        return error
    lost = torch.isfinite(got) & ~torch.isfinite(expected.reference) & ~torch.isfinite(expected.oracle)
    if not lost.any() or not (lost := lost & expected.reached(got)).any():
        return error
    if not (lost := lost & ~_finite_otherwise(got, expected)).any():
        return error
    return with_wrong(error.model_copy(update={"max_scaled": math.inf}), lost, got, expected)


def _finite_otherwise(got: torch.Tensor, expected: Expected) -> torch.Tensor:
    """Which elements another decision makes finite, and as they are: of a window's equals another has the NaN."""
    further = expected.further() if expected.further else Further()
    sides = (*further.others, *(further.explained() if further.explained else ()))
    found = torch.zeros_like(got, dtype=torch.bool)
    for side in map(widened, sides):
        found |= (got.double() - side.double()).abs() <= NEAR_A_SIDE * (side.double().abs() + scale_of(side))
    return found


def no_flags(result: torch.Tensor) -> torch.Tensor:
    """Which elements of a bool tensor hold other bytes than 0 and 1, which compare like True and compute like no bool.

    None of a tensor of another type.
    """
    if result.dtype != torch.bool:
        return torch.zeros_like(result, dtype=torch.bool)
    return result.view(torch.uint8) > 1


def _pardoned(got: torch.Tensor, expected: Expected) -> torch.Tensor | None:
    """Where a result is right without what masks hide, and PyTorch's is a NaN or infinity times zero; None if nowhere.

    PyTorch's own error is known elsewhere alone: what is nearly right by that is right.
    """
    lost = ~torch.isfinite(expected.reference) & ~torch.isfinite(expected.oracle) & ~got.isnan()
    if expected.shown is None or not lost.any() or (shown := expected.shown()) is None:
        return None
    room = NEAR_MISS * allowed(expected, likely_error(expected)) * (shown.abs() + scale_of(shown))
    near = torch.isfinite(shown) & ((got.double() - shown).abs() <= room)
    pardoned = lost & (near | (shown.isinf() & (got == shown)))
    return pardoned if pardoned.any() else None


def floor_of(dtype: torch.dtype) -> float:
    """How far off (scaled) any result may be, beside a reference without an error; exact types are exact."""
    if not dtype.is_floating_point:
        return 0.0
    return _FLOORS.get(dtype, FLOOR_EPS) * torch.finfo(dtype).eps


def scaled_error(
    got: torch.Tensor, reference: torch.Tensor, at: torch.Tensor | None = None, scope: Scope = "all"
) -> float:
    """The largest error of one output against PyTorch's own result, in the measure of `compare`.

    Infinity where one is NaN, or an infinity, and the other is not, as far as that is in scope. With `at` only elements
    with these flat indices are compared.
    """
    whole = reference
    if at is not None:
        got, reference = got.reshape(-1)[at], reference.reshape(-1)[at]
    got, reference, whole = map(widened, (got, reference, whole))
    if not reference.is_floating_point():
        return float((got != reference).any() or no_flags(got).any())
    pieces = () if at is None else _pieces(whole)
    with side_by_side(whole, PIECES["cpu"]) as mapped:
        norms = mapped(_norm, pieces)
        squares = sum(norm * norm for norm in norms)  # by pieces: as a whole it would be copied in float64 first
        ruler = _Ruler(Expected("", reference, reference, scope), mapped)
        if at is not None:  # the whole's scale; where it is not plain to see, as for a whole
            plain = 1e-280 < squares < math.inf
            ruler.scale = math.sqrt(squares / whole.numel()) if plain else _rms([*pieces], mapped)
        return ruler.measure(got)[1].largest


def explained_error(result: torch.Tensor, exact: torch.Tensor) -> float:
    """How far off (scaled) another result may be where PyTorch's is as far off as this one; 0 where that is exact."""
    own = _Ruler(Expected("", exact, result)).measure(result)[0]
    return MULTIPLE * own.likely + floor_of(result.dtype) if own.largest > 0 else 0.0


def own_error(error: OutputError) -> float:
    """PyTorch's largest error, or about what it would be among many elements."""
    largest = error.reference_max_scaled
    return max(largest, DEVIATIONS * min(error.reference_relative_l2, largest))


def likely_error(expected: Expected) -> float:
    """As `own_error`, of what PyTorch's result is off by."""
    return max(expected.noise, _Ruler(expected).measure(expected.reference)[0].likely)


def allowed(expected: Expected, likely: float) -> float:
    """How far off (scaled) a result may be where PyTorch's is likely to be off by so much."""
    return expected.tolerance * (MULTIPLE * max(likely, expected.noise) + floor_of(expected.reference.dtype))


def is_near_miss(error: OutputError, expected: Expected) -> bool:
    """Whether an output is wrong by a number, and by so little that PyTorch's result may be right by chance."""
    return error.bad_fraction > 0 and error.max_scaled <= NEAR_MISS * allowed(expected, own_error(error))


def scale_of(tensor: torch.Tensor) -> float:
    """Root mean square of the finite elements; 1 where they are all zero or there are none."""
    return _rms([*_pieces(tensor)])


def _compare_rounded(got: torch.Tensor, expected: Expected, draws: Sequence[Expected], mapped: Mapped) -> OutputError:
    ruler = _Ruler(expected, mapped)
    if draws:
        together = _together([expected, *draws])
        all_draws = _Ruler(together, mapped)
        ruler.scale = all_draws.scale
        own, (_, theirs) = all_draws.measure(together.reference)[0], ruler.measure(got)
    else:
        own, theirs = ruler.measure(got)
    most = allowed(expected, max([own.likely, *(each.noise for each in draws)]))
    doubtful = theirs.largest > most or own.largest > DOUBTFUL * floor_of(expected.reference.dtype)
    if doubtful and expected.further and ((further := expected.further()).choice or not draws):
        return _compare_further(got, expected, further, ruler)
    error = _error_of(expected, own, theirs, ruler.skipped)
    if theirs.largest <= most:  # a NaN where the reference is finite counts as infinitely far off
        return error
    return with_wrong(error, ruler.wrong(got, most), got, expected)


def _compare_further(got: torch.Tensor, expected: Expected, further: Further, ruler: _Ruler) -> OutputError:
    """The error against whatever is right. So is PyTorch's own: where it took another side, that is no error of it."""
    if further.choice:
        wrong = further.choice.wrong(got, expected.reference, expected.oracle)
        return with_wrong(_error_of_exact(expected.name, wrong), wrong, got, expected)
    error, most, nearest = _beside(got, expected, further.others, ruler)
    doubtful = error.max_scaled > most or error.reference_max_scaled > DOUBTFUL * floor_of(expected.reference.dtype)
    if doubtful and further.explained and (explained := further.explained()):
        error, most, nearest = _beside(got, expected, (*further.others, *explained), ruler)
    if error.max_scaled <= most:
        return error
    return with_wrong(error, nearest.wrong(got, most), got, expected)


def _beside(
    got: torch.Tensor, expected: Expected, others: Sequence[torch.Tensor], ruler: _Ruler
) -> tuple[OutputError, float, _Ruler]:
    """The error against the nearest of several oracles, what is allowed by PyTorch's own, and what measured it."""
    ours, nearest = (ruler.beside(_nearest(result, expected, others)) for result in (expected.reference, got))
    own, theirs = ours.measure(expected.reference)[0], nearest.measure(got)[1]
    return _error_of(expected, own, theirs, nearest.skipped), allowed(expected, own.likely), nearest


def _nearest(result: torch.Tensor, expected: Expected, others: Sequence[torch.Tensor]) -> Expected:
    """With the oracle's elements, or others', whichever are nearest to those of a result."""
    chosen = expected.oracle.double()
    for other in others:
        nearer = (result.double() - other).abs() < (result.double() - chosen).abs()
        nearer |= _same(result.double(), other) & ~_same(result.double(), chosen)  # as infinities and NaN are
        chosen = torch.where(nearer, other.double(), chosen)
    return replace(expected, oracle=chosen)


def _error_of(expected: Expected, own: _Measured, theirs: _Measured, skipped: int) -> OutputError:
    return OutputError(
        output=expected.name,
        relative_l2=theirs.relative_l2,
        max_scaled=theirs.largest,
        reference_relative_l2=own.relative_l2,
        reference_max_scaled=max(own.largest, expected.noise),
        skipped_fraction=skipped / expected.reference.numel(),
    )


def with_wrong(error: OutputError, wrong: torch.Tensor, got: torch.Tensor, expected: Expected) -> OutputError:
    """The error with how much is wrong, where, and in which pattern."""
    bad = int(wrong.sum())
    if not bad:
        return error
    told = {"first_bad": _first_bad(wrong, got, expected), "pattern": pattern_of(wrong, got)}
    return error.model_copy(update={"bad_fraction": bad / wrong.numel(), **told})


def _together(draws: Sequence[Expected]) -> Expected:
    first = draws[0]
    oracles, references = (
        torch.cat([flat.reshape(-1) for flat in each])
        for each in zip(*((draw.oracle, draw.reference) for draw in draws), strict=True)
    )
    return Expected(first.name, oracles, references, first.scope)


@dataclass
class _Measured:
    """One result's error, gathered piece by piece. `largest` is scaled; the squares are not. No error is NaN."""

    scale: float
    largest: float = 0.0
    squares: float = 0.0
    count: int = 0

    def add(self, piece: _Measured) -> None:
        self.squares += piece.squares
        self.count += piece.count
        self.largest = max(self.largest, piece.largest)

    @property
    def relative_l2(self) -> float:
        return math.sqrt(self.squares / self.count) / self.scale

    @property
    def likely(self) -> float:
        """The largest error, or about what it would be among many elements: never above `DEVIATIONS` times itself."""
        return max(self.largest, DEVIATIONS * min(self.relative_l2, self.largest))


class _Ruler:
    """Measures results against one oracle, a piece at a time: temporaries in float64 then stay in the cache.

    `skipped` counts the elements out of scope.
    """

    def __init__(self, expected: Expected, mapped: Mapped = map) -> None:
        self.scope = expected.scope
        self._mapped = mapped
        self._is_own = expected.oracle is expected.reference
        self._pieces = [*zip(_pieces(expected.oracle), _pieces(expected.reference), strict=True)]
        oracles = [oracle for oracle, _ in self._pieces]
        self.scale = _rms(oracles, mapped) if self.scope == "all" else _typical(oracles)
        self.skipped = 0

    def beside(self, expected: Expected) -> _Ruler:
        """One for the same output, by the same scale."""
        other = _Ruler(expected, self._mapped)
        other.scale = self.scale
        return other

    def measure(self, result: torch.Tensor) -> tuple[_Measured, _Measured]:
        """The reference's own error, and the result's."""
        own, theirs = _Measured(self.scale), _Measured(self.scale)
        pairs = zip(self._pieces, _pieces(result), strict=True)
        for ours, candidates, skipped in self._mapped(self._measure_piece, pairs):
            own.add(ours)
            theirs.add(candidates)
            self.skipped += skipped
        return own, theirs

    def _measure_piece(
        self, pair: tuple[tuple[torch.Tensor, torch.Tensor], torch.Tensor]
    ) -> tuple[_Measured, _Measured, int]:
        """As `measure`, of one piece, with the number of its elements that are out of scope."""
        (oracle, reference), piece = pair
        exact = oracle.double()
        weight = exact.abs().add_(self.scale)  # a NaN in it is one in both errors
        results = (piece,) if self._is_own else (reference, piece)  # the reference is off by nothing from itself
        errors = [(result.double() - exact).abs_() for result in results]
        squares, skipped = [*map(_squares, errors)], 0
        if not math.isfinite(sum(squares)) or (not self._is_own and self._is_undefined(errors[0], weight)):
            weight = self._weight(exact)
            skip = self._out_of_scope(exact, reference)
            skipped = int(skip.sum())
            errors = [self._error(result, exact, reference).masked_fill_(skip, 0.0) for result in results]
            squares = [*map(_squares, errors)]
        measured = [
            _Measured(self.scale, float(error.div_(weight).amax()), each, error.numel())
            for error, each in zip(errors, squares, strict=True)
        ]
        own = _Measured(self.scale, count=exact.numel()) if self._is_own else measured[0]
        return own, measured[-1], skipped

    def wrong(self, result: torch.Tensor, most: float) -> torch.Tensor:
        """Which elements are off by more than allowed, in the shape of the result."""
        masks = []
        for (oracle, reference), piece in zip(self._pieces, _pieces(result), strict=True):
            exact = oracle.double()
            scaled = self._error(piece, exact, reference).div_(self._weight(exact))  # as measured, to the last bit
            masks.append(~(scaled <= most) & ~self._out_of_scope(exact, reference))
        return torch.cat(masks).reshape(result.shape)

    def _is_undefined(self, own: torch.Tensor, weight: torch.Tensor) -> bool:
        return self.scope != "all" and bool((own > UNDEFINED * weight).any())

    def _out_of_scope(self, oracle: torch.Tensor, reference: torch.Tensor) -> torch.Tensor:
        if self.scope == "all":
            return torch.zeros_like(oracle, dtype=torch.bool)
        rounded = oracle.to(reference.dtype)
        off = (reference.double() - oracle).abs_() > UNDEFINED * self._weight(oracle)
        finite = torch.isfinite(reference)
        agree = torch.where(finite & torch.isfinite(rounded), ~off, _same(rounded, reference))
        return ~(agree & finite) if self.scope == "finite" else ~agree

    def _error(self, result: torch.Tensor, oracle: torch.Tensor, reference: torch.Tensor) -> torch.Tensor:
        """|result - oracle|; 0 where a result that is not finite, or not expected to be, is right, else infinity."""
        error = (result.double() - oracle).abs_()
        error = torch.where(error.isnan(), math.inf, error)
        special = ~(torch.isfinite(result) & torch.isfinite(reference) & torch.isfinite(oracle))
        right = _same(result, reference) | _same(result.double(), oracle)  # it may vanish where the exact is negative
        right |= self._overflowed(oracle, reference) & (~torch.isfinite(result) | (result == 0))
        if self.scope == "reduced":
            right |= (reference.isnan() & ~torch.isfinite(result)) | (reference.isinf() & result.isnan())
        error = torch.where(special & right, 0.0, error)
        return torch.where(torch.isfinite(result), error, 0.0) if self.scope == "finite" else error

    def _overflowed(self, oracle: torch.Tensor, reference: torch.Tensor) -> torch.Tensor:
        """Where the reference has lost on its way what is in range: it is not finite, or zero over an infinity."""
        off = (reference == 0) & (oracle.abs() > UNDEFINED * self._weight(oracle))
        return (~torch.isfinite(reference) | off) & torch.isfinite(oracle.to(reference.dtype))

    def _weight(self, oracle: torch.Tensor) -> torch.Tensor:
        return oracle.abs().add_(self.scale).nan_to_num_(nan=1.0)


def _squares(error: torch.Tensor) -> float:
    return float(torch.dot(error, error))


def _same(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    return (one == other) | (one.isnan() & other.isnan())


def _norm(piece: torch.Tensor) -> float:
    return float(torch.linalg.vector_norm(piece, dtype=torch.float64))


def _rms(pieces: list[torch.Tensor], mapped: Mapped = map) -> float:
    """Root mean square of the finite elements; 1 where they are all zero or there are none."""
    total = sum(mapped(lambda piece: _squares(piece.double()), pieces))
    if math.isfinite(total) and total > 1e-280:  # well inside float64's range: nothing overflowed, nothing was lost
        return math.sqrt(total / sum(piece.numel() for piece in pieces))
    if total == 0 and not any(float(piece.abs().max()) for piece in pieces):
        return 1.0
    peak, count = 0.0, 0
    for piece in pieces:
        finite = piece[torch.isfinite(piece)]
        count += finite.numel()
        peak = max(peak, float(finite.abs().max())) if finite.numel() else peak
    if not peak:
        return 1.0
    squares = sum(float((piece[torch.isfinite(piece)] / peak).square().sum()) for piece in pieces)
    return peak * math.sqrt(squares / count)


def _typical(pieces: list[torch.Tensor]) -> float:
    """The rms of normal numbers whose median magnitude a sample of the finite elements has: a few extremes do not move
    it, as they do the rms itself."""
    sample = torch.cat([piece[:: max(1, len(pieces))] for piece in pieces]).abs()
    sample = sample[torch.isfinite(sample) & (sample > 0)]
    return RMS_OF_A_MEDIAN * float(sample.median()) if sample.numel() else 1.0


def _pieces(tensor: torch.Tensor) -> tuple[torch.Tensor, ...]:
    flat, size = tensor.reshape(-1), PIECES[tensor.device.type]
    return tuple(flat[start : start + size] for start in range(0, flat.numel(), size))


def _wrong_exactly(got: torch.Tensor, expected: Expected) -> torch.Tensor:
    """Right is what PyTorch says and what the oracle says: near a step rounding has one on either side of it."""
    sides = [expected.reference, expected.oracle]
    wrong = torch.stack([~_same(got, side) for side in sides]).all(0)
    if expected.further is None or not wrong.any():
        return wrong
    further = expected.further()
    if further.choice:
        return further.choice.wrong(got, *sides)
    wrong = torch.stack([wrong, *(~_same(got, widened(side)) for side in further.others)]).all(0)
    if wrong.any() and further.explained:
        wrong &= torch.stack([wrong, *(~_same(got, widened(side)) for side in further.explained())]).all(0)
    return wrong


def _undefined(expected: Expected) -> torch.Tensor:
    """Which elements of an output in 8 bits are out of scope: see `Scope`."""
    if expected.scope == "all":
        return torch.zeros_like(expected.reference, dtype=torch.bool)
    known = torch.isfinite(expected.reference) & torch.isfinite(expected.oracle)
    return ~known if expected.scope == "finite" else ~(known | _same(expected.reference, expected.oracle))


def _error_of_exact(name: str, wrong: torch.Tensor) -> OutputError:
    share = float(wrong.sum()) / wrong.numel()
    most, l2 = float(share > 0), math.sqrt(share)
    return OutputError(output=name, relative_l2=l2, max_scaled=most, reference_relative_l2=0, reference_max_scaled=0)


def _first_bad(wrong: torch.Tensor, got: torch.Tensor, expected: Expected) -> FirstBad:
    """Shows as expected the oracle, or the reference where that is not finite."""
    flat = int(wrong.flatten().to(torch.uint8).argmax())
    index = tuple(int(i) for i in torch.unravel_index(torch.tensor(flat), wrong.shape))
    reference = float(expected.reference[index])
    wanted = float(expected.oracle[index]) if math.isfinite(reference) else reference
    shown = got.view(torch.uint8) if got.dtype == torch.bool else got  # a byte that is no flag is told as it is
    return FirstBad(index=index, expected=wanted, got=float(shown[index]))
