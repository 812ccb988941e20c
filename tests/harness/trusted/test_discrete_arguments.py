"""Integers and masks of a bench: what the reference takes is varied, in trials and while timed; the rest stays."""

from __future__ import annotations

import pytest
import torch
from python_kernels import bench_of

from harness.checks.families import PLANS, STIRRED
from harness.nouns.task import Signature, TensorSpec
from harness.trusted import admission
from harness.trusted.discrete_arguments import DiscreteArguments, Known
from harness.trusted.facts.describing import describe
from harness.trusted.jobs import judging

SOURCE = """
import torch

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.table = torch.nn.Parameter(torch.randn(40, 3))
        self.register_buffer("codes", torch.randint(-9, 10, (40, 3), dtype=torch.int8))
        self.register_buffer("hidden", torch.ones(6, 6, dtype=torch.bool).triu(1))

    def forward(self, index, flags):
        DEMAND
        rows = self.table[index] * self.codes[index]
        return torch.where(flags, rows, 0.0).sum(-1).masked_fill(self.hidden, 7.0)

def get_inputs():
    return [torch.randint(0, 40, (6, 6)), torch.rand(6, 6, 1) < 0.5]
"""


def bench_for(source, kernel=None, **further):
    """A bench on what the file itself describes; without a kernel of its own, one that does nothing."""
    task = describe(source, "task")
    signature = Signature.model_validate(task["workloads"][0]["signature"])
    return bench_of(kernel or (lambda views, numbers: None), source=source, signature=signature, **further)


def settle(bench):
    bench.arguments.discrete.settle(bench.reference.inputs, bench.arguments.takes, 3)


def snapshot(bench, slot, names):
    return {name: bench.memory.views[slot][name].clone() for name in names}


ARGUMENTS = ("index", "flags", "codes", "hidden")


def test_every_slot_of_every_round_shows_integers_that_none_showed_before():
    with bench_for(SOURCE.replace("DEMAND", "")) as bench:
        settle(bench)
        assert bench.arguments.discrete.refused == []
        judging.fill_for_timing(bench)
        seen = [snapshot(bench, slot, ARGUMENTS) for slot in range(4)]
        for slot in range(4):
            bench.arguments.stir(slot)
            seen.append(snapshot(bench, slot, ARGUMENTS))
        for name in ("index", "codes", "hidden"):
            assert not any(torch.equal(a[name], b[name]) for k, a in enumerate(seen) for b in seen[:k]), name
        for each in seen:
            assert int(each["index"].min()) >= 0 and int(each["index"].max()) < 40
            assert int((each["hidden"] != bench.arguments.weights["hidden"]).sum()) in range(1, 7)
            assert set(each["codes"].unique().tolist()) <= set(range(-9, 10))


def test_trials_take_turns_and_replay():
    with bench_for(SOURCE.replace("DEMAND", "")) as bench:
        settle(bench)
        ways = [bench.arguments.discrete.ways(name) for name in PLANS["elementwise"]]
        assert ways[0] == {}
        assert {way["hidden"] for way in ways if "hidden" in way} >= {"flipped", "cleared", "set", "few"}
        assert {way["index"] for way in ways if "index" in way} == {"moved", "redrawn", "repeated", "alone", "renewed"}
        for distribution in PLANS["elementwise"][1:]:
            bench.arguments.fill(0, 9, distribution)
            first = snapshot(bench, 0, ARGUMENTS)
            bench.arguments.stir(0)
            bench.arguments.fill(0, 9, distribution)
            assert all(torch.equal(first[name], bench.memory.views[0][name]) for name in ARGUMENTS), distribution
        bench.arguments.fill(1, 9, "given")
        index, flags = bench.reference.inputs(9)
        views = bench.memory.views[1]
        assert torch.equal(views["index"], index) and torch.equal(views["flags"], flags)
        assert torch.equal(views["codes"], bench.arguments.weights["codes"])


@pytest.mark.parametrize(
    ("demand", "still"),
    [
        ("assert self.hidden.sum() == 15 and not self.hidden.tril().any()", {"hidden"}),
        ("assert self.codes.sum() == SUM", set()),
    ],
)
def test_what_the_reference_refuses_stays_and_is_told(demand, still):
    plain = SOURCE.replace("DEMAND", "")
    with bench_for(plain) as bench:
        total = int(bench.arguments.weights["codes"].sum())
    with bench_for(SOURCE.replace("DEMAND", demand.replace("SUM", str(total)))) as bench:
        settle(bench)
        judging.fill_for_timing(bench)
        before = snapshot(bench, 0, ARGUMENTS)
        bench.arguments.stir(0)
        after = snapshot(bench, 0, ARGUMENTS)
        bench.arguments.results(0)
        assert {name for name in ARGUMENTS if torch.equal(before[name], after[name])} == still
        assert {words.split()[0] for words in bench.arguments.discrete.refused} >= still


