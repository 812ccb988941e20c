"""Partition and ranking, on captures made by hand: pure functions, no PyTorch."""

from __future__ import annotations

import pytest
from captures import ROWS, WIDTH, block, captured, operation, packed, part, two_layers, weights
from run_samples import DEVICE

from graph.model.partition import regions_of
from graph.model.plan import Plan, plan_of
from graph.model.plan_table import places_in_words, sentences_of, sheet_of
from graph.model.window import Window
from graph.model.writers import Writers
from harness.nouns.capture import Capture, Missed, Part
from harness.nouns.task import Ref


def planned(capture: Capture) -> Plan:
    return plan_of(capture, "cpu", DEVICE)


def windows(capture: Capture) -> list[list[str]]:
    return [[each.name for each in region.window.operations] for region in regions_of(capture, Writers("cpu", DEVICE))]


def test_a_product_takes_in_what_follows_it_and_never_a_second_product() -> None:
    block = [["layer_norm"], ["linear", "relu"], ["linear", "add"]]
    assert windows(captured(two_layers(), whole_ms=22.0)) == [*block, *block]


def test_a_product_at_the_devices_rate_is_left_to_its_library_and_what_follows_it_is_not() -> None:
    flops = int(0.7 * DEVICE.peak_gflop_s * 1e6)  # of a millisecond
    product = operation("p", "linear.default", "x", "w", shape=(ROWS, WIDTH), ms=1.0, flops=flops)
    gelu = operation("g", "gelu.default", "p", shape=(ROWS, WIDTH))
    given = {"inputs": (packed("x", ROWS, WIDTH),), "weights": [packed("w", WIDTH, WIDTH)]}
    plan = planned(captured(part(product, gelu, **given), whole_ms=2.0))
    assert {region.operations: region.writer for region in plan.regions} == {
        ("linear",): "language model",
        ("gelu",): "playbook",
    }
    slower = product.model_copy(update={"ms": 2.0})
    assert windows(captured(part(slower, gelu, **given), whole_ms=3.0)) == [["linear", "gelu"]]


def test_within_inductor_s_code_a_product_at_rate_is_cut_with_what_follows_it_where_that_takes_long() -> None:
    flops = int(0.7 * DEVICE.peak_gflop_s * 1e6)  # of a millisecond
    product = operation("p", "linear.default", "x", "w", shape=(ROWS, WIDTH), ms=1.0, flops=flops)
    given = {"inputs": (packed("x", ROWS, WIDTH),), "weights": [packed("w", WIDTH, WIDTH)]}
    for ms, cut in ((0.2, ["linear", "gelu"]), (0.01, ["linear"])):
        gelu = operation("g", "gelu.default", "p", shape=(ROWS, WIDTH), ms=ms)
        capture = captured(part(product, gelu, **given), whole_ms=9.0).model_copy(update={"compiled_ms": 1.5})
        plan = planned(capture)
        assert cut in [list(region.operations) for region in plan.regions]


def test_by_inductor_s_times_a_plan_says_whose_they_are_and_what_eager_takes() -> None:
    capture = captured(two_layers(), whole_ms=50.0)
    plan = planned(capture.model_copy(update={"compiled_ms": 23.0}))
    assert (plan.whole_ms, plan.eager_ms) == (23.0, 50.0)
    assert plan.between_ms == pytest.approx(1.0)
    said = " ".join(sentences_of(plan, playbook_alone=True))
    assert "One compiled call of toy on cpu: 23 ms" in said
    assert "Times are those of Inductor's kernels; an eager call takes 50 ms." in said
    failed = planned(capture.model_copy(update={"uncompiled": "RuntimeError: no compiler"}))
    assert "Times are eager's, for Inductor did not compile the model: RuntimeError: no compiler." in sentences_of(
        failed, playbook_alone=True
    )


def test_equal_layers_are_one_region_with_two_places() -> None:
    plan = planned(captured(two_layers(), whole_ms=22.0))
    assert [len(region.places) for region in plan.regions] == [2, 2, 2]
    assert sum(region.ms for region in plan.regions) == pytest.approx(22.0)
    assert {region.writer for region in plan.regions} == {"playbook"}


def test_another_shape_number_or_order_of_operands_is_another_form() -> None:
    here = packed("x", ROWS, WIDTH)

    def digest(*args: object, shape: tuple[int, ...] = (ROWS, WIDTH)) -> str:
        given = (packed("x", *shape), packed("y", *shape))
        return Window(part(operation("r", "sub.Tensor", *args, shape=shape), inputs=given, weights=[]), 0, 1).digest

    forms = [digest("x", 2.0), digest("x", 3.0), digest("x", 2), digest("x", "y"), digest("x", "x"),
             digest("x", "y", shape=(ROWS, 1))]  # fmt: skip
    assert len(set(forms)) == len(forms)
    assert digest("x", "y") == digest("y", "x"), "names are of no account"
    assert here.name == "x"


