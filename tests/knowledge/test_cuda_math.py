"""The cheaper float32 functions for GPUs, on the processor: the device's instructions replaced by what they are."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path

import numpy as np
import pytest
from emulated import FLUSHED, plain_functions

from knowledge.compiler.emit.cuda_math import HELPERS

WITHIN = 3.0
SPECIALS = (0.0, -0.0, np.inf, -np.inf, np.nan, 88.5, 88.73, 88.9, 89.5, 90.0, 100.0, -88.5, -104.0, 3e38, -3e38, 1e-40)


@pytest.fixture(scope="module")
def functions(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    folder: Path = tmp_path_factory.mktemp("math")
    calls = "".join(
        f'extern "C" void all_{name}(float const* x, float* y, long n) {{\n'
        f"  for (long i = 0; i < n; ++i) {{ y[i] = {name}(x[i]); }}\n}}\n"
        for name in ("reciprocal", "expm1", "log1p_exp", "power")
    )
    calls += "".join(
        f'extern "C" void all_{name}(float const* x, float const* y, float* z, long n) {{\n'
        f"  for (long i = 0; i < n; ++i) {{ z[i] = {name}(x[i], y[i]); }}\n}}\n"
        for name in ("over_row", "maximum", "minimum")
    )
    helpers = plain_functions("".join(HELPERS.values()))
    text = f"#include <cmath>\n{FLUSHED}namespace math {{\n{helpers}{calls}}}\n"
    (folder / "math.cpp").write_text(text)
    command = ["g++", "-std=c++17", "-O2", "-shared", "-fPIC", "math.cpp", "-o", "math.so"]
    subprocess.run(command, cwd=folder, check=True)
    return ctypes.CDLL(str(folder / "math.so"))


def called(functions: ctypes.CDLL, name: str, *x: np.ndarray) -> np.ndarray:
    """The function on every element."""
    y = np.empty_like(x[0])
    pointers = [each.ctypes.data_as(ctypes.c_void_p) for each in (*x, y)]
    functions[f"all_{name}"](*pointers, ctypes.c_long(y.size))
    return y


def numbers(low: float, high: float) -> np.ndarray:
    """Evenly spread, of all magnitudes, and special ones, within the range."""
    drawn = np.random.default_rng(11)
    sizes = np.exp(drawn.uniform(-80, 6, 200_000)) * drawn.choice([-1, 1], 200_000)
    every = np.concatenate([np.linspace(low, high, 400_001), sizes, SPECIALS]).astype(np.float32)
    return np.ascontiguousarray(every[((every >= low) & (every <= high)) | np.isnan(every) | np.isinf(every)])


def assert_right(got: np.ndarray, exact: np.ndarray) -> None:
    """Within a few units of the last place (denormals: of the least number), infinite and NaN where float32 is."""
    with np.errstate(over="ignore"):
        rounded = exact.astype(np.float32)
    assert np.array_equal(np.isnan(got), np.isnan(rounded))
    finite = np.isfinite(rounded)
    assert np.array_equal(got[~finite & ~np.isnan(rounded)], rounded[~finite & ~np.isnan(rounded)])
    error = np.abs(got[finite] - exact[finite]) / np.maximum(np.spacing(np.abs(rounded[finite])), 1e-44)
    assert error.max() <= WITHIN, (error.max(), exact[finite][error.argmax()])


def test_expm1(functions: ctypes.CDLL) -> None:
    x = numbers(-200, 200)
    with np.errstate(over="ignore"):
        assert_right(called(functions, "expm1", x), np.expm1(x.astype(np.float64)))


def test_log1p_exp(functions: ctypes.CDLL) -> None:
    x = numbers(-110, 3.1e38)
    with np.errstate(invalid="ignore"):
        assert_right(called(functions, "log1p_exp", x), np.logaddexp(0.0, x.astype(np.float64)))


def test_reciprocal_of_one_and_more(functions: ctypes.CDLL) -> None:
    x = numbers(1, 3.1e38)
    x = x[x > 0]
    assert_right(called(functions, "reciprocal", x), 1 / x.astype(np.float64))


def test_power_is_far_closer_than_16_bits_round(functions: ctypes.CDLL) -> None:
    """e^x as it is spelled for them: the emulated instruction is exact, so this is the error of the product."""
    x = numbers(-87, 88.7)
    got = called(functions, "power", (x * np.float32(1.4426950408889634)).astype(np.float32))
    exact = np.exp(x.astype(np.float64))
    finite = np.isfinite(x)
    assert np.array_equal(got[~finite], exact[~finite].astype(np.float32), equal_nan=True)
    assert np.abs(got[finite] / exact[finite] - 1).max() < 1e-5


@pytest.mark.parametrize(
    "below", [1.0, -3.0, 1e-45, -3e-39, 1e-30, 7.7e-31, 1.3e30, 2e38, -3.4e38, 0.0, np.inf, np.nan]
)
def test_a_row_s_number_divides_all_of_it(functions: ctypes.CDLL, below: float) -> None:
    x = np.concatenate([numbers(-3e38, 3e38), np.float32([0, 1e-45, -1e-39, 1e-38, 3e38])])
    y = np.full_like(x, below)
    with np.errstate(all="ignore"):
        exact = (x.astype(np.float64) / y.astype(np.float64)).astype(np.float32)
    got = called(functions, "over_row", x, y)
    assert np.array_equal(np.isnan(got), np.isnan(exact))
    big = np.isinf(exact) | np.isinf(got)
    # A quotient within rounding of the largest number may fall on either side.
    assert (np.abs(np.where(np.isinf(got[big]), exact[big], got[big])) > 3.4028e38).all()
    some = ~big & ~np.isnan(exact)
    error = np.abs(got[some].astype(np.float64) - exact[some]) / np.maximum(np.spacing(np.abs(exact[some])), 3e-45)
    assert error.max(initial=0.0) <= WITHIN


def test_an_extremum_is_as_before(functions: ctypes.CDLL) -> None:
    each = np.float32([*SPECIALS, 1.0, -1.0])
    x, y = (np.ascontiguousarray(part.ravel()) for part in np.meshgrid(each, each))
    for name, exact in (("maximum", np.maximum), ("minimum", np.minimum)):
        assert np.array_equal(called(functions, name, x, y), exact(x, y), equal_nan=True)
