// begin header
// C(m,n,l) = epilogue(sum over k of A(m,k,l) * B(n,k,l)) at float32 grade on Hopper's TF32 tensor cores (3xTF32), by
// stream-K: blocks take whole tiles of C in turn, but the last one or two waves are cut otherwise: the tiles of K of
// all their tiles of C lie in one row, and every block gets an equal share of it, wherever a tile of C begins or ends.
// No multiprocessor waits for a last wave. What a share has whole is stored at once; of its first and its last tile it
// leaves partial sums, which a second kernel adds in the order of K. Operands are read, split into big and small TF32
// parts and multiplied as in gemm_wgmma_fused.
//   op class: gemm
//   architecture: sm_90a
//   layouts: any strides
//   tile: block 128 x 128 x 32, 2 consumer warpgroups of 64 x 128, and one or two warpgroups of producers
//   shared memory: A 128 x 32 x 2 x 4 x 3 = 98304 bytes, B 128 x 32 x 2 x 4 x 3 = 98304 bytes, barriers 8 x 2 x 3 = 48
//     bytes; 196656 bytes of at most 232448
//   partial sums: 2 x 132 x 128 x 128 x 4 = 17301504 bytes of device memory
//   reaches: H200, ms (gemm_wgmma_fused, cuBLAS in float32): 1664 x 4096 x 1664, 1.3 waves of tiles, 0.274 (0.349,
//     0.555); 1792 x 2048 x 1792, 1.5 waves, 0.172 (0.180, 0.297); 2048 x 4096 x 2304, 2.2 waves, 0.425 (0.523, 0.858);
//     where the last wave is nearly full it loses: 16384 x 2048 x 768, 0.556 (0.529, 1.04)
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
constexpr int Group = 8;      // tile rows that run side by side, so that their tiles of B stay in the L2 cache
constexpr int CopyA = 4;      // elements one load of a K-major operand moves
constexpr int CopyB = 1;
constexpr int StoreC = 2;     // elements one store writes
// end knobs

// _tiles: as in gemm_wgmma_fused.cu
constexpr int Tiles = TilesM * TilesN * Batches, Waves = Tiles < 2 * Blocks ? 0 : Tiles / Blocks - 1;
constexpr int FirstShared = Waves * Blocks;                             // the first tile of C that may be shared
constexpr int64_t Steps = int64_t(Tiles - FirstShared) * TilesK;        // tiles of K of those, in one row
static_assert(Steps >= Blocks, "every block has a share");

// operands: as in gemm_wgmma_fused.cu

// plain_sum: as in gemm_3xtf32.cu

struct Tile {
  int m, n;
};

// Tiles in the order in which they lie: `Group` rows of tiles at a time, column by column.
CUTE_DEVICE Tile tile_of(int index) {
  int const group = index / (Group * TilesN), rows = min(Group, TilesM - group * Group);
  int const rest = index % (Group * TilesN);
  return {group * Group + rest % rows, rest / rows};
}

// Where a block's share of the steps begins; the next one's beginning is its end.
CUTE_DEVICE int64_t share(int block) { return Steps * block / Blocks; }

// A tile of C of one batch, and the tiles of K from `first` to `last` of it.
struct Piece {
  Tile tile;
  int l, first, last;

  CUTE_DEVICE Piece(int index, int first, int last)
      : tile(tile_of(index % (TilesM * TilesN))), l(index / (TilesM * TilesN)), first(first), last(last) {}
  CUTE_DEVICE bool whole() const { return first == 0 && last == TilesK; }
  // Where its partial sum goes: a block has at most one piece that does not begin its tile, and one that begins it.
  CUTE_DEVICE int slot() const { return 2 * blockIdx.x + (first == 0); }
};

// A block's pieces, in order.
struct Pieces {
  int wave = 0;
  int64_t at = share(blockIdx.x), end = share(blockIdx.x + 1);

  CUTE_DEVICE bool more() const { return wave < Waves || at < end; }
  CUTE_DEVICE Piece take() {
    if (wave < Waves) return Piece(wave++ * Blocks + blockIdx.x, 0, TilesK);
    int64_t const from = at;
    int const first = int(from % TilesK), last = int(min(int64_t(TilesK), first + end - from));
    at += last - first;
    return Piece(FirstShared + int(from / TilesK), first, last);
  }
};