def test_what_is_hindered_lies_in_no_region_and_is_told_with_its_time() -> None:
    plan = planned(captured(two_layers(hindrance="it draws random numbers"), whole_ms=22.0))
    assert plan.hindered == {"aten.relu.default: it draws random numbers": 1.0}
    assert windows(captured(two_layers(hindrance="it draws"), whole_ms=22.0))[1:3] == [["linear"], ["linear", "add"]]


def test_a_value_of_later_use_is_an_output_though_the_region_goes_on() -> None:
    relu = operation("r", "relu.default", "x", shape=(ROWS, WIDTH))
    double = operation("d", "mul.Tensor", "r", 2.0, shape=(ROWS, WIDTH))
    both = operation("s", "add.Tensor", "r", "d", shape=(ROWS, WIDTH))
    whole = part(relu, double, both, inputs=(packed("x", ROWS, WIDTH),), weights=[])
    window = Window(whole, 0, 2)
    assert window.given == ("r", "d")
    assert [spec.name for spec in window.signature.outputs] == ["y0", "y1"]
    assert Window(whole, 0, 3).given == ("s",)


def test_what_only_stands_side_by_side_is_not_joined() -> None:
    shape = (ROWS, WIDTH)
    other = operation("o", "relu.default", "z", shape=shape)
    first = operation("f", "relu.default", "x", shape=shape)
    last = operation("l", "mul.Tensor", "f", "o", shape=shape)
    given = (packed("x", *shape), packed("z", *shape))
    apart = part(other, first, inputs=given, weights=[]).model_copy(update={"outputs": ("o", "f")})
    assert windows(captured(apart, whole_ms=2.0)) == [["relu"], ["relu"]]
    assert windows(captured(part(other, first, last, inputs=given, weights=[]), whole_ms=3.0)) == [
        ["relu", "relu", "mul"]
    ]


def test_windows_lose_no_value_and_cover_every_operation_once() -> None:
    capture = captured(two_layers(), whole_ms=22.0)
    regions = regions_of(capture, Writers("cpu", DEVICE))
    covered = [index for region in regions for index in range(region.window.start, region.window.end)]
    assert covered == list(range(len(capture.parts[0].operations)))
    made = {name for region in regions for name in region.window.given} | {"x"}
    for region in regions:
        assert set(region.window.inputs) <= made


def test_the_bound_is_amdahls() -> None:
    plan = planned(captured(two_layers(), whole_ms=22.0))
    (product,) = (region for region in plan.regions if region.operations == ("linear", "relu"))
    saved = product.now_ms - product.floor_ms
    assert plan.bound([product]) == pytest.approx(22.0 / (22.0 - saved))
    assert plan.bound([]) == 1.0
    assert 0 < product.floor_ms < product.now_ms


def test_parts_that_took_longer_than_the_whole_are_the_whole() -> None:
    plan = planned(captured(two_layers(), whole_ms=10.0))
    assert plan.whole_ms == pytest.approx(22.0)
    assert sum(map(plan.share, plan.regions)) == pytest.approx(1.0)


def test_time_between_operations_counts_for_calls_that_a_region_saves() -> None:
    plan = planned(captured(two_layers(), whole_ms=32.0))
    by_name = {region.operations: region for region in plan.regions}
    assert plan.between_ms == pytest.approx(10.0)
    assert by_name["linear", "relu"].between_ms == pytest.approx(2.0), "two places, one call saved at each, of ten"
    assert by_name[("layer_norm",)].between_ms == 0


def test_small_regions_and_those_that_nobody_at_hand_writes_are_not_worth_a_kernel() -> None:
    spectrum = operation("c", "fft_rfft.default", "x", "k", shape=(1, 4, 8, 8), ms=50.0)
    tiny = operation("t", "relu.default", "c", shape=(1, 4, 8, 8), ms=0.01, hindrance="it is kept apart")
    last = operation("e", "exp.default", "t", shape=(1, 4, 8, 8), ms=0.01)
    capture = captured(
        part(spectrum, tiny, last, inputs=(packed("x", 1, 4, 8, 8),), weights=[packed("k", 4, 4, 1, 1)]),
        whole_ms=50.02,
    )
    plan = planned(capture)
    assert [region.ms for region in plan.regions] == [50.0, 0.01]
    assert plan.worthwhile(playbook_alone=True) == ()
    assert plan.worthwhile(playbook_alone=False) == plan.regions[:1]


