"""Kernels for GPUs on the processor: blocks one after the other, a block's threads as threads that meet at barriers."""

from __future__ import annotations

import re

# What PTX says of each instruction; operands in order.
_INSTRUCTIONS = {
    "rcp.approx.f32": "1.0f / {0}",
    "max.NaN.f32": "({0} != {0}) ? {0} : ({0} > {1} ? {0} : {1})",
    "min.NaN.f32": "({0} != {0}) ? {0} : ({0} < {1} ? {0} : {1})",
    "ex2.approx.ftz.f32": "flushed(std::exp2({0}))",
}
_ASM = re.compile(r'asm\("(?P<name>\S+) [^"]*" : "=f"\((?P<to>\w+)\) : (?P<operands>[^;]*)\);')
_LAUNCH = re.compile(r"(?P<kernel>\w+<\w+>)<<<(?P<grid>.+), kThreads, 0, stream>>>\((?P<arguments>.*)\);")
FLUSHED = "static float flushed(float a) { return std::abs(a) < 1.17549435e-38f ? 0.0f : a; }\n"

_MACHINE = """
#include <pthread.h>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <thread>
#include <vector>
#undef __global__
#undef __device__
#undef __shared__
#undef __launch_bounds__
#define __global__
#define __device__
#define __shared__ static
#define __launch_bounds__(...)
#define __ldcs(at) (*(at))
#define __stcs(at, value) (*(at) = (value))
struct Place { unsigned x; };
static thread_local Place threadIdx;
static Place blockIdx, gridDim;
static pthread_barrier_t everyone, warps[32];
static char lanes[1024][16];
static void __syncthreads() { pthread_barrier_wait(&everyone); }
template <class T> T __shfl_xor_sync(unsigned, T value, int mask) {
  std::memcpy(lanes[threadIdx.x], &value, sizeof(T));
  pthread_barrier_wait(&warps[threadIdx.x / 32]);
  std::memcpy(&value, lanes[threadIdx.x ^ mask], sizeof(T));
  pthread_barrier_wait(&warps[threadIdx.x / 32]);
  return value;
}
static void emulate(int64_t grid, int block, std::function<void()> kernel) {
  gridDim.x = grid;
  pthread_barrier_init(&everyone, nullptr, block);
  for (int warp = 0; warp * 32 < block; ++warp) {
    pthread_barrier_init(&warps[warp], nullptr, std::min(32, block - warp * 32));
  }
  std::vector<std::thread> threads;
  for (int thread = 0; thread < block; ++thread) {
    threads.emplace_back([=] {
      threadIdx.x = thread;
      for (int64_t index = 0; index < grid; ++index) {
        if (thread == 0) { blockIdx.x = index; }
        __syncthreads();
        kernel();
        __syncthreads();
      }
    });
  }
  for (auto& each : threads) { each.join(); }
}
extern "C" cudaError_t cudaGetLastError() { return cudaSuccess; }
extern "C" char const* cudaGetErrorString(cudaError_t) { return ""; }
static cudaError_t reserve(void** to, size_t size) { *to = std::malloc(size); return cudaSuccess; }
#define cudaMallocAsync(to, size, stream) reserve(to, size)
#define cudaFreeAsync(at, stream) std::free(at)
#define UNROLL
"""


def plain_functions(text: str) -> str:
    """Functions for the device as the processor's: the device's instructions replaced by what they are."""

    def replaced(match: re.Match[str]) -> str:
        operands = re.findall(r'"f"\((\w+)\)', match["operands"])
        return f"{match['to']} = {_INSTRUCTIONS[match['name']].format(*operands)};"

    plain = _ASM.sub(replaced, text).replace("__device__ ", "")
    assert "asm(" not in plain
    return plain


def emulated(source: str) -> str:
    """A pointwise or row kernel as a C++ source file. Clusters and copies in the background are not emulated."""
    assert "__cluster_dims__" not in source and "kStaged" not in source
    text = re.sub(r"#include <(cute/arch|cutlass/arch)/.*>\n", "", source)
    text = re.sub(r"#(define|undef) UNROLL.*\n", "", text)
    last = max(match.end() for match in re.finditer(r"^#include .*\n", text, re.MULTILINE))
    head, body = text[:last], text[last:]
    launched, count = _LAUNCH.subn(r"emulate(\g<grid>, kThreads, [=] { \g<kernel>(\g<arguments>); });", body)
    assert count and "<<<" not in launched
    return head + _MACHINE + FLUSHED + plain_functions(launched)
