// sort: 1 loop nest.
//   loops0: 8 x 100, ascending along 100; 2 stored
// playbook plan: {"knobs": {}, "recipe": "loops"}

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <vector>
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
constexpr int kLanes = 4;
typedef float vfloat __attribute__((vector_size(kLanes * 4)));
typedef int32_t vint __attribute__((vector_size(kLanes * 4)));
typedef double vdouble __attribute__((vector_size(kLanes * 8)));
typedef int64_t vlong __attribute__((vector_size(kLanes * 8)));
typedef vint vmask;


// Whether a row's element comes before another one: NaN is the largest, equal ones stay as they are.
template <bool kDescending, class T> inline bool comes_first(T a, int64_t place, T b, int64_t other) {
  bool const less = a < b || (b != b && a == a), more = b < a || (a != a && b == b);
  return kDescending ? more || (!less && place < other) : less || (!more && place < other);
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

void loops0(float const* pA, float* pOutput0, int64_t* pOutput1) {
  Tensor mA = make_tensor(pA, Layout<Shape<Int<8>, Int<100>>, Stride<Int<100>, Int<1>>>{});  // (i0:8, r0:100)
  Tensor mA_2 = make_tensor(pA, Layout<_1, _1>{});  // ()
  Tensor mOutput0 = make_tensor(pOutput0, Layout<Shape<Int<8>, Int<100>>, Stride<Int<100>, Int<1>>>{});  // (i0:8, i1:100)
  Tensor mOutput1 = make_tensor(pOutput1, Layout<Shape<Int<8>, Int<100>>, Stride<Int<100>, Int<1>>>{});  // (i0:8, i1:100)
  #pragma omp parallel for schedule(static)
  for (int64_t t = 0; t < 8; ++t) {
    int64_t const i0 = t;
    std::vector<float> keys(100);
    std::vector<int64_t> order(100);
    for (int64_t r0 = 0; r0 < 100; ++r0) {
      float const rA = mA(i0, r0);
      keys[r0] = rA;
      order[r0] = r0;
    }
    auto const first = [&](int64_t a, int64_t b) { return comes_first<false>(keys[a], a, keys[b], b); };
    std::sort(order.begin(), order.end(), first);
    for (int64_t i1 = 0; i1 < 100; ++i1) {
      int64_t const s0 = order[i1];
      float const rA_2 = uint64_t(s0) < 100 ? mA_2(i0 * 100 + s0) : float(0);
      mOutput0(i0, i1) = float(rA_2);
      mOutput1(i0, i1) = int64_t(s0);
    }
  }
}

// attention: 12 lines
}  // namespace

void run(tvm::ffi::TensorView a, tvm::ffi::TensorView output0, tvm::ffi::TensorView output1) {
  require(a, "a", {8, 100}, {100, 1}, kDLFloat, 32);
  require(output0, "output0", {8, 100}, {100, 1}, kDLFloat, 32);
  require(output1, "output1", {8, 100}, {100, 1}, kDLInt, 64);

  float const* const pA = static_cast<float const*>(a.data_ptr());
  float* const pOutput0 = static_cast<float*>(output0.data_ptr());
  int64_t* const pOutput1 = static_cast<int64_t*>(output1.data_ptr());
  loops0(pA, pOutput0, pOutput1);
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
