"""When a move is worth making on the processor, and the small texts that kernels are put together from."""

from __future__ import annotations

import math
import re
import struct
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import example, given
from hypothesis import strategies as st
from traced import trace

from knowledge.compiler.emit.cpu_functions import helpers
from knowledge.compiler.emit.elements import ELEMENT_TYPES, REDUCERS, identity, literal, total_type
from knowledge.compiler.ir.cost import WORTH_THREADS
from knowledge.compiler.ir.expressions import Node
from knowledge.compiler.ir.primitives import PRIMITIVES
from knowledge.compiler.plan import Plan, Recipe
from knowledge.compiler.problem import Device, Problem
from knowledge.compiler.schedule.pointwise.recipe import PointwiseRecipe
from knowledge.compiler.schedule.rows.recipe import LARGEST_BUFFER_BYTES, RowRecipe

MACHINE = Device(threads=2, simd_floats=8, l3_bytes=1 << 20)
ONE_CORE = Device(threads=1, simd_floats=8, l3_bytes=1 << 20)
POINTWISE, ROWS = PointwiseRecipe(), RowRecipe()


def moves(recipe: Recipe, function: Any, *shapes: tuple[int, ...], device: Device = MACHINE, **knobs: int | str) -> Any:
    """The moves from a plan with these knobs, by name; the inputs' data is not looked at."""
    problem = trace(function, *(torch.empty(shape) for shape in shapes), device=device)
    return {move.name: move for move in recipe.moves(problem, Plan(recipe.name, knobs))}


def test_threads_share_what_is_worth_sharing() -> None:
    many, few = (WORTH_THREADS,), (WORTH_THREADS - 1,)
    assert moves(POINTWISE, torch.neg, many)["threads"].plan.knobs == {"threads": 1}
    assert "threads" not in moves(POINTWISE, torch.neg, few)
    assert "threads" not in moves(POINTWISE, torch.neg, many, device=ONE_CORE)
    assert "threads" not in moves(POINTWISE, torch.neg, many, threads=1)


def test_threads_share_rows_where_there_are_some_for_each_else_columns() -> None:
    columns = WORTH_THREADS // 4
    assert moves(ROWS, lambda x: x.sum(-1), (4, columns))["threads"].plan.knobs == {"threads": "rows"}
    assert "threads" not in moves(ROWS, lambda x: x.sum(-1), (4, columns - 1))
    assert "threads" not in moves(ROWS, lambda x: x.sum(-1), (4, columns), device=ONE_CORE)
    few = moves(ROWS, lambda x: x.sum(-1), (3, WORTH_THREADS))["threads"]
    assert few.plan.knobs == {"threads": "columns"} and "with 3 rows" in few.why
    assert "threads" not in moves(ROWS, lambda x: x.argmax(-1), (3, WORTH_THREADS)), "indices have no OpenMP clause"
    assert "threads" in moves(ROWS, lambda x: x.argmax(-1), (4, WORTH_THREADS))


def simd_of(recipe: Recipe, function: Any, *given: torch.Tensor) -> int | None:
    """Lanes of the SIMD move; None where there is none."""
    problem = trace(function, *given, device=MACHINE)
    found = [move.plan.knobs["lanes"] for move in recipe.moves(problem, Plan(recipe.name)) if move.name == "SIMD"]
    return int(found[0]) if found else None


def test_a_register_holds_as_many_elements_as_the_widest_type_allows() -> None:
    x = torch.empty(3, 40)
    assert simd_of(POINTWISE, torch.neg, x) == 8
    assert simd_of(POINTWISE, torch.neg, x.half()) == 8
    assert simd_of(POINTWISE, lambda x: x.double() + 1, x) == 4
    assert simd_of(POINTWISE, lambda x: -x, x.long()) == 4
    assert simd_of(POINTWISE, lambda x: x + 1, x.char()) == 8
    assert simd_of(POINTWISE, torch.neg, x.view(-1)[:7]) is None, "no register is full"
    assert simd_of(POINTWISE, torch.neg, x.view(-1)[:8]) == 8
    assert simd_of(ROWS, lambda x: x.sum(-1), x) == 8
    assert simd_of(ROWS, lambda x: x.sum(-1), x[:, :7]) is None
    assert simd_of(ROWS, lambda x: x.argmax(-1), x) is None, "an index is found one element at a time"
    assert simd_of(ROWS, lambda x: x.amax(-1), x.short()) == 8


