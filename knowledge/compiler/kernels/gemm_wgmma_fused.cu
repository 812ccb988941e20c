// begin header
// C(m,n,l) = epilogue(sum over k of A(m,k,l) * B(n,k,l)) at float32 grade on Hopper's TF32 tensor cores (3xTF32),
// without scratch: producers read the operands, split every element x into big = x rounded to TF32 and
// small = x - big, and lay both out in shared memory as wgmma reads them, K-major and swizzled. Two consumer
// warpgroups sum small*big + big*small + big*big of each tile from zero, the small ones first, and add that to C's
// fragment in float32, since tensor cores add with truncation. Blocks stay and take one tile of C after the other, so
// that the producers read the next one while the consumers store this one.
//   op class: gemm
//   architecture: sm_90a
//   layouts: any strides
//   tile: block 128 x 128 x 32, 2 consumer warpgroups of 64 x 128, and one or two warpgroups of producers
//   shared memory: A 128 x 32 x 2 x 4 x 3 = 98304 bytes, B 128 x 32 x 2 x 4 x 3 = 98304 bytes, barriers 8 x 2 x 3 = 48
//     bytes; 196656 bytes of at most 232448
//   reaches: H200, times PyTorch in float32: 1.88 over 128 batches of 512 x 1024 x 2048, 1.70 for 32768 x 64 x 32768,
//     1.43 for 32768 x 32 x 32768, 2.18 for 1048576 x 256 x 768, 4.96 for a triangle of 4096 x 4096 x 4096
//   also: batches, split-K (partial sums and a second kernel), triangles (empty tiles, and ranges of K that hold
//     only zeros, are skipped)
// end header
// includes: as in gemm_simt.cu
// _hopper: as in gemm_wgmma_16bit.cu

// _product: as in gemm_simt.cu
using T = float;

// problem: as in gemm_simt.cu

// begin knobs
using BLK_N = Int<128>;       // 64 or 128
constexpr int Stages = 3;     // tiles of A and B in shared memory
constexpr int Producers = 256;  // threads that fill the stages: 128 or 256
constexpr int Blocks = 132;   // that run at once: the multiprocessors
constexpr int Splits = 1;     // blocks that share one tile's K
constexpr int Group = 8;      // tile rows that run side by side, so that their tiles of B stay in the L2 cache
constexpr int CopyA = 4;      // elements one load of a K-major operand moves
constexpr int CopyB = 1;
constexpr int StoreC = 2;     // elements one store writes
constexpr int Triangle = 0;   // 1: only n - m >= Offset is kept; -1: only n - m <= Offset; the rest of C is zero
constexpr int Offset = 0;
constexpr bool Even = false;  // a triangle's tiles go from long sums to short ones, back and forth over the blocks
constexpr bool SkipZeros = false;  // look first which k's of each band of A and of B are not all zero
// end knobs

// begin _tiles
using BLK_M = _128;
using BLK_K = _32;
constexpr int Consumers = BLK_M{} / _64{}, Threads = Producers + 128 * Consumers;
// Registers a thread, once producers have handed theirs over: 65536 in all.
constexpr int ProducerRegisters = Producers == 128 ? 120 : 72, ConsumerRegisters = Producers == 128 ? 192 : 184;
constexpr int TilesM = ceil_div(M{}, BLK_M{}), TilesN = ceil_div(N{}, BLK_N{}), TilesK = ceil_div(K{}, BLK_K{});
constexpr int Batches = size<2>(LayoutC{});
// end _tiles
constexpr int64_t Works = int64_t(TilesM) * TilesN * Batches * Splits;
static_assert(Triangle != 0 || !Even, "only the tiles of a triangle differ in length");
static_assert(Splits == 1 || !SkipZeros, "a tile whose range is found at run time is not shared");

// begin operands
// One operand as (rows, K), and its tiles in shared memory as wgmma reads them: big parts, then small ones.
template <class Global_, class Rows_, class Block_, int Copy_>
struct Operand {
  using Global = Global_;
  using Rows = Rows_;
  using Block = Block_;
  static constexpr int Copy = Copy_;
  static constexpr int64_t row_stride = stride<0>(Global{}), k_stride = stride<1>(Global{});
  static constexpr bool k_major = k_stride == 1;
  static constexpr bool whole = Rows::value % Block::value == 0 && K::value % BLK_K::value == 0;  // no edges
  using Part = decltype(composition(Swizzle<3, 2, 3>{}, Layout<Shape<Block, BLK_K>, Stride<BLK_K, _1>>{}));
  using Shared = decltype(tile_to_shape(GMMA::Layout_K_SW128_Atom<tfloat32_t>{},
                                        Shape<Block, BLK_K, Int<2 * Stages>>{}));  // (BLK,BLK_K,2*Stages)
  static constexpr int part = Block::value * BLK_K::value, size = 2 * part;       // elements of one tile
  static constexpr int items = part / 4 / Producers;  // times that a producer's thread takes 4 k's of one row

