"""The static layouts in a product's source go where the traced operands lie, batches and transposed results too."""

from __future__ import annotations

import re
from itertools import product

import pytest
from gemm_cases import PLAIN, STEPS, trace_fx
from test_cuda_tiles import evaluated

from knowledge.compiler.schedule.gemm.cuda_text import problem_text
from knowledge.compiler.schedule.gemm.form import A, Axis, B, C, Form
from knowledge.compiler.schedule.gemm.product import form_of

NAMES = (
    "mm", "left transposed", "right transposed", "result transposed", "strided input", "attention scores",
    "matmul with broadcast batches", "matmul of ones in the batch", "einsum sideways", "batch mT",
)  # fmt: skip
STEPPED = ("addmm", "column added", "transposed sum", "baddbmm")


def layouts(form: Form, text: str) -> dict[str, object]:
    """Every layout of the section `problem` by its name, with the extents that it names put in."""
    known: dict[str, str] = dict(re.findall(r"^using ([MNKL]) = (.+);$", text, re.MULTILINE))
    found = {}
    for name, layout in re.findall(r"^using (Layout\w+) = (Layout<.+>);", text, re.MULTILINE):
        whole = re.sub(r"\b([MNKL])\b", lambda match: known[match[1]], layout)
        found[name] = evaluated(whole, 1)
    return found


def offset(layout: object, place: tuple[int, ...]) -> int:
    """Where a coordinate lies; the last one runs over all batches, the fastest first."""
    shape, stride = layout  # type: ignore[misc]
    *outer, last = place
    total = sum(at * step for at, step in zip(outer, stride, strict=False))
    extents, steps = (each[-1] if isinstance(each[-1], tuple) else (each[-1],) for each in (shape, stride))
    for extent, step in zip(extents, steps, strict=True):
        total += last % extent * step
        last //= extent
    return total


def expected(form: Form, operand: int, axes: tuple[Axis, ...], place: tuple[int, ...]) -> int:
    *outer, last = place
    total = sum(at * axis.strides[operand] for at, axis in zip(outer, axes, strict=True))
    for axis in reversed(form.batch):
        total += last % axis.extent * axis.strides[operand]
        last //= axis.extent
    return total


@pytest.mark.parametrize("name", [*NAMES, *STEPPED])
def test_every_coordinate_lies_where_the_form_says(name: str) -> None:
    problem = trace_fx(*(PLAIN | STEPS)[name])
    form = form_of(problem)
    found = layouts(form, problem_text(problem, form))
    axes = {A: (form.m, form.k), B: (form.n, form.k)}
    names = {A: "LayoutA", B: "LayoutB", C: "LayoutC"} | {
        place: f"LayoutD{place - 3}" for place in range(3, len(form.operands))
    }
    assert found.keys() == set(names.values())
    for operand, named in names.items():
        over = axes.get(operand, (form.m, form.n))
        for place in product(*(range(axis.extent) for axis in over), range(form.batches)):
            assert offset(found[named], place) == expected(form, operand, over, place), (named, place)
