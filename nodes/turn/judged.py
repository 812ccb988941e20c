"""What the judge holds a kernel to, in a prompt's words: its inputs, and where NaN and infinities have to come out."""

from __future__ import annotations

import math
from collections.abc import Mapping

from harness.judging.roofline_bound import floor_ms
from harness.nouns.aten import of_kinds
from harness.nouns.caller import CALLERS
from harness.nouns.candidate import TargetName
from harness.nouns.device_facts import DeviceFacts
from harness.nouns.devices import on_gpu
from harness.nouns.task import FLOAT8, WHOLE, OpClass, Task, TensorSpec
from harness.nouns.verdict import Precision, Verdict
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
    "masked": "runs of -infinity, whole lines too",
    "large": "one magnitude up to 1e{decades}",
    "small": "1e-5 among zeros and denormals",
    "subnormal": "denormals among zeros",
    "nothing": "zeros throughout",
    "shared": "one tensor, or equal rows, for several inputs",
    "single special": "ordinary numbers with up to three {single} in one line",
    "near one": "factors of either sign near 1",
    "special": "ordinary numbers with a few {special} at random places",
}
"""The families of `harness/checks/families.py`, in the order in which they are told."""

FAMILIES: Mapping[OpClass, frozenset[str]] = {
    "elementwise": frozenset(INPUTS)
    - {"near one", "negative", "offset 1000", "offset -100", "outliers", "masked", "nothing"},
    "reduction": frozenset(INPUTS) - {"near one", "single special"},
    "gemm": frozenset(INPUTS) - {"near one", "single special", "subnormal", "negative", "offset -100", "masked"},
    "other": frozenset(INPUTS) - {"near one", "subnormal"},
}
OF_PRODUCTS = frozenset({"given", "near one", "special", "stirred"})
"""Where many numbers are multiplied, of whichever class."""

SPECIAL: Mapping[OpClass, str] = {
    "elementwise": "NaN, infinities, -0.0, denormals, halves and largest numbers",
    "reduction": "NaN, infinities, -0.0 and denormals",
    "gemm": "NaN, infinities, -0.0 and denormals",
    "other": "-0.0 and denormals, and one whole line of NaN,",
}
_SPECIAL_OF_PRODUCTS = "NaN, infinities and -0.0"

_INTEGERS = (
    "Integers vary as far as the module takes it: places of a table in any order and repeated, "
    "constants moved, lengths from 0 on, 8 and 16 bits in full."
)
_TRAINED = "Parameters are as trained: the file's zeros, ones and symmetry are gone."
_TF32: Mapping[Precision, str] = {
    "ieee": "off", "default": "on in convolutions, as far as cuDNN uses it, and off in products", "tf32": "on for both",
}  # fmt: skip
_PRODUCTS = of_kinds("product", "convolution", "attention", "recurrence")

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
    if not facts.hands_on:
        families -= {"single special"}
    if task.direction != "forward":
        families -= {"nothing", "shared"}
    if not _has_alike(task):
        families -= {"shared"}
    special = _SPECIAL_OF_PRODUCTS if facts.multiplies else SPECIAL[task.op_class]
    single = "NaN or infinities" if task.op_class == "elementwise" else "NaN"
    decades, offset = reach_of(task)
    said = (words for family, words in INPUTS.items() if family in families)
    return "; ".join(said).format(decades=decades, offset=offset, tenth=-offset / 10, special=special, single=single)


def say_arguments(task: Task) -> str:
    """How integers, masks and parameters vary, and sizes, in sentences; empty for a task that has floats as inputs."""
    signature = task.signature
    tensors = [spec for spec in (*signature.inputs, *signature.parameters) if isinstance(spec, TensorSpec)]
    said = []
    if any(spec.dtype in WHOLE and spec.dtype != "bool" for spec in tensors):
        said.append(_INTEGERS)
    if any(spec.dtype == "bool" for spec in tensors):
        said.append("Flags are flipped, moved, cut elsewhere, all set or none.")
    if any(spec.dtype not in WHOLE for spec in signature.parameters):
        said.append(_TRAINED)
    if len(task.workloads) > 1:
        said.append("Other sizes are tried, too: 1, between the workloads', and up to 8 times the largest.")
    return " ".join(said)


def say_callers(target: TargetName) -> str:
    """Who calls a kernel, in a sentence: `harness/nouns/caller.py`."""
    if on_gpu(target):
        return "It is called from other threads and on other streams, too."
    most, stack = (max(getattr(each, name) for each in CALLERS) for name in ("threads", "stack_kib"))
    return (
        f"It is called with 1 to {most} OpenMP threads, from two threads at once, and from one with a stack of {stack} "
        "KiB."
    )


def say_tf32(task: Task, target: TargetName, precision: Precision) -> str:
    """Where PyTorch rounds to TF32, in a sentence; empty where nothing is multiplied so, as on a processor."""
    if not on_gpu(target) or not _multiplies(task):
        return ""
    return f"TF32 is {_TF32[precision]}."


def _multiplies(task: Task) -> bool:
    return task.program is None or bool(_PRODUCTS & task.program.names)


def _has_alike(task: Task) -> bool:
    """Whether two inputs have rows of one shape and type."""
    tensors = [spec for spec in task.signature.inputs if isinstance(spec, TensorSpec) and spec.shape]
    return len({(spec.dtype, spec.shape[1:], spec.strides) for spec in tensors}) < len(tensors)


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