// Writes a tile of C, or the piece's partial sums.
template <class Fragment, class Places>
CUTE_DEVICE void write(Fragment const& tCrC, Places const& tCcC, Piece const& piece, T const* A, T const* B, T* C,
                       T* partial, Epilogue const& epilogue) {
  bool const whole = piece.whole();
  T* const mP = partial + int64_t(piece.slot()) * BLK_M{} * BLK_N{};             // (BLK_M,BLK_N)
  CUTE_UNROLL
  for (int i = 0; i < size(tCrC); i += 2) {
    int const m_in = get<0>(tCcC(i)), n_in = get<1>(tCcC(i));
    int const m = piece.tile.m * BLK_M{} + m_in, n = piece.tile.n * BLK_N{} + n_in;
// _piece: as in gemm_wgmma_fused.cu
      if (whole) x[j] = epilogue(x[j], m, n + j, piece.l);
    }
    T* const to = whole ? C + LayoutC{}(m, n, piece.l) : mP + m_in * BLK_N{} + n_in;
    if (StoreC == 2 || !whole) {
      *reinterpret_cast<float2*>(to) = make_float2(x[0], x[1]);
    } else {
      to[0] = x[0];
      if (n + 1 < N{}) to[int(stride<1>(LayoutC{}))] = x[1];
    }
  }
}

// pipeline: as in gemm_wgmma_fused.cu

__global__ void __launch_bounds__(Threads, 1)
gemm(T const* __restrict__ A, T const* __restrict__ B, T* __restrict__ C, T* __restrict__ partial, Epilogue epilogue) {
  extern __shared__ __align__(1024) uint8_t memory[];
  Shared& shared = *reinterpret_cast<Shared*>(memory);
  initialize(shared);
  auto const for_each_piece = [&](auto const& work) {
    for (Pieces pieces; pieces.more();) work(pieces.take());
  };
// _roles: as in gemm_wgmma_fused.cu

// The tile of C in which block blockIdx.x + 1 begins, where no earlier block begins in it too: the sum of what the
// blocks that share it have left, in the order of K.
__global__ void join(T const* __restrict__ partial, T* __restrict__ C, Epilogue epilogue) {
  constexpr int size = BLK_M::value * BLK_N::value;
  int const block = blockIdx.x;
  int64_t const from = share(block + 1) / TilesK * TilesK, to = from + TilesK;
  if (share(block + 1) == from || share(block) > from) return;
  int last = block + 1;
  while (last + 1 < Blocks && share(last + 1) < to) ++last;
  int const index = FirstShared + int(from / TilesK), l = index / (TilesM * TilesN);
  Tile const tile = tile_of(index % (TilesM * TilesN));
  for (int at = blockIdx.y * blockDim.x + threadIdx.x; at < size; at += gridDim.y * blockDim.x) {
    int const m = tile.m * BLK_M{} + at / BLK_N{}, n = tile.n * BLK_N{} + at % BLK_N{};
    if (m >= M{} || n >= N{}) continue;
    float x = partial[int64_t(2 * block + 1) * size + at];
    for (int other = block + 1; other <= last; ++other) x += partial[int64_t(2 * other) * size + at];
    C[LayoutC{}(m, n, l)] = epilogue(x, m, n, l);
  }
}

// check: as in gemm_simt.cu

// scratch: as in gemm_3xtf32.cu

void launch(T const* A, T const* B, T* C, Epilogue epilogue, DLDevice device) {
  auto const stream = static_cast<cudaStream_t>(TVMFFIEnvGetStream(device.device_type, device.device_id));
  auto const held = scratch(size_t(2) * Blocks * BLK_M{} * BLK_N{} * sizeof(T), device);
  T* const partial = static_cast<T*>(held.data_ptr());
  check(cudaFuncSetAttribute(gemm, cudaFuncAttributeMaxDynamicSharedMemorySize, SharedBytes), "shared memory");
  gemm<<<Blocks, Threads, SharedBytes, stream>>>(A, B, C, partial, epilogue);
  check(cudaGetLastError(), "gemm");
  if constexpr (Steps % (int64_t(Blocks) * TilesK) != 0) {  // else no tile is shared
    join<<<dim3(Blocks - 1, 16), 256, 0, stream>>>(partial, C, epilogue);
    check(cudaGetLastError(), "join");
  }
}

}  // namespace product

// entry: as in gemm_simt.cu
