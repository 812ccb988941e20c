"""Convolutions and products as products of matrices: the index maps against torch, and kernels run where no GPU is."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from emulated import emulated
from emulated_hopper import emulated_hopper
from goldens import Golden
from gpu_kernels import H200, compiled_as_it_is, for_nvcc, traced
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from ir_evaluation import Body
from torch.nn import functional as F
from traced import Compiler, assert_close, call, spec

from knowledge.compiler.ir.index import Index
from knowledge.compiler.plan import Plan
from knowledge.compiler.problem import Device, Problem
from knowledge.compiler.schedule.loops import cuda_contract, cuda_contract_wgmma, cuda_contract_window
from knowledge.compiler.schedule.loops.contraction import Contraction, contraction
from knowledge.compiler.schedule.loops.cuda_contract import ranked
from knowledge.compiler.schedule.loops.recipe import LoopsRecipe, compiled
from knowledge.compiler.search.moves import translations


def randn(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)))


def found(problem: Problem) -> Contraction | None:
    """The one contraction of a forward; None where no index is reduced over more than one element."""
    made = compiled(problem)
    return contraction(made.nests[0], made.graph)


def gathered(product: Contraction, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """out[place in memory]: the sums as the schedule's rows, steps and guards say."""
    loops = (*product.batch, *product.m, *product.n, *product.k)
    body = Body(loops, {}, {})

    def at(index: Index) -> torch.Tensor:
        return body.index(index).expand([axis.extent for axis in loops])

    tensors = {"a": x, "b": weight}
    nest, right = product.nest, product.right
    address, inside = at(product.address.row) + at(product.address.step), torch.tensor(True)
    for each in product.stepped:
        place = at(each.row) + at(each.step)
        inside = inside & (place >= 0) & (place < each.extent)
    for index, extent in product.guards:
        inside = inside & (at(index) >= 0) & (at(index) < extent)
    memory = tensors[nest.tensor(right).name].flatten()
    b = torch.where(inside, memory[address.clamp(0, len(memory) - 1)], 0.0)
    missed = torch.tensor(True)
    for index, extent in nest.guards(product.left):
        missed = missed & (at(index) >= 0) & (at(index) < extent)
    memory = tensors[nest.tensor(product.left).name].flatten()
    a = torch.where(missed, memory[at(nest.address(product.left)).clamp(0, len(memory) - 1)], 0.0)
    products = a.double() * b.double()
    products = torch.where(inside & missed, products, 0.0) if product.spares else products
    sums = products.sum(dim=list(range(len(loops) - len(product.k), len(loops))))
    kept = torch.ones(sums.shape, dtype=torch.bool)
    outer = Body(loops[: len(loops) - len(product.k)], {}, {})
    for index, extent in product.inside:
        kept = kept & (outer.index(index) < extent)
    (store,) = nest.stores
    out = torch.full((store.tensor.numel,), torch.nan, dtype=torch.float64)
    out[outer.index(store.address).expand(sums.shape)[kept]] = sums[kept]
    return out.reshape(store.tensor.shape)


