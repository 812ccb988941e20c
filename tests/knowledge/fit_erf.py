"""Where the table of `erf` on SIMD registers comes from: a polynomial for each of 16 stretches of [0, 4.1].

Each interpolates erf(centre + d) at Chebyshev's nodes with 30 digits; around 0 it is odd in d, so that nothing is lost
of small numbers. `python tests/knowledge/fit_erf.py` prints the rows that `knowledge/compiler/emit/cpu_exact.py` holds.
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


if __name__ == "__main__":
    for row in table():
        sys.stdout.write(", ".join(f"{float(each)!r}f" for each in row) + "\n")
