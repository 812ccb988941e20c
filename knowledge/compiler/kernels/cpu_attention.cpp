// begin header
// O = softmax(score(Q K^T)) V for every head on a processor, never writing the scores of more than a tile: rows of Q
// are the lanes, keys come one tile after the other, and each row carries its largest score so far, the sum of the
// exponentials and that of their products with V. So K and V are read where they lie, and no lane is ever shuffled.
//   op class: reduction
//   architecture: cpu
//   layouts: any strides; Q and O are turned once a block of rows, so that rows are neighbours
//   tile: 64 rows x 96 keys a turn, rows of all heads over threads; fragments of 6 keys x 4 vectors of 16 rows
//   caches: tS 96 x 64 x 4 = 24576 bytes, tQ and tO 64 x 64 x 4 = 16384 bytes each, a thread's own; K and V of a tile
//     96 x 64 x 4 = 24576 bytes each
//   registers: 24 sums, 4 vectors of rows, 1 element of K or V: 29 of 32
//   error: the products of a tile's keys are summed apart; exponentials within 1.5 units of the last place
// end header

// includes: as in cpu_pointwise.cpp

#include <cmath>
#include <memory>
#include <type_traits>
#include <utility>

namespace {

using namespace cute;

// begin lanes
// end lanes

// begin exponential
// end exponential

// begin problem
// end problem

// begin knobs
constexpr int kWide = 4;        // vectors of rows in a fragment
constexpr int kTall = 6;        // keys, or columns of V, in a fragment
constexpr int kRows = 64;       // a block, a multiple of kWide vectors
constexpr int kKeys = 96;       // a tile
constexpr bool kThreads = true;
// end knobs

constexpr float kInfinity = std::numeric_limits<float>::infinity();
static_assert(kRows % (kWide * V) == 0, "a block of rows is whole fragments");

using Lanes = Vec __attribute__((may_alias));
inline Lanes& lane(float* at) { return *reinterpret_cast<Lanes*>(at); }
inline Vec larger(Vec a, Vec b) { return a > b ? a : b; }  // may lose a NaN: its own exponential brings it back

// What one thread has for itself: rows are neighbours everywhere.
struct alignas(64) Block {
  float q[Inner][kRows], s[kKeys][kRows], o[Outer][kRows], top[kRows], sum[kRows], rescale[kRows];
};

// c(i,row) = sum over k of a(i,k) b(k,row), for Tall i's and kWide vectors of rows; Carried: what c was before is
// rescaled, and the sum added.
template <int Tall, bool Carried, class A>
inline void fragment(A const& a, int i0, float* b, float* c, float* rescale, int depth) {
  Vec sum[Tall][kWide] = {};
  for (int k = 0; k < depth; ++k) {
    Vec right[kWide];
    UNROLL
    for (int j = 0; j < kWide; ++j) right[j] = lane(b + k * kRows + j * V);
    UNROLL
    for (int i = 0; i < Tall; ++i) {
      float const left = a(i0 + i, k);
      UNROLL
      for (int j = 0; j < kWide; ++j) sum[i][j] += left * right[j];
    }
  }
  UNROLL
  for (int i = 0; i < Tall; ++i) {
    UNROLL
    for (int j = 0; j < kWide; ++j) {
      Lanes& to = lane(c + (i0 + i) * kRows + j * V);
      to = Carried ? to * lane(rescale + j * V) + sum[i][j] : sum[i][j];
    }
  }
}

// The same for `Count` i's and all rows of the block.
template <int Count, bool Carried, class A>
inline void product(A const& a, float* b, float* c, float* rescale, int depth) {
  for (int r = 0; r < kRows; r += kWide * V) {
    int i = 0;
    for (; i + kTall <= Count; i += kTall) fragment<kTall, Carried>(a, i, b + r, c + r, rescale + r, depth);
    if constexpr (Count % kTall != 0) fragment<Count % kTall, Carried>(a, i, b + r, c + r, rescale + r, depth);
  }
}

// Rows as columns, as many as there are; the others are zero.
template <class Rows_>
inline void take_rows(Block& block, Rows_ const& gQ, int rows) {
  for (int row = 0; row < kRows; ++row) {
    for (int d = 0; d < Inner; ++d) block.q[d][row] = row < rows ? gQ(row, d) * (Plain ? Scale : 1.0f) : 0.0f;
    block.top[row] = -kInfinity, block.sum[row] = 0.0f;
  }
  for (int d = 0; d < Outer; ++d) {
    for (int r = 0; r < kRows; r += V) lane(&block.o[d][r]) = Vec{};
  }
}

template <class Rows_>
inline void give_rows(Block& block, Rows_ const& gO, int rows) {
  float share[kRows];
  for (int row = 0; row < kRows; ++row) {
    bool const nothing = Safe && block.top[row] == -kInfinity && block.sum[row] == 0.0f;
    share[row] = nothing ? 0.0f : 1.0f / block.sum[row];
  }
  for (int row = 0; row < rows; ++row) {
    for (int d = 0; d < Outer; ++d) gO(row, d) = block.o[d][row] * share[row];
  }
}

// The numbers of the lanes.
inline Ints numbers() {
  Ints result{};
  for (int k = 0; k < V; ++k) result[k] = k;
  return result;
}

// Scores as they count: with their terms, and -infinity where a row does not see its key.
template <int Count>
inline void finish(Block& block, int row0, int key0, int head, Terms const& terms) {
  for (int key = 0; key < Count; ++key) {
    for (int r = 0; r < kRows && row0 + r < Rows; r += V) {
      Lanes& s = lane(&block.s[key][r]);
      if constexpr (!Plain) s = score(s, row0 + r, key0 + key, head, std::min(V, Rows - row0 - r), terms);
      if (Causal && key0 + key >= Prefix) s = numbers() + (row0 + r + Diagonal) >= key0 + key ? s : all(-kInfinity);
      if (Windowed && key0 + key >= Sinks) s = numbers() + (row0 + r + First) <= key0 + key ? s : all(-kInfinity);
    }
  }
}

// Whether the terms show one of `Count` keys to a row of the block.
template <int Count>
inline bool seen(int row0, int key0, int head, Terms const& terms) {
  for (int r = 0; r < kRows && row0 + r < Rows; r += V) {
    int const rows = std::min(V, Rows - row0 - r);
    Vec sum{};
    for (int key = 0; key < Count; ++key) sum += shown(Vec{}, row0 + r, key0 + key, head, rows, terms);
    for (int row = 0; row < rows; ++row) {
      if (sum[row] > 0) return true;
    }
  }
  return false;
}

// Scores become exponentials; the largest one of each row and its sum take them in. Vectors go side by side.
template <int Count>
inline void soften(Block& block) {
  for (int r = 0; r < kRows; r += kWide * V) {
    Vec most[kWide], sum[kWide];
    UNROLL
    for (int j = 0; j < kWide; ++j) most[j] = lane(&block.top[r + j * V]), sum[j] = Vec{};
    for (int key = 0; key < Count; ++key) {
      UNROLL
      for (int j = 0; j < kWide; ++j) most[j] = larger(lane(&block.s[key][r + j * V]), most[j]);
    }
    UNROLL
    for (int j = 0; j < kWide; ++j) {
      Vec const before = lane(&block.top[r + j * V]);
      lane(&block.top[r + j * V]) = most[j];
      most[j] = most[j] == -kInfinity ? Vec{} : most[j];
      lane(&block.rescale[r + j * V]) = exponential(before - most[j]);
    }
    for (int key = 0; key < Count; ++key) {
      UNROLL
      for (int j = 0; j < kWide; ++j) {
        Lanes& s = lane(&block.s[key][r + j * V]);
        s = exponential(s - most[j]);
        sum[j] += s;
      }
    }
    UNROLL
    for (int j = 0; j < kWide; ++j) {
      Lanes& all_keys = lane(&block.sum[r + j * V]);
      all_keys = all_keys * lane(&block.rescale[r + j * V]) + sum[j];
    }
  }
}

// One tile of `Count` keys.
template <int Count, class K, class Vt>
inline void step(Block& block, K const& gK, Vt const& gV, int row0, int key0, int head, Terms const& terms) {
  if (Tested && !seen<Count>(row0, key0, head, terms)) return;
  product<Count, false>(gK, &block.q[0][0], &block.s[0][0], block.rescale, Inner);
  bool const edge = (Causal && key0 + Count > std::max(row0 + Diagonal + 1, Prefix)) ||
                    (Windowed && key0 + Count > Sinks && key0 < row0 + kRows - 1 + First);
  if (!Plain || edge) finish<Count>(block, row0, key0, head, terms);
  soften<Count>(block);
  product<Outer, true>(gV, &block.s[0][0], &block.o[0][0], block.rescale, Count);
}

void attend(Block& block, float const* q, float const* k, float const* v, float* o, Terms const& terms, int head,
            int row0) {
  Tensor mQ = make_tensor(q, Layout<Shape<Int<Rows>, Int<Inner>>, StridesQ>{});  // (Rows,Inner)
  Tensor mK = make_tensor(k, Layout<Shape<Int<Keys>, Int<Inner>>, StridesK>{});  // (Keys,Inner)
  Tensor mO = make_tensor(o, Layout<Shape<Int<Rows>, Int<Outer>>, StridesO>{});  // (Rows,Outer)
  Tensor mV = make_tensor(v, select<1, 0>(Layout<Shape<Int<Keys>, Int<Outer>>, StridesV>{}));  // (Outer,Keys)
  int const rows = std::min(kRows, Rows - row0);
  take_rows(block, domain_offset(make_coord(row0, 0), mQ), rows);
  int const seen = Causal ? std::min(Keys, std::max(row0 + rows + Diagonal, Prefix)) : Keys;
  int const begin = Windowed ? std::max(0, row0 + First) / kKeys * kKeys : 0;
  for (int key0 = Sinks > 0 ? 0 : begin; key0 < seen;) {
    Tensor gK = domain_offset(make_coord(key0, 0), mK);  // (kKeys,Inner)
    Tensor gV = domain_offset(make_coord(0, key0), mV);  // (Outer,kKeys)
    if (key0 + kKeys <= Keys) {
      step<kKeys>(block, gK, gV, row0, key0, head, terms);
    } else if constexpr (Keys % kKeys != 0) {
      step<Keys % kKeys>(block, gK, gV, row0, key0, head, terms);
    }
    key0 += kKeys;
    if (key0 >= Sinks) key0 = std::max(key0, begin);
  }
  give_rows(block, domain_offset(make_coord(row0, 0), mO), rows);
}

void attention(float const* q, float const* k, float const* v, float* o, Terms const& terms) {
  constexpr int blocks = (Rows + kRows - 1) / kRows;
  #pragma omp parallel if (kThreads)
  {
    std::unique_ptr<Block> const block(new Block);
    #pragma omp for schedule(dynamic)
    for (int64_t task = 0; task < int64_t(Heads) * blocks; ++task) {
      int const head = int(task / blocks);
      Places const at = places_of(head);
      // The last rows first: under a diagonal they see the most keys.
      int const row0 = int(blocks - 1 - task % blocks) * kRows;
      attend(*block, q + at.q, k + at.k, v + at.v, o + at.o, terms, head, row0);
    }
  }
}

// require: as in pointwise.cu

}  // namespace

// begin entry
// end entry
