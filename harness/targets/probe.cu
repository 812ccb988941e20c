// Describes the first GPU and measures two of its ceilings. Prints one "name value" pair a line; rates are 1e9 a second.
// Usage: probe BYTES_PER_ARRAY. Each rate is the best of the repeats: whatever disturbs a repeat makes it slower.
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

namespace {

void require(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  std::fprintf(stderr, "%s: %s (%s)\n", what, cudaGetErrorName(status), cudaGetErrorString(status));
  std::exit(1);
}

// `Each` independent 16-byte loads in flight a thread, as a well-written pointwise kernel has them.
template <int Each>
__global__ void __launch_bounds__(256) copy(const float4* __restrict__ from, float4* __restrict__ to, int64_t count) {
  const int64_t first = blockIdx.x * int64_t{256 * Each} + threadIdx.x;
  float4 held[Each];
#pragma unroll
  for (int i = 0; i < Each; ++i) {
    if (first + i * 256 < count) held[i] = __ldcs(from + first + i * 256);
  }
#pragma unroll
  for (int i = 0; i < Each; ++i) {
    if (first + i * 256 < count) __stcs(to + first + i * 256, held[i]);
  }
}

// Eight independent chains cover the latency of a multiply-add even where few warps share a scheduler.
constexpr int kChains = 8, kSteps = 4096;

__global__ void __launch_bounds__(256) multiply_add(float* sink, float scale, float shift) {
  float values[kChains];
#pragma unroll
  for (int c = 0; c < kChains; ++c) values[c] = static_cast<float>(threadIdx.x + c);
#pragma unroll 4
  for (int step = 0; step < kSteps; ++step) {
#pragma unroll
    for (int c = 0; c < kChains; ++c) values[c] = fmaf(values[c], scale, shift);
  }
  float total = 0;
#pragma unroll
  for (int c = 0; c < kChains; ++c) total += values[c];
  if (total == 12345.678f) *sink = total;  // never so, but the compiler cannot know
}

template <class Work>
double best_seconds(int repeats, const Work& work) {
  cudaEvent_t start, stop;
  require(cudaEventCreate(&start), "cudaEventCreate");
  require(cudaEventCreate(&stop), "cudaEventCreate");
  float best_ms = 1e30f;
  for (int i = -3; i < repeats; ++i) {  // the first three wake the clocks
    require(cudaEventRecord(start), "cudaEventRecord");
    work();
    require(cudaEventRecord(stop), "cudaEventRecord");
    require(cudaEventSynchronize(stop), "a probe kernel");
    float ms = 0;
    require(cudaEventElapsedTime(&ms, start, stop), "cudaEventElapsedTime");
    if (i >= 0) best_ms = std::min(best_ms, ms);
  }
  return best_ms * 1e-3;
}

int64_t attribute(cudaDeviceAttr which) {
  int value = 0;
  require(cudaDeviceGetAttribute(&value, which, 0), "cudaDeviceGetAttribute");
  return value;
}

void say(const char* name, double value) { std::printf("%s %.9g\n", name, value); }

template <int Each>
double copy_seconds(const float4* from, float4* to, int64_t vectors) {
  const auto blocks = static_cast<unsigned>((vectors + 256 * Each - 1) / (256 * Each));
  return best_seconds(10, [&] { copy<Each><<<blocks, 256>>>(from, to, vectors); });
}

// Which of them is the fastest differs between generations, and with how busy the memory is.
double best_copy_seconds(const float4* from, float4* to, int64_t vectors) {
  const size_t bytes = vectors * sizeof(float4);
  const double driver = best_seconds(10, [&] { cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice); });
  return std::min({driver, copy_seconds<1>(from, to, vectors), copy_seconds<2>(from, to, vectors),
                   copy_seconds<4>(from, to, vectors)});
}

}  // namespace

int main(int count, char** words) {
  if (count != 2) return 2;
  require(cudaSetDevice(0), "cudaSetDevice");
  cudaDeviceProp device;
  require(cudaGetDeviceProperties(&device, 0), "cudaGetDeviceProperties");
  const int64_t wanted = std::min<int64_t>(std::atoll(words[1]), device.totalGlobalMem / 8);
  const int64_t vectors = wanted / sizeof(float4);
  say("multiprocessors", device.multiProcessorCount);
  say("memory_bytes", static_cast<double>(device.totalGlobalMem));
  say("l2_bytes", device.l2CacheSize);
  say("shared_bytes", static_cast<double>(device.sharedMemPerBlockOptin));
  say("shared_bytes_per_multiprocessor", static_cast<double>(device.sharedMemPerMultiprocessor));
  say("threads_per_multiprocessor", device.maxThreadsPerMultiProcessor);
  say("registers_per_multiprocessor", device.regsPerMultiprocessor);
  say("clock_mhz", attribute(cudaDevAttrClockRate) * 1e-3);

  float4 *from = nullptr, *to = nullptr;
  require(cudaMalloc(&from, vectors * sizeof(float4)), "cudaMalloc");
  require(cudaMalloc(&to, vectors * sizeof(float4)), "cudaMalloc");
  require(cudaMemset(from, 1, vectors * sizeof(float4)), "cudaMemset");
  say("gb_s", 2.0 * vectors * sizeof(float4) / best_copy_seconds(from, to, vectors) * 1e-9);

  const unsigned grid = device.multiProcessorCount * (device.maxThreadsPerMultiProcessor / 256) * 4;
  float* sink = reinterpret_cast<float*>(to);
  const double computed = best_seconds(20, [&] { multiply_add<<<grid, 256>>>(sink, 0.999f, 1e-3f); });
  say("gflop_s", 2.0 * kSteps * kChains * 256.0 * grid / computed * 1e-9);
  return 0;
}
