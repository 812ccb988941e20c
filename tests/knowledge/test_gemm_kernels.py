"""The GEMM recipe's kernels, compiled with g++ and compared with torch in float64."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
import torch
import tvm_ffi
from gemm_cases import EXPORTED, PLAIN, STEPS, doubled, rand
from goldens import Golden
from traced import Compiler, Kernel, call, trace

from knowledge.compiler.plan import Plan
from knowledge.compiler.problem import Device, Problem, Ref, Scalar
from knowledge.compiler.schedule.gemm.product import form_of
from knowledge.compiler.schedule.gemm.recipe import GemmRecipe
from knowledge.compiler.schedule.gemm.tiled import fragment, tiles

RECIPE = GemmRecipe()
TWO = Device(threads=2, simd_floats=8)


def route(problem: Problem) -> list[tuple[str, Plan]]:
    """The first plan, then always the first move that was not made before."""
    plan = RECIPE.first_plan(problem)
    assert isinstance(plan, Plan), plan
    steps = [("first kernel", plan)]
    while moves := [move for move in RECIPE.moves(problem, plan) if move.plan not in [each for _, each in steps]]:
        plan = moves[0].plan
        steps.append((moves[0].name, plan))
        assert len(steps) < 20
    return steps


def check(problem: Problem, kernel: Kernel, function, inputs) -> None:
    """The kernel's result against the same function in float64."""
    (got,) = call(kernel, problem, inputs)
    wanted = function(*doubled(inputs))
    tolerance = 1e-5 if got.dtype == torch.float32 else 1e-12
    torch.testing.assert_close(
        got.double(), wanted, rtol=tolerance, atol=tolerance * float(wanted.std(correction=0) + 1)
    )


def run_all(
    golden: Golden, compiler: Compiler, problem: Problem, plans: list[Plan], function, inputs, beside=()
) -> None:
    """Each plan's kernel, compiled with those of others: one by one they would take three times as long."""
    sources = [RECIPE.render(problem, plan) for plan in plans]
    if golden.holds(sources, *compiler.flags):
        return
    compiler.build_all([RECIPE.render(*each) for each in beside])
    for kernel in compiler.build_all(sources):
        check(problem, kernel, function, inputs)


PACKED = ("both transposed", "right transposed", "strided input", "attention scores", "einsum sideways")
STEPPED = (
    "addmm", "addmm without c", "gelu", "transposed sum", "lower below", "upper", "mv and bias",
    "activations", "swish by hand", "softsign", "the product twice", *EXPORTED,
)  # fmt: skip

LARGE = {
    "gemm": (lambda a, b: a @ b, (rand(131, 301), rand(301, 77))),
    "rows": (lambda a, b: a @ b, (rand(203, 2501), rand(2501))),
    "dot": (torch.dot, (rand(300_001), rand(300_001))),
    "vector and matrix": (lambda a, b: a @ b, (rand(500), rand(500, 1100))),
}
NAMES = {
    "gemm": {"SIMD", "register blocking", "threads", "tiling", "packing"},
    "rows": {"SIMD", "accumulators", "register blocking"},
    "dot": {"SIMD", "accumulators"},
    "vector and matrix": {"SIMD", "threads", "tiling"},
}


@pytest.mark.parametrize("name", LARGE)
def test_every_move_leaves_the_result_right(golden, compiler, name):
    function, inputs = LARGE[name]
    problem = trace(function, *inputs, device=Device(threads=2, simd_floats=8, l2_bytes=64 << 10))
    steps = route(problem)
    assert {move for move, _ in steps} >= NAMES[name]
    run_all(golden, compiler, problem, [plan for _, plan in steps], function, inputs)


@pytest.fixture(scope="module")
def planned() -> dict[str, tuple[Problem, Plan]]:
    """The packed and the stepped ones."""
    knobs = {"lanes": 8, "mr": 3, "nv": 1, "bm": 3, "bn": 8, "bk": 3, "pack": "AB", "threads": 1, "swept": 0}
    found = {name: (trace(PLAIN[name][0], *PLAIN[name][1]), Plan("gemm", knobs)) for name in PACKED}
    for name in STEPPED:
        function, inputs = (STEPS | EXPORTED)[name]
        problem = trace(function, *inputs)
        found[name] = (problem, route(problem)[-1][1])
    return found


