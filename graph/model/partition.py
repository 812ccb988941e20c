"""Cuts a captured model into regions that one kernel can take the place of, each as long as somebody can write it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from graph.model.window import Window
from graph.model.writers import Writers
from harness.nouns.aten import FREE, of_kinds
from harness.nouns.capture import Capture, Operation, Part

Kind = Literal["product", "convolution", "attention", "norm", "reduction", "recurrence", "pointwise", "other"]

LONGEST = 24
"""Operations that one region takes in at most: what is longer takes the playbook seconds to read."""
PATIENCE = 6
"""So many operations more are tried after the last that could be written: a mask or a scale may lie between."""
LEAST_GAIN = 0.2
"""Of a window's time: the compiler's estimate is none that less can be told by."""
LEAST_FOLLOWING = 0.05
"""Of a product and what follows it, where the product itself has nothing to gain: the time of what follows."""
COMPILER = "loops"

_HEAVIEST: dict[Kind, frozenset[str]] = {
    "attention": of_kinds("attention"), "convolution": of_kinds("convolution"), "recurrence": of_kinds("recurrence"),
    "product": of_kinds("product"), "norm": of_kinds("norm"), "reduction": of_kinds("reduction", "scan", "window"),
}  # fmt: skip
"""The heaviest first: a region is called by the first of these that it holds; what is in none is pointwise."""
_HEAVY = ("attention", "convolution", "recurrence", "product")
_SOFTMAX = frozenset({"softmax", "_softmax", "_safe_softmax"})
_FOLLOWING = frozenset({
    "relu", "relu_", "gelu", "silu", "sigmoid", "tanh", "leaky_relu", "elu", "hardtanh", "hardswish", "hardsigmoid",
    "softplus", "mish", "relu6", "clamp", "add", "mul", "sub", "div", "_native_batch_norm_legit_no_training",
    "batch_norm",
})  # fmt: skip
"""What a language model is asked to write together with the operation before it."""


@dataclass(frozen=True)
class Region:
    """A window, what it mostly is, and the playbook's recipe for it; without one a language model may write it."""

    window: Window
    kind: Kind
    recipe: str


def regions_of(capture: Capture, writers: Writers) -> tuple[Region, ...]:
    """The regions of all parts, in the order of the program. Views, and what is hindered, lie in none."""
    return tuple(region for part in capture.parts for region in _regions(part, writers))


def kind_of(operations: tuple[Operation, ...]) -> Kind:
    """What a run of operations mostly is."""
    names = {each.name for each in operations if each.name not in FREE}
    found = next((kind for kind, those in _HEAVIEST.items() if names & those), None)
    return found or "pointwise"


def _regions(part: Part, writers: Writers) -> Iterator[Region]:
    start = 0
    while start < len(part.operations):
        if _left_out(part.operations[start]):
            start += 1
            continue
        if writers.at_rate(Window(part, start, start + 1)):
            region = _with_what_follows(part, start, writers)
        else:
            region = _gaining(part, start, writers, _longest(part, start, writers)) or _alone(part, start, writers)
        yield region
        start = region.window.end


def _with_what_follows(part: Part, start: int, writers: Writers) -> Region:
    """A product that its library computes at the device's rate: only what else a kernel takes in could be saved.

    By eager's times that is a kernel of its own, which any other does as well; Inductor has fused what can be.
    """
    single = Window(part, start, start + 1)
    found = _longest(part, start, writers) if writers.around_inductor else None
    if found is not None and found.window.ms - single.ms >= LEAST_FOLLOWING * found.window.ms:
        return found
    return Region(single, kind_of(part.operations[start : start + 1]), "")


def _left_out(operation: Operation) -> bool:
    return bool(operation.hindrance) or operation.name in FREE


def _longest(part: Part, start: int, writers: Writers) -> Region | None:
    """The region from operation `start` on that a recipe writes and that takes in most; at most one heavy operation.

    A second one after a softmax may be the other product of attention spelled out.
    """
    found: Region | None = None
    heavy = tried = 0
    attends = False
    for end in range(start + 1, min(len(part.operations), start + LONGEST) + 1):
        last = part.operations[end - 1]
        heavy += kind_of((last,)) in _HEAVY
        attends |= heavy == 1 and last.name in _SOFTMAX
        tried += last.name not in FREE
        if last.hindrance or heavy > 1 + attends or tried > PATIENCE:
            break
        window = Window(part, start, end)
        if last.name not in FREE and window.connected and (recipe := writers.recipe(window)):
            found, tried = Region(window, _named(window, recipe), recipe), 0
    return found


def _gaining(part: Part, start: int, writers: Writers, single: Region | None) -> Region | None:
    """The region from operation `start` on by which the compiler saves most, by its estimate; else that of one recipe.

    One recipe knows its case better: the compiler's has to take in more, and to save more by the same estimate.
    """
    found, most = single, writers.gain_ms(single.window) if single else 0.0
    heavy = tried = 0
    for end in range(start + 1, min(len(part.operations), start + LONGEST) + 1):
        last = part.operations[end - 1]
        heavy += kind_of((last,)) in _HEAVY
        tried += last.name not in FREE
        if last.hindrance or heavy > (1 if single is None else 0) or tried > PATIENCE:
            break
        window = Window(part, start, end)
        if last.name in FREE or (single and end <= single.window.end) or not window.connected:
            continue
        gain = writers.gain_ms(window)
        if gain > max(most, LEAST_GAIN * window.ms):
            found, most, tried = Region(window, kind_of(window.operations), COMPILER), gain, 0
    return found


def _named(window: Window, recipe: str) -> Kind:
    """Attention is what its recipe writes, however it is spelled."""
    return "attention" if recipe == "attention" else kind_of(window.operations)


def _alone(part: Part, start: int, writers: Writers) -> Region:
    """One operation that no recipe writes, with what directly follows it."""
    end, made = start + 1, {result.name for result in part.operations[start].op.results}
    for following in range(start + 1, min(len(part.operations), start + PATIENCE)):
        operation = part.operations[following]
        if operation.hindrance or operation.name not in _FOLLOWING | FREE or not made & set(operation.reads):
            break
        made |= {result.name for result in operation.op.results}
        end = end if operation.name in FREE else following + 1
    window = Window(part, start, end)
    return Region(window, kind_of(window.operations), writers.recipe(window))
