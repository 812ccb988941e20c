// begin header
// Out = X * sigmoid(X) (Swish), elementwise, for any number of elements: here 4096 x 393216.
//   op class: elementwise
//   architecture: sm_80
//   layouts: mX, mOut (N/V):(1) over packs of V neighbours; elements that are left over go one by one
//   tile: 128 threads x 1 pack x 4 elements of 4 bytes = 512 elements a block
//   shared memory: 0 bytes
//   reaches: 3.00 ms on an H200, 4.30 TB/s, as a copy; eager PyTorch 7.45 ms, IEEE division 3.01 ms. Blocks of 512
//     threads take 4 % longer, of 64 27 %; 2 packs a thread 1 %, 4 packs 3 %; half the blocks at a time 39 %
//   error: within 3 units of the last place: the reciprocal is the special function unit's
// end header

// begin includes
// begin _standard
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <type_traits>
// end _standard

#include <cute/tensor.hpp>
// begin _interface
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/extra/c_env_api.h>
#include <tvm/ffi/function.h>

#define UNROLL _Pragma("unroll")
// end _interface
// end includes

using namespace cute;

namespace kernels {

// begin knobs
// end knobs

// begin access
// V neighbours in memory, moved in words of up to 16 bytes.
template <class T, int V>
struct alignas(sizeof(T) * V < 16 ? sizeof(T) * V : 16) Pack {
  T lane[V];
};

template <int Bytes> struct Word { using type = uint4; };
template <> struct Word<8> { using type = uint2; };
template <> struct Word<4> { using type = uint32_t; };
template <> struct Word<2> { using type = unsigned short; };
template <> struct Word<1> { using type = unsigned char; };

// Once: the data is not needed again, so that it is the first to leave the caches.
template <bool Once, class P>
__device__ inline P load(P const* from) {
  using W = typename Word<(sizeof(P) < 16 ? sizeof(P) : 16)>::type;
  constexpr int kWords = sizeof(P) / sizeof(W);
  union Bits {
    W word[kWords];
    P pack;
    __device__ Bits() {}
  } bits;
  UNROLL
  for (int w = 0; w < kWords; ++w) {
    W const* at = reinterpret_cast<W const*>(from) + w;
    bits.word[w] = Once ? __ldcs(at) : *at;
  }
  return bits.pack;
}

template <bool Once, class P>
__device__ inline void store(P* to, P const& pack) {
  using W = typename Word<(sizeof(P) < 16 ? sizeof(P) : 16)>::type;
  UNROLL
  for (int w = 0; w < int(sizeof(P) / sizeof(W)); ++w) {
    W const word = reinterpret_cast<W const*>(&pack)[w];
    W* at = reinterpret_cast<W*>(to) + w;
    if (Once) { __stcs(at, word); } else { *at = word; }
  }
}

// A tensor's memory as packs of V elements.
template <int V, class T>
__device__ inline Pack<T, V> const* packs(T const* start) { return reinterpret_cast<Pack<T, V> const*>(start); }
template <int V, class T>
__device__ inline Pack<T, V>* packs(T* start) { return reinterpret_cast<Pack<T, V>*>(start); }

// Whether packs of V elements may be moved from all of these on.
template <int V, class... T>
bool aligned(T const*... start) {
  return ((reinterpret_cast<uintptr_t>(start) % std::min<size_t>(sizeof(T) * V, 16) == 0) && ...);
}
// end access

// begin arithmetic
// end arithmetic

// begin kernel
// end kernel

// begin require
// Refuses a tensor that is not what this kernel was written for. Strides of extents of 1 mean nothing.
void require(tvm::ffi::TensorView const& tensor, char const* name, std::initializer_list<int64_t> shape,
             std::initializer_list<int64_t> strides, int code, int bits) {
  bool same = tensor.ndim() == int(shape.size()) && tensor.dtype().code == code && tensor.dtype().bits == bits;
  for (int dim = 0; same && dim < tensor.ndim(); ++dim) {
    same = tensor.size(dim) == shape.begin()[dim] &&
           (tensor.size(dim) <= 1 || tensor.stride(dim) == strides.begin()[dim]);
  }
  if (!same) {
    TVM_FFI_THROW(ValueError) << name << " has another shape, strides or element type than this kernel was written for";
  }
}
// end require

// begin launched
cudaStream_t stream_of(tvm::ffi::TensorView const& tensor) {
  return static_cast<cudaStream_t>(TVMFFIEnvGetStream(tensor.device().device_type, tensor.device().device_id));
}

void launched() {
  cudaError_t const error = cudaGetLastError();
  if (error != cudaSuccess) { TVM_FFI_THROW(RuntimeError) << "the launch failed: " << cudaGetErrorString(error); }
}
// end launched

}  // namespace kernels

using namespace kernels;

// begin entry
// end entry
