"""Hopper's kernels on the processor: what `emulated.py` does not know; it runs on `emulated_hopper.hpp`."""

from __future__ import annotations

import re
from pathlib import Path

from emulated import MACHINE, emulated

_HOPPER = Path(__file__).with_name("emulated_hopper.hpp")
# Clusters as several exemplars write them, and as `emulated` reads them.
_CLUSTER = re.compile(r"__cluster_dims__\((\w+), 1, 1\) __launch_bounds__\([^)]*\)\s+(\w+)\(")
_PLACES = "thread_mma.partition_C(make_identity_tensor(Shape<BLK_M, BLK_N>{}))"
_PLACES_OF = "mma{0}.get_slice(thread).partition_C(make_identity_tensor(Shape<_64, {1}>{{}}))"
_REPLACED = {
    r" +Tensor t(?:SrQ|SrK|OrV) = .*\n": "",
    r"cute::gemm\(mmaS, tSrQ\(.+?\), tSrK\(_, _, k, (.+?)\), s\);":
        "machine::multiply(mmaS.accumulate_ == GMMA::ScaleOut::Zero, shared.Q + warpgroup * SizeQ, LayoutQ{}, "
        rf"shared.K, LayoutK{{}}, k, \1, {_PLACES_OF.format('S', 'Int<BlockKeys>')}, s);",
    r"cute::gemm\(mmaO, (p\(.+?\)), tOrV\(_, _, k, (.+?)\), o\);":
        rf"machine::multiply_registers(\1, shared.V, LayoutV{{}}, k, \2, {_PLACES_OF.format('O', 'ColumnsV')}, o);",
    r" +Tensor tCr[AB] = thread_mma\.partition_fragment_[AB].*\n": "",
    r"size<2>\(tCrA\)": "4",
    r"cute::gemm\(mma, tCrA\(_, _, k, (.+?)\), tCrB\(.+?\), tCrC\);":
        "machine::multiply(mma.accumulate_ == GMMA::ScaleOut::Zero, shared.A, typename OperandA::Shared{}, shared.B, "
        rf"typename OperandB::Shared{{}}, k, \1, {_PLACES}, tCrC);",
    r"(?<!::)gemm\(mma, tCrA\(_, _, k, a\), tCrB\(_, _, k, b\), (\w+)\);":
        "machine::multiply(mma.accumulate_ == GMMA::ScaleOut::Zero, pA, typename OperandA::Shared{}, pB, "
        rf"typename OperandB::Shared{{}}, k, machine::Stages(a, b), {_PLACES}, \1);",
    r"cute::gemm\(mma, (tCrA\(_, _, \d, s\)), tCrB\(_, _, 0, (.+?)\), (\w+)\);":
        r"machine::multiply_rows(mma.accumulate_ == GMMA::ScaleOut::Zero, \1, sB.data().get(), Weights<P>{}, \2, "
        r"thread_mma.partition_C(make_identity_tensor(RowsOfGroups{})), \3);",
    r"cutlass::arch::cpasync_barrier_arrive_noinc": "machine::arrive_with_copies",
    r'asm volatile\(\s+"cp\.async\.bulk[^:]+::(?:.|\n)*?: "memory"\);':
        "machine::StripCopy::copy(from + rank * part, barrier, to + rank * part, bytes, uint16_t((1 << Cluster) - 1));",
    r"cutlass::arch::fence_view_async_shared\(\);": "",
    r"alignas\(1024\) ": "",
    r"(?:if constexpr \(Blocks == 1\) )?cutlass::arch::warpgroup_reg_(?:de)?alloc<[^;]+>\(\);": "",
    r"cutlass::arch::Cluster(?:Transaction)?Barrier": "machine::CountingBarrier",
    r"cutlass::arch::NamedBarrier": "machine::NamedBarrier",
    r"uint64_t\(TMA::CacheHintSm90::\w+\)": "uint64_t(0)",
}  # fmt: skip


def emulated_hopper(source: str) -> str:
    """A kernel of tensor copies and wgmma as a C++ source file."""
    clusters = {name: count for count, name in _CLUSTER.findall(source)}
    text = _CLUSTER.sub(r"__launch_bounds__(Threads) \2(", source)
    for pattern, replacement in _REPLACED.items():
        text = re.sub(pattern, replacement, text)
    text = emulated(text)
    for name, count in clusters.items():
        text = re.sub(rf"(machine::launch\(.+, \w+), 1, (\w+, \[=\] {{ {name}\()", rf"\1, {count}, \2", text)
    return text.replace(f'#include "{MACHINE}"\n', f'#include "{MACHINE}"\n#include "{_HOPPER}"\n')
