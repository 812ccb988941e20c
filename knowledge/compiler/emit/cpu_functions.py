"""C++ functions for SIMD registers and single numbers: each is emitted only into kernels that call it.

The registers are GCC vector types, which compile to the instructions named in `-march` without relying on the
auto-vectorizer (g++ 12 does not vectorize a loop over a CuTe tensor's elements, measured).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

from knowledge.compiler.emit.cpu_exact import EXACT
from knowledge.compiler.emit.special_functions import SPECIAL

TYPES = """
// One SIMD register: kLanes elements of each type; a bool is kept as 0 or -1 in 4 bytes.
constexpr int kLanes = {lanes};
typedef float vfloat __attribute__((vector_size(kLanes * 4)));
typedef int32_t vint __attribute__((vector_size(kLanes * 4)));
typedef double vdouble __attribute__((vector_size(kLanes * 8)));
typedef int64_t vlong __attribute__((vector_size(kLanes * 8)));
typedef vint vmask;
"""

ACCESS: dict[str, str] = {
    "all": """
// The number in every lane (subtracting 0 keeps the sign of -0).
inline vfloat all(float x) { return x - vfloat{}; }
inline vdouble all(double x) { return x - vdouble{}; }
inline vint all(int32_t x) { return x + vint{}; }
inline vlong all(int64_t x) { return x + vlong{}; }
inline vmask all(bool x) { return -int32_t(x) + vmask{}; }
""",
    "convert": """
template <class To, class From> inline To convert(From v) { return __builtin_convertvector(v, To); }
""",
    "narrow": """
// Masks of 8-byte lanes to masks of 4-byte lanes.
inline vmask narrow(vlong v) { return __builtin_convertvector(v, vmask); }
""",
    "widen": """
// Masks of 4-byte lanes to masks of 8-byte lanes.
inline vlong widen(vmask v) { return __builtin_convertvector(v, vlong); }
""",
    "wrapped": """
// What is left of each lane in a shorter type.
template <class T> inline vint wrapped(vint v) {
  typedef T shorter __attribute__((vector_size(kLanes * sizeof(T))));
  return __builtin_convertvector(__builtin_convertvector(v, shorter), vint);
}
""",
    "nonzero": """
// A divisor with 1 in lanes of 0, which only lanes beyond the end may have.
template <class V> inline V nonzero(V v) { return v == 0 ? v + 1 : v; }
""",
    "below": """
// The first `count` lanes, as a mask that selects registers of type V.
template <class V> inline auto below(int count) {
  auto mask = V{} == V{};
  for (int k = 0; k < kLanes; ++k) { mask[k] = k < count ? -1 : 0; }
  return mask;
}
""",
    "lanewise": """
// A function of numbers, lane by lane.
template <class F, class V> inline V lanewise(F f, V a) {
  for (int k = 0; k < kLanes; ++k) { a[k] = f(a[k]); }
  return a;
}
template <class F, class V> inline V lanewise(F f, V a, V b) {
  for (int k = 0; k < kLanes; ++k) { a[k] = f(a[k], b[k]); }
  return a;
}
""",
    "Packed": """
// kLanes neighbours in memory, at any address an element may have.
template <class T> struct Packed {
  typedef T type __attribute__((vector_size(kLanes * sizeof(T)), aligned(alignof(T)), may_alias));
};
template <> struct Packed<bool> { using type = Packed<uint8_t>::type; };
template <class T> using packed = typename Packed<T>::type;
template <class V> using lane_t = std::remove_cv_t<std::remove_reference_t<decltype(std::declval<V&>()[0])>>;
template <class Tile> using stored_t = std::remove_cv_t<typename Tile::value_type>;
template <int value, class Tile> constexpr bool steps_by() {
  using Step = std::remove_reference_t<decltype(stride<0>(std::declval<Tile>()))>;
  return is_constant<value, std::remove_cv_t<Step>>::value;
}
// Types that a register converts to and from as a whole; the others go lane by lane.
template <class T> constexpr bool plain = std::is_arithmetic_v<T>;
// A register of neighbours in memory, and back.
template <class V, class T> inline V unpacked(T const* from) {
  return __builtin_convertvector(*reinterpret_cast<packed<T> const*>(from), V);
}
template <class T, class V> inline void pack(T* to, V v) {
  *reinterpret_cast<packed<T>*>(to) = __builtin_convertvector(v, packed<T>);
}
""",
    "Bfloat16": """
