// Along rows: softmax.
//   64 rows of 1000, each gone over 3 times while it is in the cache
//   bytes moved: 512000; operations: 320000
// playbook plan: {"knobs": {"accumulators": 4, "exact": 1, "keep": 1, "lanes": 8}, "recipe": "rows"}

#include <immintrin.h>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <type_traits>
#include <utility>
#include <cute/tensor.hpp>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/function.h>

using namespace cute;

namespace {

// One SIMD register: kLanes elements of each type; a bool is kept as 0 or -1 in 4 bytes.
constexpr int kLanes = 8;
typedef float vfloat __attribute__((vector_size(kLanes * 4)));
typedef int32_t vint __attribute__((vector_size(kLanes * 4)));
typedef double vdouble __attribute__((vector_size(kLanes * 8)));
typedef int64_t vlong __attribute__((vector_size(kLanes * 8)));
typedef vint vmask;

// The number in every lane (subtracting 0 keeps the sign of -0).
inline vfloat all(float x) { return x - vfloat{}; }
inline vdouble all(double x) { return x - vdouble{}; }
inline vint all(int32_t x) { return x + vint{}; }
inline vlong all(int64_t x) { return x + vlong{}; }
inline vmask all(bool x) { return -int32_t(x) + vmask{}; }

// The first `count` lanes, as a mask that selects registers of type V.
template <class V> inline auto below(int count) {
  auto mask = V{} == V{};
  for (int k = 0; k < kLanes; ++k) { mask[k] = k < count ? -1 : 0; }
  return mask;
}

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

// The first `count` of kLanes neighbours in memory; 0 in the other lanes.
template <class V, class T> inline V some(T const* from, int count) {
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

template <class T, class V> inline void pack_some(T* to, V v, int count) {
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

namespace math {
// Between two numbers; NaN stays NaN.
template <class V> inline V clip(V x, float low, float high) {
#if defined(__AVX512F__)
  if constexpr (sizeof(V) == 64) {
    return V(_mm512_min_ps(_mm512_set1_ps(high), _mm512_max_ps(_mm512_set1_ps(low), __m512(x))));
  }
#endif
#if defined(__AVX__)
  if constexpr (sizeof(V) == 32) {
    return V(_mm256_min_ps(_mm256_set1_ps(high), _mm256_max_ps(_mm256_set1_ps(low), __m256(x))));
  }
#endif
  x = x > high ? all(high) : x;
  return x < low ? all(low) : x;
}

// The nearest integer, for |x| < 2^22: adding 1.5 * 2^23 leaves no bit for a fraction.
inline vfloat nearest(vfloat x) {
  vfloat const shifted = x + 12582912.0f;
  return shifted - 12582912.0f;
}

inline vfloat from_bits(vint x) { return vfloat(x); }

// a * 2^n for integers |n| <= 252, in two steps so that results below the normal range are rounded once.
template <class V> inline V scale(V a, V n) {
#if defined(__AVX512F__)
  if constexpr (sizeof(V) == 64) { return V(_mm512_scalef_ps(__m512(a), __m512(n))); }
#endif
  vint const whole = __builtin_convertvector(n, vint);
  vint const half = whole >> 1;
  return a * from_bits((half + 127) << 23) * from_bits((whole - half + 127) << 23);
}

// (e^r - 1 - r) / r^2 for |r| <= ln(2) / 2, to 1.4e-9.
inline vfloat exp_series(vfloat r) {
  vfloat q = r * 0.000198910798644647f + 0.0013933731243014336f;
  q = q * r + 0.00833331048488617f;
  q = q * r + 0.041666463017463684f;
  q = q * r + 0.1666666716337204f;
  return q * r + 0.5f;
}

// e^x = 2^n e^r with n = round(x / ln 2); ln 2 in two parts, the first short enough that n times it is exact.
inline vfloat exp(vfloat x) {
  x = clip(x, -106.0f, 90.0f);
  vfloat const n = nearest(x * 1.44269504088896341f);
  vfloat const r = (x - n * 0.693359375f) - n * -2.12194440054690583e-4f;
  return scale(1.0f + r * (1.0f + r * exp_series(r)), n);
}

// The larger one; NaN where either is NaN.
template <class V> inline V maximum(V a, V b) { return ((a > b) | (a != a)) ? a : b; }
}  // namespace math

inline void sweep0(vfloat rA, vfloat& rAmax0) {
  rAmax0 = rA;
}

inline void sweep1(vfloat rA, float vAmax0, vfloat& rSum1, vfloat& rKept0) {
  vfloat const v2 = rA - vAmax0;  // aten.softmax.int
  vfloat const v3 = math::exp(v2);  // aten.softmax.int
  rSum1 = v3;
  rKept0 = v3;
}

inline void sweep2(vfloat rKept0, float vSum1, vfloat& rOutput) {
  vfloat const v3 = rKept0 / vSum1;  // aten.softmax.int
  rOutput = v3;
}

// attention: 12 lines
}  // namespace

void run(tvm::ffi::TensorView a, tvm::ffi::TensorView output) {
  require(a, "a", {64, 1000}, {1000, 1}, kDLFloat, 32);
  require(output, "output", {64, 1000}, {1000, 1}, kDLFloat, 32);

  Tensor mA = make_tensor(static_cast<float const*>(a.data_ptr()),
                          make_layout(Shape<Int<1000>, Int<64>>{}, Stride<Int<1>, Int<1000>>{}));  // (1000,64)
  Tensor mOutput = make_tensor(static_cast<float*>(output.data_ptr()),
                               make_layout(Shape<Int<1000>, Int<64>>{}, Stride<Int<1>, Int<1000>>{}));  // (1000,64)
  for (int64_t r = 0; r < 64; ++r) {
    Tensor gA = mA(_, r);  // (1000)
    Tensor gOutput = mOutput(_, r);  // (1000)
    alignas(64) float memoryKept0[1000];  // aten.softmax.int, for later sweeps
    Tensor gKept0 = make_tensor(&memoryKept0[0], make_layout(Int<1000>{}));  // (1000)

    float totalAmax0 = -float(INFINITY);
    for (int64_t c = 0; c < 1000; c += 4096) {
      int const n = int(min(int64_t(4096), 1000 - c));
      Tensor partAmax0 = make_tensor<vfloat>(Int<4>{});  // (4)
      fill(partAmax0, all(-float(INFINITY)));
      int i = 0;
      for (; i + 4 * kLanes <= n; i += 4 * kLanes) {
        #pragma GCC unroll 4
        for (int u = 0; u < 4; ++u) {
          vfloat rAmax0;
          sweep0(load<vfloat>(gA, c + i + u * kLanes), rAmax0);
          partAmax0(u) = math::maximum(partAmax0(u), rAmax0);
        }
      }
      for (; i + kLanes <= n; i += kLanes) {
        vfloat rAmax0;
        sweep0(load<vfloat>(gA, c + i), rAmax0);
        partAmax0(0) = math::maximum(partAmax0(0), rAmax0);
      }
      partAmax0(0) = math::maximum(partAmax0(0), partAmax0(1));
      partAmax0(0) = math::maximum(partAmax0(0), partAmax0(2));
      partAmax0(0) = math::maximum(partAmax0(0), partAmax0(3));
      for (int k = 0; k < kLanes; ++k) { totalAmax0 = math::maximum(totalAmax0, float(partAmax0(0)[k])); }
    }
    float const vAmax0 = float(totalAmax0);  // aten.softmax.int

    double totalSum1 = double(0);
    for (int64_t c = 0; c < 1000; c += 4096) {
      int const n = int(min(int64_t(4096), 1000 - c));
      Tensor partSum1 = make_tensor<vfloat>(Int<4>{});  // (4)
      fill(partSum1, all(float(0)));
      int i = 0;
      for (; i + 4 * kLanes <= n; i += 4 * kLanes) {
        #pragma GCC unroll 4
        for (int u = 0; u < 4; ++u) {
          vfloat rSum1;
          vfloat rKept0;
          sweep1(load<vfloat>(gA, c + i + u * kLanes), vAmax0, rSum1, rKept0);
          partSum1(u) = partSum1(u) + rSum1;
          store(gKept0, c + i + u * kLanes, rKept0);
        }
      }
      for (; i + kLanes <= n; i += kLanes) {
        vfloat rSum1;
        vfloat rKept0;
        sweep1(load<vfloat>(gA, c + i), vAmax0, rSum1, rKept0);
        partSum1(0) = partSum1(0) + rSum1;
        store(gKept0, c + i, rKept0);
      }
      partSum1(0) = partSum1(0) + partSum1(1);
      partSum1(0) = partSum1(0) + partSum1(2);
      partSum1(0) = partSum1(0) + partSum1(3);
      for (int k = 0; k < kLanes; ++k) { totalSum1 = totalSum1 + double(partSum1(0)[k]); }
    }
    float const vSum1 = float(totalSum1);  // aten.softmax.int

    for (int64_t c = 0; c < 1000; c += 4096) {
      int const n = int(min(int64_t(4096), 1000 - c));
      int i = 0;
      for (; i + 4 * kLanes <= n; i += 4 * kLanes) {
        #pragma GCC unroll 4
        for (int u = 0; u < 4; ++u) {
          vfloat rOutput;
          sweep2(load<vfloat>(gKept0, c + i + u * kLanes), vSum1, rOutput);
          store(gOutput, c + i + u * kLanes, rOutput);
        }
      }
      for (; i + kLanes <= n; i += kLanes) {
        vfloat rOutput;
        sweep2(load<vfloat>(gKept0, c + i), vSum1, rOutput);
        store(gOutput, c + i, rOutput);
      }
    }
  }
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
