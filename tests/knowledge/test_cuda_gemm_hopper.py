"""16-bit products on Hopper: when tensor copies and wgmma are tried, by which knobs, and that nvcc compiles them."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
import torch
from cuda_gemm_cases import H200, RECIPE, Kernels, build, on_gpu
from gemm_cases import rand, trace_fx
from gpu_kernels import for_nvcc
from torch._subclasses.fake_tensor import FakeTensorMode

from harness.building.toolchain import cuda_compiler
from harness.machine.gpu import find_gpu
from harness.nouns.errors import MachineError
from harness.screen.source import screen_source
from knowledge.compiler.plan import Decline, Draft, Plan, swept
from knowledge.compiler.problem import Device, Problem
from knowledge.compiler.schedule.gemm import cuda_16bit as narrow
from knowledge.compiler.schedule.gemm import cuda_decode as decode
from knowledge.compiler.schedule.gemm import cuda_hopper as hopper
from knowledge.compiler.schedule.gemm.form import C, UncoveredError
from knowledge.compiler.schedule.gemm.product import form_of
from knowledge.compiler.search.first import first_draft
from knowledge.compiler.search.moves import next_draft

GPU = find_gpu()
HOPPER = pytest.mark.skipif(GPU is None or GPU.architecture != "sm_90a", reason="no Hopper GPU answers here")
B16, H16 = torch.bfloat16, torch.float16
A100 = Device(architecture="sm_80", multiprocessors=108, shared_bytes=163 << 10)
BLACKWELL = Device(architecture="sm_100a", multiprocessors=148, shared_bytes=227 << 10)


def product(m: int, n: int, k: int, device: Device = H200) -> Problem:
    """A row-major product in bfloat16, without its data."""
    with FakeTensorMode():
        inputs = torch.empty(m, k, dtype=B16), torch.empty(k, n, dtype=B16)
        return on_gpu(trace_fx(lambda a, b: a @ b, inputs), device=device)


def kernel(problem: Problem) -> object:
    """What the first plan takes."""
    plan = RECIPE.first_plan(problem)
    assert isinstance(plan, Plan)
    assert {move.plan.knobs["kernel"] for move in RECIPE.moves(problem, plan)} == {plan.knobs["kernel"]}
    return plan.knobs["kernel"]


def test_hopper_has_it_and_others_keep_what_they_have():
    assert kernel(product(512, 512, 512)) == hopper.KERNEL
    for device in (A100, BLACKWELL):
        assert kernel(product(512, 512, 512, device)) == narrow.KERNEL


@pytest.mark.parametrize(
    ("m", "n", "k", "fits"),
    [(512, 512, 512, True), (513, 512, 512, True), (512, 512, 511, False), (512, 511, 512, False)],
)
def test_rows_that_begin_off_16_bytes_are_left_to_other_kernels(m, n, k, fits):
    assert hopper.suits(product(m, n, k), form_of(product(m, n, k))) is fits
    assert kernel(product(m, n, k)) == (hopper.KERNEL if fits else narrow.KERNEL)


def test_two_loops_of_batches_are_left_to_other_kernels():
    inputs = (rand(2, 16, 3, 64, dtype=B16), rand(2, 24, 3, 64, dtype=B16))
    problem = on_gpu(trace_fx(lambda q, k: q.transpose(1, 2) @ k.permute(0, 2, 3, 1), inputs))
    assert not hopper.suits(problem, form_of(problem)) and kernel(problem) == narrow.KERNEL


@pytest.mark.parametrize(("m", "n", "k", "own"), [
    (512, 512, 4096, decode.KERNEL), (128, 128, 8192, decode.KERNEL), (256, 1024, 4096, decode.KERNEL),
    (512, 512, 512, hopper.KERNEL), (1024, 1024, 1024, hopper.KERNEL), (256, 256, 65536, hopper.KERNEL),
])  # fmt: skip
def test_clusters_share_k_where_tiles_are_few_and_k_is_neither_short_nor_endless(m, n, k, own):
    problem = product(m, n, k)
    plan = RECIPE.first_plan(problem)
    assert isinstance(plan, Plan) and plan.knobs["kernel"] == own
    names = [move.name for move in RECIPE.moves(problem, plan)]
    assert ("larger tiles" in names) == (own == decode.KERNEL)
    if own == decode.KERNEL:
        form = decode.turned(form_of(problem))
        assert form.m.strides[C] == 1, "neighbouring threads store neighbours"
        blocks = decode._tile_count(form, plan.knobs["bn"]) * plan.knobs["cluster"]
        assert blocks <= (132 if plan.knobs["cluster"] == 2 else 66), "as many as run at once"


@pytest.mark.parametrize(("m", "n"), [(1, 4096), (16, 4096), (4096, 33), (64, 4096)])
def test_few_rows_or_columns_are_read_against_once(m, n):
    problem = product(m, 4096 if n < 64 else n, 4096) if n > 64 else product(m, 40, 4096)
    assert kernel(problem) == decode.KERNEL
    form = decode.turned(form_of(problem))
    assert form.m.extent == 4096 and form.n.extent <= 64
    plan = decode.first_plan(problem, form_of(problem))
    assert int(plan.knobs["bn"]) >= form.n.extent
    assert 64 * int(plan.knobs["cluster"]) in (128, 256)  # of 64 tiles, about as many blocks as fit at once


# Milliseconds on one H200 (132 multiprocessors), bfloat16, B transposed: tile, whether in turn, clusters.
MEASURED = {
    (4096, 4096, 4096): {
        (128, 256, 0, 2): 0.1757, (256, 128, 0, 2): 0.1782, (128, 256, 0, 1): 0.1852, (128, 128, 1, 2): 0.1855,
        (64, 256, 1, 2): 0.2044,
    },
    (8192, 8192, 8192): {(128, 256, 0, 2): 1.3545},
    (4096, 11008, 4096): {(128, 256, 0, 2): 0.4852},
    (1024, 4096, 4096): {(128, 256, 0, 2): 0.0502, (128, 128, 1, 2): 0.0526},
    (256, 4096, 4096): {(64, 128, 1, 2): 0.0235, (128, 128, 0, 1): 0.0294},
}  # fmt: skip


def test_the_model_orders_measured_plans_as_they_were_measured():
    found = []
    for size, rows in MEASURED.items():
        problem = product(*size)
        form = form_of(problem)
        best = hopper.ranked(problem, form)[:2]
        for (bm, bn, pingpong, cluster), ms in rows.items():
            plan = next(
                each
                for each in hopper.ranked(problem, form)
                if [each.knobs[name] for name in ("bm", "bn", "pingpong", "cluster")] == [bm, bn, pingpong, cluster]
            )
            found.append((hopper.cycles(H200, form, plan), ms))
            assert plan in best or ms > min(rows.values())
    expected, measured = (torch.tensor(each).argsort().argsort().double() for each in zip(*found, strict=True))
    assert torch.corrcoef(torch.stack((expected, measured)))[0, 1] > 0.9


def test_steps_that_call_functions_are_hidden_behind_the_other_warpgroups_products():
    with FakeTensorMode():
        inputs = tuple(torch.empty(*shape, dtype=B16) for shape in ((4096, 4096), (11008, 4096), (11008,)))
        problem = on_gpu(trace_fx(lambda *each: torch.nn.functional.gelu(torch.nn.functional.linear(*each)), inputs))
    assert hopper.first_plan(problem, form_of(problem)).knobs["pingpong"] == 1


def test_every_move_fits_a_block_and_changes_the_kernel():
    problem = product(4096, 4096, 4096)
    form = form_of(problem)
    first = hopper.first_plan(problem, form)
    for move in hopper.moves(problem, form, first):
        assert move.against and hopper.shared_bytes(move.plan) <= hopper.SHARED_BYTES
        assert (
            first.knobs in [each.plan.knobs for each in hopper.moves(problem, form, move.plan)]
            or len(hopper.ranked(problem, form)) > 7
        )
    assert all(hopper.shared_bytes(plan) <= hopper.SHARED_BYTES for plan in hopper.ranked(problem, form))
    few = product(16, 4096, 4096)
    for move in decode.moves(form_of(few), decode.first_plan(few, form_of(few))):
        stages, bn = int(move.plan.knobs["stages"]), int(move.plan.knobs["bn"])
        assert stages * (64 + bn) * 128 + 256 * bn + 16 * stages + 1024 <= hopper.SHARED_BYTES


def test_few_tiles_have_their_k_shared_and_that_is_swept_once():
    problem = product(256, 256, 65536)
    form = form_of(problem)
    plan = hopper.first_plan(problem, form)
    shares = int(plan.knobs["splits"])
    tiles = -(-256 // int(plan.knobs["bm"])) * -(-256 // int(plan.knobs["bn"]))
    assert 66 < tiles * shares <= 132 and plan.knobs["pingpong"] == 0
    move = next(each for each in hopper.moves(problem, form, plan) if "splits" in each.sweep)
    source = swept(lambda each: RECIPE.render(problem, each), move.plan, move.sweep)
    assert source and f"Splits = {shares};  // sweep:" in source
    assert "splits" not in {knob for each in hopper.moves(problem, form, move.plan) for knob in each.sweep}
    whole = product(4096, 4096, 4096)
    assert all(each.knobs["splits"] == 1 for each in hopper.ranked(whole, form_of(whole)))


def pair(function: Callable[..., torch.Tensor], *shapes: tuple[int, ...], dtype: torch.dtype = B16) -> Problem:
    with FakeTensorMode():
        return on_gpu(trace_fx(function, tuple(torch.empty(*shape, dtype=dtype) for shape in shapes)))


def test_two_products_of_one_operand_are_one_form():
    linear, silu = torch.nn.functional.linear, torch.nn.functional.silu
    pairs = {
        "gated": lambda x, g, u: silu(x @ g) * (x @ u),
        "the gate last": lambda x, u, g: (x @ u) * silu(x @ g),
        "of rows": lambda x, g, u: silu(linear(x, g.T)) * linear(x, u.T),
    }
    for name, function in pairs.items():
        problem = pair(function, (64, 72), (72, 136), (72, 136))
        form = form_of(problem)
        assert form.second is not None and form.operands[1] != form.second.operand, name
        assert form.flops == 4 * 64 * 72 * 136 and len(form.operands) == 3, name
        plan = RECIPE.first_plan(problem)
        assert isinstance(plan, Plan) and "Paired = true;" in RECIPE.render(problem, plan), name
        assert all(int(each.knobs["bn"]) % 128 == 0 for each in hopper.ranked(problem, form)), name
    biased = pair(lambda x, g, u, b, c: silu(linear(x, g, b)) * linear(x, u, c),
                  (64, 72), (136, 72), (136, 72), (136,), (136,))  # fmt: skip
    form = form_of(biased)
    assert form.second is not None and form.second.codes == ("u = u + d1",) and form.codes[0] == "x = x + d0"


def test_other_pairs_of_products_are_no_form():
    silu = torch.nn.functional.silu
    others = {
        "another operand": (lambda x, y, g, u: silu(x @ g) * (y @ u), ((64, 72), (64, 72), (72, 136), (72, 136))),
        "one after the other": (lambda x, g, u: silu(x @ g) @ u, ((64, 72), (72, 72), (72, 136))),
        "other strides": (lambda x, g, u: silu(x @ g) * (x @ u.T), ((64, 72), (72, 136), (136, 72))),
        "the second turned": (lambda x, g, u: silu(x @ g) * (x @ u).T, ((136, 72), (72, 136), (72, 136))),
    }
    for name, (function, shapes) in others.items():
        with pytest.raises(UncoveredError):
            form_of(pair(function, *shapes))
        assert name


def test_a_pair_that_no_kernel_of_ours_takes_is_left_to_two():
    function = lambda x, g, u: torch.nn.functional.silu(x @ g) * (x @ u)  # noqa: E731
    for shapes, dtype, device in (
        (((64, 72), (72, 136), (72, 136)), torch.float32, H200),
        (((64, 71), (71, 136), (71, 136)), B16, H200),
        (((64, 72), (72, 136), (72, 136)), B16, A100),
    ):
        problem = pair(function, *shapes, dtype=dtype).model_copy(update={"device": device})
        answer = RECIPE.first_plan(problem)
        assert isinstance(answer, Decline) and "Hopper" in answer.reason


def test_clusters_and_order_are_swept_once():
    problem = product(4096, 4096, 4096)
    plan = hopper.first_plan(problem, form_of(problem))
    move = next(each for each in hopper.moves(problem, form_of(problem), plan) if "group" in each.sweep)
    source = swept(lambda each: RECIPE.render(problem, each), move.plan, {"group": (4, 16), "cluster": (1,)})
    assert source and "Group = 8;  // sweep: 4, 16" in source and "Cluster = 2;  // sweep: 1" in source
    after = Plan.read(source.replace("Cluster = 2;", "Cluster = 1;"))
    assert after is not None and after.knobs["cluster"] == 1
    assert "group" not in {knob for each in hopper.moves(problem, form_of(problem), after) for knob in each.sweep}


def test_the_models_best_plans_are_one_move():
    problem = product(4096, 4096, 4096)
    form = form_of(problem)
    first = first_draft(problem)
    assert isinstance(first, Draft)
    draft = next_draft(problem, first.source, ())
    assert isinstance(draft, Draft) and "Rank = 0;  // sweep: 1, 2, 3, 4, 5" in draft.source
    best = hopper.ranked(problem, form)
    for rank in range(6):
        plan = Plan.read(draft.source.replace("Rank = 0;", f"Rank = {rank};"))
        assert plan is not None and plan.knobs["rank"] == rank
        assert RECIPE.render(problem, plan).count(f"Rank = {rank};") == 1
        moves = RECIPE.moves(problem, plan)
        assert "rank" not in {knob for move in moves for knob in move.sweep}
        assert all(move.plan.knobs["bm"] == best[rank].knobs["bm"] for move in moves if move.sweep)
    # Where nothing is swept, plans are tried one after the other.
    single = next_draft(problem, first.source, (), max_sweep=1)
    assert isinstance(single, Draft) and single.move.startswith("tile ")
    swept_moves = [move.name for move in RECIPE.moves(problem, Plan.read(first.source)) if not move.instead_of_sweep]
    assert swept_moves == ["the model's best plans", "clusters and raster order"]


def test_results_that_tensor_copies_cannot_write_are_stored_directly():
    def store(n: int) -> list[str]:
        problem = on_gpu(trace_fx(lambda a, b: a @ b.T, (rand(256, 64, dtype=H16), rand(n, 64, dtype=H16))))
        text = hopper.knobs_text(problem, form_of(problem), hopper.first_plan(problem, form_of(problem)))
        return re.findall(r"(?:StoreC|TensorStore) = (\w+);", text)

    assert store(136) == ["2", "true"] and store(130) == ["2", "false"] and store(129) == ["1", "false"]


# The forward, its inputs, and the plan's knobs.
Case = tuple[Callable[..., torch.Tensor], tuple[torch.Tensor, ...], dict[str, int | str]]
TILE = {"kernel": hopper.KERNEL, "cluster": 2, "group": 8, "panels": 2, "swept": 0}
CASES: dict[str, Case] = {
    "shared": (lambda x, w, b: torch.nn.functional.gelu(torch.nn.functional.linear(x, w, b)),
               (rand(520, 200, dtype=B16), rand(776, 200, dtype=B16), rand(776, dtype=B16)), TILE | hopper.TILES[0]),
    "K shared": (lambda a, b: a @ b, (rand(130, 712, dtype=B16), rand(712, 137 * 8, dtype=B16)),
                 TILE | hopper.TILES[4] | {"splits": 5}),
    "a pair": (lambda x, g, u: torch.nn.functional.silu(x @ g.T) * (x @ u.T),
               (rand(520, 200, dtype=B16), rand(776, 200, dtype=B16), rand(776, 200, dtype=B16).flip(1)),
               TILE | hopper.TILES[0]),
    "in turn": (lambda a, b: a @ b, (rand(517, 328, dtype=H16), rand(328, 520, dtype=H16)), TILE | hopper.TILES[3]),
    "few rows": (lambda x, w: x @ w.T, (rand(16, 520, dtype=B16), rand(1032, 520, dtype=B16)),
                 {"kernel": decode.KERNEL, "bn": 16, "stages": 8, "cluster": 2}),
    "few tiles": (lambda a, b: a @ b, (rand(200, 1032, dtype=B16), rand(1032, 136, dtype=B16)),
                  {"kernel": decode.KERNEL, "bn": 128, "stages": 6, "cluster": 4}),
}  # fmt: skip


@pytest.fixture(scope="module")
def sources() -> list[str]:
    """All cases rendered."""
    sources = [
        RECIPE.render(on_gpu(trace_fx(function, inputs)), Plan("gemm", knobs))
        for function, inputs, knobs in CASES.values()
    ]
    for source in sources:
        kind = "bfloat16" if "T = bfloat16_t" in source else "float16"
        assert screen_source(source, frozenset({kind, "ieee"})) is None
    return sources


@pytest.fixture(scope="module")
def built(sources: list[str], tmp_path_factory: pytest.TempPathFactory) -> Kernels:
    """All cases in one build."""
    try:
        cuda_compiler()
    except MachineError as failure:
        pytest.skip(str(failure))
    kernels = build(sources, tmp_path_factory.mktemp("hopper"), ("90a",))
    assert "serialized" not in kernels.said and max(kernels.spilled()) == 0
    return kernels


@pytest.mark.timeout(900)
def test_kernels_compile_without_spills_or_serialized_instructions(golden, sources, request):
    if golden.holds(for_nvcc(sources, "sm_90a")):
        return
    built = request.getfixturevalue("built")
    assert all(library.is_file() for library, _ in built.parts)


@pytest.mark.gpu
@HOPPER
@pytest.mark.parametrize("name", CASES)
def test_no_further_from_float64_than_pytorch(built, name):
    function, inputs, _ = CASES[name]
    oracle = function(*(each.double() for each in inputs))
    expected = function(*(each.cuda() for each in inputs)).cpu()
    out = torch.full(expected.shape, torch.nan, device="cuda", dtype=expected.dtype)
    built.run(list(CASES).index(name))(*(each.cuda() for each in inputs), out)
    allowed = 1.1 * (expected.double() - oracle).norm() + 1e-4 * oracle.norm()
    assert (out.cpu().double() - oracle).norm() <= allowed
