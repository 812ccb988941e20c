"""The playbook's float32 functions on SIMD registers, held against the C library's in float64.

`PYTHONPATH=. python tests/knowledge/lane_math.py STEP [NAME...]` goes over every STEPth float32 there is (all of them:
1, minutes a function) and says the largest error and where it is; the figures are in
`knowledge/compiler/emit/cpu_exact.py`.
"""

from __future__ import annotations

import ctypes
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from knowledge.compiler.emit.cpu_functions import helpers
from knowledge.compiler.ir.primitives import PRIMITIVES

EXACT = tuple(name for name, each in PRIMITIVES.items() if each.exact)
EVERY = 1 << 32
# Of a function of two numbers the second one.
SECOND = {"pow": ("0.45f", "-1.5f", "3.0f", "-0.0625f")}

FRAME = """
#include <cmath>
#include <cstdint>
#include <cstring>
#include <immintrin.h>
#include <limits>
#include <type_traits>
#include <utility>
{helpers}
// In units of the last place; infinite where NaN, an infinity or the sign of 0 is not the rounded result's.
double error(float got, double exact) {{
  float const rounded = float(exact);
  if (got != got || rounded != rounded) {{ return (got != got) == (rounded != rounded) ? 0 : INFINITY; }}
  if (std::isinf(rounded)) {{ return got == rounded ? 0 : INFINITY; }}
  if (rounded == 0 && std::signbit(got) != std::signbit(exact)) {{ return INFINITY; }}
  float const size = std::fmin(std::fabs(rounded), 3.4028233e38f);
  return std::fabs(got - exact) / (double(std::nextafterf(size, INFINITY)) - size);
}}
"""

WORST = """
// The largest error over `count` bit patterns, a multiple of the lanes, and one pattern that has it.
extern "C" double worst_{symbol}(uint32_t first, uint64_t count, uint32_t step, float* at) {{
  double largest = -1;
  for (uint64_t i = 0; i < count; i += kLanes) {{
    vfloat x;
    for (int k = 0; k < kLanes; ++k) {{
      uint32_t const pattern = first + uint32_t(i + k) * step;
      float number;
      std::memcpy(&number, &pattern, 4);
      x[k] = number;
    }}
    vfloat const got = math::{name}(x{given});
    for (int k = 0; k < kLanes; ++k) {{
      double const off = error(got[k], std::{name}(double(x[k]){second}));
      if (off > largest) {{
        largest = off;
        *at = x[k];
      }}
    }}
  }}
  return largest;
}}
"""


def built(names: tuple[str, ...], lanes: int, folder: Path) -> ctypes.CDLL:
    """The functions and what measures them as a library, compiled for this processor as kernels are."""
    calls = "".join(f"math::{name}(v);\n" for name in names)
    text = FRAME.format(helpers=helpers(calls, "all(0.0f);", lanes))
    file = folder / f"lanes{lanes}.cpp"
    measured = (WORST.format(name=name, symbol=f"{name}_{place}", given=f", all({second})" if second else "",
                             second=f", double({second})" if second else "")
                for name in names for place, second in enumerate(SECOND.get(name, ("",))))  # fmt: skip
    file.write_text(text + "".join(measured))
    library = file.with_suffix(".so")
    flags = ("-std=c++17", "-O2", "-march=native", "-fno-math-errno", "-fno-trapping-math", "-Wno-psabi")
    subprocess.run(("g++", *flags, "-shared", "-fPIC", str(file), "-o", str(library)), check=True)
    return ctypes.CDLL(str(library))


def worst(library: ctypes.CDLL, name: str, first: int, count: int, step: int = 1) -> tuple[float, float]:
    """The largest error in units of the last place over `count` bit patterns, and the number that has it."""
    found = []
    for place in range(len(SECOND.get(name, ("",)))):
        at, function = ctypes.c_float(), library[f"worst_{name}_{place}"]
        function.restype = ctypes.c_double
        arguments = (ctypes.c_uint32(first), ctypes.c_uint64(count), ctypes.c_uint32(step), ctypes.byref(at))
        found.append((float(function(*arguments)), at.value))
    return max(found)


def main(step: int, names: tuple[str, ...]) -> None:
    """Every number of that step, at the widest registers."""
    with TemporaryDirectory() as folder:
        library = built(names or EXACT, 16, Path(folder))
        for name in names or EXACT:
            error, at = worst(library, name, 0, (EVERY // step) & ~15, step)
            sys.stdout.write(f"{name} {error:.2f} at {at!r}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main(int(sys.argv[1]), tuple(sys.argv[2:]))