  // Neighbouring threads read neighbours along the contiguous dimension.
  CUTE_DEVICE static int row(int thread, int item) {
    return k_major ? thread / 8 + item * (Producers / 8) : (thread + item * Producers) % Block::value;
  }
  CUTE_DEVICE static int k(int thread, int item) {
    return 4 * (k_major ? thread % 8 : (thread + item * Producers) / Block::value);
  }
};
using OperandA = Operand<LayoutA, M, BLK_M, CopyA>;
using OperandB = Operand<LayoutB, N, BLK_N, CopyB>;

using Atom = decltype(GMMA::ss_op_selector<tfloat32_t, tfloat32_t, float, Shape<BLK_M, BLK_N, BLK_K>>());
using Mma = decltype(make_tiled_mma(Atom{}, Layout<Shape<Int<Consumers>, _1, _1>>{}));

struct Shared {
  T A[Stages * OperandA::size];
  T B[Stages * OperandB::size];
  uint64_t full[Stages], empty[Stages];
};
constexpr int SharedBytes = sizeof(Shared);
// end operands

// plain_sum: as in gemm_3xtf32.cu

// ranges: as in gemm_3xtf32.cu

// Of a triangle's tiles the one of this number, from the diagonal with the longest sums to the one with the shortest.
CUTE_DEVICE Tile by_length(int index) {
  for (int diagonal = Triangle > 0 ? TilesN - 1 : 1 - TilesM;; diagonal -= Triangle) {
    int const first = max(0, -diagonal), count = min(TilesM, TilesN - diagonal) - first;
    if (index < count) return {first + index, first + index + diagonal};
    index -= count;
  }
}

// A tile of C of one batch, and the tiles of K from `first` to `last` of it.
struct Piece {
  Tile tile;
  int l, split, first, last;

  CUTE_DEVICE Piece(int index, Spans const* spans)
      : tile(Even ? by_length(index % (TilesM * TilesN)) : tile_of(index % (TilesM * TilesN))),
        l(index / (TilesM * TilesN) % Batches),
        split(index / (TilesM * TilesN) / Batches) {
    Range const range = range_of(tile, l, split, spans);
    first = range.first, last = range.last;
  }
};

// Writes a tile of C, or of the partial sums.
template <class Fragment, class Places>
CUTE_DEVICE void write(Fragment const& tCrC, Places const& tCcC, Piece const& piece, T const* A, T const* B, T* C,
                       T* partial, Epilogue const& epilogue) {
  CUTE_UNROLL
  for (int i = 0; i < size(tCrC); i += 2) {
    int const m = piece.tile.m * BLK_M{} + get<0>(tCcC(i)), n = piece.tile.n * BLK_N{} + get<1>(tCcC(i));
// begin _piece
    if (m >= M{} || n >= N{}) continue;
    T x[2];
    CUTE_UNROLL
    for (int j = 0; j < 2; ++j) {
      x[j] = tCrC(i + j);
      if (n + j >= N{}) continue;
      if (!isfinite(x[j])) {
        x[j] = plain_sum(A + LayoutA{}(m, 0, piece.l), B + LayoutB{}(n + j, 0, piece.l), piece.first * BLK_K{},
                         min(piece.last * BLK_K{}, K{}));
      }
// end _piece
      if (Splits == 1) x[j] = epilogue(x[j], m, n + j, piece.l);
    }
    constexpr bool pairs = Splits == 1 ? StoreC == 2 : N::value % 2 == 0;
    T* const to = Splits == 1 ? C + LayoutC{}(m, n, piece.l)
                              : partial + ((int64_t(piece.split) * Batches + piece.l) * M{} + m) * N{} + n;
    if constexpr (pairs) {
      *reinterpret_cast<float2*>(to) = make_float2(x[0], x[1]);
    } else {
      to[0] = x[0];
      if (n + 1 < N{}) to[Splits == 1 ? int(stride<1>(LayoutC{})) : 1] = x[1];
    }
  }
}

// begin pipeline
// A thread's part of one tile on its way from device memory to shared memory.
template <class X>
struct Parcel {
  float4 values[X::items];

