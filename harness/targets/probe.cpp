// Measures two ceilings of this processor over all threads and prints them: GB/s moved, GFLOP/s in float32.
// Usage: probe BYTES_PER_ARRAY SECONDS. Each figure is the best of the repeats that fit into half of the seconds.
#include <omp.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#if defined(__SSE__)
#include <immintrin.h>
#endif

namespace {

#if defined(__AVX512F__)
constexpr int64_t kLanes = 16;
#elif defined(__AVX__)
constexpr int64_t kLanes = 8;
#else
constexpr int64_t kLanes = 4;
#endif
typedef float Vector __attribute__((vector_size(kLanes * sizeof(float))));

// Past the caches: a plain store would first read the line that it is about to overwrite.
inline void stream(float* to, const float* from) {
#if defined(__AVX512F__)
  _mm512_stream_ps(to, _mm512_load_ps(from));
#elif defined(__AVX__)
  _mm256_stream_ps(to, _mm256_load_ps(from));
#elif defined(__SSE__)
  _mm_stream_ps(to, _mm_load_ps(from));
#else
  std::memcpy(to, from, kLanes * sizeof(float));
#endif
}

struct Share {
  int64_t begin, end;
};

Share share_of(int64_t vectors) {
  const int64_t threads = omp_get_num_threads(), me = omp_get_thread_num();
  return {vectors * me / threads * kLanes, vectors * (me + 1) / threads * kLanes};
}

double copy_seconds(float* to, const float* from, int64_t vectors) {
  const double start = omp_get_wtime();
#pragma omp parallel
  {
    const Share mine = share_of(vectors);
    for (int64_t i = mine.begin; i < mine.end; i += kLanes) stream(to + i, from + i);
  }
  return omp_get_wtime() - start;
}

// Reads alone can be faster than a copy, and a reduction does little else: the ceiling has to hold for it too.
double read_seconds(const float* from, int64_t vectors, float* sink) {
  float total = 0;
  const double start = omp_get_wtime();
#pragma omp parallel reduction(+ : total)
  {
    const Share mine = share_of(vectors);
    Vector sums[8] = {};
    for (int64_t i = mine.begin; i + 8 * kLanes <= mine.end; i += 8 * kLanes) {
#pragma GCC unroll 8
      for (int64_t j = 0; j < 8; ++j) sums[j] += *reinterpret_cast<const Vector*>(from + i + j * kLanes);
    }
    for (int64_t j = 1; j < 8; ++j) sums[0] += sums[j];
    total += sums[0][0];
  }
  const double seconds = omp_get_wtime() - start;
  *sink += total;
  return seconds;
}

// Twelve independent chains cover the latency of a multiply-add on every core that issues up to two a cycle.
constexpr int kChains = 12;

double multiply_add_seconds(int64_t steps, float* sink) {
  float total = 0;
  const double start = omp_get_wtime();
#pragma omp parallel reduction(+ : total)
  {
    Vector values[kChains];
    for (int c = 0; c < kChains; ++c) values[c] = Vector{} + static_cast<float>(c);
    const Vector scale = Vector{} + 0.999f, shift = Vector{} + *sink;
    for (int64_t step = 0; step < steps; ++step) {
#pragma GCC unroll 12
      for (int c = 0; c < kChains; ++c) values[c] = values[c] * scale + shift;
    }
    for (int c = 0; c < kChains; ++c) total += values[c][0];
  }
  const double seconds = omp_get_wtime() - start;
  *sink += total * 1e-30f;
  return seconds;
}

}  // namespace

int main(int count, char** words) {
  if (count != 3) return 2;
  const int64_t bytes = std::atoll(words[1]);
  const double budget = std::atof(words[2]);
  const int64_t vectors = bytes / (kLanes * sizeof(float)), elements = vectors * kLanes;
  float* from = static_cast<float*>(std::aligned_alloc(64, elements * sizeof(float)));
  float* to = static_cast<float*>(std::aligned_alloc(64, elements * sizeof(float)));
  if (!from || !to) return 3;
#pragma omp parallel
  {
    const Share mine = share_of(vectors);
    std::fill(from + mine.begin, from + mine.end, 1.0f);
    std::fill(to + mine.begin, to + mine.end, 0.0f);
  }
  float sink = 1e-3f;
  double gb_s = 0, gflop_s = 0;
  const double moved = elements * sizeof(float) * 1e-9;
  for (const double start = omp_get_wtime(); omp_get_wtime() - start < budget / 2;) {
    gb_s = std::max(gb_s, 2 * moved / copy_seconds(to, from, vectors));
    gb_s = std::max(gb_s, moved / read_seconds(from, vectors, &sink));
  }
  const int64_t steps = 1 << 20;
  const double work = 2.0 * steps * kChains * kLanes * omp_get_max_threads() * 1e-9;
  for (const double start = omp_get_wtime(); omp_get_wtime() - start < budget / 2;) {
    gflop_s = std::max(gflop_s, work / multiply_add_seconds(steps, &sink));
  }
  std::printf("%.6g %.6g\n", gb_s, gflop_s);
  std::fprintf(stderr, "%g\n", sink);
}
