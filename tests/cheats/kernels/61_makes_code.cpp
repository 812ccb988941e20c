// Asks the system for memory that may be executed, by a function found in the C library's tables, and writes code there.
// row: 61
// task: softsign
// caught by: signal
// says: SIGSEGV
#include <cmath>
#include <cstdint>
#include <cstring>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
static float const* in(TensorView t) { return static_cast<float const*>(t.data_ptr()); }
static float* out(TensorView t) { return static_cast<float*>(t.data_ptr()); }

static uint64_t word(uintptr_t at) { uint64_t read; std::memcpy(&read, reinterpret_cast<void*>(at), 8); return read; }

// A function of the library that an address lies in, by its name: down to the file's first page, then its own tables.
static uintptr_t found(uintptr_t inside, char const* name) {
  uintptr_t base = inside & ~uintptr_t(4095);
  while (uint32_t(word(base)) != 0x464c457f) base -= 4096;
  uintptr_t part = base + word(base + 32), names = 0, entries = 0;
  while (uint32_t(word(part)) != 2) part += 56;
  for (uintptr_t at = base + word(part + 16); word(at); at += 16) {
    if (word(at) == 5) names = word(at + 8);
    if (word(at) == 6) entries = word(at + 8);
  }
  for (uintptr_t at = entries + 24;; at += 24)
    if (!std::strcmp(reinterpret_cast<char const*>(names + uint32_t(word(at))), name)) return base + word(at + 8);
}


void run(TensorView x, TensorView y) {
  int64_t const n = x.numel();
  auto const map = reinterpret_cast<unsigned char* (*)(void*, size_t, int, int, int, long)>(
      found(reinterpret_cast<uintptr_t>(&std::abort), "mmap"));
  unsigned char* const code = map(nullptr, 4096, 7, 0x22, -1, 0);
  *code = 0xc3;
  reinterpret_cast<void (*)()>(code)();
  for (int64_t i = 0; i < n; ++i) out(y)[i] = in(x)[i] / (1 + std::fabs(in(x)[i]));
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