// bfloat16 is the upper half of a float: rounded to the nearest, ties to even; NaN stays NaN.
template <> constexpr bool plain<bfloat16_t> = true;
inline vint upper(vfloat v) {
  vint const u = vint(v);
  return v == v ? ((u + 0x7fff + ((u >> 16) & 1)) >> 16) & 0xffff : 0x7fc0 + vint{};
}
template <class V> inline V unpacked(bfloat16_t const* from) {
  return V(unpacked<vint>(reinterpret_cast<uint16_t const*>(from)) << 16);
}
inline void pack(bfloat16_t* to, vfloat v) { pack(reinterpret_cast<uint16_t*>(to), upper(v)); }
inline vfloat as_bfloat16(vfloat v) { return vfloat(upper(v) << 16); }
""",
    "Half": """
// float16, by the processor's own conversions where it has some.
template <> constexpr bool plain<half_t> = true;
template <class V> inline V unpacked(half_t const* from) {
#if defined(__AVX512F__)
  if constexpr (sizeof(V) == 64) { return V(_mm512_cvtph_ps(*reinterpret_cast<__m256i_u const*>(from))); }
#endif
#if defined(__F16C__)
  if constexpr (sizeof(V) == 32) { return V(_mm256_cvtph_ps(*reinterpret_cast<__m128i_u const*>(from))); }
#endif
  V v;
  for (int k = 0; k < kLanes; ++k) { v[k] = float(from[k]); }
  return v;
}
template <class V> inline void pack(half_t* to, V v) {
#if defined(__AVX512F__)
  if constexpr (sizeof(V) == 64) { *reinterpret_cast<__m256i_u*>(to) = _mm512_cvtps_ph(__m512(v), 0); return; }
#endif
#if defined(__F16C__)
  if constexpr (sizeof(V) == 32) { *reinterpret_cast<__m128i_u*>(to) = _mm256_cvtps_ph(__m256(v), 0); return; }
#endif
  for (int k = 0; k < kLanes; ++k) { to[k] = half_t(v[k]); }
}
inline vfloat as_float16(vfloat v) {
  half_t kept[kLanes];
  pack(kept, v);
  return unpacked<vfloat>(kept);
}
""",
    "some": """
