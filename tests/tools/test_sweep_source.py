"""Sweeps as models write them: what is read, what is sent back, and the sources that come of it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools.sweep import MARK, Parameter, SweepError, rank_correlation, read_sweep, say_values

KERNEL = """\
constexpr int kTile = 128;  // sweep: 64, 128, 256
// sweep: over the rows, twice
using BLK_K = Int<16>;  // sweep: 8
float const scale = 2;
constexpr bool kOnce = true; // sweep: true,false
int main() { return kTile; }
"""
PLAIN = """\
constexpr int kTile = 128;
// sweep: over the rows, twice
using BLK_K = Int<16>;
float const scale = 2;
constexpr bool kOnce = true;
int main() { return kTile; }
"""


def test_constants_and_their_values_are_read_and_the_comments_are_gone() -> None:
    source, sweep = read_sweep(KERNEL, 12)
    assert source == PLAIN
    assert sweep is not None
    assert sweep.parameters == (
        Parameter(name="kTile", line=1, values=("128", "64", "256")),
        Parameter(name="BLK_K", line=3, values=("16", "8")),
        Parameter(name="kOnce", line=5, values=("true", "false")),
    )
    assert sweep.count == len(list(sweep.points())) == 12


def test_the_first_point_is_the_source_as_written() -> None:
    source, sweep = read_sweep(KERNEL, 12)
    assert sweep is not None
    first, *others = sweep.points()
    assert first == {"kTile": "128", "BLK_K": "16", "kOnce": "true"}
    assert sweep.source(source, first) == source
    changed = sweep.source(source, {"kTile": "64", "BLK_K": "8", "kOnce": "false"})
    assert changed == PLAIN.replace("= 128", "= 64").replace("<16>", "<8>").replace("= true", "= false")
    assert len({sweep.source(source, values) for values in others}) == 11


def test_code_that_is_commented_out_declares_nothing() -> None:
    assert read_sweep("  // int a = 1;  // sweep: 2\nint a = 1;", 12)[1] is None
    assert read_sweep("  // sweep: over the rows\nint a = 1;", 12)[1] is None


def test_a_source_without_a_sweep_is_left_alone() -> None:
    assert read_sweep(PLAIN, 12) == (PLAIN, None)


@pytest.mark.parametrize(
    "line",
    [
        "  static constexpr int64_t tile = 0x40;  // sweep: 0x80",
        "auto tile = cute::Int<64>{};// sweep: 128",
        "constexpr auto tile = C< 64>{};  // sweep:128",
        "int const tile=-1; // sweep: 0, -2",
    ],
)
def test_ways_to_write_a_constant(line: str) -> None:
    source, sweep = read_sweep(line, 12)
    assert sweep is not None
    assert sweep.parameters[0].name == "tile"
    value = sweep.parameters[0].values[1]
    changed = sweep.source(source, {"tile": value})
    assert changed == source.replace(sweep.parameters[0].values[0], value)
    assert MARK not in changed


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ("run<128>(x);  // sweep: 64, 128", "Line 1 cannot be swept"),
        ("constexpr float k = 0.5f;  // sweep: 1, 2", "Line 1 cannot be swept"),
        ("\nconstexpr int k = 1;  // sweep: 1, two", "Line 2 cannot be swept"),
        ("constexpr int k = 1;  // sweep:", "Line 1 cannot be swept"),
        ("constexpr int k = 1;  // a tile  // sweep: 2", "Line 1 cannot be swept"),
        ("constexpr int k = 1;  // sweep: 1, 1", "no second value"),
        ("int a = 1;  // sweep: 2\nint a = 3;  // sweep: 4", "a is swept on two lines"),
        ("int a = 1;  // sweep: 2, 3\nint b = 3;  // sweep: 4, 5\nint c = 0;  // sweep: 1", "3 x 3 x 2 = 18 variants"),
    ],
)
def test_what_cannot_be_tried_is_sent_back(lines: str, said: str) -> None:
    with pytest.raises(SweepError, match=said):
        read_sweep(lines, 12)


def test_where_sweeps_are_off_the_model_is_told() -> None:
    with pytest.raises(SweepError, match=r"has 2 = 2 variants; this run tries none\."):
        read_sweep("int a = 1;  // sweep: 2", 1)
    with pytest.raises(SweepError, match=r"has 3 = 3 variants; at most 2 are tried\."):
        read_sweep("int a = 1;  // sweep: 2, 3", 2)


def test_values_belong_to_the_source_that_declared_them() -> None:
    source, sweep = read_sweep(KERNEL, 12)
    assert sweep is not None
    with pytest.raises(ValueError, match="another source"):
        sweep.source(source.replace("kTile = 128", "kTile = size"), next(sweep.points()))


def test_values_in_words() -> None:
    assert say_values({"kTile": "64", "kStages": "2"}) == "kTile = 64, kStages = 2"


lists = st.lists(st.integers(-(2**31), 2**31), min_size=2, max_size=3, unique=True)


@given(st.lists(lists, min_size=1, max_size=3), st.lists(st.integers(0, 3), min_size=3, max_size=3))
def test_every_point_is_the_source_with_its_values(parameters: list[list[int]], picks: list[int]) -> None:
    marked = [
        f"constexpr long p{i} = {values[0]};  {MARK} {', '.join(map(str, values[1:]))}"
        for i, values in enumerate(parameters)
    ]
    source, sweep = read_sweep("\n".join(["// a kernel", *marked, "void run();"]), 27)
    assert sweep is not None
    chosen = {
        f"p{i}": str(values[pick % len(values)])
        for i, (values, pick) in enumerate(zip(parameters, picks, strict=False))
    }
    made = sweep.source(source, chosen)
    assert chosen in list(sweep.points())
    assert made.split("\n") == [
        "// a kernel",
        *(f"constexpr long {name} = {value};" for name, value in chosen.items()),
        "void run();",
    ]
    assert read_sweep(made, 27) == (made, None)


@given(st.text(alphabet=f"aK_ =<>;{{}}{MARK}0123,\n-truefalse", max_size=200), st.integers(1, 20))
def test_any_text_is_read_or_sent_back(text: str, most: int) -> None:
    try:
        source, sweep = read_sweep(text, most)
    except SweepError:
        return
    assert len(source.split("\n")) == len(text.split("\n"))
    if sweep is None:
        assert source == text
    else:
        assert 2 <= sweep.count <= most
        assert sweep.source(source, next(sweep.points())) == source


def test_an_expected_order_is_held_against_the_times() -> None:
    def timed(*ms: float) -> list[tuple[dict[str, str], float]]:
        return [({"Rank": str(rank)}, each) for rank, each in enumerate(ms)]

    assert rank_correlation(timed(1.0, 2.0, 3.0, 4.0)) == 1
    assert rank_correlation(timed(4.0, 3.0, 2.0, 1.0)) == -1
    assert rank_correlation(timed(1.0, 3.0, 2.0, 4.0)) == pytest.approx(0.8)
    # Nobody expected an order, or too few were right for one.
    assert rank_correlation(timed(1.0, 2.0)) is None
    assert rank_correlation([({"kTile": str(each)}, float(each)) for each in (64, 128, 256)]) is None