def test_libm_gives_way_to_polynomials_in_float32_alone() -> None:
    exact = "cheaper exact math"
    assert moves(POINTWISE, torch.exp, (64,))[exact].plan.knobs == {"lanes": 8, "exact": 1}
    assert exact not in moves(POINTWISE, torch.neg, (64,)), "nothing slow"
    assert exact not in moves(POINTWISE, torch.exp, (7,)), "no register"
    assert exact not in moves(POINTWISE, lambda x: x.double().exp(), (64,)), "the polynomials are float32's"
    assert exact not in moves(POINTWISE, torch.asin, (64,)), "there is none for an arcsine"
    assert "sin" in moves(POINTWISE, torch.sin, (64,))[exact].why
    assert "exp, log1p" in moves(POINTWISE, F.softplus, (64,))[exact].why
    assert exact in moves(ROWS, lambda x: F.softmax(x, -1), (3, 64))
    assert exact not in moves(ROWS, lambda x: x.sum(-1).exp(), (3, 64)), "once a row is not worth it"


def test_stores_bypass_the_cache_where_it_would_not_hold_them() -> None:
    half = MACHINE.l3_bytes // 2 // 4
    assert moves(POINTWISE, torch.neg, (half,))["streaming stores"].plan.knobs == {"lanes": 8, "streaming": 1}
    assert "streaming stores" not in moves(POINTWISE, torch.neg, (half - 1,))
    assert "streaming stores" not in moves(POINTWISE, torch.neg, (half,), streaming=1)
    softmax = moves(ROWS, lambda x: F.softmax(x, -1), (16, half // 16))
    assert "streaming stores" in softmax
    assert "streaming stores" not in moves(ROWS, lambda x: x.sum(-1), (16, half)), "one number a row is written"


def test_the_next_row_is_asked_for_where_it_fits_beside_this_one_and_is_more_than_a_page() -> None:
    page, room = 1024, MACHINE.l2_bytes // 16

    def norm(x: torch.Tensor) -> torch.Tensor:
        return F.layer_norm(x, x.shape[1:])

    def fetched(*shape: int, **knobs: int | str) -> bool | None:
        move = moves(ROWS, norm, shape, **{"lanes": 8} | knobs).get("prefetch")
        return move and move.sure

    assert fetched(64, page) is False, "a trial tells, where a cache may hold all"
    assert fetched(MACHINE.l3_bytes // 4096 + 1, page) is True
    assert fetched(64, page - 1) is None and fetched(64, room) is not None and fetched(64, room + 1) is None
    assert fetched(64, page, threads="columns") is None, "there is no next row for a thread"
    assert fetched(64, page, prefetch=1) is None
    assert "prefetch" not in moves(ROWS, norm, (64, page)), "a line is asked for once a register"
    assert "prefetch" not in moves(ROWS, lambda x: x.sum(-1), (64, page), lanes=8), (
        "its one sweep waits for its own row"
    )


@pytest.mark.parametrize(
    ("function", "sweep"),
    [
        (lambda x, w: F.softmax(x, -1), 1),
        (lambda x, w: F.log_softmax(x, -1), 1),
        (lambda x, w: F.layer_norm(x, (1024,), w, w), 2),
        (lambda x, w: x * torch.rsqrt((x * x).mean(-1, keepdim=True)) * w, 1),
    ],
)
def test_the_sweep_that_computes_most_asks_for_the_next_row_of_what_has_rows(function: Any, sweep: int) -> None:
    problem = trace(function, torch.empty(64, 1024), torch.empty(1024), device=MACHINE)
    text = ROWS.render(problem, Plan("rows", {"lanes": 8, "exact": 1, "keep": 1, "accumulators": 4, "prefetch": 1}))
    asking = re.findall(
        r"sweep(\d)\((?:(?!sweep\d\().)*?prefetch\((\w+), c \+ i(?: \+ u \* kLanes)?\);", text, re.DOTALL
    )
    assert set(asking) == {(str(sweep), re.search(r"Tensor (next\w+) = \w+\(_, r \+ 1\)", text)[1])}
    assert len(asking) == 2, "in the unrolled loop and in the one after it"


def test_unrolling_and_accumulators_follow_simd() -> None:
    assert "unroll" not in moves(POINTWISE, torch.neg, (64,))
    assert moves(POINTWISE, torch.neg, (64,), lanes=8)["unroll"].plan.knobs == {"lanes": 8, "unroll": 4}
    assert "unroll" not in moves(POINTWISE, torch.neg, (64,), lanes=8, unroll=4)
    several = "multiple accumulators"
    assert several not in moves(ROWS, lambda x: x.sum(-1), (3, 64))
    assert moves(ROWS, lambda x: x.sum(-1), (3, 32), lanes=8)[several].plan.knobs["accumulators"] == 4
    assert several not in moves(ROWS, lambda x: x.sum(-1), (3, 31), lanes=8)


def test_a_row_is_kept_where_it_is_costly_and_fits() -> None:
    fits = LARGEST_BUFFER_BYTES // 4

    def softmax(x: torch.Tensor) -> torch.Tensor:
        return F.softmax(x, -1)

    keep = "keep the row"
    assert keep in moves(ROWS, softmax, (2, fits)) and keep not in moves(ROWS, softmax, (2, fits + 1))
    assert keep not in moves(ROWS, softmax, (2, fits), threads="columns"), "threads would share one buffer"
    assert keep in moves(ROWS, softmax, (2, fits), threads="rows")
    assert keep not in moves(ROWS, lambda x: x - x.mean(-1, keepdim=True), (2, 64)), "a load is as cheap"


def test_the_size_of_a_tile_is_tried_where_there_are_several() -> None:
    tile = moves(POINTWISE, torch.neg, (8 << 10,), threads=1)["tile size"]
    assert tile.plan.knobs["tile"] not in tile.sweep["tile"]
    assert "tile size" not in moves(POINTWISE, torch.neg, ((8 << 10) - 1,), threads=1)
    assert "tile size" not in moves(POINTWISE, torch.neg, (8 << 10,))
    assert "tile size" not in moves(POINTWISE, torch.neg, (8 << 10,), threads=1, tile=512)


@given(st.floats(width=32))
@example(-0.0)
@example(3.4028234663852886e38)
@example(1.401298464324817e-45)
def test_a_float_arrives_as_it_was(number: float) -> None:
    spelled = re.fullmatch(r"(\(-)?(?:([\d.e+-]+)f|float\((INFINITY|NAN)\))\)?", literal(number, "float32"))
    assert spelled is not None
    size = float(spelled[2] or spelled[3].lower()[:3])
    arrived = -size if spelled[1] else size
    assert math.isnan(number) == math.isnan(arrived)
    assert math.isnan(number) or struct.pack("f", arrived) == struct.pack("f", number)


@given(st.integers(-(2**63), 2**63 - 1))
@example(-(2**63))
def test_a_whole_number_arrives_as_it_was(number: int) -> None:
    text = literal(number, "int64")
    assert text == ("INT64_MIN" if number == -(2**63) else f"int64_t{{{number}}}")


def test_numbers_of_other_types_are_spelled_in_their_type() -> None:
    assert [literal(value, "bool") for value in (True, False, 2, 0)] == ["true", "false", "true", "false"]
    assert [literal(value, "int32") for value in (7, -7)] == ["7", "int32_t(-7)"]
    assert [literal(value, "uint8") for value in (7, -1)] == ["uint8_t(7)", "uint8_t(-1)"]
    assert literal(0.1, "float64") == "0.1" and literal(0.1, "float16") == "0.1f"
    assert literal(1e39, "float32") == "float(INFINITY)" and literal(-1e39, "float32") == "(-float(INFINITY))"
    assert literal(3.40282356e38, "float32") == "3.40282356e+38f", "it rounds to the largest float, not to infinity"
    assert literal(1e39, "float64") == "1e+39"


def called(text: str) -> set[str]:
    """The playbook's own functions that a text calls."""
    return set(re.findall(r"\bmath::(\w+)\(", text))


@pytest.mark.parametrize("lanes", [1, 8])
@pytest.mark.parametrize("op", PRIMITIVES)
def test_every_function_is_there_before_it_is_called(op: str, lanes: int) -> None:
    primitive = PRIMITIVES[op]
    for spelled in (primitive.element, primitive.lanes, primitive.exact):
        if not spelled or (lanes == 1 and spelled != primitive.element):
            continue
        text = helpers(f"float y = {spelled.format('a', 'b', 'c')};", "", lanes)
        defined: set[str] = set()
        for body in re.split(r"(?<=\n})\n", text):
            names = set(re.findall(r"inline \w+ (\w+)\(", body))
            code = re.sub(r"//.*", "", body)
            used = {name for name in re.findall(r"(?<![:\w])(\w+)\(", code) if f"inline V {name}(" in text}
            assert used <= defined | names
            defined |= names
        assert called(spelled) <= defined


def test_a_kernel_for_one_element_has_no_registers() -> None:
    assert "vector_size" not in helpers("math::maximum(a, b);", "", 1)
    assert helpers("std::exp(a);", "", 1) == ""
    assert "constexpr int kLanes = 16;" in helpers("a + b;", "", 16)


def reduction(op: str, dtype: str) -> Node:
    """A reduction of a value of some type."""
    operand = Node("load", "x", dtype, (4,), (), (0, 1))
    return Node("reduce", op, dtype, (4,), (operand,), (0,))


def test_totals_are_wider_than_what_is_added_and_no_wider_than_what_is_chosen() -> None:
    assert total_type(reduction("sum", "float32")) == total_type(reduction("prod", "float16")) == "double"
    assert total_type(reduction("sum", "float64")) == "std::common_type_t<long double>"
    assert total_type(reduction("sum", "uint8")) == total_type(reduction("prod", "bool")) == "int64_t"
    assert {total_type(reduction("amax", dtype)) for dtype in ELEMENT_TYPES} == set(ELEMENT_TYPES.values())


def test_a_reduction_starts_at_what_changes_nothing() -> None:
    started = {op: identity(reduction(op, "float32"), "float") for op in REDUCERS}
    assert started == {
        "sum": "float(0)", "prod": "float(1)", "any": "false", "all": "true", "amax": "-float(INFINITY)",
        "amin": "float(INFINITY)", "argmax": "-float(INFINITY)", "argmin": "float(INFINITY)",
    }  # fmt: skip
    assert identity(reduction("amax", "uint8"), "uint8_t") == "std::numeric_limits<uint8_t>::lowest()"
    assert identity(reduction("argmin", "int64"), "int64_t") == "std::numeric_limits<int64_t>::max()"
    assert {op for op, reducer in REDUCERS.items() if reducer.padded} == {"sum", "prod"}, "repeating changes these"


KNOBS = st.dictionaries(st.text("abcdef.0", min_size=1, max_size=6), st.integers(0, 999) | st.text("xyz", max_size=4))


@given(st.text("abc", min_size=1), KNOBS, st.lists(st.text("ab/ \t", max_size=9)))
def test_a_plan_is_read_back_from_whatever_stands_around_it(
    recipe: str, knobs: dict[str, int | str], lines: list[str]
) -> None:
    plan = Plan(recipe, knobs)
    assert Plan.read("\n".join([*lines, plan.comment(), *lines])) == plan
    assert Plan.read("\n".join(lines)) is None


def test_an_argument_of_the_call_keeps_its_place() -> None:
    problem: Problem = trace(torch.nn.Linear(3, 2), torch.empty(4, 3))
    assert [each.name for each in problem.arguments] == ["input", "weight", "bias", "output"]
    assert [each.numel for each in problem.arguments if each.kind == "tensor"] == [12, 6, 2, 8]