@pytest.mark.parametrize("name", PACKED)
def test_packed_operands_of_every_stride(golden, compiler, planned, name):
    problem, plan = planned[name]
    run_all(golden, compiler, problem, [plan], *PLAIN[name], planned.values())


@pytest.mark.parametrize("name", STEPPED)
def test_steps_after_the_product(golden, compiler, planned, name):
    problem, plan = planned[name]
    run_all(golden, compiler, problem, [plan], *(STEPS | EXPORTED)[name], planned.values())


def test_float64_has_half_the_lanes(golden, compiler):
    inputs = (rand(37, 41).double(), rand(41, 29).double())
    problem = trace(lambda a, b: a @ b, *inputs)
    plan = route(problem)[-1][1]
    assert plan.knobs["lanes"] == 4
    run_all(golden, compiler, problem, [plan], lambda a, b: a @ b, inputs)


def test_a_scalar_argument_is_passed_by_value(golden, compiler):
    matrices = (rand(5, 6), rand(6, 7))
    traced = trace(lambda a, b: (a @ b) * 2.5, *matrices)
    product, scaling = traced.ops
    scaling = scaling.model_copy(update={"args": (scaling.args[0], Ref(ref="s"))})
    scalar = Scalar(name="s", type="float", value=2.5)
    problem = traced.model_copy(update={"inputs": (*traced.inputs, scalar), "ops": (product, scaling)})
    if golden.holds([source := RECIPE.render(problem, route(problem)[0][1])], *compiler.flags):
        return
    kernel = compiler.build(source)
    for factor in (2.5, -4.0):
        check(problem, kernel, lambda a, b, s: (a @ b) * s, (*matrices, factor))


def test_parameters_keep_their_place_in_the_call(golden, compiler):
    module = torch.nn.Linear(13, 9)
    x = rand(4, 13)
    problem = trace(module, x)
    state = {name: each.detach() for name, each in module.state_dict().items()}
    if golden.holds([source := RECIPE.render(problem, route(problem)[0][1])], *compiler.flags):
        return
    (got,) = call(compiler.build(source), problem, [x], state)
    torch.testing.assert_close(got, module(x).detach(), rtol=1e-5, atol=1e-5)


def test_another_shape_or_type_is_refused(golden, compiler):
    a, b = rand(4, 5), rand(5, 6)
    problem = trace(lambda a, b: a @ b, a, b)
    if golden.holds([source := RECIPE.render(problem, route(problem)[0][1])], *compiler.flags):
        return
    kernel = tvm_ffi.load_module(str(compiler.build(source).library))
    out = torch.empty(4, 6)
    for wrong in ((a.T.contiguous().T, b, out), (rand(5, 5), b, out), (a, b.double(), out), (a, b, torch.empty(4, 7))):
        with pytest.raises(ValueError, match="the kernel's"):
            kernel.run(*wrong)


@pytest.mark.parametrize("name", [*PLAIN, *STEPS])
def test_the_plan_is_read_back_from_the_source(name):
    function, inputs = {**PLAIN, **STEPS}[name]
    problem = trace(function, *inputs)
    for _, plan in route(problem):
        source = RECIPE.render(problem, plan)
        assert Plan.read(source) == plan
        assert "$" not in source


def test_moves_differ_in_name_and_from_the_plan():
    for function, inputs in LARGE.values():
        problem = trace(function, *inputs, device=TWO)
        for _, plan in route(problem):
            moves = RECIPE.moves(problem, plan)
            assert len({move.name for move in moves}) == len(moves)
            assert all(move.plan != plan for move in moves)


@pytest.mark.parametrize("pack", ["B", "AB"])
def test_the_accumulators_stay_in_registers(golden, compiler, pack):
    if "avx2" not in Path("/proc/cpuinfo").read_text():
        pytest.skip("the fragment of this test fills the registers of AVX2")
    problem = trace(lambda a, b: a @ b, torch.empty(128, 128), torch.empty(128, 128))
    plan = next(plan for name, plan in reversed(route(problem)) if plan.knobs["pack"] == pack)
    if golden.holds([source := RECIPE.render(problem, plan)], *compiler.flags):
        return
    loops = multiply_add_loops(compiler.build(source).library)
    assert loops
    for loop in loops:
        assert sum("fmadd" in line for line in loop) == int(plan.knobs["mr"]) * int(plan.knobs["nv"])
        assert not [line for line in loop if "%rsp" in line]