def rotated(ms: float) -> Part:
    """Half of each row turned against the other, by numbers of which some are weights: no recipe writes it as one."""
    half, shape = (ROWS, WIDTH // 2), (ROWS, WIDTH)
    turned = (Ref(ref="n"), Ref(ref="a"))
    return part(
        operation("a", "slice.Tensor", "x", 1, 0, WIDTH // 2, shape=half, ms=0.0),
        operation("b", "slice.Tensor", "x", 1, WIDTH // 2, WIDTH, shape=half, ms=0.0),
        operation("n", "neg.default", "b", shape=half, ms=ms),
        operation("r", "cat.default", turned, 1, shape=shape, ms=ms),
        operation("s", "mul.Tensor", "r", "w", shape=shape, ms=ms),
        operation("m", "mul.Tensor", "x", "v", shape=shape, ms=ms),
        operation("y", "add.Tensor", "m", "s", shape=shape, ms=ms),
        inputs=(packed("x", *shape),), weights=[packed("w", *shape), packed("v", *shape)],
    )  # fmt: skip


def test_what_no_recipe_writes_as_one_the_compiler_does_where_it_would_take_less_time() -> None:
    (region,) = planned(captured(rotated(1.0), whole_ms=5.0)).regions
    assert (region.recipe, region.writer) == ("loops", "playbook")
    assert region.operations == ("neg", "cat", "mul", "mul", "add")
    quick = planned(captured(rotated(1e-4), whole_ms=5e-4)).regions
    assert "loops" not in {each.recipe for each in quick}, "no kernel is called in so little time"


def test_a_heavy_operation_that_a_recipe_writes_is_not_left_to_the_compiler() -> None:
    recipes = {region.recipe for region in planned(captured(two_layers(), whole_ms=22.0)).regions}
    assert recipes == {"rows", "gemm"}


def test_attention_spelled_out_may_hold_two_products_and_what_is_none_may_not() -> None:
    asked: list[list[str]] = []

    class Recorded(Writers):
        def recipe(self, window: Window) -> str:
            asked.append([each.name for each in window.operations])
            return "attention" if asked[-1] == ["matmul", "mul", "softmax", "matmul"] else ""

    def attending(between: str) -> Part:
        shape = (2, 8, 8)
        return part(
            operation("p", "matmul.default", "q", "k", shape=shape),
            operation("m", "mul.Tensor", "p", 0.5, shape=shape),
            operation("s", between, "m", -1, shape=shape),
            operation("y", "matmul.default", "s", "v", shape=shape),
            inputs=tuple(packed(name, *shape) for name in "qkv"), weights=[],
        )  # fmt: skip

    (region,) = regions_of(captured(attending("softmax.int"), whole_ms=4.0), Recorded("cpu", DEVICE))
    assert (region.kind, region.recipe) == ("attention", "attention")
    asked.clear()
    regions_of(captured(attending("cumsum.default"), whole_ms=4.0), Recorded("cpu", DEVICE))
    assert all(names.count("matmul") < 2 for names in asked)


def test_the_table_names_layers_once_and_tells_what_was_missed() -> None:
    missed = Missed(path="head", module_type="Head", ms=3.0, reason="control flow on data")
    plan = planned(captured(two_layers(), whole_ms=30.0, missed=(missed,)))
    assert places_in_words(plan.regions[0]) == "layers.*.up, layers.*"
    rows = sheet_of(plan).rows
    assert any(row[0] == "not captured: head" and row[5] == "10.0%" for row in rows)
    assert any("control flow on data" in sentence for sentence in sentences_of(plan, playbook_alone=True))


def test_a_model_that_a_cache_holds_has_no_bound_that_says_anything() -> None:
    relu = operation("r", "relu.default", "x", shape=(ROWS, WIDTH), ms=22.0)
    plan = planned(captured(part(relu, inputs=(packed("x", ROWS, WIDTH),), weights=[]), whole_ms=22.0))
    assert plan.regions[0].floor_ms == 0.0
    assert sheet_of(plan).rows[0][-1] == "over 100x"
    assert "playbook writes: over 100x." in " ".join(sentences_of(plan, playbook_alone=True))


def test_a_plan_is_the_same_every_time() -> None:
    capture = captured(two_layers(), whole_ms=22.0)
    assert planned(capture) == planned(Capture.model_validate_json(capture.model_dump_json()))


def test_a_layer_of_other_width_is_another_region() -> None:
    wide = part(*block(0, "x"), inputs=(packed("x", ROWS, WIDTH),), weights=weights(0), path="a")
    other = wide.model_copy(update={"path": "b"})
    plan = planned(captured(wide, other, whole_ms=22.0))
    assert {place.part for place in plan.regions[0].places} == {0, 1}
