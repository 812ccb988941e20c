// softmax: 4 loop nests.
//   loops0: 1, amax over n1; 1 stored
//     then: n1; 1 stored
//     then: 1, sum over n1; 1 stored
//     then: n1; 1 stored
// playbook plan: {"knobs": {}, "recipe": "sizes"}

#include <immintrin.h>
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
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

template <class To, class From> inline To convert(From v) { return __builtin_convertvector(v, To); }

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

// The first n lanes to neighbours in memory.
template <class T, class V> inline void put(T* to, V v, int n) {
  if constexpr (std::is_same_v<T, bool>) { v = -v; }
  if constexpr (plain<T>) {
    return n == kLanes ? pack(to, v) : pack_some(to, v, n);
  }
  for (int k = 0; k < n; ++k) { to[k] = T(v[k]); }
}

// All lanes joined, in order.
template <class V, class F> inline auto folded(V v, F f) {
  auto result = v[0];
  for (int k = 1; k < kLanes; ++k) { result = f(result, v[k]); }
  return result;
}

namespace math {
// The larger one; NaN where either is NaN.
template <class V> inline V maximum(V a, V b) { return ((a > b) | (a != a)) ? a : b; }

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
}  // namespace math

void loops0(float const* pA, float* pOutput, int64_t n0, int64_t n1) {
  #pragma omp parallel for schedule(static)
  for (int64_t task = 0; task < n0; ++task) {
    int64_t const b0 = task;
    alignas(64) float ownBetween3[1];
    float* const pBetween3 = ownBetween3;
    alignas(64) float ownBetween1[n1];
    float* const pBetween1 = ownBetween1;
    alignas(64) float ownBetween4[1];
    float* const pBetween4 = ownBetween4;
    Tensor mA = make_tensor(pA, make_layout(make_shape(int64_t(n0), int64_t(n1)), make_stride(int64_t(n1), Int<1>{})));  // (b0:n0, r0:n1)
    Tensor mBetween3 = make_tensor(pBetween3, Layout<_1, _1>{});  // ()
    Tensor mA_2 = make_tensor(pA, make_layout(make_shape(int64_t(n0), int64_t(n1)), make_stride(int64_t(n1), Int<1>{})));  // (b0:n0, i1:n1)
    Tensor mBetween1 = make_tensor(pBetween1, make_layout(make_shape(int64_t(n1)), make_stride(Int<1>{})));  // (i1:n1)
    Tensor mBetween1_2 = make_tensor(pBetween1, make_layout(make_shape(int64_t(n1)), make_stride(Int<1>{})));  // (r0:n1)
    Tensor mBetween4 = make_tensor(pBetween4, Layout<_1, _1>{});  // ()
    Tensor mOutput = make_tensor(pOutput, make_layout(make_shape(int64_t(n0), int64_t(n1)), make_stride(int64_t(n1), Int<1>{})));  // (b0:n0, i1:n1)
    {
      vfloat s0w = all((-float(INFINITY)));
      for (int64_t r0 = 0; r0 < n1; r0 += kLanes) {
        [[maybe_unused]] int const n = int(std::min<int64_t>(kLanes, n1 - r0));
        vfloat const rA = nearby<vfloat>(&mA(b0, r0), 0, n);
        s0w = math::maximum(s0w, (n == kLanes ? rA : below<vfloat>(n) ? rA : all((-float(INFINITY)))));
      }
      float const s0 = float(folded(s0w, [](auto a, auto b) { return math::maximum(a, b); }));
      mBetween3(0) = float(s0);
    }
    {
      for (int64_t i1 = 0; i1 < n1; i1 += kLanes) {
        int const n = int(std::min<int64_t>(kLanes, n1 - i1));
        float const rBetween3 = mBetween3(0);
        vfloat const rA = nearby<vfloat>(&mA_2(b0, i1), 0, n);
        vfloat const v2 = rA - rBetween3;  // aten.softmax.int
        vfloat const v3 = math::exp(v2);  // aten.softmax.int
        put(&mBetween1(i1), v3, n);
      }
    }
    {
      vdouble s0w = all(0.0);
      for (int64_t block = 0; block < n1; block += 4096) {
        vfloat s0q = all(0.0f);
        for (int64_t r0 = block; r0 < std::min<int64_t>(block + 4096, n1); r0 += kLanes) {
          [[maybe_unused]] int const n = int(std::min<int64_t>(kLanes, n1 - r0));
          vfloat const rBetween1 = nearby<vfloat>(&mBetween1_2(r0), 0, n);
          s0q = s0q + (n == kLanes ? rBetween1 : below<vfloat>(n) ? rBetween1 : all(0.0f));
        }
        s0w = s0w + convert<vdouble>(s0q);
      }
      float const s0 = float(folded(s0w, [](auto a, auto b) { return a + b; }));
      mBetween4(0) = float(s0);
    }
    {
      for (int64_t i1 = 0; i1 < n1; i1 += kLanes) {
        int const n = int(std::min<int64_t>(kLanes, n1 - i1));
        float const rBetween4 = mBetween4(0);
        vfloat const rBetween1 = nearby<vfloat>(&mBetween1(i1), 0, n);
        vfloat const v2 = rBetween1 / rBetween4;  // aten.softmax.int
        put(&mOutput(b0, i1), v2, n);
      }
    }
  }
}

// attention: 12 lines
}  // namespace

void run(tvm::ffi::TensorView a, tvm::ffi::TensorView output) {
  int64_t const n0 = a.ndim() > 0 ? a.size(0) : 0;
  int64_t const n1 = a.ndim() > 1 ? a.size(1) : 0;
  require(a, "a", {n0, n1}, {n1, 1}, kDLFloat, 32);
  require(output, "output", {n0, n1}, {n1, 1}, kDLFloat, 32);

  float const* const pA = static_cast<float const*>(a.data_ptr());
  float* const pOutput = static_cast<float*>(output.data_ptr());
  loops0(pA, pOutput, n0, n1);
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
