"""What follows a product on the processor, for a register of neighbours along N: exponentials and their kin on lanes.

A step is C++ over one element; libm takes one a call. GCC's vectors mean the same in these expressions, once functions
are the playbook's own.
"""

from __future__ import annotations

import re

from knowledge.compiler.emit.cpu_exact import EXACT
from knowledge.compiler.emit.cpu_functions import FUNCTIONS, helpers
from knowledge.compiler.schedule.gemm.form import Form

INCLUDES = ("immintrin.h", "limits", "type_traits", "utility")
_CALLED = re.compile(r"\bstd::(\w+)\(")
# Of the register's place: `layout` is the operand's, over m, n and l.
NEIGHBOURS = """
// V neighbours along N of what a step reads.
template <class Layout>
inline Vec neighbours(T const* d, Layout const& layout, int m, int n, int l) {
  if constexpr (is_constant<1, std::remove_cv_t<decltype(stride<1>(layout))>>::value) {
    return *reinterpret_cast<VecU const*>(d + layout(m, n, l));
  }
  Vec v{};
  for (int k = 0; k < V; ++k) v[k] = d[layout(m, n + k, l)];
  return v;
}
"""


def pays(form: Form, lanes: int) -> bool:
    """Whether the steps call functions that lanes have, and C's rows lie as registers do."""
    called = {name for code in form.codes for name in _CALLED.findall(code)}
    known = called <= EXACT.keys() | FUNCTIONS.keys()
    slow = bool(called & EXACT.keys())
    return lanes > 1 and form.dtype == "float32" and slow and known and not form.triangle and form.n.strides[2] == 1


def functions(form: Form, lanes: int) -> str:
    """What the steps on lanes call."""
    read = NEIGHBOURS if form.extras else ""
    return helpers(" ".join(_codes(form)), "", lanes).strip("\n") + "\n" + read


def member(form: Form) -> list[str]:
    """The member of `Epilogue` that takes the V elements from column n on."""
    loads = [
        f"    Vec const d{k} = neighbours(D{k}, LayoutD{k}{{}}, m, n, l);" for k, _ in enumerate(form.operands[3:])
    ]
    coordinates = ", ".join(f"[[maybe_unused]] int {name}" for name in "mnl")
    steps = [f"    {code};" for code in _codes(form)]
    return [f"  Vec lanes(Vec x, {coordinates}) const {{", *loads, *steps, "    return x;", "  }"]


def _codes(form: Form) -> list[str]:
    return [_CALLED.sub(r"math::\1(", code) for code in form.codes]
