"""Where the table of `erf` on SIMD registers comes from: a polynomial for each of 16 stretches of [0, 4.1].

Each interpolates erf(centre + d) at Chebyshev's nodes with 30 digits; around 0 it is odd in d, so that nothing is lost
of small numbers. `python tests/knowledge/fit_erf.py` prints the rows that `knowledge/compiler/emit/cpu_exact.py` holds,
and below them the quotient of polynomials in x * x that the guide on the processor shows: a loop with a table stays
scalar where vectors of 16 lanes cannot be asked for. From 3.925 on erf rounds to 1.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import mpmath as mp
import numpy as np

WIDTH = mp.mpf(17) / 64
"""Of a stretch: few bits, so that a multiple of it is exact."""
STRETCHES, DEGREE = 16, 5
Series = list[mp.mpf]


def interpolated(function: Callable[[mp.mpf], mp.mpf], radius: mp.mpf, degree: int) -> Series:
    """Coefficients, the constant first, of the polynomial in d that meets function(d) at [-radius, radius]'s nodes."""
    nodes = [radius * mp.cos(mp.pi * (2 * k + 1) / (2 * (degree + 1))) for k in range(degree + 1)]
    powers = mp.matrix([[node**j for j in range(degree + 1)] for node in nodes])
    return list(mp.lu_solve(powers, mp.matrix([function(node) for node in nodes])))


def around_zero() -> Series:
    """The first stretch: d times a polynomial in d * d, which is interpolated around the middle of its own range."""
    middle = (WIDTH / 2) ** 2 / 2
    series = interpolated(lambda s: mp.erf(mp.sqrt(middle + s)) / mp.sqrt(middle + s), middle, DEGREE // 2)
    moved = [sum(series[j] * mp.binomial(j, i) * (-middle) ** (j - i) for j in range(i, 3)) for i in range(3)]
    return [mp.mpf(0), moved[0], mp.mpf(0), moved[1], mp.mpf(0), moved[2]]


def table() -> np.ndarray:
    """Rows of coefficients, the constant first; a column a stretch."""
    with mp.workdps(30):
        columns = [around_zero()]
        for k in range(1, STRETCHES):
            columns.append(interpolated(lambda d, k=k: mp.erf(k * WIDTH + d), WIDTH / 2, DEGREE))
        return np.array([[float(each) for each in column] for column in columns]).T.astype(np.float32)


def quotient(degree: int = 5, rounds: int = 400) -> tuple[np.ndarray, np.ndarray]:
    """Coefficients of P and Q, the constant first, of x * P(x * x) / Q(x * x), near the least relative error to 3.925.

    Lawson's weights on a least-squares problem made linear by the Q before; they converge to 1.9e-8.
    """
    x = (np.cos(np.pi * (2 * np.arange(400) + 1) / 800) + 1) / 2 * 3.925
    x = x[x > 1e-4]
    exact, square = np.array([float(mp.erf(each)) for each in x]), x * x
    powers = square[:, None] ** np.arange(degree + 1)
    columns = np.hstack([x[:, None] * powers, -exact[:, None] * powers[:, 1:]])
    scale, weight, below = np.abs(columns).max(0), np.ones_like(x), np.ones_like(x)
    best, found = np.inf, np.zeros(2 * degree + 1)
    for _ in range(rounds):
        by = np.sqrt(weight) / (exact * below)
        series = np.linalg.lstsq(columns / scale * by[:, None], exact * by, rcond=None)[0] / scale
        below = powers @ np.r_[1, series[degree + 1 :]]
        error = np.abs(x * (powers @ series[: degree + 1]) / below - exact) / exact
        if error.max() < best:
            best, found = error.max(), series
        weight = np.maximum(weight * error / (weight * error).sum(), 1e-14)
    return found[: degree + 1].astype(np.float32), np.r_[1, found[degree + 1 :]].astype(np.float32)


if __name__ == "__main__":
    for row in (*table(), *quotient()):
        sys.stdout.write(", ".join(f"{float(each)!r}f" for each in row) + "\n")
