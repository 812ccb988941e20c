// begin header
// C(m,n) = epilogue(sum over k of A(m,k) * B(n,k)) in float32 on a processor: the plain form, tiles of C over threads,
// fragments of sums in registers, nothing packed.
//   op class: gemm
//   architecture: cpu
//   layouts: any strides; fast where neighbouring n of B and of C lie side by side
//   tile: 8 x 256 x 128 a turn, fragments of 8 x 32
//   caches: gB 256 x 128 x 4 = 131072 bytes and gA 8 x 128 x 4 = 4096 bytes in L2, sC 8 x 256 x 4 = 8192 bytes in L1
//   registers: tCrP 8 x 2 vectors of 16 floats, 2 of B, 1 for an element of A: 19 of 32
//   reaches: 2.4 ms on two cores of an AMD EPYC with AVX-512, 18 ms for 1024 x 1024 x 1024; eager PyTorch 1.9 and 14 ms
//     (by `cutegen verify KERNEL examples/matmul.py`)
//   limited by: rows of B that lie N apart, and share few sets of the caches where N is a power of 2
//   error: sums of 128 k's are added apart
// end header

// includes: as in cpu_pointwise.cpp

namespace {

using namespace cute;

// problem: as in cpu_gemm.cpp

// begin knobs
using BLK_M = Int<8>;
using BLK_N = Int<256>;
using BLK_K = Int<128>;
using NR = Int<32>;  // columns of a fragment
// end knobs

// begin kernel
// Adds `ks` products to each of `ms` x `ns` sums. Where both are constants, g++ keeps the piece's sums in registers.
template <class A, class B, class Sums, class Rows, class Columns>
inline void multiply(A const& gA, B const& gB, Sums&& sC, Rows ms, Columns ns, int ks) {
  Tensor tCrP = make_tensor<float>(Layout<Shape<BLK_M, NR>, Stride<NR, _1>>{});  // (BLK_M,NR)
  clear(tCrP);
  for (int k = 0; k < ks; ++k) {
    UNROLL
    for (int m = 0; m < ms; ++m) {
      float const a = gA(m, k);
      #pragma omp simd
      for (int n = 0; n < ns; ++n) tCrP(m, n) += a * gB(n, k);
    }
  }
  for (int m = 0; m < ms; ++m) {
    #pragma omp simd
    for (int n = 0; n < ns; ++n) sC(m, n) += tCrP(m, n);
  }
}

void gemm(float const* a, float const* b, float* c, Epilogue epilogue) {
  Tensor mA = make_tensor(a, LayoutA{});  // (M,K)
  Tensor mB = make_tensor(b, LayoutB{});  // (N,K)
  Tensor mC = make_tensor(c, LayoutC{});  // (M,N)
  #pragma omp parallel for collapse(2) schedule(static)
  for (int n_tile = 0; n_tile < ceil_div(N{}, BLK_N{}); ++n_tile) {
    for (int m_tile = 0; m_tile < ceil_div(M{}, BLK_M{}); ++m_tile) {
      Tensor gC = local_tile(mC, make_shape(BLK_M{}, BLK_N{}), make_coord(m_tile, n_tile));  // (BLK_M,BLK_N)
      int const m0 = m_tile * BLK_M{}, ms = std::min<int>(BLK_M{}, M{} - m0);
      int const n0 = n_tile * BLK_N{}, ns = std::min<int>(BLK_N{}, N{} - n0);
      alignas(64) float memory[BLK_M{} * BLK_N{}];
      Tensor sC = make_tensor(&memory[0], Layout<Shape<BLK_M, BLK_N>, Stride<BLK_N, _1>>{});  // (BLK_M,BLK_N)
      clear(sC);
      for (int k_tile = 0; k_tile < ceil_div(K{}, BLK_K{}); ++k_tile) {
        Tensor gA = local_tile(mA, make_shape(BLK_M{}, BLK_K{}), make_coord(m_tile, k_tile));  // (BLK_M,BLK_K)
        Tensor gB = local_tile(mB, make_shape(BLK_N{}, BLK_K{}), make_coord(n_tile, k_tile));  // (BLK_N,BLK_K)
        int const ks = std::min<int>(BLK_K{}, K{} - k_tile * BLK_K{});
        for (int n = 0; n < ns; n += NR{}) {
          Tensor tCgB = local_tile(gB, make_shape(NR{}, BLK_K{}), make_coord(n / NR{}, 0));  // (NR,BLK_K)
          Tensor tCsC = local_tile(sC, make_shape(BLK_M{}, NR{}), make_coord(0, n / NR{}));  // (BLK_M,NR)
          if (ms == BLK_M{} && n + NR{} <= ns) {
            multiply(gA, tCgB, tCsC, BLK_M{}, NR{}, ks);
          } else {
            multiply(gA, tCgB, tCsC, ms, std::min<int>(NR{}, ns - n), ks);
          }
        }
      }
      for (int m = 0; m < ms; ++m) {
        #pragma omp simd
        for (int n = 0; n < ns; ++n) gC(m, n) = epilogue(sC(m, n), m0 + m, n0 + n);
      }
    }
  }
}
// end kernel

// require: as in cpu_pointwise.cpp

}  // namespace

// entry: as in cpu_gemm.cpp