def multiply_add_loops(library: Path) -> list[list[str]]:
    """Instructions of every innermost loop that multiplies and adds vectors."""
    listing = subprocess.run(["objdump", "-d", "--no-show-raw-insn", str(library)], capture_output=True, text=True)
    lines = [
        match
        for match in map(re.compile(r"\s+([0-9a-f]+):\s+(\S+)\s*(\S*)").match, listing.stdout.splitlines())
        if match
    ]
    at = {match[1]: index for index, match in enumerate(lines)}
    loops = []
    for index, match in enumerate(lines):
        start = at.get(match[3], index) if match[2].startswith("j") else index
        body = [line[0] for line in lines[start : index + 1]]
        jumps = [line for line in lines[start : index + 1] if line[2].startswith("j")]
        if start < index and len(jumps) == 1 and any("fmadd" in line and "ps" in line for line in body):
            loops.append(body)
    return loops


def test_a_small_product_gets_no_threads():
    problem = trace(lambda a, b: a @ b, rand(32, 32), rand(32, 32), device=TWO)
    assert "threads" not in {name for name, _ in route(problem)}


def test_a_product_that_takes_seconds_starts_blocked_and_packed():
    problem = trace(lambda a, b: a @ b, torch.empty(2048, 1024), torch.empty(1024, 2048), device=TWO)
    knobs = route(problem)[0][1].knobs
    assert (knobs["pack"], knobs["lanes"], knobs["threads"]) == ("B", 8, 0)
    assert int(knobs["bm"]) < 2048
    turned = trace(lambda a, b: a.T @ b, torch.empty(1024, 2048), torch.empty(1024, 2048), device=TWO)
    assert route(turned)[0][1].knobs["pack"] == "AB", "no row of A lies in one piece"


def test_rows_of_a_are_packed_where_they_cannot_be_read_in_place_and_else_for_a_trial():
    def packings(a: torch.Tensor, b: torch.Tensor) -> list[tuple[str, bool]]:
        problem = trace(lambda a, b: a @ b, a, b, device=TWO)
        plan = route(problem)[-1][1].with_knobs(pack="none")
        return [(move.name, move.sure) for move in RECIPE.moves(problem, plan) if move.name.startswith("packing")]

    a, b = torch.empty(512, 512), torch.empty(512, 512)
    assert packings(a, b) == [("packing B", True), ("packing", False)]
    assert packings(a.T, b) == [("packing", True)]
    assert packings(a, b[:, :64].contiguous())[0] == ("packing B", True)
    assert packings(a, b[:, :8].contiguous())[0] == ("packing", False), "12 rows at once, and little use of each"


@pytest.mark.parametrize(("simd", "rows", "columns", "expected"), [
    (8, 512, 512, {"mr": 6, "nv": 2}),
    (16, 512, 512, {"mr": 6, "nv": 4}),
    (16, 512, 16, {"mr": 14, "nv": 1}),
    (8, 2, 512, {"mr": 2, "nv": 4}),
])  # fmt: skip
def test_fragments_fill_the_registers_and_no_more(simd, rows, columns, expected):
    device = Device(simd_floats=simd)
    size = fragment(form_of(trace(lambda a, b: a @ b, torch.empty(rows, 64), torch.empty(64, columns))), device)
    assert size == expected
    assert size["mr"] * size["nv"] + size["nv"] + 1 <= (32 if simd == 16 else 16)


@pytest.mark.parametrize("threads", [1, 2, 3, 8, 64])
@pytest.mark.parametrize("shape", [(512, 512), (100, 3000), (7, 50), (5000, 20)])
def test_tiles_are_whole_fragments_and_enough_for_all_cores(shape, threads):
    device = Device(threads=threads, simd_floats=8)
    form = form_of(trace(lambda a, b: a @ b, torch.empty(shape[0], 300), torch.empty(300, shape[1])))
    plan = Plan("gemm", {"lanes": 8, "mr": 6, "nv": 2})
    size = tiles(form, device, plan)
    assert size["bm"] % 6 == 0
    assert size["bn"] % 16 == 0
    count = -(-shape[0] // size["bm"]) * -(-shape[1] // size["bn"])
    fragments = -(-shape[0] // 6) * -(-shape[1] // 16)
    assert count >= min(threads, fragments) // 2
