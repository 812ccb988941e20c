"""Families of numbers, as data: what a kernel that is tuned to the file's own samples would get wrong.

A block of each is drawn in float32; `harness/checks/distributions.py` repeats it over a tensor.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch

from harness.nouns.task import OpClass

MILDER = 2
DECADES = 0.79
"""The largest magnitudes are the type's largest to this power: 1e30 in float32, where 6 x is no overflow."""


@dataclass(frozen=True)
class Reach:
    """How far a family goes: magnitudes up to 10**`decades`, offsets up to `offset`; products have `terms` factors.

    Below `normal` the type holds fewer digits.
    """

    decades: float
    offset: float
    terms: int
    mild: int = 0
    normal: float = 2.0**-126

    @classmethod
    def of(cls, given: torch.Tensor, op_class: OpClass, mild: int) -> Reach:
        """Sums of squares must not overflow in another order of summation: they have half of the type's exponents.

        An offset leaves the type some digits of what varies beside it: 1000 in float32, 32 in bfloat16.
        """
        facts = torch.finfo(given.dtype)
        decades = DECADES * math.log10(facts.max) * (1.0 if op_class == "elementwise" else 0.5) / 2**mild
        offset = min(1000.0, 0.25 / facts.eps)
        terms = max(given.shape, default=1) if mild == 0 else given.numel()
        return cls(decades, offset if mild == 0 else math.sqrt(offset), max(1, terms), mild, facts.smallest_normal)


Block = Callable[[int, torch.Generator, Reach], torch.Tensor]


def uniform_block(count: int, generator: torch.Generator) -> torch.Tensor:
    """Uniform numbers of [0, 1)."""
    return torch.rand(count, generator=generator, device=generator.device, dtype=torch.float32)


def _signs(count: int, generator: torch.Generator) -> torch.Tensor:
    return uniform_block(count, generator).sub_(0.5).sign_()


def normal_block(count: int, generator: torch.Generator, reach: Reach | None = None) -> torch.Tensor:
    """Standard normal numbers."""
    return torch.randn(count, generator=generator, device=generator.device, dtype=torch.float32)


def _wide(count: int, generator: torch.Generator, reach: Reach) -> torch.Tensor:
    """Signed, magnitudes log-uniform over 1e-3..1e3: every branch of an activation, every exponent in between.

    Signs by chance: were every second one negative, the lanes of an honest sum would hold numbers of one sign each and
    cancel at the very end.
    """
    signed = uniform_block(count, generator).mul_(2).sub_(1)
    return signed.abs().mul_(6 * math.log(10)).sub_(3 * math.log(10)).exp_().copysign_(signed)


def _negative(count: int, generator: torch.Generator, reach: Reach) -> torch.Tensor:
    """Below zero throughout, with ties among the largest in half of the segments; nearer to zero at the start.

    So the largest of each row is another one, however many of them tie. Only the largest do: a sum of many equal
    numbers in one float32 rounds each time in the same direction, which says nothing of kernels on ordinary numbers.
    """
    values = uniform_block(count, generator).mul_(-3.5).sub_(0.5)
    tied = _segment_numbers(count, generator).remainder_(2).bool()
    slope = torch.arange(count, device=generator.device).mul_(64).div_(count, rounding_mode="floor").div(64.0).add_(1)
    return torch.where(tied & (values > -0.75), -0.5, values).mul_(slope)


def _thousand(count: int, generator: torch.Generator, reach: Reach) -> torch.Tensor:
    return normal_block(count, generator).add_(reach.offset)


def _hundred(count: int, generator: torch.Generator, reach: Reach) -> torch.Tensor:
    return normal_block(count, generator).sub_(reach.offset / 10)


