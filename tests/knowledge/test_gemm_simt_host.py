"""The plain exemplar as g++ compiles it, a block's threads as threads: its sums, also those over a long K."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from harness.building.toolchain import headers, host_compiler
from knowledge.exemplars.source import load

HOST = """\
#include <barrier>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <random>
#include <thread>
#include <vector>
#include <cute/tensor.hpp>
#undef __global__
#undef __shared__
#undef __launch_bounds__
#undef CUTE_DEVICE
#define __global__
#define __shared__ static
#define __launch_bounds__(...)
#define CUTE_DEVICE inline
#define __restrict__
struct Index { int x; };
static thread_local Index threadIdx;
static Index blockIdx;
static std::barrier<>* everyone;
static void __syncthreads() { everyone->arrive_and_wait(); }
"""

MAIN = """\
}
using namespace product;
int main() {
  std::mt19937 random(1);
  std::uniform_real_distribution<float> draw(0, 1);
  std::vector<float> a(M{} * K{}), b(N{} * K{}), c(M{} * N{}, NAN);
  for (float& x : a) x = draw(random);
  for (float& x : b) x = draw(random);
  for (int index = 0; index < TilesM * TilesN; ++index) {
    blockIdx.x = index;
    std::barrier<> all(Threads);
    everyone = &all;
    std::vector<std::thread> threads;
    for (int t = 0; t < Threads; ++t) {
      threads.emplace_back([&, t] { threadIdx.x = t; product::gemm(a.data(), b.data(), c.data(), Epilogue{}); });
    }
    for (auto& each : threads) each.join();
  }
  double gaps = 0, norm = 0;
  for (int m = 0; m < M{}; ++m) {
    for (int n = 0; n < N{}; ++n) {
      double exact = 0;
      for (int k = 0; k < K{}; ++k) exact += double(a[LayoutA{}(m, k, 0)]) * b[LayoutB{}(n, k, 0)];
      double const gap = c[LayoutC{}(m, n, 0)] - exact;
      gaps += gap * gap;
      norm += exact * exact;
    }
  }
  std::printf("%.3e\\n", std::sqrt(gaps / norm));
}
"""


@pytest.mark.parametrize(("k", "allowed"), [(77, 2e-7), (20_001, 2e-7)])
def test_sums_stay_exact_over_a_long_k(tmp_path: Path, k: int, allowed: float):
    problem = f"""\
using M = Int<21>;
using N = Int<13>;
using K = Int<{k}>;
using LayoutA = Layout<Shape<M, K, _1>, Stride<K, _1, _0>>;  // (M,K,L)
using LayoutB = Layout<Shape<N, K, _1>, Stride<_1, N, _0>>;  // (N,K,L)
using LayoutC = Layout<Shape<M, N, _1>, Stride<N, _1, _0>>;  // (M,N,L)
struct Epilogue {{
  T operator()(T x, int, int, int) const {{ return x; }}
}};
"""
    knobs = "using BLK_M = _64;\nusing BLK_N = _64;\nusing BLK_K = _8;"
    text = load("gemm_simt").with_sections(problem=problem, knobs=knobs)
    kernel = text[text.index("namespace product") : text.index("void check(")]
    (tmp_path / "host.cpp").write_text(HOST + kernel + MAIN)
    include = [word for folder in headers().include for word in ("-isystem", str(folder))]
    command = [*host_compiler().command, "-std=c++20", "-O1", "-w", "-pthread", *include, "host.cpp", "-o", "host"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[:3000]
    said = subprocess.run([tmp_path / "host"], capture_output=True, text=True, check=True)
    assert float(said.stdout) <= allowed