  // `x` points at the tile's first row; what lies outside the operand is zero.
  CUTE_DEVICE void load(T const* x, int row0, int k0, int thread) {
    CUTE_UNROLL
    for (int item = 0; item < X::items; ++item) {
      int const row = X::row(thread, item), k = X::k(thread, item);
      T const* const from = x + row * X::row_stride + (k0 + k) * X::k_stride;
      T v[4] = {};
      if constexpr (X::k_major && X::Copy == 4) {
        if (X::whole || (row0 + row < X::Rows::value && k0 + k < K{})) {
          float4 const word = __ldg(reinterpret_cast<float4 const*>(from));
          v[0] = word.x, v[1] = word.y, v[2] = word.z, v[3] = word.w;
        }
      } else {
        CUTE_UNROLL
        for (int i = 0; i < 4; ++i) {
          if (X::whole || (row0 + row < X::Rows::value && k0 + k + i < K{})) v[i] = __ldg(from + i * X::k_stride);
        }
      }
      values[item] = make_float4(v[0], v[1], v[2], v[3]);
    }
  }

  // Round to nearest, ties away from zero. What is left over is not rounded: the tensor core ignores its 13 lowest
  // bits, and it stays NaN where the carry makes a zero of a NaN whose bits are all ones, as a GPU's arithmetic gives.
  CUTE_DEVICE static float rounded(float x) { return __uint_as_float((__float_as_uint(x) + 0x1000u) & 0xffffe000u); }

  CUTE_DEVICE void store(T* shared, int thread) const {
    CUTE_UNROLL
    for (int item = 0; item < X::items; ++item) {
      T* const to = shared + typename X::Part{}(X::row(thread, item), X::k(thread, item));
      float4 const x = values[item], big = make_float4(rounded(x.x), rounded(x.y), rounded(x.z), rounded(x.w));
      *reinterpret_cast<float4*>(to) = big;
      *reinterpret_cast<float4*>(to + X::part) = make_float4(x.x - big.x, x.y - big.y, x.z - big.z, x.w - big.w);
    }
  }
};

using Barrier = cutlass::arch::ClusterBarrier;

// Place in the ring of stages, and the parity of its round.
struct Stage {
  int index = 0, phase = 0;

  CUTE_DEVICE void next() {
    index = index + 1 == Stages ? 0 : index + 1;
    phase ^= index == 0;
  }
};

// Puts two parcels into a stage, once its consumers have left it.
CUTE_DEVICE void deliver(Shared& shared, Stage& stage, Parcel<OperandA> const& a, Parcel<OperandB> const& b) {
  Barrier::wait(&shared.empty[stage.index], stage.phase ^ 1);
  a.store(shared.A + stage.index * OperandA::size, threadIdx.x);
  b.store(shared.B + stage.index * OperandB::size, threadIdx.x);
  cutlass::arch::fence_view_async_shared();
  Barrier::arrive(&shared.full[stage.index]);
  stage.next();
}

// Fills the stages in turn; the loads of a tile travel while the tile before it is split. `for_each_piece` calls a
// function with each of the block's pieces.
template <class ForEach>
CUTE_DEVICE void produce(Shared& shared, T const* A, T const* B, ForEach const& for_each_piece) {
  int const thread = threadIdx.x;
  Stage stage;
  Parcel<OperandA> a;
  Parcel<OperandB> b;
  bool loaded = false;
  for_each_piece([&](Piece const& piece) {
    int const m0 = piece.tile.m * BLK_M{}, n0 = piece.tile.n * BLK_N{};
    T const* const mA = A + LayoutA{}(0, 0, piece.l) + m0 * OperandA::row_stride;  // (BLK_M,K)
    T const* const mB = B + LayoutB{}(0, 0, piece.l) + n0 * OperandB::row_stride;  // (BLK_N,K)
    for (int k_tile = piece.first; k_tile < piece.last; ++k_tile) {
      if (loaded) deliver(shared, stage, a, b);
      a.load(mA, m0, k_tile * BLK_K{}, thread);
      b.load(mB, n0, k_tile * BLK_K{}, thread);
      loaded = true;
    }
  });
  if (loaded) deliver(shared, stage, a, b);
}