class Convolution(NamedTuple):
    """A convolution's numbers, one a dimension where there are several."""

    transposed: bool
    groups: int
    per_group: tuple[int, int]
    size: tuple[int, ...]
    taps: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]

    def __call__(self, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        options = {"stride": self.stride, "padding": self.padding, "dilation": self.dilation, "groups": self.groups}
        return getattr(F, self.name)(x, weight, **options)

    @property
    def name(self) -> str:
        return f"conv{'_transpose' * self.transposed}{len(self.size)}d"

    @property
    def operands(self) -> tuple[torch.Tensor, torch.Tensor]:
        inner, outer = self.per_group
        lead = (self.groups * inner, outer) if self.transposed else (self.groups * outer, inner)
        return randn(2, self.groups * inner, *self.size), randn(*lead, *self.taps)

    @property
    def problem(self) -> Problem:
        """As the judge's tracer poses it."""
        x, weight = self.operands
        made = spec("output", self(x, weight))
        last = ((0,) * len(self.size), self.groups, self.dilation)
        given = ({"ref": "a"}, {"ref": "b"}, None, self.stride, self.padding)
        args = (*given, *last) if self.transposed else (*given, self.dilation, self.groups)
        op = {"target": f"aten.{self.name}.default", "args": args, "results": [{**made, "name": "made"}]}
        inputs = [spec("a", x), spec("b", weight)]
        return Problem.model_validate(
            {"target": "cuda", "inputs": inputs, "outputs": [made], "ops": [op], "returns": ["made"], "device": H200}
        )


@st.composite
def convolutions(draw: st.DrawFn) -> Convolution:
    """Any whose window fits."""
    rank = draw(st.integers(1, 3))

    def each(low: int, high: int) -> tuple[int, ...]:
        return draw(st.tuples(*[st.integers(low, high)] * rank))

    per_group = draw(st.tuples(st.integers(1, 3), st.integers(1, 3)))
    groups = draw(st.integers(1, 3))
    return Convolution(
        draw(st.booleans()), groups, per_group, each(7, 9), each(1, 3), each(1, 4), each(0, 2), each(1, 3)
    )


@settings(max_examples=60, deadline=None)
@given(convolutions())
@example(Convolution(False, 2, (32, 2), (7,), (3,), (1,), (1,), (1,)))
@example(Convolution(True, 2, (2, 3), (7, 9), (3, 3), (4, 6), (1, 2), (6, 4)))
@example(Convolution(True, 1, (2, 3), (3, 5, 4), (3, 5, 4), (2, 2, 3), (1, 0, 1), (1, 3, 1)))
def test_rows_steps_and_guards_are_the_convolution(drawn: Convolution) -> None:
    x, weight = drawn.operands
    product = found(drawn.problem)
    assume(product is not None)
    assert product is not None
    x.view(-1)[:: x.numel() // 2], x.view(-1)[x.numel() // 3] = torch.inf, torch.nan
    wanted = drawn(x.double(), weight.double())
    torch.testing.assert_close(gathered(product, x, weight), wanted, equal_nan=True)


def test_channels_are_rows_places_columns_and_groups_batches() -> None:
    x, w = randn(2, 6, 9, 8), randn(8, 3, 3, 3)
    product = found(traced(lambda x, w: F.conv2d(x, w, padding=1, groups=2), x, w))
    assert product is not None
    assert product.sizes == (2, 4, 2 * 9 * 8, 27)
    assert product.direct is False and product.k_major is False and product.wide is False


def test_phases_of_a_transposed_convolution_are_batches_that_see_only_their_taps() -> None:
    x, w = randn(1, 4, 5, 5), randn(4, 6, 4, 4)
    product = found(traced(lambda x, w: F.conv_transpose2d(x, w, stride=2, padding=1), x, w))
    assert product is not None
    assert product.sizes == (4, 6, 25, 4 * 2 * 2) and not product.spares


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_phases_of_a_transposed_convolution_that_have_fewer_taps_are_products_as_well(rank: int) -> None:
    x, w = randn(1, 4, *[5] * rank), randn(4, 6, *[3] * rank)
    convolve = getattr(F, f"conv_transpose{rank}d")
    product = found(traced(lambda x, w: convolve(x, w, stride=2, padding=1, output_padding=1), x, w))
    assert product is not None
    batches, *_, steps = product.sizes
    assert (batches, steps) == (2**rank, 4 * 2**rank) and product.spares


@pytest.mark.parametrize(
    ("layout", "k_major", "wide"), [(torch.contiguous_format, False, True), (torch.channels_last, True, True)]
)
def test_neighbours_in_memory_are_copied_four_at_a_time(layout: Any, k_major: bool, wide: bool) -> None:
    x, w = randn(2, 8, 6, 6).to(memory_format=layout), randn(12, 8, 1, 1)
    product = found(traced(lambda x, w: F.conv2d(x, w), x, w))
    assert product is not None
    assert (product.direct, product.k_major, product.wide) == (True, k_major, wide)


class Several(torch.nn.Module):
    """Convolutions whose sizes no tile divides, each with something behind it."""

    def __init__(self) -> None:
        super().__init__()
        shapes = ((33, 5, 3, 2), (70, 16, 3, 3), (12, 32, 1, 1), (32, 5, 3, 3), (32, 5, 3, 5))
        self.weights = torch.nn.ParameterList([randn(*shape) for shape in shapes])
        self.bias = torch.nn.Parameter(randn(33))

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        plain, grouped, pointwise, transposed, dilated = self.weights
        first = F.conv2d(x, plain, self.bias, stride=(2, 3), padding=(1, 2), dilation=(2, 1)).tanh()
        second = F.conv2d(y, grouped, padding=1, groups=2).relu()
        third = F.conv2d(y, pointwise) * 2
        fourth = F.conv_transpose2d(y, transposed, stride=2, padding=1, output_padding=1)
        fifth = F.conv_transpose2d(y, dilated, stride=(2, 3), padding=(1, 2), dilation=(2, 1), groups=2)
        return first, second, third, fourth, fifth


def rendered(module: torch.nn.Module, *inputs: torch.Tensor, **knobs: int) -> tuple[Problem, str]:
    """The kernels on tensor cores, however little there is to do."""
    problem = traced(module, *inputs)
    return problem, LoopsRecipe().render(problem, Plan("loops").with_knobs(**knobs))


@pytest.fixture
def _all_pays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda_contract, "WORTH_IT", 0)
    monkeypatch.setattr(cuda_contract, "LEAST_USED", 0)


@pytest.mark.usefixtures("_all_pays")
def test_kernels_compute_what_torch_does(golden: Golden, compiler: Compiler) -> None:
    module, inputs = Several().eval(), (randn(2, 5, 19, 17), randn(2, 32, 7, 8))
    problem, source = rendered(module, *inputs)
    assert source.count("struct Contract") == 5
    if golden.holds([emulated(source)], *compiler.flags):
        return
    with torch.no_grad():
        wanted = module(*inputs)
        exact = module.double()(*(each.double() for each in inputs))
    got = call(
        compiler.build(emulated(source)), problem, inputs, {k: v.detach() for k, v in Several().state_dict().items()}
    )
    for number, (mine, theirs, oracle) in enumerate(zip(got, wanted, exact, strict=True)):
        assert_close(mine, theirs, oracle, f"output {number}")


@pytest.fixture
def _all_in_the_background(_all_pays: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda_contract_wgmma, "BUSY", 0)


@pytest.mark.usefixtures("_all_in_the_background")
@pytest.mark.parametrize("products", [1, 3])
@pytest.mark.parametrize("place", range(len(cuda_contract_wgmma.TILES)))
def test_each_tile_in_the_background_computes_what_torch_does(
    golden: Golden, compiler: Compiler, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, products: int, place: int
) -> None:
    tile = cuda_contract_wgmma.TILES[place]
    monkeypatch.setattr(cuda_contract_wgmma, "TILES", (tile,))
    x, w = randn(2, 24, 17, 20), randn(140, 24, 3, 3)
    problem = traced(lambda x, w: F.conv2d(x, w, padding=1), x, w)
    problem = problem.model_copy(update={"precision": "ieee" if products == 3 else "tf32"})
    source = LoopsRecipe().render(problem, Plan("loops"))
    assert f"BLK_M = Int<{tile.bm}>" in source and f"BLK_N = Int<{tile.bn}>" in source
    if golden.holds([emulated_hopper(source), *for_nvcc([source], "sm_90a")], *compiler.flags):
        return
    (got,) = call(compiler.build(emulated_hopper(source)), problem, (x, w))
    exact = F.conv2d(x.double(), w.double(), padding=1)
    assert (got - exact).norm() < (1e-6 if products == 3 else 1e-3) * exact.norm()
    assert compiled_as_it_is(tmp_path, source, "sm_90a") == ""


class Heads(torch.nn.Module):
    """Heads beside one another, whose k's neighbours are those of the weights, and of no single row of the left."""

    def __init__(self) -> None:
        super().__init__()
        self.out = torch.nn.Linear(96, 136)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.out(x.transpose(1, 2).flatten(2)).relu()


@pytest.mark.usefixtures("_all_in_the_background")
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
@pytest.mark.parametrize("what", ["convolution", "odd channels", "heads"])
def test_operands_of_their_own_type_are_multiplied_in_the_background(
    golden: Golden, compiler: Compiler, tmp_path: Path, dtype: torch.dtype, what: str
) -> None:
    torch.manual_seed(2)
    channels = 18 if what == "odd channels" else 48
    module = Heads() if what == "heads" else torch.nn.Conv2d(channels, 72, 3, padding=1, stride=2)
    module, x = module.to(dtype).eval(), randn(8, 6, 37, 16) if what == "heads" else randn(2, channels, 17, 20)
    x = x.to(dtype)
    problem = traced(module, x)
    source = LoopsRecipe().render(problem, Plan("loops"))
    assert source.count("background::launch") == 1
    assert f"Wide = {'true' if what == 'heads' else 'false'}, " in source
    if golden.holds([emulated_hopper(source), *for_nvcc([source], "sm_90a")], *compiler.flags):
        return
    (got,) = call(compiler.build(emulated_hopper(source)), problem, (x,), dict(module.state_dict()))
    exact = module.double()(x.double())
    assert (got.double() - exact).norm() < {torch.float32: 1e-6}.get(dtype, 4e-3) * exact.norm()
    assert compiled_as_it_is(tmp_path, source, "sm_90a") == ""


def windowed(x: torch.Tensor, w: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    q, k = F.linear(x, w, bias).view(-1, 49, 2, 3, 32).permute(2, 0, 3, 1, 4)
    return q @ k.transpose(-1, -2)


@pytest.mark.parametrize(
    "function, inputs, products",
    [
        (lambda x, w: x.float() @ w.T, (torch.empty(512, 256, dtype=torch.bfloat16), torch.empty(128, 256)), 1),
        (lambda x, w: x @ w.T, (torch.empty(65536, 256), torch.empty(4, 256)), 1),
        (windowed, (torch.empty(512, 49, 96), torch.empty(192, 96), torch.empty(192)), 2),
    ],
    ids=["a widened factor", "few results a row", "a bias before the next product"],
)
def test_tensor_cores_take_every_product(function: Any, inputs: tuple[torch.Tensor, ...], products: int) -> None:
    source = LoopsRecipe().render(traced(function, *inputs, device=H200), Plan("loops"))
    assert source.count("struct Contract") == products


def test_images_stay_on_the_right() -> None:
    x, w = torch.empty(16, 64, 64, 64), torch.empty(64, 128, 4, 4)
    problem = traced(lambda x, w: F.conv_transpose2d(x, w, stride=2), x, w, device=H200)
    laid = cuda_contract_wgmma.background(problem, made, {}) if (made := found(problem)) else None
    assert laid is not None and laid.nest.tensor(laid.right).shape == x.shape


@pytest.mark.usefixtures("_all_in_the_background")
@pytest.mark.parametrize("precision", ["ieee", "tf32"])
def test_hoppers_own_instructions_compute_what_torch_does(
    golden: Golden, compiler: Compiler, precision: str, tmp_path: Path
) -> None:
    module, inputs = Several().eval(), (randn(2, 5, 19, 17), randn(2, 32, 7, 8))
    problem = traced(module, *inputs).model_copy(update={"precision": precision})
    source = LoopsRecipe().render(problem, Plan("loops"))
    assert (source.count("background::launch"), source.count(" contract::launch")) == (3, 2)
    assert f"Products = {1 if precision == 'tf32' else 3};" in source
    if golden.holds([emulated_hopper(source), *for_nvcc([source], "sm_90a")], *compiler.flags):
        return
    with torch.no_grad():
        wanted = module(*inputs)
        exact = module.double()(*(each.double() for each in inputs))
    weights = {k: v.detach() for k, v in Several().state_dict().items()}
    got = call(compiler.build(emulated_hopper(source)), problem, inputs, weights)
    for number, (mine, theirs, oracle) in enumerate(zip(got, wanted, exact, strict=True)):
        if precision == "ieee":
            assert_close(mine, theirs, oracle, f"output {number}")
        else:
            assert (mine - oracle).norm() < 1e-3 * oracle.norm()
    assert compiled_as_it_is(tmp_path, source, "sm_90a") == ""


def narrow(x: torch.Tensor, w: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Elements of two bytes: read one at a time, and four at a time."""
    return F.conv2d(x, w, padding=1).relu(), F.conv2d(x, w[:, :, :1, :1]), F.conv2d(y, y, stride=2, padding=1)


@pytest.mark.usefixtures("_all_pays")
def test_elements_of_two_bytes_are_multiplied_exactly_and_summed_in_float32(golden: Golden, compiler: Compiler) -> None:
    inputs = randn(2, 16, 10, 8).half(), randn(40, 16, 3, 3).half() / 64, randn(36, 16, 4, 4).bfloat16()
    problem = traced(narrow, *inputs)
    source = LoopsRecipe().render(problem, Plan("loops"))
    assert source.count("struct Contract") == source.count("Products = 1;") == 3
    assert "half_t const* from" in source and "bfloat16_t const* from" in source and "CopyRight = 4" in source
    if golden.holds([emulated(source), *for_nvcc([source], "sm_80")], *compiler.flags):
        return
    got, exact = call(compiler.build(emulated(source)), problem, inputs), narrow(*(each.double() for each in inputs))
    for number, (mine, theirs, oracle) in enumerate(zip(got, narrow(*inputs), exact, strict=True)):
        assert_close(mine, theirs, oracle, f"output {number}")


@pytest.mark.usefixtures("_all_pays")
def test_infinities_and_nan_come_out_as_float32_has_them(golden: Golden, compiler: Compiler) -> None:
    x, w = randn(1, 4, 6, 8), randn(40, 4, 3, 3)
    x[0, 1, 2, 3], x[0, 2, 5, 1], x[0, 0, 0, 7], w[3, 0, 0, 0] = torch.inf, torch.nan, 3e38, -torch.inf

    def both(x: torch.Tensor, w: torch.Tensor, v: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return F.conv2d(x, w, padding=1), F.conv_transpose2d(x, v, stride=2)

    given = x, w, randn(4, 40, 3, 3)
    problem = traced(both, *given)
    source = emulated(LoopsRecipe().render(problem, Plan("loops").with_knobs(bm=32, bn=128)))
    assert source.count("struct Contract") == 2
    if golden.holds([source], *compiler.flags):
        return
    for got, wanted, exact in zip(
        call(compiler.build(source), problem, given),
        both(*given),
        both(*(each.double() for each in given)),
        strict=True,
    ):
        assert_close(got, wanted, exact.float(), "convolution")


@pytest.mark.usefixtures("_all_pays")
def test_nvcc_compiles_every_tile(golden: Golden, tmp_path: Any) -> None:
    x, w = randn(2, 16, 18, 18), randn(96, 16, 3, 3)
    problem = traced(lambda x, w: F.conv2d(x, w), x, w)
    tiles = [
        LoopsRecipe().render(problem, Plan("loops").with_knobs(bm=each.bm, bn=each.bn)) for each in cuda_contract.TILES
    ]
    structures = [text[text.index("struct Contract0") : text.index("// Memory for what passes")] for text in tiles]
    assert len({*structures}) == len(tiles)
    assert all(tile.shared_bytes <= H200.shared_bytes for tile in cuda_contract.TILES)
    if golden.holds(for_nvcc([*tiles], "sm_80")):
        return
    more = [text.replace("Contract0", f"Contract{number}") for number, text in enumerate(structures[1:], 1)]
    head, tail = "template __global__ void contract::contract<", ", float const*, int4 const*);"
    uses = "\n".join(f"{head}Contract{number}>(Contract{number}{tail}" for number in range(1, len(tiles)))
    whole = tiles[0].replace("// Memory for what passes", "\n".join(more) + uses + "// Memory for what passes")
    assert compiled_as_it_is(tmp_path, whole, "sm_80") == ""


@pytest.fixture
def _all_by_boxes(_all_pays: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda_contract_window, "BUSY", 0)
    monkeypatch.setattr(cuda_contract_window, "MOST_FREE", 100)
    monkeypatch.setattr(cuda_contract_window, "FREE_K", 0.01)
    monkeypatch.setattr(cuda_contract_window, "MOST_EXACT", 256)


BOXES: dict[str, tuple[Any, tuple[int, ...], tuple[int, ...]]] = {
    "padded": (lambda x, w: F.conv2d(x, w, padding=1), (2, 13, 9, 20), (40, 13, 3, 3)),
    "strided": (lambda x, w: F.conv2d(x, w, stride=2, dilation=2), (1, 8, 21, 30), (12, 8, 3, 2)),
    "transposed": (lambda x, w: F.conv_transpose2d(x, w, stride=2, padding=1), (1, 16, 9, 11), (16, 20, 3, 4)),
    "volume": (lambda x, w: F.conv3d(x, w, padding=1), (1, 3, 5, 7, 12), (16, 3, 3, 3, 3)),
    "sequence": (lambda x, w: F.conv1d(x, w, padding=2), (2, 9, 150), (130, 9, 5)),
    "groups": (lambda x, w: F.conv2d(x, w, groups=2) * 0.5, (1, 10, 8, 17), (16, 5, 3, 3)),
    "interleaved": (
        lambda x, w: torch.relu(F.conv_transpose2d(x, w, stride=2, padding=1, output_padding=1)) + 1,
        (2, 9, 7, 11),
        (9, 11, 3, 3),
    ),
    "interleaved volume": (
        lambda x, w: F.conv_transpose3d(x, w, stride=2, padding=1),
        (1, 5, 4, 5, 9),
        (5, 21, 3, 3, 3),
    ),
}


@pytest.mark.usefixtures("_all_by_boxes")
@pytest.mark.parametrize("products", [1, 3])
@pytest.mark.parametrize("name", BOXES)
def test_boxes_of_an_image_compute_what_torch_does(
    golden: Golden, compiler: Compiler, tmp_path: Path, products: int, name: str
) -> None:
    function, *shapes = BOXES[name]
    x, w = (randn(*shape) for shape in shapes)
    x.view(-1)[7] = torch.inf
    problem = traced(function, x, w).model_copy(update={"precision": "ieee" if products == 3 else "tf32"})
    source = LoopsRecipe().render(problem, Plan("loops"))
    assert "window::launch" in source
    if golden.holds([emulated_hopper(source), *for_nvcc([source], "sm_90a")], *compiler.flags):
        return
    (got,) = call(compiler.build(emulated_hopper(source)), problem, (x, w))
    exact = function(x.double(), w.double())
    assert torch.equal(got.isfinite(), exact.isfinite())
    got, exact = (torch.where(exact.isfinite(), each, 0.0) for each in (got, exact))
    assert (got - exact).norm() < (1e-6 if products == 3 else 1e-3) * exact.norm()
    assert compiled_as_it_is(tmp_path, source, "sm_90a") == ""


@pytest.mark.parametrize(
    ("image", "weight", "precision", "taken"),
    [
        ((128, 64, 256, 256), (64, 64, 3, 3), "tf32", True),
        ((128, 64, 256, 256), (64, 64, 3, 3), "ieee", False),  # three products
        ((64, 3, 16, 64, 64), (16, 3, 3, 3, 3), "ieee", True),
        ((512, 64, 36, 36), (128, 64, 5, 5), "tf32", True),
        ((512, 64, 38, 38), (128, 64, 5, 5), "tf32", False),  # rows of 34 places fit no box
        ((128, 64, 256, 256), (64, 64, 1, 1), "tf32", False),  # nothing is read twice
        ((1, 64, 30, 30), (64, 64, 3, 3), "tf32", False),  # most multiprocessors would wait
    ],
)
def test_boxes_are_taken_where_they_pay(
    image: tuple[int, ...], weight: tuple[int, ...], precision: str, taken: bool
) -> None:
    convolution = F.conv2d if len(image) == 4 else F.conv3d
    problem = traced(
        lambda x, w: convolution(x, w),
        torch.empty(image, device="meta"),
        torch.empty(weight, device="meta"),
        device=H200,
    )
    problem = problem.model_copy(update={"precision": precision})
    product = found(problem)
    assert product is not None
    assert (cuda_contract_window.fitting(problem, product, {}) is not None) == taken
    assert cuda_contract_window.fitting(problem, product, {"bm": 64, "bn": 64}) is None


def test_what_is_too_small_or_uses_little_of_a_tile_stays_a_loop() -> None:
    for x, w, groups in ((randn(1, 8, 9, 9), randn(8, 8, 3, 3), 1), (randn(4, 64, 66, 66), randn(64, 1, 3, 3), 64)):
        problem = traced(lambda x, w, g=groups: F.conv2d(x, w, groups=g), x, w)
        assert "Contract0" not in LoopsRecipe().render(problem, Plan("loops"))


def test_sixteen_channels_under_one_tap_are_inside_or_not_together() -> None:
    x, w = randn(2, 32, 9, 8), randn(8, 32, 3, 3)
    product = found(traced(lambda x, w: F.conv2d(x, w, padding=1), x, w))
    assert product is not None
    assert [axis.extent for axis in product.k] == [2, 3, 3, 16] and product.apart == 9 * 8


def test_other_tiles_are_moves_until_one_is_chosen() -> None:
    recipe, x, w = LoopsRecipe(), torch.empty(4, 64, 66, 66), torch.empty(64, 64, 3, 3)
    problem = traced(lambda x, w: F.conv2d(x, w), x, w)
    first = recipe.render(problem, Plan("loops"))
    tiles = [move for move in recipe.moves(problem, Plan("loops")) if move.name.startswith("tiles")]
    assert len({first, *(recipe.render(problem, move.plan) for move in tiles)}) == 4
    assert [move.name for move in recipe.moves(problem, tiles[0].plan)] == ["block size"]


def test_a_tile_in_the_background_is_as_large_as_the_multiprocessors_stay_busy_with() -> None:
    def tile(x: torch.Tensor, w: torch.Tensor, device: Device = H200, **knobs: int) -> tuple[int, int] | None:
        problem = traced(lambda x, w: F.conv2d(x, w, padding=1), x, w, device=device)
        made = found(problem)
        chosen = made and cuda_contract_wgmma.fitting(problem.model_copy(update={"precision": "tf32"}), made, knobs)
        return (chosen.bm, chosen.bn) if chosen else None

    many, few = torch.empty(16, 256, 28, 28), torch.empty(2, 64, 28, 28)
    assert tile(many, torch.empty(256, 256, 3, 3)) == (128, 128)
    assert tile(torch.empty(32, 64, 56, 56), torch.empty(64, 64, 3, 3)) == (64, 128)
    assert tile(few, torch.empty(64, 64, 3, 3)) is None
    assert tile(many, torch.empty(256, 256, 3, 3), bm=64, bn=64) is None
    untold = H200.model_copy(update={"multiprocessors": 0})
    assert tile(many, torch.empty(256, 256, 3, 3), untold) is None, "it would be launched with no block"
    last = many.to(memory_format=torch.channels_last)
    assert tile(last, torch.empty(256, 256, 3, 3)) == (128, 128), "k's in words"
    odd = torch.empty(16, 250, 28, 28).to(memory_format=torch.channels_last)
    assert tile(odd, torch.empty(256, 250, 3, 3)) is None
    for each in cuda_contract_wgmma.TILES:
        assert all(each.stages(products) >= 3 and each.cycles(products) > 0 for products in (1, 3))


def test_one_product_instead_of_three_where_the_precision_allows() -> None:
    x, w = torch.empty(4, 64, 66, 66), torch.empty(64, 64, 3, 3)
    problem = traced(lambda x, w: F.conv2d(x, w), x, w)
    fast = LoopsRecipe().render(problem.model_copy(update={"precision": "tf32"}), Plan("loops"))
    assert "Products = 1;" in fast and "Products = 1;" not in LoopsRecipe().render(problem, Plan("loops"))


def test_by_default_convolutions_may_round_and_products_may_not() -> None:
    x, w, v = torch.empty(4, 64, 66, 66), torch.empty(64, 64, 3, 3), torch.empty(64, 64)
    recipe, plan = LoopsRecipe(), Plan("loops")
    problem = traced(lambda x, w, v: F.conv2d(x, w) @ v, x, w, v).model_copy(update={"precision": "default"})
    first = recipe.first_plan(problem)
    assert isinstance(first, Plan)
    structures = recipe.render(problem, first).split("struct Contract")[1:]
    assert ["Products = 1;" in text for text in structures] == [True, False]
    assert first.more_exact is not None and first.more_exact.more_exact is None
    assert "Products = 1;" not in recipe.render(problem, first.more_exact)
    held = problem.model_copy(update={"precision": "ieee"})
    assert recipe.first_plan(held) == plan
    assert "Products = 1;" not in recipe.render(held, first)
    product = traced(lambda x, v: x @ v, torch.empty(4096, 64), v).model_copy(update={"precision": "default"})
    assert recipe.first_plan(product) == plan
    begun, exact, *_ = translations(problem, 1)
    assert (begun.move, exact.move) == ("first kernel", "three TF32 products")
    assert "Products = 1;" in begun.source and "Products = 1;" not in exact.source


def test_a_small_convolution_takes_tiles_that_it_fills() -> None:
    x, w = torch.empty(8, 64, 32, 32), torch.empty(64, 64, 3, 3)
    (nest,) = compiled(problem := traced(lambda x, w: F.conv2d(x, w, padding=1), x, w)).nests
    made = contraction(nest, compiled(problem).graph)
    assert made is not None
    best = ranked(made, problem.device)[0]
    assert (best.bm, best.bn) == (64, 64), "128 tiles, one a multiprocessor; of 128 x 64 half would be empty"