def test_where_nothing_but_the_files_own_is_taken_it_draws_anew():
    """Rows come in pairs that add up to 39, which no variation knows."""
    source = SOURCE.replace("DEMAND", "assert (index[:3] + index[3:] == 39).all()").replace(
        "    return [torch.randint(0, 40, (6, 6))",
        "    half = torch.randint(0, 40, (3, 6))\n    return [torch.cat([half, 39 - half])",
    )
    with bench_for(source) as bench:
        settle(bench)
        assert "index" not in bench.arguments.discrete.ways(STIRRED)
        seen = []
        for _ in range(12):
            bench.arguments.stir(0)
            seen.append(bench.memory.views[0]["index"].clone())
            bench.arguments.results(0)
        assert not any(torch.equal(one, other) for k, one in enumerate(seen) for other in seen[:k])


@pytest.mark.parametrize(("ambiguous", "extent", "placed"), [(False, 3, True), (True, 3, False), (True, 20, True)])
def test_places_are_drawn_where_equals_are_right_or_need_not_be(ambiguous, extent, placed):
    """Of twenty indices some name the same of three places."""
    index = torch.randint(0, 3, (4, 5), generator=torch.Generator().manual_seed(1))
    spec = TensorSpec(name="index", shape=(4, 5), strides=(5, 1), dtype="int64")
    discrete = DiscreteArguments(Signature(inputs=(spec,), outputs=()), [index], {})
    known = Known(ambiguous=ambiguous, extents={"index": extent})
    discrete.settle(lambda seed: [index], lambda ways: True, 1, known)
    turns = [discrete.ways(str(number)) for number in range(12)]
    assert ({"index": "placed"} in turns) == placed


@pytest.mark.parametrize(
    ("dtype", "buffers", "numbers"),
    [(torch.int8, (), True), (torch.int64, (), True), (torch.int8, ("codes",), False), (torch.bool, (), False)],
)
@pytest.mark.parametrize("codes", [torch.eye(6), torch.ones(6, 6).tril(), torch.arange(36).view(6, 6) % 5 % 2])
def test_a_parameter_of_ones_and_zeros_is_no_mask(dtype, buffers, numbers, codes):
    """A loaded one has other codes; what is a buffer or bool may hide something, and stays such."""
    codes = codes.to(dtype)
    discrete = DiscreteArguments(Signature(inputs=(), outputs=()), [], {"codes": codes}, buffers)
    discrete.settle(lambda seed: [], lambda ways: True, 1, Known())
    generator = torch.Generator().manual_seed(1)
    drawn = [discrete.varied("codes", codes, discrete.ways(str(turn)), generator) for turn in range(9)]
    assert (max(int(each.max()) for each in drawn) > 1) == numbers
    assert all(each.dtype == dtype for each in drawn)


@pytest.mark.parametrize(("extent", "own", "extras"), [(9, (), {0, 1, 6}), (6, (), {0, 1}), (6, (6,), {0, 1, 6})])
def test_no_place_is_planted_that_a_table_is_known_not_to_have(extent, own, extras):
    """An operator that looks at no bounds would take it, and read what lies behind its table."""
    index = 2 + torch.arange(20).view(4, 5) % 4
    index[0, :2] = torch.tensor([5, 5])
    spec = TensorSpec(name="index", shape=(4, 5), strides=(5, 1), dtype="int64")
    discrete = DiscreteArguments(Signature(inputs=(spec,), outputs=()), [index], {})
    known = Known(own={"index": own}, extents={"index": extent})
    discrete.settle(lambda seed: [index], lambda ways: True, 1, known)
    assert {*discrete._shown["index"].extras} == extras


def test_an_argument_that_is_read_by_nothing_costs_no_trial():
    spec = TensorSpec(name="x", shape=(6, 5), strides=(5, 1), dtype="float32")
    assert spec.dtype == "float32"
    with bench_of(lambda views, numbers: None) as bench:
        bench.arguments.discrete.settle(lambda seed: pytest.fail("drawn"), lambda ways: pytest.fail("tried"), 1)


CHANCE = """
import torch

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.table = torch.nn.Parameter(torch.randn(40, 3))

    def forward(self, index, kinds, rows):
        return self.table[kinds] + RESULT

def get_inputs():
    return [torch.randperm(12)[:6], torch.zeros(12, dtype=torch.long), torch.rand(6, 3)]
"""


