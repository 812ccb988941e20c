"""A source file for the processor around its kernels: helpers for registers, memory in between, the entry."""

from __future__ import annotations

from knowledge.compiler import sorting
from knowledge.playbook import source_text
from knowledge.playbook.cpu_lanes import ACCESS
from knowledge.playbook.cpu_text import helpers
from knowledge.playbook.recipe import Plan

HELPERS = """
// The lanes from `low` on and below `high`, of neighbours in memory; 0 in the others.
template <class V, class T> inline V nearby(T const* from, int64_t low, int64_t high) {
  V result{};
  if constexpr (plain<T>) {
    if (low <= 0 && high >= kLanes) {
      result = __builtin_convertvector(*reinterpret_cast<packed<T> const*>(from), V);
      if constexpr (std::is_same_v<T, bool>) { return -result; } else { return result; }
    }
  }
  for (int64_t k = low > 0 ? low : 0; k < high && k < kLanes; ++k) { result[k] = lane_t<V>(from[k]); }
  if constexpr (std::is_same_v<T, bool>) { return -result; } else { return result; }
}
// The first n lanes, each as a function says; 0 in the others.
template <class V, class F> inline V gathered(int64_t first, int n, F f) {
  V result{};
  for (int k = 0; k < n; ++k) { result[k] = f(first + k, k); }
  return result;
}
template <class F> inline void scattered(int64_t first, int n, F f) {
  for (int k = 0; k < n; ++k) { f(first + k, k); }
}
// The first n lanes to neighbours in memory.
template <class T, class V> inline void put(T* to, V v, int n) {
  if constexpr (std::is_same_v<T, bool>) { v = -v; }
  if constexpr (plain<T>) {
    if (n == kLanes) {
      *reinterpret_cast<packed<T>*>(to) = __builtin_convertvector(v, packed<T>);
      return;
    }
  }
  for (int k = 0; k < n; ++k) { to[k] = T(v[k]); }
}
// All lanes joined, in order.
template <class V, class F> inline auto folded(V v, F f) {
  auto result = v[0];
  for (int k = 1; k < kLanes; ++k) { result = f(result, v[k]); }
  return result;
}
"""


def needs_lanes(lanes: int) -> str:
    """The helpers for registers."""
    return ACCESS["Packed"] + HELPERS if lanes > 1 else ""


ARENA = """
// Memory for what passes between kernels.
struct Arena {
  char* const memory;
  Arena(size_t bytes, DLDevice) : memory(static_cast<char*>(std::aligned_alloc(256, bytes))) {
    if (memory == nullptr) { TVM_FFI_THROW(RuntimeError) << "no memory for what passes between kernels"; }
  }
  Arena(Arena const&) = delete;
  ~Arena() { std::free(memory); }
  char* start() const { return memory; }
};
"""


def source(comment: list[str], plan: Plan, code: str, entry: str, lanes: int) -> str:
    """The whole file."""
    arena = ARENA if "Arena const" in entry else ""
    if "comes_first" in code:
        code = sorting.FIRST.format(device="") + code
    text = source_text.kernel(comment, plan, helpers(code, entry, lanes), code + arena, entry)
    return text.replace("#include <cmath>", "#include <algorithm>\n#include <cmath>", 1).replace(
        "#include <cstdint>",
        "#include <cstdint>\n#include <cstdlib>" + "\n#include <vector>" * ("comes_first" in code),
        1,
    )