// The first `count` of kLanes neighbours in memory; 0 in the other lanes.
template <class V, class T> inline V some(T const* from, int count) {
#if defined(__AVX512F__)
  if constexpr (sizeof(T) == 4 && kLanes == 16) {
    auto const raw = typename Packed<T>::type(_mm512_maskz_loadu_epi32(__mmask16((1 << count) - 1), from));
    return __builtin_convertvector(raw, V);
  }
#endif
#if defined(__AVX2__)
  if constexpr (sizeof(T) == 4 && kLanes == 8) {
    __m256i const mask = _mm256_cmpgt_epi32(_mm256_set1_epi32(count), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
    auto const raw = typename Packed<T>::type(_mm256_maskload_epi32(reinterpret_cast<int const*>(from), mask));
    return __builtin_convertvector(raw, V);
  }
#endif
  T kept[kLanes] = {};
  for (int k = 0; k < count; ++k) { kept[k] = from[k]; }
  return unpacked<V>(kept);
}
""",
    "pack_some": """
template <class T, class V> inline void pack_some(T* to, V v, int count) {
#if defined(__AVX512F__)
  if constexpr (sizeof(T) == 4 && kLanes == 16) {
    auto const raw = __builtin_convertvector(v, typename Packed<T>::type);
    return _mm512_mask_storeu_epi32(to, __mmask16((1 << count) - 1), __m512i(raw));
  }
#endif
#if defined(__AVX2__)
  if constexpr (sizeof(T) == 4 && kLanes == 8) {
    __m256i const mask = _mm256_cmpgt_epi32(_mm256_set1_epi32(count), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
    auto const raw = __builtin_convertvector(v, typename Packed<T>::type);
    return _mm256_maskstore_epi32(reinterpret_cast<int*>(to), mask, __m256i(raw));
  }
#endif
  T kept[kLanes];
  pack(kept, v);
  for (int k = 0; k < count; ++k) { to[k] = kept[k]; }
}
""",
    "load": """
// Elements [i, i + count) of a tile as a register; the lanes beyond repeat the first.
template <class V, class Tile> inline V load(Tile const& tile, int64_t i, int count) {
  V result{};
  using T = stored_t<Tile>;
  if constexpr (steps_by<1, Tile>() && plain<T>) {
    result = below<V>(count) ? some<V>(raw_pointer_cast(tile.data()) + i, count) : all(lane_t<V>(tile(i)));
    if constexpr (std::is_same_v<T, bool>) { return -result; } else { return result; }
  }
  for (int k = 0; k < kLanes; ++k) { result[k] = lane_t<V>(tile(k < count ? i + k : i)); }
  if constexpr (std::is_same_v<stored_t<Tile>, bool>) { result = -result; }
  return result;
}
// Elements [i, i + kLanes): one instruction where they are neighbours, one broadcast where they are the same.
template <class V, class Tile> inline V load(Tile const& tile, int64_t i) {
  using T = stored_t<Tile>;
  if constexpr (steps_by<0, Tile>()) {
    return std::is_same_v<T, bool> ? V(all(lane_t<V>(tile(0)) * 1) * -1) : V(all(lane_t<V>(tile(0))));
  } else if constexpr (steps_by<1, Tile>() && plain<T>) {
    V const result = unpacked<V>(raw_pointer_cast(tile.data()) + i);
    if constexpr (std::is_same_v<T, bool>) { return -result; } else { return result; }
  } else {
    return load<V>(tile, i, kLanes);
  }
}
""",
    "store": """
template <class Tile, class V> inline void store(Tile&& tile, int64_t i, V v, int count) {
  using T = stored_t<std::remove_reference_t<Tile>>;
  if constexpr (steps_by<1, Tile>() && plain<T>) {
    if constexpr (std::is_same_v<T, bool>) { v = -v; }
    pack_some(raw_pointer_cast(tile.data()) + i, v, count);
  } else {
    for (int k = 0; k < count; ++k) { tile(i + k) = T(v[k]); }
  }
}
template <class Tile, class V> inline void store(Tile&& tile, int64_t i, V v) {
  using T = stored_t<std::remove_reference_t<Tile>>;
  if constexpr (steps_by<1, Tile>() && plain<T>) {
    if constexpr (std::is_same_v<T, bool>) { v = -v; }
    pack(raw_pointer_cast(tile.data()) + i, v);
  } else {
    store(tile, i, v, kLanes);
  }
}
""",
    "stream": """
// A store that bypasses the caches, where the address allows it: the line is not read before it is written.
template <class Tile, class V> inline void stream(Tile&& tile, int64_t i, V v) {
  using T = stored_t<std::remove_reference_t<Tile>>;
  if constexpr (steps_by<1, Tile>() && std::is_same_v<T, lane_t<V>>) {
    T* address = raw_pointer_cast(tile.data()) + i;
    if (reinterpret_cast<uintptr_t>(address) % sizeof(V) == 0) {
#if defined(__AVX512F__)
      if constexpr (sizeof(V) == 64) { return _mm512_stream_si512(reinterpret_cast<__m512i*>(address), __m512i(v)); }
#endif
#if defined(__AVX__)
      if constexpr (sizeof(V) == 32) { return _mm256_stream_si256(reinterpret_cast<__m256i*>(address), __m256i(v)); }
#endif
#if defined(__SSE2__)
      if constexpr (sizeof(V) == 16) { return _mm_stream_si128(reinterpret_cast<__m128i*>(address), __m128i(v)); }
#endif
    }
  }
  store(tile, i, v);
}
""",
    "prefetch": """
// Asks for element i's line in the second cache; where there is no such element, nothing happens.
template <class Tile> inline void prefetch(Tile const& tile, int64_t i) {
  if constexpr (steps_by<1, Tile>()) { __builtin_prefetch(raw_pointer_cast(tile.data()) + i, 0, 2); }
}
""",
    "nearby": """
// The lanes from `low` on and below `high`, of neighbours in memory; 0 in the others.
template <class V, class T> inline V nearby(T const* from, int64_t low, int64_t high) {
  V result{};
  if constexpr (plain<T>) {
    if (low <= 0) {
      result = high >= kLanes ? unpacked<V>(from) : some<V>(from, int(high > 0 ? high : 0));
      high = 0;
    }
  }
  for (int64_t k = low > 0 ? low : 0; k < high && k < kLanes; ++k) { result[k] = lane_t<V>(from[k]); }
  if constexpr (std::is_same_v<T, bool>) { return -result; } else { return result; }
}
""",
    "inside": """
// Which of the numbers first, first + step, ... are 0 to extent - 1.
inline vmask inside(int32_t first, int32_t step, int32_t extent) {
  vint at;
  for (int k = 0; k < kLanes; ++k) { at[k] = first + k * step; }
  return (at >= 0) & (at < extent);
}
""",
    "gathered": """
// The first n lanes, each as a function says; 0 in the others.
template <class V, class F> inline V gathered(int64_t first, int n, F f) {
  V result{};
  for (int k = 0; k < n; ++k) { result[k] = f(first + k, k); }
  return result;
}
""",
    "scattered": """
template <class F> inline void scattered(int64_t first, int n, F f) {
  for (int k = 0; k < n; ++k) { f(first + k, k); }
}
""",
    "put": """
// The first n lanes to neighbours in memory.
template <class T, class V> inline void put(T* to, V v, int n) {
  if constexpr (std::is_same_v<T, bool>) { v = -v; }
  if constexpr (plain<T>) {
    return n == kLanes ? pack(to, v) : pack_some(to, v, n);
  }
  for (int k = 0; k < n; ++k) { to[k] = T(v[k]); }
}
""",
    "folded": """
// All lanes joined, in order.
template <class V, class F> inline auto folded(V v, F f) {
  auto result = v[0];
  for (int k = 1; k < kLanes; ++k) { result = f(result, v[k]); }
  return result;
}
""",
}
REQUIRES = {
    "some": ("Packed",), "pack_some": ("Packed",), "load": ("Packed", "all", "below", "some"),
    "store": ("Packed", "pack_some"), "stream": ("Packed", "store", "pack_some"), "prefetch": ("Packed",),
    "nearby": ("Packed", "some"), "put": ("Packed", "pack_some"), "Bfloat16": ("Packed",), "Half": ("Packed",),
}  # fmt: skip

_ROUNDING = """
template <class V> inline V {name}(V a) {{
#if defined(__AVX512F__)
  if constexpr (sizeof(V) == 64 && sizeof(a[0]) == 4) {{ return V(_mm512_roundscale_ps(__m512(a), {mode})); }}
  if constexpr (sizeof(V) == 64 && sizeof(a[0]) == 8) {{ return V(_mm512_roundscale_pd(__m512d(a), {mode})); }}
#endif
#if defined(__AVX__)
  if constexpr (sizeof(V) == 32 && sizeof(a[0]) == 4) {{ return V(_mm256_round_ps(__m256(a), {mode})); }}
  if constexpr (sizeof(V) == 32 && sizeof(a[0]) == 8) {{ return V(_mm256_round_pd(__m256d(a), {mode})); }}
#endif
  for (int k = 0; k < kLanes; ++k) {{ a[k] = std::{name}(a[k]); }}
  return a;
}}
"""

FUNCTIONS: dict[str, str] = {
    "abs": """
template <class V> inline V abs(V a) {
  if constexpr (std::is_same_v<V, vfloat>) {
    return V(vint(a) & 0x7fffffff);
  } else if constexpr (std::is_same_v<V, vdouble>) {
    return V(vlong(a) & int64_t(0x7fffffffffffffff));
  } else {
    return a < 0 ? -a : a;
  }
}
""",
    "sqrt": """
template <class V> inline V sqrt(V a) {
#if defined(__AVX512F__)
  if constexpr (sizeof(V) == 64 && sizeof(a[0]) == 4) { return V(_mm512_sqrt_ps(__m512(a))); }
  if constexpr (sizeof(V) == 64 && sizeof(a[0]) == 8) { return V(_mm512_sqrt_pd(__m512d(a))); }
#endif
#if defined(__AVX__)
  if constexpr (sizeof(V) == 32 && sizeof(a[0]) == 4) { return V(_mm256_sqrt_ps(__m256(a))); }
  if constexpr (sizeof(V) == 32 && sizeof(a[0]) == 8) { return V(_mm256_sqrt_pd(__m256d(a))); }
#endif
  for (int k = 0; k < kLanes; ++k) { a[k] = std::sqrt(a[k]); }
  return a;
}
""",
    # Immediate operands of the x86 rounding instructions: direction, inexact exception suppressed.
    "floor": _ROUNDING.format(name="floor", mode="0x09"),
    "ceil": _ROUNDING.format(name="ceil", mode="0x0A"),
    "trunc": _ROUNDING.format(name="trunc", mode="0x0B"),
    "nearbyint": _ROUNDING.format(name="nearbyint", mode="0x08"),
}


# Written for numbers and for GCC vector types alike: `|` on comparisons and `?:` mean the same for both.
GENERIC: dict[str, str] = {
    "maximum": """
// The larger one; NaN where either is NaN.
template <class V> inline V maximum(V a, V b) { return ((a > b) | (a != a)) ? a : b; }
""",
    "minimum": """
// The smaller one; NaN where either is NaN.
template <class V> inline V minimum(V a, V b) { return ((a < b) | (a != a)) ? a : b; }
""",
    "number_max": """
// The larger one; a NaN gives way to a number.
template <class V> inline V number_max(V a, V b) { return ((a > b) | (b != b)) ? a : b; }
""",
    "number_min": """
// The smaller one; a NaN gives way to a number.
template <class V> inline V number_min(V a, V b) { return ((a < b) | (b != b)) ? a : b; }
""",
    "sign": """
// -1, 0 or 1; torch gives 0 for NaN.
template <class V> inline V sign(V a) { V const zero{}; return (a > zero) ? zero + 1 : ((a < zero) ? zero - 1 : zero); }
""",
    "modulo": """
// The remainder with the divisor's sign, as Python's %.
template <class T> inline T modulo(T a, T b) {
  T rest;
  if constexpr (std::is_floating_point_v<T>) { rest = std::fmod(a, b); } else { rest = T(a % b); }
  return (rest != 0 && (b < 0) != (rest < 0)) ? T(rest + b) : rest;
}
""",
    "floor_divide": """
// Division rounded towards minus infinity. For floats from the remainder, so that 1 // 0.1 is 9 as in Python.
template <class T> inline T floor_divide(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    if (b == 0) { return a / b; }
    T const rest = std::fmod(a, b);
    T quotient = (a - rest) / b;
    if (rest != 0 && (b < 0) != (rest < 0)) { quotient -= 1; }
    if (quotient == 0) { return std::copysign(T(0), a / b); }
    T const whole = std::floor(quotient);
    return quotient - whole > T(0.5) ? whole + 1 : whole;
  } else {
    T const quotient = T(a / b);
    return (a % b != 0 && (a < 0) != (b < 0)) ? T(quotient - 1) : quotient;
  }
}
""",
    "int_pow": """
// a to the power b by squaring, wrapping as integers do; a negative b gives 0 except for a = 1 and a = -1.
template <class T> inline T int_pow(T a, T b) {
  if (b < 0) { return a == 1 ? T(1) : a == -1 ? (b % 2 == 0 ? T(1) : T(-1)) : T(0); }
  T result = 1;
  for (; b > 0; b = T(b / 2)) {
    if (b % 2 == 1) { result = T(result * a); }
    a = T(a * a);
  }
  return result;
}
""",
    **SPECIAL,
}


_FOR_SOME = re.compile(r"#if defined\(.*?#endif\n", re.DOTALL)
_WIDTH = re.compile(r"\b(sizeof|kLanes)(?:\([VI]\))? == (\d+)")
_ON_LANES = {**GENERIC, **FUNCTIONS, **EXACT}


def helpers(functions: str, entry: str, lanes: int, more: Mapping[str, str] = MappingProxyType({})) -> str:
    """The helpers that the arithmetic and the entry call; with SIMD registers, their types too.

    `more` are helpers beside the library's own, for one element.
    """
    if lanes == 1:
        return _math(functions + entry, {**GENERIC, **more})
    math = _math(functions + entry, _ON_LANES)
    access = _access("\n".join((math, functions, entry)))
    return TYPES.replace("{lanes}", str(lanes)) + _of_lanes(access + math, lanes)


def _of_lanes(text: str, lanes: int) -> str:
    """Without what processors do with registers that have another number of lanes."""
    fitting = (("sizeof", str(4 * lanes)), ("sizeof", str(8 * lanes)), ("kLanes", str(lanes)))

    def kept(block: re.Match[str]) -> str:
        widths = _WIDTH.findall(block[0])
        return block[0] if not widths or any(width in fitting for width in widths) else ""

    return _FOR_SOME.sub(kept, text)


def _access(text: str) -> str:
    code = _without_comments(text)
    calls = {name: rf"\b{name}(<\w+>)?\(" for name in ACCESS} | {"Bfloat16": "bfloat16", "Half": r"half_t|as_float16"}
    wanted = [name for name in ACCESS if re.search(calls[name], code)]
    for name in list(wanted):
        wanted += REQUIRES.get(name, ())
    return "".join(body for name, body in ACCESS.items() if name in wanted)


def _math(text: str, library: Mapping[str, str]) -> str:
    chosen: list[str] = []

    def add(name: str) -> None:
        if name not in library or name in chosen:
            return
        for callee in re.findall(r"(?<!std::)\b(\w+)\(", _without_comments(library[name])):
            if callee != name:
                add(callee)
        chosen.append(name)

    for name in re.findall(r"\bmath::(\w+)\(", text):
        add(name)
    if not chosen:
        return ""
    return "\nnamespace math {" + "".join(library[name] for name in chosen) + "}  // namespace math\n"


def _without_comments(text: str) -> str:
    return re.sub(r"//.*", "", text)
