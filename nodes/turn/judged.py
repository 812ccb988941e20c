"""What the judge holds a kernel to, in a prompt's words: its inputs, and where NaN and infinities have to come out."""

from __future__ import annotations

import math
from collections.abc import Mapping

from harness.judging.roofline_bound import floor_ms
from harness.nouns.device_facts import DeviceFacts
from harness.nouns.task import FLOAT8, OpClass, Task
from harness.nouns.verdict import Verdict
from knowledge.topics import functions_of
from nodes.prompt_words import say_sorting

INPUTS: Mapping[str, str] = {
    "given": "the file's own",
    "stirred": "these with stretches negated, shifted or enlarged",
    "wide": "magnitudes from 1e-3 to 1e3",
    "mixed": "stretches of other signs, offsets, ties and zeros",
    "negative": "rows below zero, with ties",
    "offset 1000": "around {offset:g}",
    "offset -100": "around {tenth:g}",
    "outliers": "outliers 200 times as far out",
    "masked": "runs of -infinity, though no line of nothing else",
    "large": "one magnitude up to 1e{decades}",
    "small": "1e-5 among zeros and denormals",
    "subnormal": "denormals among zeros",
    "nothing": "zeros throughout",
    "single NaN": "ordinary numbers with up to three NaN in one line",
    "near one": "factors of either sign near 1",
    "special": "ordinary numbers with a few {special} at random places",
}
"""The families of `harness/checks/families.py`, in the order in which they are told."""

FAMILIES: Mapping[OpClass, frozenset[str]] = {
    "elementwise": frozenset(INPUTS)
    - {"near one", "single NaN", "negative", "offset 1000", "offset -100", "outliers", "masked", "nothing"},
    "reduction": frozenset(INPUTS) - {"near one", "single NaN"},
    "gemm": frozenset(INPUTS) - {"near one", "single NaN", "subnormal", "negative", "offset -100", "masked"},
    "other": frozenset(INPUTS) - {"near one", "subnormal"},
}
OF_PRODUCTS = frozenset({"given", "near one", "special", "stirred"})
"""Where many numbers are multiplied, of whichever class."""

SPECIAL: Mapping[OpClass, str] = {
    "elementwise": "NaN, infinities, -0.0, denormals and largest numbers",
    "reduction": "NaN, infinities, -0.0 and denormals",
    "gemm": "NaN, infinities, -0.0 and denormals",
    "other": "-0.0 and denormals, and one whole line of NaN,",
}
_SPECIAL_OF_PRODUCTS = "NaN, infinities and -0.0"

_DECADES = 0.79
_RANGES = {
    "float16": (65504.0, 2.0**-10), "bfloat16": (3.39e38, 2.0**-7), "float32": (3.4e38, 2.0**-23),
    "float64": (1.79e308, 2.0**-52),
}  # fmt: skip
"""The largest number and the epsilon of each type."""
_FLOORS = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 8 * 2.0**-23}

_IN_FLOAT8 = "in float8 is PyTorch's, or the next where float32 error decides between them"
_SPREADING: Mapping[OpClass, str] = {
    "elementwise": "NaN and infinities come out where PyTorch has them, and nowhere else.",
    "reduction": "Where PyTorch has NaN or an infinity, one may stand for the other, a number for neither.",
    "gemm": "NaN may stand for a number then; a number for NaN or an infinity only where 0 * inf alone makes it: such "
    "terms may be left out (masked keys, triangles).",
    "other": "NaN comes out where PyTorch has it, and nowhere else.",
}


def say_inputs(task: Task) -> str:
    """The kinds of inputs that a kernel for the task is compared on, as a list within a sentence."""
    facts = task.facts
    families = OF_PRODUCTS if facts.multiplies else FAMILIES[task.op_class]
    if task.op_class == "reduction" and not facts.adds:
        families -= {"subnormal"}
    if not facts.windows:
        families -= {"single NaN"}
    if task.direction != "forward":
        families -= {"nothing"}
    special = _SPECIAL_OF_PRODUCTS if facts.multiplies else SPECIAL[task.op_class]
    decades, offset = reach_of(task)
    said = (words for family, words in INPUTS.items() if family in families)
    return "; ".join(said).format(decades=decades, offset=offset, tenth=-offset / 10, special=special)


def reach_of(task: Task) -> tuple[int, float]:
    """How far the inputs go in the task's narrowest floating-point type: whole decades, and the offset."""
    largest, epsilon = min(
        (_RANGES[name] for name in task.signature.dtypes if name in _RANGES), default=_RANGES["float32"]
    )
    decades = _DECADES * math.log10(largest) * (1.0 if task.op_class == "elementwise" else 0.5)
    return int(decades), min(1000.0, 0.25 / epsilon)


def say_exactness(task: Task, tolerance: float) -> str:
    """How far off an element may be, in a sentence; its numbers are those of `harness/checks/errors.py`."""
    narrow = any(spec.dtype in FLOAT8 for spec in task.signature.outputs)
    of_output = [spec.dtype for spec in task.signature.outputs if spec.dtype in _RANGES]
    if not of_output:
        return "Results are equal to PyTorch's" + (f"; {_IN_FLOAT8}." if narrow else ".")
    widest = min(of_output, key=lambda name: _RANGES[name][1])
    floor = 1024 * _RANGES["float64"][1] if widest == "float64" else max(_FLOORS[name] for name in of_output)
    times = f"{tolerance:g} times " if tolerance != 1 else ""
    return (
        f"|result - exact| / (|exact| + rms of the output), exact in float64, is at most {times}4 times what PyTorch's "
        f"own result has of it, plus {floor:.2g}.{f' A number {_IN_FLOAT8}.' if narrow else ''}"
    )


def say_share(task: Task, device: DeviceFacts, verdict: Verdict) -> str:
    """How near a kernel comes to what bounds the task, in a sentence; empty where it was not timed.

    A time under load is no share of what an idle machine does.
    """
    timing = verdict.timing
    if timing is None:
        return ""
    floor = floor_ms(task, device, verdict)
    of = ", of its bytes alone," if say_sorting(task.program) else ""
    if functions := ", ".join(functions_of(task.program)):
        of = of or f", without {functions},"
    said = f"The task's floor here{of} is {floor:.3g} ms"
    if timing.under_load:
        return f"{said}; how much of it is reached a busy machine does not tell."
    return f"{said}: {floor / timing.candidate_ms:.0%} of it is reached."


def say_spreading(task: Task) -> str:
    """What has to come of NaN and infinities among the inputs, in a sentence."""
    return _SPREADING[task.op_class]
