"""Kernels for GPUs on the processor: their text made the processor's; what it runs on is `emulated_machine.hpp`."""

from __future__ import annotations

import re
from pathlib import Path

# What PTX says of each instruction; operands in order.
_INSTRUCTIONS = {
    "rcp.approx.f32": "1.0f / {0}",
    "max.NaN.f32": "({0} != {0}) ? {0} : ({0} > {1} ? {0} : {1})",
    "min.NaN.f32": "({0} != {0}) ? {0} : ({0} < {1} ? {0} : {1})",
    "ex2.approx.ftz.f32": "flushed(std::exp2({0}))",
}
_ASM = re.compile(r'asm\("(?P<name>\S+) [^"]*" : "=f"\((?P<to>\w+)\) : (?P<operands>[^;]*)\);')
_LAUNCH = re.compile(
    r"(?P<kernel>(?P<name>\w+)(?:<[\w, ]+>)?)<<<(?P<grid>.+), (?P<block>\w+), (?P<memory>\w+), stream>>>"
    r"\((?P<arguments>.*)\);"
)
_CLUSTER = re.compile(r"__cluster_dims__\((\w+)(?:, 1, 1)?\)(?: __launch_bounds__\([^)]*\))?\s+(\w+)\(")
_SHARED = re.compile(r"__shared__ (?:__align__\(\d+\) )?(?P<type>\w+) (?P<name>\w+)(?P<extents>(?:\[[^;]*\])+);")
_DYNAMIC = re.compile(r"extern __shared__ (?:__align__\(\d+\) )?(?P<type>\w+) (?P<name>\w+)\[\];")
MACHINE = Path(__file__).with_name("emulated_machine.hpp")
MATRICES = Path(__file__).with_name("emulated_matrices.hpp")
VOTES = "#define __any_sync(lanes, value) (machine::least_in_warp(!(value)) == 0)\n"
FLUSHED = "static float flushed(float a) { return std::abs(a) < 1.17549435e-38f ? 0.0f : a; }\n"


def plain_functions(text: str) -> str:
    """Functions for the device as the processor's: the device's instructions replaced by what they are."""

    def replaced(match: re.Match[str]) -> str:
        operands = re.findall(r'"f"\((\w+)\)', match["operands"])
        return f"{match['to']} = {_INSTRUCTIONS[match['name']].format(*operands)};"

    plain = _ASM.sub(replaced, text).replace("__device__ ", "")
    assert "asm(" not in plain
    return plain


def own_memory(text: str) -> str:
    """Shared variables as what the machine keeps for each block."""
    dynamic = r"\g<type>* const \g<name> = reinterpret_cast<\g<type>*>(machine::dynamic_memory());"
    place = r"static char const \g<name>_key = 0;"
    own = r"auto& \g<name> = machine::shared<\g<type> \g<extents>>(&\g<name>_key);"
    return _SHARED.sub(f"{place} {own}", _DYNAMIC.sub(dynamic, text))


def emulated(source: str) -> str:
    """A kernel as a C++ source file: pointwise, along rows, attention, or a product without wgmma."""
    text = re.sub(r"#include <(cute/arch|cutlass/arch)/.*>\n", "", source)
    text = re.sub(r"(__shared__ .*\]), (\w+\[)", r"\1; __shared__ T \2", text)
    text = re.sub(r"#(define|undef) UNROLL.*\n", "", text)
    last = max(match.end() for match in re.finditer(r"^#include .*\n", text, re.MULTILINE))
    head, body = (
        text[:last],
        re.sub(r"cutlass::arch::fence_(barrier_init|view_async_shared)\(\);", "", text[last:]).replace(
            "kDLCUDA", "kDLCPU"
        ),
    )
    clusters = {name: count for count, name in _CLUSTER.findall(body)}

    def launched(match: re.Match[str]) -> str:
        cluster = clusters.get(match["name"], "1")
        call = f"[=] {{ {match['kernel']}({match['arguments']}); }}"
        return f"machine::launch({match['grid']}, {match['block']}, {cluster}, {match['memory']}, {call});"

    host, count = _LAUNCH.subn(launched, body)
    assert count and "<<<" not in host
    machine = "".join(
        f'#include "{each}"\n' for each in ((MACHINE, MATRICES) if "SM80_16x8x16" in host else (MACHINE,))
    )
    machine += VOTES if "__any_sync" in host else ""
    return f"{head}{machine}{FLUSHED}{plain_functions(own_memory(host))}"