@pytest.mark.parametrize(
    ("result", "doubled"),
    [
        ("torch.zeros(12, 3).index_add(0, index, rows)", True),
        ("torch.zeros(12, 3).index_copy(0, index, rows)", False),
        ("torch.zeros(12, 3).index_add(0, index, rows) / int(index.unique().numel() == 6)", False),
    ],
    ids=["added", "copied", "refused"],
)
def test_distinct_indices_repeat_where_that_is_defined_and_taken(result, doubled):
    with bench_for(CHANCE.replace("RESULT", result)) as bench:
        bench.arguments.settle(3)
        tried = {each for turn in bench.arguments.discrete._turns for each in turn.items()}
        assert (("index", "doubled") in tried) == doubled
        assert ("index doubled" in bench.arguments.discrete.refused) != doubled
        assert {("kinds", "switched"), ("kinds", "raised")} <= tried
        if "copy" not in result and doubled:
            assert {("kinds", "planted")} <= tried, "1 is a row of the table as well"


def test_values_next_to_the_range_are_tried_where_a_wrong_index_ends_the_forward_alone():
    source = SOURCE.replace("DEMAND", "").replace("torch.randint(0, 40, (6, 6))", "torch.randint(5, 20, (6, 6))")
    with bench_for(source) as bench:
        bench.arguments.discrete.settle(bench.reference.inputs, bench.arguments.takes, 3, Known(beyond=True))
        low, high = (
            bench.arguments.discrete._shown["index"].low.min(),
            bench.arguments.discrete._shown["index"].high.max(),
        )
        assert low >= 5 and bench.arguments.discrete._shown["index"].extras == (0, 1, int(high) + 1)
        bench.arguments.discrete.settle(bench.reference.inputs, bench.arguments.takes, 3, Known(beyond=False))
        assert bench.arguments.discrete._shown["index"].extras == (0, 1)


TASK = """
import torch

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        {made}

    def forward(self, {given}):
        return {result}

def get_inputs():
    return [{inputs}]
"""
X, SQUARE = "torch.randn(20, 30)", "torch.randn(40, 40)"
INFINITE, ZEROS = "torch.full((40, 40), -torch.inf).triu(1)", "torch.zeros(20, 30, dtype=torch.int32)"
KEPT_BY = {
    "token types": ("self.t = torch.nn.Parameter(torch.randn(2, 8))", "m", "self.t[m]", "torch.zeros(300).long()"),
    "a mask of zeros": ("pass", "x, m", "torch.where(m > 0, x, x * x)", f"{X}, {ZEROS}"),
    "a buffer of zeros": (f"self.register_buffer('m', {ZEROS})", "x", "x + self.m", X),
    "rows of indices": ("pass", "m", "m.float().cumsum(1)", "torch.randint(0, 500, (90, 12))"),
    "a causal mask": ("pass", "x, m", "(x * m).sum(1)", f"{SQUARE}, torch.ones(40, 40).bool().tril()"),
    "infinities": ("pass", "x, m", "(x + m).softmax(1)", f"{SQUARE}, {INFINITE}"),
    "a buffer's infinities": (f"self.register_buffer('m', {INFINITE})", "x", "(x + self.m).softmax(1)", SQUARE),
    "zeros beside a triangle": ("pass", "x, m", "x @ m", f"{SQUARE}, torch.ones(40, 40).tril()"),
}
"""By what a kernel may keep work that follows from an argument: what its model makes, its inputs, the result."""


@pytest.mark.parametrize("kept_by", KEPT_BY)
def test_what_follows_from_an_arguments_pattern_is_of_use_in_no_other_timed_call(kept_by):
    """Who compares a pattern as a whole, or its rows, is right, and is timed with all of its work."""
    made, given, result, inputs = KEPT_BY[kept_by]
    with bench_for(TASK.format(made=made, given=given, result=result, inputs=inputs)) as bench:
        settle(bench)
        admission.choose_manner(bench, 3)
        admission.choose_moving(bench, 3)
        judging.fill_for_timing(bench)
        wholes, rows = set(), set()
        for call in range(24):
            bench.arguments.stir(call % 4)
            pattern = _pattern(bench.memory.views[call % 4]["m"])
            assert pattern.numpy().tobytes() not in wholes
            wholes.add(pattern.numpy().tobytes())
            now = {row.numpy().tobytes() for row in pattern} if kept_by == "rows of indices" else set()
            assert not rows & now
            rows |= now


def _pattern(mask):
    if mask.is_floating_point():
        return mask.isinf() if mask.isinf().any() else mask == 0
    return mask.clone(memory_format=torch.contiguous_format)
