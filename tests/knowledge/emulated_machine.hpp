// A GPU on one thread of the processor: what CUDA gives to a kernel, for tests of kernels where no GPU is.
//
// A block's threads are coroutines. One runs until it waits at a barrier, then the next one does: always in the same
// order, each as far ahead of the others as barriers let it. So a barrier that is missing shows every time, and one
// that not all threads come to is an error, as is shared memory beyond what a block may have. A cluster's blocks run
// side by side, other blocks one after the other. A copy in the background leaves garbage where it is started and
// brings its bytes where somebody waits for them: the earliest that it can spoil what others still read, and the latest
// that it can come. Shared memory begins as garbage.
#pragma once

#include <sys/mman.h>
#include <ucontext.h>

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <stdexcept>
#include <utility>
#include <vector>

#undef __global__
#undef __device__
#undef __launch_bounds__
#undef __cluster_dims__
#define __global__
#define __device__
#define __launch_bounds__(...)
#define __restrict__
#define __noinline__
#define __cluster_dims__(...)
#define __CUDA_ARCH__ 900
#define UNROLL
#define __ldcs(at) (*(at))
#define __stcs(at, value) (*(at) = (value))

namespace machine {

constexpr size_t kMemory = 227 << 10;    // bytes that one block may use: an H200's
constexpr size_t kUngranted = 48 << 10;  // bytes that it gets without having asked for more
constexpr size_t kStack = 128 << 10;     // bytes; of a thread

struct Place {
  unsigned x, y, z;
};

// How many have not come yet, and how often it has opened. Lies over an mbarrier, where bytes are counted.
struct Barrier {
  int left;
  unsigned opened;
};

// Bytes on their way to shared memory; none are read where zeros come instead.
struct Copy {
  void const* from;
  void* to;
  size_t count;
  bool inside;
  uint64_t const* barrier;
};

struct Thread {
  ucontext_t context;
  Place thread, block;
  int rank;                // of its block in the cluster
  Barrier const* waits;    // nullptr: runs
  unsigned opened;         // of that barrier when the wait began
  bool done;
  std::vector<std::vector<Copy>> copies;  // groups that are on their way, the last one open
};

struct Machine {
  ucontext_t context;
  std::vector<Thread> threads;
  Thread* current = nullptr;
  std::function<void()> const* kernel = nullptr;
  std::map<void const*, size_t> places;  // where a shared variable begins, by its key
  size_t used = 0;
  int block = 0, cluster = 1;
  std::vector<std::vector<char>> memory;  // of each block of the cluster
  std::vector<Barrier> blocks, warps;
  Barrier everyone;
  Place grid, shape;
  char const* failure = nullptr;
  size_t granted = 0;
  bool wide = false;  // whether clusters may be larger than every GPU runs them
  char lanes[16][1024][32];
  std::vector<Copy> bulk;
  char* stacks = nullptr;
  size_t reserved = 0;
};
static Machine here;

// Ends the launch. An exception cannot leave a thread's own stack.
inline void fail(char const* what) {
  here.failure = what;
  swapcontext(&here.current->context, &here.context);
}

inline void wait_for(Barrier const& barrier, unsigned opened) {
  if (barrier.opened != opened) return;
  here.current->waits = &barrier;
  here.current->opened = opened;
  swapcontext(&here.current->context, &here.context);
}

inline void arrive(Barrier& barrier, int size) {
  unsigned const opened = barrier.opened;
  if (++barrier.left == size) {
    barrier.left = 0;
    ++barrier.opened;
  } else {
    wait_for(barrier, opened);
  }
}

inline char* dynamic_memory() {
  return here.memory[here.current->rank].data();
}

// The block's own variable; `key` tells variables apart.
template <class T>
T& shared(void const* key) {
  auto const [place, added] = here.places.try_emplace(key, (here.used + 127) / 128 * 128);
  if (added) here.used = place->second + sizeof(T);
  if (here.used > kMemory) fail("more shared memory than a block may have");
  return *reinterpret_cast<T*>(dynamic_memory() + place->second);
}

// What a thread does: the kernel, once for each of its blocks.
inline void begin() {
  for (;;) {
    (*here.kernel)();
    here.current->done = true;
    swapcontext(&here.current->context, &here.context);
  }
}

inline void create(size_t index) {
  Thread& each = here.threads[index];
  each = {};
  each.thread = {unsigned(index % here.block), 0, 0};
  each.rank = int(index / here.block);
  getcontext(&each.context);
  each.context.uc_stack.ss_sp = here.stacks + index * kStack;
  each.context.uc_stack.ss_size = kStack;
  each.context.uc_link = &here.context;
  makecontext(&each.context, begin, 0);
}

// Runs every thread of a block, or of a cluster's blocks, until all have ended.
inline void run_all(Place first) {
  for (Thread& each : here.threads) {
    each.block = {first.x + each.rank, first.y, first.z};
    each.done = false;
    each.waits = nullptr;
    each.copies.clear();
  }
  here.bulk.clear();
  for (size_t left = here.threads.size(); left > 0;) {
    bool moved = false;
    for (Thread& each : here.threads) {
      if (each.done || (each.waits && each.waits->opened == each.opened)) continue;
      each.waits = nullptr;
      here.current = &each;
      swapcontext(&here.context, &each.context);
      if (here.failure) throw std::runtime_error(here.failure);
      moved = true;
      left -= each.done;
    }
    if (!moved) throw std::runtime_error("some threads wait at a barrier that others never reach");
  }
}

inline void reserve_stacks(size_t count) {
  if (count * kStack <= here.reserved) return;
  if (here.stacks) munmap(here.stacks, here.reserved);
  here.reserved = count * kStack;
  int const kind = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  void* const got = mmap(nullptr, here.reserved, PROT_READ | PROT_WRITE, kind, -1, 0);
  if (got == MAP_FAILED) throw std::runtime_error("no memory for stacks");
  here.stacks = static_cast<char*>(got);
}

inline void check(bool fits, char const* problem) {
  if (!fits) throw std::runtime_error(problem);
}

inline void launch(Place grid, int block, int cluster, size_t dynamic, std::function<void()> const& kernel) {
  check(block > 0 && block <= 1024, "no block has so many threads");
  check(grid.x > 0 && grid.x < 1u << 31 && grid.y <= 65535 && grid.z <= 65535, "no grid has so many blocks");
  check(grid.x % cluster == 0 && cluster <= (here.wide ? 16 : 8), "a cluster is too large, or divides no grid");
  check(dynamic <= std::max(kUngranted, here.granted), "more shared memory than was asked for");
  here.granted = 0;
  here.wide = false;
  here.failure = nullptr;
  here.kernel = &kernel;
  here.grid = grid;
  here.shape = {unsigned(block), 1, 1};
  here.block = block;
  here.cluster = cluster;
  here.places.clear();
  here.used = dynamic;
  here.threads.resize(size_t(block) * cluster);
  reserve_stacks(here.threads.size());
  here.memory.assign(cluster, std::vector<char>(kMemory + 128));
  for (size_t index = 0; index < here.threads.size(); ++index) create(index);
  for (Place at = {0, 0, 0}; at.z < grid.z; ++at.z) {
    for (at.y = 0; at.y < grid.y; ++at.y) {
      for (at.x = 0; at.x < grid.x; at.x += cluster) {
        here.everyone = {};
        here.blocks.assign(cluster, {});
        here.warps.assign(cluster * 32, {});
        for (auto& each : here.memory) std::memset(each.data(), 0xbb, each.size());
        run_all(at);
      }
    }
  }
}

inline void launch(int64_t grid, int block, int cluster, size_t dynamic, std::function<void()> const& kernel) {
  check(grid < int64_t(1) << 31, "no grid has so many blocks");
  launch(Place{unsigned(grid), 1, 1}, block, cluster, dynamic, kernel);
}

inline void launch(dim3 grid, int block, int cluster, size_t dynamic, std::function<void()> const& kernel) {
  launch(Place{grid.x, grid.y, grid.z}, block, cluster, dynamic, kernel);
}

inline cudaError_t grant(cudaFuncAttribute which, size_t count) {
  if (which == cudaFuncAttributeNonPortableClusterSizeAllowed) {
    here.wide = count == 1;
    return cudaSuccess;
  }
  check(count <= kMemory, "more shared memory than a block may have");
  here.granted = count;
  return cudaSuccess;
}

inline void sync_block() { arrive(here.blocks[here.current->rank], here.block); }

inline void sync_warp() {
  int const warp = here.current->thread.x / 32;
  arrive(here.warps[here.current->rank * 32 + warp], std::min(32, here.block - warp * 32));
}

inline void sync_cluster() { arrive(here.everyone, here.block * here.cluster); }

// What the lane whose number differs by `mask` holds.
template <class T>
T exchange(T value, int mask) {
  auto& lanes = here.lanes[here.current->rank];
  unsigned const thread = here.current->thread.x;
  std::memcpy(lanes[thread], &value, sizeof(T));
  sync_warp();
  std::memcpy(&value, lanes[thread ^ mask], sizeof(T));
  sync_warp();
  return value;
}

// What the lane that is `gap` before holds, its own where there is none.
template <class T>
T passed_up(T value, int gap) {
  auto& lanes = here.lanes[here.current->rank];
  unsigned const thread = here.current->thread.x;
  std::memcpy(lanes[thread], &value, sizeof(T));
  sync_warp();
  if (int(thread % 32) >= gap) std::memcpy(&value, lanes[thread - gap], sizeof(T));
  sync_warp();
  return value;
}

// The same variable in the memory of another block of the cluster.
template <class T>
void* in_block(T* mine, int rank) {
  return here.memory[rank].data() + (reinterpret_cast<char*>(mine) - dynamic_memory());
}

inline Barrier& bytes(uint64_t& word) { return *reinterpret_cast<Barrier*>(&word); }

inline void expect(uint64_t& word, int count) {
  if (bytes(word).left != 0) fail("a barrier is armed before it has opened");
  bytes(word).left = count;
  if (count == 0) ++bytes(word).opened;
}

struct BulkCopy {
  static void copy(void const* from, uint64_t* barrier, void* to, int count) {
    if ((reinterpret_cast<uintptr_t>(from) | reinterpret_cast<uintptr_t>(to) | count) % 16 != 0) {
      fail("a bulk copy is not aligned to 16 bytes");
    }
    std::memset(to, 0xbb, count);
    here.bulk.push_back({from, to, size_t(count), true, barrier});
  }
};

inline void deliver(Copy const& copy) {
  if (copy.inside) {
    std::memcpy(copy.to, copy.from, copy.count);
  } else {
    std::memset(copy.to, 0, copy.count);
  }
}

// Until the barrier has opened once more than `turn`, counted modulo 2.
inline void wait_turn(uint64_t& word, int turn) {
  for (size_t at = 0; at < here.bulk.size();) {
    Copy const copy = here.bulk[at];
    if (copy.barrier != &word) {
      ++at;
      continue;
    }
    here.bulk.erase(here.bulk.begin() + at);
    deliver(copy);
    if ((bytes(word).left -= int(copy.count)) == 0) ++bytes(word).opened;
  }
  if (bytes(word).left < 0) fail("more bytes come than the barrier expects");
  if (int(bytes(word).opened % 2) == turn) wait_for(bytes(word), bytes(word).opened);
}

// cp.async: 4, 8 or 16 bytes, or as many zeros.
template <class Word>
struct AsyncCopy {
  static void copy(Word const& from, Word& to, bool inside) {
    if ((reinterpret_cast<uintptr_t>(&from) | reinterpret_cast<uintptr_t>(&to)) % sizeof(Word) != 0) {
      fail("an asynchronous copy is not aligned");
    }
    std::memset(&to, 0xbb, sizeof(Word));
    auto& copies = here.current->copies;
    if (copies.empty()) copies.emplace_back();
    copies.back().push_back({&from, &to, sizeof(Word), inside, nullptr});
  }
};

inline void close_group() {
  auto& copies = here.current->copies;
  if (copies.empty()) copies.emplace_back();
  copies.emplace_back();
}

// Until at most `Left` of the thread's closed groups are on their way.
template <int Left>
void wait_groups() {
  auto& copies = here.current->copies;
  while (int(copies.size()) > Left + 1) {
    for (Copy const& copy : copies.front()) deliver(copy);
    copies.erase(copies.begin());
  }
}

// mma.sync.m16n8k8 with TF32 operands: 19 of their 32 bits count.
struct Mma16x8x8 {
  static float number(uint32_t bits) {
    bits &= 0xffffe000u;
    float value;
    std::memcpy(&value, &bits, 4);
    return value;
  }
  static void fma(float& d0, float& d1, float& d2, float& d3, uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3,
                  uint32_t b0, uint32_t b1, float c0, float c1, float c2, float c3) {
    auto* const lanes = here.lanes[here.current->rank] + here.current->thread.x / 32 * 32;
    int const lane = here.current->thread.x % 32, row = lane / 4, column = lane % 4 * 2;
    uint32_t const mine[6] = {a0, a1, a2, a3, b0, b1};
    std::memcpy(lanes[lane], mine, sizeof(mine));
    sync_warp();
    auto const held = [&](int of, int slot) { return number(reinterpret_cast<uint32_t const*>(lanes[of])[slot]); };
    float c[4] = {c0, c1, c2, c3};
    for (int i = 0; i < 4; ++i) {
      double sum = 0;
      for (int k = 0; k < 8; ++k) {
        sum += double(held(row * 4 + k % 4, i / 2 + k / 4 * 2)) * held((column + i % 2) * 4 + k % 4, 4 + k / 4);
      }
      c[i] = float(c[i] + sum);
    }
    sync_warp();
    d0 = c[0], d1 = c[1], d2 = c[2], d3 = c[3];
  }
};

inline int least_in_warp(int value) {
  for (int mask = 16; mask > 0; mask /= 2) value = std::min(value, exchange(value, mask));
  return value;
}

inline uint32_t bits_of(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  return bits;
}

inline float float_of(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, 4);
  return value;
}

