// One TF32 product for each pair of operands: the tensor core's speed at 10 bits.
// row: 26
// task: matmul
// caught by: correctness
// says: wrong on
// gpu
#include <cuda_runtime.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/extra/c_env_api.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;

__device__ unsigned cut(float value) {
  unsigned bits;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(value));
  return bits;
}

__global__ void product(float const* a, float const* b, float* c) {
  int const lane = threadIdx.x, row = lane / 4, column = lane % 4;
  for (int top = 0; top < 24; top += 16)
    for (int left = 0; left < 40; left += 8) {
      float d[4] = {};
      for (int k = 0; k < 96; k += 8) {
        auto at = [&](int r, int q) { return top + r < 24 ? cut(a[(top + r) * 96 + k + q]) : 0u; };
        unsigned p[4] = {at(row, column), at(row + 8, column), at(row, column + 4), at(row + 8, column + 4)};
        unsigned q[2] = {cut(b[(k + column) * 40 + left + row]), cut(b[(k + column + 4) * 40 + left + row])};
        asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
            "{%0, %1, %2, %3};"
            : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
            : "r"(p[0]), "r"(p[1]), "r"(p[2]), "r"(p[3]), "r"(q[0]), "r"(q[1]));
      }
      for (int e = 0; e < 4; ++e)
        if (int const r = top + row + 8 * (e / 2); r < 24) c[r * 40 + left + 2 * column + e % 2] = d[e];
    }
}

void run(TensorView a, TensorView b, TensorView c) {
  auto stream = static_cast<cudaStream_t>(TVMFFIEnvGetStream(a.device().device_type, a.device().device_id));
  product<<<1, 32, 0, stream>>>(static_cast<float const*>(a.data_ptr()), static_cast<float const*>(b.data_ptr()),
                                static_cast<float*>(c.data_ptr()));
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
