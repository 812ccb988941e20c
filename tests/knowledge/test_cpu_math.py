"""The float32 functions on SIMD registers: a few units of the last place off, and right at the special values."""

from __future__ import annotations

import ctypes
import struct

import numpy as np
import pytest
from fit_erf import table
from lane_math import EVERY, EXACT, built, worst

from knowledge.compiler.emit.cpu_exact import EXACT as TEXTS

STEP = 4093
"""A prime: patterns of every exponent and, one after the other, of all low bits."""
WITHIN = {
    "exp": 1.0, "exp2": 1.0, "expm1": 2.0, "log": 1.0, "log2": 2.0, "log10": 2.0, "log1p": 2.0, "tanh": 3.0, "erf": 3.0,
    "sin": 2.0, "cos": 2.0, "tan": 4.0, "atan": 3.0, "pow": 1.5,
}  # fmt: skip
SPECIAL = (0.0, -0.0, 1.0, -1.0, 1e-45, -1e-45, 1.17549435e-38, 3.4028235e38, -3.4028235e38)
EDGES = (88.72283, 88.72284, -87.33655, -103.97208, 128.0, -149.0, -150.0, 4.0, 3.9999998, 9.010913, 10.0, 0.1328125)


def pattern(number: float) -> int:
    """A float32's bits."""
    return int(struct.unpack("<I", struct.pack("<f", number))[0])


@pytest.fixture(
    scope="module", params=[pytest.param(16, marks=pytest.mark.slow), 8, pytest.param(4, marks=pytest.mark.slow)]
)
def library(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """Every function at some number of lanes; without AVX-512 or AVX2 the compiler takes such registers apart."""
    return built(EXACT, request.param, tmp_path_factory.mktemp("lanes"))


def test_every_function_is_a_few_units_off_at_most(library: ctypes.CDLL) -> None:
    assert {*EXACT} == WITHIN.keys()
    found = {name: worst(library, name, 0, (EVERY // STEP) & ~15, STEP) for name in EXACT}
    assert {name: each for name, each in found.items() if not each[0] <= WITHIN[name]} == {}


def test_special_values_and_their_neighbours(library: ctypes.CDLL) -> None:
    starts = [pattern(sign * each) - 8 for each in (*SPECIAL, *EDGES) for sign in (1, -1)]
    starts += [pattern(np.inf) - 8, pattern(-np.inf) - 8, pattern(np.nan), EVERY - 16]
    for name in EXACT:
        found = [(worst(library, name, start % EVERY, 16), hex(start)) for start in starts]
        assert max(found)[0][0] <= WITHIN[name], (name, max(found))


def test_the_table_is_the_one_that_was_fitted() -> None:
    text = TEXTS["erf"].replace("\n", " ")
    for row in table():
        held = [number for number in row if f"{float(number)!r}f" in text]
        assert len(held) == len(row)