// Four of the eight bytes of two words.
inline uint32_t picked(uint32_t low, uint32_t high, uint32_t which) {
  uint64_t const bytes = uint64_t(high) << 32 | low;
  uint32_t result = 0;
  for (int at = 0; at < 4; ++at) result |= uint32_t(bytes >> (which >> 4 * at & 7) * 8 & 255) << 8 * at;
  return result;
}

inline void lower(int* at, int value) { *at = std::min(*at, value); }
// Scratch from the caller's allocator, filled so that nobody takes it for zeros.
inline int reserve(DLTensor* wanted, TVMFFIObjectHandle* out) {
  int const failed = TVMFFIEnvTensorAlloc(wanted, out);
  if (failed == 0) {
    auto const& made = *TVMFFITensorGetDLTensorPtr(*out);
    std::memset(made.data, 0xbb, tvm::ffi::GetDataSize(made));
  }
  return failed;
}

}  // namespace machine

extern "C" inline cudaError_t cudaGetLastError() { return cudaSuccess; }
extern "C" inline char const* cudaGetErrorString(cudaError_t) { return ""; }

#define threadIdx machine::here.current->thread
#define blockIdx machine::here.current->block
#define gridDim machine::here.grid
#define blockDim machine::here.shape
#define __syncthreads machine::sync_block
#define __syncwarp machine::sync_warp
#define __shfl_up_sync(lanes, value, gap) machine::passed_up(value, gap)
#define __shfl_xor_sync(lanes, value, mask) machine::exchange(value, mask)
#define __fmul_rn(one, other) ((one) * (other))
#define __cluster_map_shared_rank machine::in_block
#define cluster_sync machine::sync_cluster
#define __cluster_barrier_arrive()
#define __cluster_barrier_wait machine::sync_cluster
#define initialize_barrier(word, count) ((word) = 0)
#define set_barrier_transaction_bytes machine::expect
#define wait_barrier machine::wait_turn
#define SM90_BULK_COPY_G2S machine::BulkCopy
#define TVMFFIEnvTensorAlloc machine::reserve
#define cudaFuncSetAttribute(kernel, which, value) machine::grant(which, value)
#define cudaMemsetAsync(at, value, size, stream) (std::memset(at, value, size), cudaSuccess)
#define SM80_CP_ASYNC_CACHEGLOBAL_ZFILL machine::AsyncCopy
#define SM80_CP_ASYNC_CACHEALWAYS_ZFILL machine::AsyncCopy
#define cp_async_fence machine::close_group
#define cp_async_wait machine::wait_groups
#define SM80_16x8x8_F32TF32TF32F32_TN machine::Mma16x8x8
#define __float_as_uint machine::bits_of
#define __uint_as_float machine::float_of
#define __byte_perm machine::picked
#define __reduce_min_sync(lanes, value) machine::least_in_warp(value)
#define atomicMin machine::lower
