// 2 kernels, one after the other; what passes between them lies in memory of their own.
// playbook plan: {"knobs": {"1.cluster": 1, "1.group": 128, "1.items": 16, "1.keep": 1, "1.rows": 1, "1.vector": 1}, "recipe": "row loss"}
#include <cuda_runtime.h>
#include <tvm/ffi/extra/c_env_api.h>
// softmax: 6 lines
// softmax: 7 lines
#include <tvm/ffi/function.h>

// Along rows: to, amax, sub, exp, sum, log.
//   4096 rows of 2048, read from memory 1 time
//   tile: 1 rows, 1 blocks of 128 threads on each
//   shared memory: 0 bytes for the next row, and the partial results
//   bytes moved at least: 16809984; operations: 41943040
// parts.cu: 8 lines
constexpr int kGroup = 128;  // threads of a block that share a row
constexpr int kRows = 1;  // rows side by side in a block
constexpr int kThreads = kGroup * kRows;
constexpr bool kAcross = false;  // threads side by side take rows, not columns
constexpr int kCluster = 1;  // blocks that share a row and their shared memory
constexpr int kShares = 1;  // blocks that share a row
constexpr int kItems = 16;  // elements of a row in a thread's registers
[[maybe_unused]] constexpr int kVector = 8;  // elements a pack
// parts.cu: 7 lines
// rows.cu: 11 lines
  float const v1 = rA;  // aten.to.dtype
  rAmax0 = v1;
}
__device__ inline void sweep1(float rA, float vAmax0, float& rSum1) {
  float const v2 = rA;  // aten.to.dtype
  float const v3 = v2 - vAmax0;  // aten.sub.Tensor
  float const v4 = std::exp(v3);  // aten.exp
  rSum1 = v4;
}
struct JoinAmax0 {
  template <class T> __device__ T operator()(T a, T b) const { return T(math::maximum(a, b)); }
// parts.cu: 6 lines
__global__ void __launch_bounds__(kThreads) rows(bfloat16_t const* pA, float* pRowMaximum, float* pRowLogarithm)
    {
  Index const kCount = Index(2048 / V);  // packs a row
  [[maybe_unused]] Index const kRowCount = 4096;
  Tensor mA = make_tensor(make_gmem_ptr(packs<V>(pA)),  // (2048/V,4096)
      Layout<Shape<Int<2048 / V>, Int<4096>>, Stride<_1, Int<2048 / V>>>{});
  Tensor mRowMaximum = make_tensor(make_gmem_ptr(pRowMaximum),  // (2048/V,4096)
      Layout<Shape<Int<2048 / V>, Int<4096>>, Stride<Int<0 * V>, Int<1>>>{});
  Tensor mRowLogarithm = make_tensor(make_gmem_ptr(pRowLogarithm),  // (2048/V,4096)
      Layout<Shape<Int<2048 / V>, Int<4096>>, Stride<Int<0 * V>, Int<1>>>{});
// rows.cu: 8 lines
  Pack<bfloat16_t, V> rA[kPacks];
  UNROLL
  for (int u = 0; u < kPacks; ++u) {
    [[maybe_unused]] Index const i = start + u * kGroup;
    {
      rA[u] = load<kOnce>(&mA(i, r));
    }
  }
  // sweep 0
  float partAmax0[V];
  UNROLL
  for (int k = 0; k < V; ++k) { partAmax0[k] = -float(INFINITY); }
// parts.cu: 6 lines
        float vAmax0;
        sweep0(static_cast<float>(rA[u].lane[k]), vAmax0);
// rows.cu: 8 lines
  float const vAmax0 = float(totalAmax0);  // aten.amax
  if (inside && thread == 0 && rank == 0) {
    mRowMaximum(0, r) = float(vAmax0);
  }
// rows.cu: 7 lines
    {
      UNROLL
      for (int k = 0; k < V; ++k) {
        float vSum1;
        sweep1(static_cast<float>(rA[u].lane[k]), vAmax0, vSum1);
        partSum1[k] = JoinSum1{}(partSum1[k], vSum1);
// rows.cu: 7 lines
  float const vSum1 = float(totalSum1);  // aten.sum.dim_IntList
  float const v2 = std::log(vSum1);  // aten.log
  if (inside && thread == 0 && rank == 0) {
    mRowLogarithm(0, r) = float(v2);
// parts.cu: 11 lines
void run(tvm::ffi::TensorView a, tvm::ffi::TensorView row_maximum, tvm::ffi::TensorView row_logarithm) {
  require(a, "a", {4096, 2048}, {2048, 1}, kDLBfloat, 16);
  require(row_maximum, "row_maximum", {4096, 1}, {1, 1}, kDLFloat, 32);
  require(row_logarithm, "row_logarithm", {4096, 1}, {1, 1}, kDLFloat, 32);

  cudaStream_t const stream = stream_of(row_maximum);
  auto const* pA = static_cast<bfloat16_t const*>(a.data_ptr());
  auto* pRowMaximum = static_cast<float*>(row_maximum.data_ptr());
  auto* pRowLogarithm = static_cast<float*>(row_logarithm.data_ptr());
  if (aligned<kVector>(pA)) {
    rows<kVector><<<4096, kThreads, 0, stream>>>(pA, pRowMaximum, pRowLogarithm);
  } else {
    rows<1><<<4096, kThreads, 0, stream>>>(pA, pRowMaximum, pRowLogarithm);
// parts.cu: 6 lines
// to x2, sub x2, nll_loss_nd: 1 loop nest.
//   loops0: 1, sum over 4096; 1 stored
namespace part2 {
// parts.cu: 7 lines
constexpr int kThreads = 256;  // a block
using Index = int;

// gemm_narrow_weights: 52 lines

// running_sum.cu: 45 lines

__global__ void __launch_bounds__(kThreads) loops0(float const* pRowLogarithm, float const* pRowMaximum, int64_t const* pB, bfloat16_t const* pA, bfloat16_t* pOutput) {
  Tensor mRowLogarithm = make_tensor(make_gmem_ptr(pRowLogarithm), Layout<Shape<Int<4096>>, Stride<Int<1>>>{});  // (r0:4096)
  Tensor mRowMaximum = make_tensor(make_gmem_ptr(pRowMaximum), Layout<Shape<Int<4096>>, Stride<Int<1>>>{});  // (r0:4096)
  Tensor mB = make_tensor(make_gmem_ptr(pB), Layout<Shape<Int<4096>>, Stride<Int<1>>>{});  // (r0:4096)
  Tensor mA = make_tensor(make_gmem_ptr(pA), Layout<_1, _1>{});  // ()
  Tensor mOutput = make_tensor(make_gmem_ptr(pOutput), Layout<_1, _1>{});  // ()
  [[maybe_unused]] Index const t = blockIdx.x;
  double s0w = 0.0;
  double s1w = 0.0;
  for (Index first = threadIdx.x % kThreads; first < 4096; first += kThreads * 8) {
    float s0q = 0.0f;
    float s1q = 0.0f;
    UNROLL
    for (int u = 0; u < 8; ++u) {
      Index const f = first + u * kThreads;
      if (f < 4096) {
        Index const r0 = f;
        float const rRowLogarithm = mRowLogarithm(r0);
        float const rRowMaximum = mRowMaximum(r0);
        int64_t const rB = mB(r0);
        float const rA = uint64_t(rB) < 2048 ? float(mA(r0 * 2048 + rB)) : float(0);
        float const v4 = rA;  // aten.to.dtype
        float const v5 = v4 - rRowMaximum;  // aten.sub.Tensor
        float const v6 = v5 - rRowLogarithm;  // aten.sub.Tensor
        bool const at = uint64_t(rB) < 2048;
        float const v8 = at ? v6 : 0.0f;  // aten.sub.Tensor
        float const v9 = -v8;  // aten.nll_loss_nd
        bool const v10 = rB != int64_t{-100};  // aten.nll_loss_nd
        float const v11 = v10 ? v9 : 0.0f;  // aten.nll_loss_nd
        float const v12 = v10 ? 1.0f : 0.0f;  // aten.nll_loss_nd
        s0q = s0q + v11;
        s1q = s1q + v12;
      }
    }
    s0w = s0w + double(s0q);
    s1w = s1w + double(s1q);
  }
  float const s0 = float(over_block(s0w, Join_sum{}));
  float const s1 = float(over_block(s1w, Join_sum{}));
  if (threadIdx.x % kThreads == 0) {
    float const v2 = s0 / s1;  // aten.nll_loss_nd
    float const v3 = static_cast<float>(bfloat16_t(static_cast<float>(v2)));  // aten.to.dtype
    mOutput(0) = bfloat16_t(v3);
  }
}

// gemm_narrow_weights: 12 lines

// gemm_narrow_weights: 8 lines

}  // namespace kernels

using namespace kernels;

void run(tvm::ffi::TensorView a, tvm::ffi::TensorView b, tvm::ffi::TensorView row_maximum, tvm::ffi::TensorView row_logarithm, tvm::ffi::TensorView output) {
  require(a, "a", {4096, 2048}, {2048, 1}, kDLBfloat, 16);
  require(b, "b", {4096}, {1}, kDLInt, 64);
  require(row_maximum, "row_maximum", {4096, 1}, {1, 1}, kDLFloat, 32);
  require(row_logarithm, "row_logarithm", {4096, 1}, {1, 1}, kDLFloat, 32);
  require(output, "output", {}, {}, kDLBfloat, 16);

  cudaStream_t const stream = stream_of(output);
  bfloat16_t const* const pA = static_cast<bfloat16_t const*>(a.data_ptr());
  int64_t const* const pB = static_cast<int64_t const*>(b.data_ptr());
  float const* const pRowMaximum = static_cast<float const*>(row_maximum.data_ptr());
  float const* const pRowLogarithm = static_cast<float const*>(row_logarithm.data_ptr());
  bfloat16_t* const pOutput = static_cast<bfloat16_t*>(output.data_ptr());
  loops0<<<0 / 1 + 1, kThreads, 0, stream>>>(pRowLogarithm, pRowMaximum, pB, pA, pOutput);
  launched();
}
#undef UNROLL
// parts.cu: 14 lines
  int64_t shape_between_row_maximum[3] = {4096, 1, 1};
  int64_t strides_between_row_maximum[3] = {1, 1, 1};
  Between between_row_maximum(a.device(), DLDataType{kDLFloat, 32, 1}, shape_between_row_maximum, strides_between_row_maximum, 2, 16384);
  int64_t shape_between_row_logarithm[3] = {4096, 1, 1};
  int64_t strides_between_row_logarithm[3] = {1, 1, 1};
  Between between_row_logarithm(a.device(), DLDataType{kDLFloat, 32, 1}, shape_between_row_logarithm, strides_between_row_logarithm, 2, 16384);
  part1::run(a, &between_row_maximum.tensor, &between_row_logarithm.tensor);
  part2::run(a, b, &between_row_maximum.tensor, &between_row_logarithm.tensor, output);
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
