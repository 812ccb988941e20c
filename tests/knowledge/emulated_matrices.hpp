// Tensor cores of 16-bit types and what brings them their operands: for kernels that use them, after
// `emulated_machine.hpp`.
#pragma once

namespace machine {

// ldmatrix: lane 8 i + r names row r, 8 elements of 16 bits, of matrix i; a lane gets of each the two at row lane / 4 and
// column 2 * (lane % 4), the other way round where it is transposed.
template <bool Transposed>
struct LoadMatrix {
  static void copy(cute::uint128_t const& row, uint32_t& d0, uint32_t& d1, uint32_t& d2, uint32_t& d3) {
    if (reinterpret_cast<uintptr_t>(&row) % 16 != 0) fail("a matrix's row is not aligned to 16 bytes");
    auto* const lanes = here.lanes[here.current->rank] + here.current->thread.x / 32 * 32;
    int const lane = here.current->thread.x % 32;
    std::memcpy(lanes[lane], &row, 16);
    sync_warp();
    uint32_t* const to[4] = {&d0, &d1, &d2, &d3};
    for (int i = 0; i < 4; ++i) {
      uint16_t pair[2];
      for (int k = 0; k < 2; ++k) {
        int const outer = lane / 4, inner = lane % 4 * 2 + k;
        int const at = Transposed ? inner : outer, place = Transposed ? outer : inner;
        pair[k] = reinterpret_cast<uint16_t const*>(lanes[8 * i + at])[place];
      }
      std::memcpy(to[i], pair, 4);
    }
    sync_warp();
  }
};

// mma.sync.m16n8k16 with operands of 16 bits, two a register.
template <class T>
struct Mma16x8x16 {
  static void fma(float& d0, float& d1, float& d2, float& d3, uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3,
                  uint32_t b0, uint32_t b1, float c0, float c1, float c2, float c3) {
    auto* const lanes = here.lanes[here.current->rank] + here.current->thread.x / 32 * 32;
    int const lane = here.current->thread.x % 32, row = lane / 4, column = lane % 4 * 2;
    uint32_t const mine[6] = {a0, a1, a2, a3, b0, b1};
    std::memcpy(lanes[lane], mine, sizeof(mine));
    sync_warp();
    auto const held = [&](int of, int slot, int place) {
      return double(float(T::bitcast(reinterpret_cast<uint16_t const*>(lanes[of])[2 * slot + place])));
    };
    float c[4] = {c0, c1, c2, c3};
    for (int i = 0; i < 4; ++i) {
      double sum = 0;
      for (int k = 0; k < 16; ++k) {
        int const from = k % 8 / 2, high = k / 8;
        sum += held(row * 4 + from, i / 2 + 2 * high, k % 2) * held((column + i % 2) * 4 + from, 4 + high, k % 2);
      }
      c[i] = float(c[i] + sum);
    }
    sync_warp();
    d0 = c[0], d1 = c[1], d2 = c[2], d3 = c[3];
  }
};

}  // namespace machine

#define SM80_16x8x16_F32F16F16F32_TN machine::Mma16x8x16<cute::half_t>
#define SM80_16x8x16_F32BF16BF16F32_TN machine::Mma16x8x16<cute::bfloat16_t>
#define SM75_U32x4_LDSM_N machine::LoadMatrix<false>
#define SM75_U16x8_LDSM_T machine::LoadMatrix<true>