template <class ForEach>
CUTE_DEVICE void consume(Shared& shared, T const* A, T const* B, T* C, T* partial, Epilogue const& epilogue,
                         ForEach const& for_each_piece) {
  auto* const pA = reinterpret_cast<tfloat32_t*>(shared.A);
  Tensor sA = make_tensor(make_smem_ptr(pA), typename OperandA::Shared{});  // (BLK_M,BLK_K,2*Stages)
  auto* const pB = reinterpret_cast<tfloat32_t*>(shared.B);
  Tensor sB = make_tensor(make_smem_ptr(pB), typename OperandB::Shared{});  // (BLK_N,BLK_K,2*Stages)
  Mma mma;
  auto const thread_mma = mma.get_thread_slice(threadIdx.x - Producers);
  Tensor tCrA = thread_mma.partition_fragment_A(sA);                        // (MMA,MMA_M,MMA_K,2*Stages)
  Tensor tCrB = thread_mma.partition_fragment_B(sB);                        // (MMA,MMA_N,MMA_K,2*Stages)
  Tensor tCrC = partition_fragment_C(mma, Shape<BLK_M, BLK_N>{});           // (MMA,MMA_M,MMA_N)
  Tensor tCrT = make_fragment_like(tCrC);                                   // (MMA,MMA_M,MMA_N), of one tile
  Tensor cC = make_identity_tensor(Shape<BLK_M, BLK_N>{});                  // (BLK_M,BLK_N) -> (m,n)
  Tensor tCcC = thread_mma.partition_C(cC);                                 // (MMA,MMA_M,MMA_N) -> (m,n)
  Stage stage;
  for_each_piece([&](Piece const& piece) {
    clear(tCrC);
    for (int k_tile = piece.first; k_tile < piece.last; ++k_tile) {
      Barrier::wait(&shared.full[stage.index], stage.phase);
      warpgroup_fence_operand(tCrT);
      warpgroup_arrive();
      mma.accumulate_ = GMMA::ScaleOut::Zero;
      CUTE_UNROLL
      for (int product = 0; product < 3; ++product) {
        int const a = 2 * stage.index + (product == 0), b = 2 * stage.index + (product == 1);
        CUTE_UNROLL
        for (int k = 0; k < size<2>(tCrA); ++k) {
          gemm(mma, tCrA(_, _, k, a), tCrB(_, _, k, b), tCrT);
          mma.accumulate_ = GMMA::ScaleOut::One;
        }
      }
      warpgroup_commit_batch();
      warpgroup_wait<0>();
      warpgroup_fence_operand(tCrT);
      if (threadIdx.x % 32 == 0) Barrier::arrive(&shared.empty[stage.index]);
      stage.next();
      CUTE_UNROLL
      for (int i = 0; i < size(tCrC); ++i) tCrC(i) += tCrT(i);
    }
    write(tCrC, tCcC, piece, A, B, C, partial, epilogue);
  });
}

CUTE_DEVICE void initialize(Shared& shared) {
  if (threadIdx.x == 0) {
    CUTE_UNROLL
    for (int stage = 0; stage < Stages; ++stage) {
      Barrier::init(&shared.full[stage], Producers);
      Barrier::init(&shared.empty[stage], Consumers * 4);
    }
    cutlass::arch::fence_barrier_init();
  }
  __syncthreads();
}
// end pipeline

__global__ void __launch_bounds__(Threads, 1)
gemm(T const* __restrict__ A, T const* __restrict__ B, T* __restrict__ C, T* __restrict__ partial, Epilogue epilogue,
     Spans const* __restrict__ spans) {
  extern __shared__ __align__(1024) uint8_t memory[];
  Shared& shared = *reinterpret_cast<Shared*>(memory);
  initialize(shared);
  auto const for_each_piece = [&](auto const& work) {
    for (int64_t wave = 0; wave * gridDim.x < Works; ++wave) {
      int64_t const place = Even && wave % 2 == 1 ? gridDim.x - 1 - blockIdx.x : blockIdx.x;
      if (wave * gridDim.x + place < Works) work(Piece(int(wave * gridDim.x + place), spans));
    }
  };
// begin _roles
  if (threadIdx.x < Producers) {
    cutlass::arch::warpgroup_reg_dealloc<ProducerRegisters>();
    produce(shared, A, B, for_each_piece);
  } else {
    cutlass::arch::warpgroup_reg_alloc<ConsumerRegisters>();
    consume(shared, A, B, C, partial, epilogue, for_each_piece);
  }
}
// end _roles

// As many blocks as run at once.
dim3 grid() { return dim3(int(min(Works, int64_t(Blocks)))); }

// reduce: as in gemm_3xtf32.cu

// check: as in gemm_simt.cu

// scratch: as in gemm_3xtf32.cu

// launch: as in gemm_3xtf32.cu

}  // namespace product

// entry: as in gemm_simt.cu