def _outliers(count: int, generator: torch.Generator, reach: Reach) -> torch.Tensor:
    """Normal numbers, some of them 20 to 200 times as far out: 1 % in one third, 0.1 % in the next, one in the last."""
    values, far = normal_block(count, generator), uniform_block(count, generator)
    share = torch.full_like(far, 1e-2)
    share[count // 3 :] = 1e-3
    share[2 * count // 3 :] = 0.0
    far.sub_(share)[count - 1 - below(count // 3, generator)] = -1.0
    return values.mul_(torch.where(far < 0, uniform_block(count, generator).mul_(180).add_(20), 1.0))


def _masked(count: int, generator: torch.Generator, reach: Reach) -> torch.Tensor:
    """Runs of an infinity, as masks leave them: among normal numbers in one half, among huge ones in the other.

    -infinity, where the reference is not finite with it +infinity: maxima and minima have either of them.
    """
    sign = -1.0 if reach.mild == 0 else 1.0
    values = normal_block(count, generator)
    half = values[count // 2 :]
    half.abs_().add_(0.5).mul_(sign * 10**reach.decades)
    hidden = _segment_numbers(count, generator).remainder_(3).eq_(0).bool()
    return values.masked_fill_(hidden, sign * math.inf)


def _large(count: int, generator: torch.Generator, reach: Reach) -> torch.Tensor:
    """One magnitude throughout, from 1e3, where "wide" ends, to as far as the family reaches."""
    low = min(3.0, reach.decades / 2)
    decades = low + (reach.decades - low) * float(uniform_block(1, generator))
    return normal_block(count, generator).mul_(10**decades)


def _small(count: int, generator: torch.Generator, reach: Reach) -> torch.Tensor:
    """Stretches of 1e-5, of zeros, and of what float32 holds with fewer digits only."""
    values = normal_block(count, generator).mul_(1e-5)
    stretch = max(1, count // 16)
    first = below(6, generator) * stretch
    values[first : first + 3 * stretch] = 0.0
    values[first + 5 * stretch : first + 6 * stretch].mul_(1e-35)
    return values


def _subnormal(count: int, generator: torch.Generator, reach: Reach) -> torch.Tensor:
    """Stretches of numbers that the type holds with fewer digits, a quarter of all, among zeros. In float64.

    All within a third: one that is taken for zero is off by half of what such outputs are; a sum that misses them is
    off as a whole. With larger ones beside them none would be told from zero; and arithmetic on them may be slow.
    """
    values = uniform_block(count, generator).double().mul_(0.65).add_(0.3).mul_(reach.normal)
    values.mul_(_signs(count, generator))
    hidden = _segment_numbers(count, generator).remainder_(4).ge_(1).bool()
    return values.masked_fill_(hidden & ~hidden.all(), 0.0)


def _nothing(count: int, generator: torch.Generator, reach: Reach) -> torch.Tensor:
    """Zeros throughout, as a silent recording, a blank picture or a state before the first step."""
    return torch.zeros(count, device=generator.device)


def near_one(count: int, generator: torch.Generator, reach: Reach) -> torch.Tensor:
    """Factors of either sign whose product over `terms` of them neither overflows nor vanishes: within e**6 about."""
    return normal_block(count, generator).mul_(2 / math.sqrt(reach.terms)).exp_().mul_(_signs(count, generator))


_SCALE, _OFFSET, _FOLD, _STEP = range(4)
SEGMENTS = torch.tensor([
    [1.0, 0.0, 0.0, 0.0],    # normal
    [1.0, -0.5, -1.0, 0.0],  # below zero
    [1.0, 0.5, 1.0, 0.0],    # above zero
    [1.0, 0.0, 0.0, 2.0],    # ties: halves
    [0.01, 3.0, 0.0, 0.0],   # close together, away from zero
    [0.01, -3.0, 0.0, 0.0],
    [8.0, 0.0, 0.0, 0.0],    # far out
    [0.0, 0.0, 0.0, 0.0],
])  # fmt: skip
"""Of a mix: scale, offset, sign that all have (0: either), steps of a unit (0: none). Of similar magnitude, so that the
scale of an output's errors, which is that of all its elements, hides none of them."""


def _mixed(count: int, generator: torch.Generator, reach: Reach) -> torch.Tensor:
    """A family to each segment: no sample of a row tells how the rest of it looks."""
    chosen = SEGMENTS.to(generator.device)[_segment_numbers(count, generator).remainder_(len(SEGMENTS)).long()]
    values, fold = normal_block(count, generator).mul_(chosen[:, _SCALE]), chosen[:, _FOLD]
    values = torch.where(fold != 0, values.abs().mul_(fold), values).add_(chosen[:, _OFFSET])
    step = chosen[:, _STEP]
    return torch.where(step > 0, values.mul(step).round_().div_(step.clamp(min=1)), values)


def _segment_numbers(count: int, generator: torch.Generator) -> torch.Tensor:
    """For each element the number of its segment, as float32; lengths and places by chance, a mean of 10 to 1000.

    The numbers are by chance as well, so that neighbours in a short tensor may be of any two families.
    """
    cuts = max(1, min(count // 8, int(count / 10 ** (1 + 2 * float(uniform_block(1, generator))))))
    marks = torch.zeros(count, device=generator.device, dtype=torch.long)
    marks[torch.randint(count, (cuts,), generator=generator, device=generator.device)] = 1
    names = torch.randint(1 << 20, (cuts + 1,), generator=generator, device=generator.device)
    return names[marks.cumsum_(0)].float()


def below(limit: int, generator: torch.Generator) -> int:
    """A whole number of [0, limit), 0 where there is none."""
    return int(torch.randint(max(1, limit), (1,), generator=generator, device=generator.device))


SPECIAL, STIRRED, MASKED, SUBNORMAL, SINGLE = "special", "stirred", "masked", "subnormal", "single special"
NOTHING, SHARED = "nothing", "shared"


@dataclass(frozen=True)
class Family:
    """What the floating-point inputs of a trial are, and what is asked of results on them.

    They are drawn as a `block`, or else as the file gives them: with `stirs` as timed calls find them, with `puts`
    among single values, some of which are not finite. `gradient` is what a backward finds for each output's element.
    `far`: some weights are much larger beside them. `even`: they are such only where all elements are. `mildest`: how
    often they are drawn again, each time milder, where the reference has no results on them. `empties`: results that
    are all alike say something as well. `sized`: small results are held to their own size. `shares`: inputs that one
    tensor may be given for are that one tensor.
    """

    block: Block | None = None
    stirs: bool = False
    puts: bool = False
    gradient: float | None = None
    far: bool = False
    even: bool = False
    mildest: int = MILDER
    empties: bool = False
    sized: bool = True
    shares: bool = False


FAMILIES: dict[str, Family] = {
    "given": Family(mildest=0), STIRRED: Family(stirs=True, mildest=0),
    SPECIAL: Family(stirs=True, puts=True, sized=False), SINGLE: Family(stirs=True, puts=True, sized=False, mildest=0),
    "normal": Family(normal_block), "mixed": Family(_mixed, far=True), "wide": Family(_wide, far=True),
    "negative": Family(_negative), "offset 1000": Family(_thousand, even=True),
    "offset -100": Family(_hundred, even=True), "outliers": Family(_outliers), MASKED: Family(_masked, sized=False),
    "large": Family(_large), "small": Family(_small), "near one": Family(near_one),
    SUBNORMAL: Family(_subnormal, mildest=1, empties=True, sized=False),  # in the file's range nothing would be one
    NOTHING: Family(_nothing, mildest=0, empties=True),
    SHARED: Family(normal_block, mildest=MILDER, empties=True, sized=False, shares=True),
    "even gradients": Family(gradient=1.0), "zero gradients": Family(gradient=0.0, empties=True),
}  # fmt: skip
_SUMMED = ("given", "wide", "mixed", SPECIAL, "negative", "offset 1000", "offset -100", "outliers", MASKED)
PLANS: dict[OpClass, tuple[str, ...]] = {
    "elementwise": ("given", "wide", "mixed", SPECIAL, "large", "small", SUBNORMAL, SHARED, SINGLE, STIRRED),
    "reduction": (*_SUMMED, "large", "small", SUBNORMAL, NOTHING, SHARED, STIRRED),
    "gemm": ("given", "wide", "mixed", SPECIAL, "offset 1000", "outliers", "large", "small", NOTHING, SHARED, STIRRED),
    "other": (*_SUMMED, "large", "small", SINGLE, NOTHING, SHARED, STIRRED),
}
"""The trials of one verdict by the kind of operation, the cheapest refutations of a wrong kernel first; the file's own
values twice, first as they are and last as they are timed."""
MULTIPLIED = ("given", "near one", SPECIAL, STIRRED)
"""Of operations that multiply many numbers: elsewhere it depends on their order whether those overflow on the way."""


def plan_of(op_class: OpClass, *, multiplies: bool, backward: bool = False) -> tuple[str, ...]:
    """The families of one verdict's trials, in their order."""
    plan = MULTIPLIED if multiplies else PLANS[op_class]
    gradients = (name for name, family in FAMILIES.items() if family.gradient is not None)
    return (*plan[:-1], *gradients, plan[-1]) if backward else plan
