// begin header
// Out(m,n) = exp(X(m,n) - max over the row) / sum of these over the row: softmax along rows on a processor.
//   op class: reduction
//   architecture: cpu
//   layouts: mX, mOut (M,N):(N,1); a row's rest goes through padded lanes
//   tile: 1 row a turn, rows over threads, three sweeps over each; 4 vectors of 16 lanes are 64 partial results
//   caches: gX 4096 x 4 = 16384 bytes, read from memory once; sE 4096 x 4 = 16384 bytes, a thread's own; L1 and L2
//     hold both and the next row; gOut is stored past the caches
//   registers: 4 partial maxima or sums, 4 x 6 vectors of 32 for the exponentials
//   reaches: 9.6 ms of one core's own time on an AMD EPYC with AVX-512, 12.3 without the prefetch; eager PyTorch, one
//     pass as well, 11.0 (called by turns, cold caches)
//   limited by: a stack for sE: beyond some 16,000 columns the exponentials are kept in gOut instead
//   error: 64 sums a row, added in a fixed order; one reciprocal a row: within 3 units of the last place
// end header

// includes: as in cpu_pointwise.cpp

namespace {

using namespace cute;

// begin problem
using M = Int<4096>;  // rows
using N = Int<4096>;  // columns
// end problem

// begin knobs
constexpr int kParts = 4;         // vectors of partial results
constexpr bool kStreamed = true;  // the output exceeds the last cache, and is not read soon
// end knobs

// lanes: as in cpu_pointwise.cpp

// exponential: as in cpu_pointwise.cpp

// begin reduction
constexpr float kInfinity = std::numeric_limits<float>::infinity();

inline Vec larger(Vec a, Vec b) { return a > b ? a : b; }  // may lose a NaN: its own exponential brings it back
inline Vec sum(Vec a, Vec b) { return a + b; }

// All lanes of the partial results as one number, in a fixed order.
template <class Parts, class Combine>
inline float combined(Parts& parts, Combine combine) {
  for (int p = 1; p < size(parts); ++p) parts(0) = combine(parts(0), parts(p));
  for (int width = V / 2; width > 0; width /= 2) {
    Vec upper = parts(0);
    for (int lane = 0; lane < width; ++lane) upper[lane] = parts(0)[lane + width];
    parts(0) = combine(parts(0), upper);
  }
  return parts(0)[0];
}

// body(i, count, p) for every vector of a row: first whole ones, whose results go to the parts by turns, then the rest.
template <class Body>
inline void sweep(Body const& body) {
  int i = 0;
  for (; i + kParts * V <= N{}; i += kParts * V) {
    UNROLL
    for (int p = 0; p < kParts; ++p) body(i + p * V, Int<V>{}, p);
  }
  for (; i < N{}; i += V) body(i, std::min<int>(V, N{} - i), 0);
}
// end reduction

// begin kernel
void softmax(float const* x, float* out) {
  Tensor mX = make_tensor(x, Layout<Shape<M, N>, Stride<N, _1>>{});      // (M,N)
  Tensor mOut = make_tensor(out, Layout<Shape<M, N>, Stride<N, _1>>{});  // (M,N)
  #pragma omp parallel for schedule(static)
  for (int m = 0; m < M{}; ++m) {
    Tensor gX = mX(m, _);      // (N)
    Tensor gOut = mOut(m, _);  // (N)
    alignas(64) float memory[N::value];
    Tensor sE = make_tensor(&memory[0], Layout<N>{});  // (N), the exponentials
    Tensor tXrP = make_tensor<Vec>(Int<kParts>{});     // (kParts) of V lanes

    fill(tXrP, all(-kInfinity));
    sweep([&](int i, auto count, int p) { tXrP(p) = larger(load(gX, i, count, -kInfinity), tXrP(p)); });
    float const largest = combined(tXrP, larger);

    fill(tXrP, Vec{});
    sweep([&](int i, auto count, int p) {
      Vec const rE = exponential(load(gX, i, count, -kInfinity) - largest);
      store(sE, i, count, rE);
      tXrP(p) += rE;
      __builtin_prefetch(&gX(N{} + i), 0, 2);  // the next row, into L2 while this one is computed
    });
    float const scale = 1.0f / combined(tXrP, sum);

    sweep([&](int i, auto count, int) {
      Vec const rOut = load(sE, i, count, 0.0f) * scale;
      if (kStreamed) { stream(gOut, i, count, rOut); } else { store(gOut, i, count, rOut); }
    });
    streamed();
  }
}
// end kernel

// require: as in cpu_pointwise.cpp

}  // namespace

// begin entry
void run(tvm::ffi::TensorView x, tvm::ffi::TensorView out) {
  require(x, "x", {M{}, N{}}, {N{}, 1});
  require(out, "out", {M{}, N{}}, {N{}, 1});
  softmax(static_cast<float const*>(x.data_ptr()), static_cast<float*>(out.data_ptr()));
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
// end entry
