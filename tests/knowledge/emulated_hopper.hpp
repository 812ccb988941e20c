// Hopper's tensor copies, barriers that count bytes, stmatrix and wgmma on the emulated machine.
//
// As in the machine itself what happens in the background comes as late as it may: a tensor copy leaves garbage where it
// will land until somebody waits for its barrier, one to device memory reads what it stores only when it is waited for,
// and wgmma reads shared memory when its group is waited for. A stage that is filled or left too early shows.
#pragma once

// Kernels move elements as words of any type, as nvcc lets them.
#pragma GCC optimize("no-strict-aliasing")

#include <algorithm>
#include <array>

#undef __grid_constant__
#define __grid_constant__

namespace machine {

// A barrier in shared memory: arrivals and bytes that are still to come, by its address there.
struct Counted {
  int count, left;
  int64_t bytes;
  Barrier gate;
};
static std::map<void const*, Counted> counted;
// Barriers by their block's rank and their numbers.
static std::map<std::pair<int, int>, Barrier> named;

// What a tensor map says; an element has `size` bytes.
struct TensorMap {
  char* data;
  int size;
  int64_t extents[4], pitches[3];
  int boxes[4];
};
static_assert(sizeof(TensorMap) <= sizeof(CUtensorMap));

template <class... Rest>
CUresult encode(CUtensorMap* map, CUtensorMapDataType type, unsigned rank, void* data, cuuint64_t const* extents,
                cuuint64_t const* pitches, cuuint32_t const* boxes, Rest...) {
  int const size = type == CU_TENSOR_MAP_DATA_TYPE_FLOAT32 ? 4 : 2;
  bool fits = rank <= 4 && reinterpret_cast<uintptr_t>(data) % 16 == 0 && boxes[0] * size == 128;
  TensorMap made{static_cast<char*>(data), size, {}, {}, {}};
  for (int i = 0; i < 4; ++i) {
    bool const used = i < int(rank), pitched = i + 1 < int(rank);
    made.extents[i] = used ? extents[i] : 1, made.boxes[i] = used ? boxes[i] : 1;
    fits = fits && made.extents[i] > 0 && made.boxes[i] > 0 && made.boxes[i] <= 256;
    fits = fits && (!pitched || pitches[i] % 16 == 0);
    if (i < 3) made.pitches[i] = pitched ? pitches[i] : 0;
  }
  std::memcpy(map, &made, sizeof(made));
  return fits ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

// A box on its way between device memory and a block's shared memory, where it lies swizzled.
struct Box {
  TensorMap map;
  std::array<int, 4> at;
  char *place, *block;
  void const* barrier;

  int bytes() const { return map.boxes[0] * map.boxes[1] * map.size; }

  // Calls function(shared, device) for every element; device is null outside of the tensor.
  template <class Function>
  void each(Function const& function) const {
    for (int across = 0; across < map.boxes[1]; ++across) {
      for (int along = 0; along < map.boxes[0]; ++along) {
        int64_t offset = place - block + (across * map.boxes[0] + along) * map.size;
        offset ^= (offset >> 7 & 7) << 4;
        int64_t const x = at[0] + along, y = at[1] + across, z = at[2], w = at[3];
        bool const inside = x < map.extents[0] && y < map.extents[1] && z < map.extents[2] && w < map.extents[3];
        char* const device = map.data + x * map.size + y * map.pitches[0] + z * map.pitches[1] + w * map.pitches[2];
        function(block + offset, inside ? device : nullptr);
      }
    }
  }
};
// Bytes side by side on their way to a block's shared memory.
struct Bytes {
  void const* from;
  void* to;
  size_t count;
  void const* barrier;
};
static std::vector<Box> boxes;
static std::vector<Bytes> strips;
static std::map<Thread const*, std::vector<std::vector<Box>>> stores;
static std::map<Thread const*, std::vector<std::vector<std::function<void()>>>> products;

inline Box box(void const* map, void const* place, int rank, std::array<int, 4> at, void const* barrier) {
  char* const block = here.memory[rank].data();
  Box made{{}, at, block + (static_cast<char const*>(place) - dynamic_memory()), block, barrier};
  std::memcpy(&made.map, map, sizeof(TensorMap));
  if ((made.place - block) % 1024 != 0) fail("a tensor copy's place in shared memory is not aligned to its swizzle");
  return made;
}

inline void settle(Counted& barrier) {
  if (barrier.left < 0) fail("more arrive at a barrier than it expects");
  if (barrier.left != 0 || barrier.bytes != 0) return;
  barrier.left = barrier.count;
  ++barrier.gate.opened;
}

inline void bring(void const* barrier) {
  for (size_t at = 0; at < strips.size();) {
    Bytes const each = strips[at];
    if (each.barrier != barrier) {
      ++at;
      continue;
    }
    strips.erase(strips.begin() + at);
    std::memcpy(each.to, each.from, each.count);
    counted.at(barrier).bytes -= int64_t(each.count);
    settle(counted.at(barrier));
  }
  std::vector<Box> later;
  for (Box const& each : std::exchange(boxes, {})) {
    if (each.barrier != barrier) {
      later.push_back(each);
      continue;
    }
    each.each([&](char* shared, char* device) {
      device ? std::memcpy(shared, device, each.map.size) : std::memset(shared, 0, each.map.size);
    });
    counted.at(barrier).bytes -= each.bytes();
    settle(counted.at(barrier));
  }
  boxes.insert(boxes.end(), later.begin(), later.end());
}

struct CountingBarrier {
  // What a block begins with: nothing is left of kernels that failed.
  static void init(uint64_t* at, int count) {
    counted[at] = {count, count, 0, {}};
    boxes.clear();
    strips.clear();
    named.clear();
  }
  static void wait(uint64_t* at, unsigned phase) {
    Counted& barrier = counted.at(at);
    if (barrier.gate.opened % 2 == phase) bring(at);
    if (barrier.gate.opened % 2 == phase) wait_for(barrier.gate, barrier.gate.opened);
  }
  static void arrive(uint64_t* at) {
    --counted.at(at).left;
    settle(counted.at(at));
  }
  static void arrive(uint64_t* at, int rank, bool really) {
    if (really) arrive(static_cast<uint64_t*>(in_block(at, rank)));
  }
  static void arrive_and_expect_tx(uint64_t* at, int bytes) {
    counted.at(at).bytes += bytes;
    arrive(at);
  }
};

// Whether some thread waits already for what was just started: it may come at once.
inline void bring_awaited(void const* barrier) {
  for (Thread const& each : here.threads) {
    if (each.waits != &counted.at(barrier).gate || each.done) continue;
    bring(barrier);
    break;
  }
}

struct StripCopy {
  static void copy(void const* from, uint64_t* barrier, void* to, int count) {
    copy(from, barrier, to, count, uint16_t(1 << here.current->rank));
  }
  // To the same place in every block of the mask.
  static void copy(void const* from, uint64_t* barrier, void* to, int count, uint16_t mask) {
    if ((reinterpret_cast<uintptr_t>(from) | reinterpret_cast<uintptr_t>(to) | count) % 16 != 0) {
      fail("a bulk copy is not aligned to 16 bytes");
    }
    for (int rank = 0; rank < here.cluster; ++rank) {
      if (!(mask >> rank & 1)) continue;
      void *const theirs = in_block(barrier, rank), *const place = in_block(static_cast<char*>(to), rank);
      strips.push_back({from, place, size_t(count), theirs});
      std::memset(place, 0xbb, count);
      bring_awaited(theirs);
    }
  }
};

// To the same place in every block of the mask, or in the thread's own.
struct TensorLoad {
  static void copy(void const* map, uint64_t* barrier, uint64_t, void* to, int x, int y, int z, int w = 0) {
    copy(map, barrier, uint16_t(1 << here.current->rank), 0, to, x, y, z, w);
  }
  static void copy(void const* map, uint64_t* barrier, uint16_t mask, uint64_t, void* to, int x, int y, int z,
                   int w = 0) {
    for (int rank = 0; rank < here.cluster; ++rank) {
      if (!(mask >> rank & 1)) continue;
      void* const theirs = in_block(barrier, rank);
      boxes.push_back(box(map, to, rank, {x, y, z, w}, theirs));
      std::memset(boxes.back().place, 0xbb, boxes.back().bytes());
      bring_awaited(theirs);
    }
  }
};

// Groups of what a thread started, the last one open.
template <class Groups>
auto& open_group(Groups& groups) {
  if (groups.empty()) groups.emplace_back();
  return groups.back();
}

template <int Left, class Groups, class Function>
void end_groups(Groups& groups, Function const& function) {
  while (int(groups.size()) > Left + 1) {
    for (auto const& each : groups.front()) function(each);
    groups.erase(groups.begin());
  }
}

struct TensorStore {
  static void copy(void const* map, void const* from, int x, int y, int z) {
    open_group(stores[here.current]).push_back(box(map, from, here.current->rank, {x, y, z, 0}, nullptr));
  }
};

inline void close_stores() {
  open_group(stores[here.current]);
  stores[here.current].emplace_back();
}

template <int Left>
void wait_stores() {
  end_groups<Left>(stores[here.current], [](Box const& each) {
    each.each([&](char* shared, char* device) {
      if (device) std::memcpy(device, shared, each.map.size);
    });
  });
}

// An operand's element of a stage; where there are no stages, of the only one.
template <class T, class Layout>
float element(T const* x, Layout const& layout, int row, int k, int stage) {
  if constexpr (decltype(cute::rank(layout))::value == 2) return float(x[layout(row, k)]);
  else return float(x[layout(row, k, stage)]);
}

// The stages that the operands of one product are in.
struct Stages {
  int a, b;
  Stages(int both) : a(both), b(both) {}
  Stages(int a, int b) : a(a), b(b) {}
};

// What one wgmma of 32 bytes of k's, 16 or 8, adds to a thread's sums, of the stage's k's those from there on.
template <class LayoutA, class LayoutB, class T, class Places, class Sums>
void multiply(bool fresh, T const* a, LayoutA const&, T const* b, LayoutB const&, int k, Stages stages, Places const& places,
              Sums& sums) {
  constexpr int depth = 32 / sizeof(T);
  auto const at_a = cute::as_position_independent_swizzle_layout(LayoutA{});
  auto const at_b = cute::as_position_independent_swizzle_layout(LayoutB{});
  auto* const to = sums.data();
  open_group(products[here.current]).push_back([=] {
    for (int i = 0; i < int(cute::size(Sums{})); ++i) {
      int const m = cute::get<0>(places(i)), n = cute::get<1>(places(i));
      float sum = 0;
      for (int j = depth * k; j < depth * (k + 1); ++j) {
        sum += element(a, at_a, m, j, stages.a) * element(b, at_b, n, j, stages.b);
      }
      to[i] = fresh ? sum : to[i] + sum;
    }
  });
}

// The same with the first operand in registers, 8 of which a thread holds: 2 neighbours each of rows lane / 4 and
// lane / 4 + 8 of its warp's 16, of 8 k's and of the next 8. They may not change until the product has ended.
template <class Weights, class LayoutB, class T, class Places, class Sums>
void multiply_registers(Weights const& weights, T const* b, LayoutB const&, int k, int stage, Places const& places,
                        Sums& sums) {
  auto const at_b = cute::as_position_independent_swizzle_layout(LayoutB{});
  auto* const lanes = here.lanes[here.current->rank];
  int const thread = here.current->thread.x, row = thread % 128 / 32 * 16 + thread % 32 / 4;
  T const* const mine = &weights(0);
  std::array<T, 8> own;
  std::copy(mine, mine + 8, own.begin());
  std::memcpy(lanes[thread], &own, sizeof(own));
  sync_warp();
  float rows[2][16];
  for (int i = 0; i < 32; ++i) {
    std::array<T, 8> theirs;
    std::memcpy(&theirs, lanes[thread / 4 * 4 + i / 8], sizeof(theirs));
    rows[i % 4 / 2][i % 8 / 4 * 8 + i / 8 * 2 + i % 2] = float(theirs[i % 8]);
  }
  sync_warp();
  auto* const to = sums.data();
  open_group(products[here.current]).push_back([=] {
    if (std::memcmp(mine, &own, sizeof(own)) != 0) fail("registers change that wgmma still reads");
    for (int i = 0; i < int(cute::size(Sums{})); ++i) {
      int const half = (cute::get<0>(places(i)) - row) / 8, n = cute::get<1>(places(i));
      for (int j = 0; j < 16; ++j) to[i] += rows[half][j] * element(b, at_b, n, 16 * k + j, stage);
    }
  });
}

// The same in TF32, for several products of 64 rows: of each a thread holds row lane / 4 of its warp's 16, the same + 8,
// both at k = lane % 4, then both at k + 4.
template <class Rows, class T, class LayoutB, class Places, class Sums>
void multiply_rows(bool fresh, Rows const& held, T const* b, LayoutB const&, int stage, Places const& places, Sums& sums) {
  constexpr int count = int(cute::size(Rows{})), groups = count / 4;
  auto const at_b = cute::as_position_independent_swizzle_layout(LayoutB{});
  auto* const lanes = here.lanes[here.current->rank];
  int const thread = here.current->thread.x, row = thread % 128 / 32 * 16 + thread % 32 / 4;
  auto const* const mine = &held(0);
  std::array<T, count> own;
  std::copy(mine, mine + count, own.begin());
  std::array<std::array<std::array<float, 8>, 2>, groups> rows;
  for (int group = 0; group < groups; ++group) {
    std::memcpy(lanes[thread], &own[4 * group], 4 * sizeof(T));
    sync_warp();
    for (int i = 0; i < 16; ++i) {
      std::array<T, 4> theirs;
      std::memcpy(&theirs, lanes[thread / 4 * 4 + i % 4], sizeof(theirs));
      rows[group][i / 4 % 2][i / 8 * 4 + i % 4] = float(theirs[i / 4]);
    }
    sync_warp();
  }
  auto* const to = sums.data();
  open_group(products[here.current]).push_back([=] {
    if (std::memcmp(mine, &own, sizeof(own)) != 0) fail("registers change that wgmma still reads");
    for (int i = 0; i < int(cute::size(Sums{})); ++i) {
      int const m = cute::get<0>(places(i)), n = cute::get<1>(places(i));
      float sum = 0;
      for (int k = 0; k < 8; ++k) sum += rows[m / 64][(m % 64 - row) / 8][k] * element(b, at_b, n, k, stage);
      to[i] = fresh ? sum : to[i] + sum;
    }
  });
}

inline void close_products() {
  open_group(products[here.current]);
  products[here.current].emplace_back();
}

template <int Left>
void wait_products() {
  end_groups<Left>(products[here.current], [](std::function<void()> const& product) { product(); });
}

// stmatrix: lane 8 * i + j tells where row j of matrix i goes.
struct StoreMatrix {
  template <class Word>
  static void copy(uint32_t x0, uint32_t x1, uint32_t x2, uint32_t x3, Word& row) {
    auto* const lanes = here.lanes[here.current->rank] + here.current->thread.x / 32 * 32;
    int const lane = here.current->thread.x % 32;
    char* const mine = reinterpret_cast<char*>(&row);
    std::memcpy(lanes[lane], &mine, sizeof(mine));
    sync_warp();
    uint32_t const values[4] = {x0, x1, x2, x3};
    for (int i = 0; i < 4; ++i) {
      char* theirs;
      std::memcpy(&theirs, lanes[8 * i + lane / 4], sizeof(theirs));
      std::memcpy(theirs + lane % 4 * 4, &values[i], 4);
    }
    sync_warp();
  }
};

// An arrival once the thread's copies so far have landed.
inline void arrive_with_copies(uint64_t* at) {
  close_group();
  wait_groups<0>();
  CountingBarrier::arrive(at);
}

struct NamedBarrier {
  static void sync(int threads, int number) { machine::arrive(named[{here.current->rank, number}], threads); }
  // Without waiting.
  static void arrive(int threads, int number) {
    Barrier& barrier = named[{here.current->rank, number}];
    if (++barrier.left < threads) return;
    barrier.left = 0;
    ++barrier.opened;
  }
};

}  // namespace machine

#undef SM90_BULK_COPY_G2S
#define SM90_BULK_COPY_G2S machine::StripCopy
#define __ldg(at) (*(at))
#define SM90_TMA_LOAD_3D machine::TensorLoad
#define SM90_TMA_LOAD_4D machine::TensorLoad
#define SM90_TMA_LOAD_MULTICAST_3D machine::TensorLoad
#define SM90_TMA_STORE_3D machine::TensorStore
#define SM90_U32x4_STSM_N machine::StoreMatrix
#define tma_store_fence()
#define tma_store_arrive machine::close_stores
#define tma_store_wait machine::wait_stores
#define warpgroup_arrive()
#define warpgroup_fence_operand(fragment)
#define warpgroup_commit_batch machine::close_products
#define warpgroup_wait machine::wait_products
#define __syncwarp machine::sync_warp
#undef CUTLASS_CUDA_DRIVER_WRAPPER_CALL
#define CUTLASS_CUDA_DRIVER_WRAPPER_CALL(function) machine::encode
