// output(m,n,l) = sum over k of a(m,k,l) * b(n,k,l); x = x < T(0) ? T(0) : x
// M=64 N=80 K=96 L=1, float32: 983040 FLOPs, 75776 bytes (every operand once)
// tile: 66 x 48 x 96 a thread, fragments of 6 x 16
//   tCrC 6 x 2 registers, tCrB 2 registers of 8 elements
//   tCsC 6 x 16 x 4 B = 384 B, the fragment on its way to C
// playbook plan: {"knobs": {"bk": 96, "bm": 66, "bn": 48, "lanes": 8, "mr": 6, "nv": 2, "pack": "none", "swept": 0, "threads": 0}, "recipe": "gemm"}
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <initializer_list>
#include <new>

#include <cute/tensor.hpp>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/function.h>
// parts.cpp: 13 lines
using N = Int<80>;
using K = Int<96>;
using BLK_M = Int<66>;
using BLK_N = Int<48>;
using BLK_K = Int<96>;
using MR = Int<6>;  // rows of a fragment
using NV = Int<2>;  // registers in a fragment's row
using NR = Int<16>;  // columns of a fragment
// Packed panels are padded with zeros: reading them needs no guard.
constexpr bool packed_a = false, packed_b = false;

using LayoutA = Layout<Shape<M, K, _1>, Stride<Int<96>, _1, _0>>;  // (M,K,L)
using LayoutB = Layout<Shape<N, K, _1>, Stride<_1, Int<80>, _0>>;  // (N,K,L)
using LayoutC = Layout<Shape<M, N, _1>, Stride<Int<80>, _1, _0>>;  // (M,N,L)


// What follows the product, on one element.
struct Epilogue {
  T operator()(T x, [[maybe_unused]] int m, [[maybe_unused]] int n, [[maybe_unused]] int l) const {
    x = x < T(0) ? T(0) : x;
    return x;
  }
// parts.cpp: 53 lines
// parts.cpp: 6 lines
// parts.cpp: 11 lines
        for (int n = 0; n < n_len; n += NR{})
        for (int m = 0; m < m_len; m += MR{}) {
          Tensor tA = local_tile(gA, make_tile(MR{}, BLK_K{}), make_coord(m / MR{}, 0));  // (MR,BLK_K)
          Tensor tB = local_tile(gB, make_tile(NR{}, BLK_K{}), make_coord(n / NR{}, 0));  // (NR,BLK_K)
// parts.cpp: 7 lines
// cpu_gemm: 6 lines
// parts.cpp: 17 lines
void run(tvm::ffi::TensorView a, tvm::ffi::TensorView b, tvm::ffi::TensorView output) {
  require(a, "a", {64, 96}, {96, 1});
  require(b, "b", {96, 80}, {80, 1});
  require(output, "output", {64, 80}, {80, 1});
  kernel(data(a), data(b), data(output), Epilogue{});
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
