"""CuTe's headers without the instructions that a kernel does not name.

`cute/tensor.hpp` brings in the instructions of every architecture; Blackwell's and Hopper's sparse ones are a quarter
of all that both of nvcc's front ends read, and a second and a half of 9 s on a GPU machine. In a folder that is
searched first, the headers of Blackwell's traits are empty, and of the sparse instructions only the declarations are
left, which CuTe's own selectors name.
"""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path

from harness.building.store import write_text
from harness.building.toolchain import cute_include

FOLDER = "lean"
"""Below the folder of the build; searched before CuTe's own."""

_CUTLASS = ("4", "2")
"""The version whose headers are known to do without."""

_EMPTY = (
    "cute/atom/copy_traits_sm100.hpp",
    "cute/atom/copy_traits_sm100_tma.hpp",
    "cute/atom/mma_traits_sm100.hpp",
    "cute/atom/mma_traits_sm120.hpp",
    "cute/atom/mma_traits_sm120_sparse.hpp",
)
_SPARSE = "cute/arch/mma_sm90_gmma_sparse.hpp"
_SPARSE_NAMESPACE = "namespace SM90::GMMA::SPARSE {"
_INSTRUCTION = re.compile(r"^template\s*<((?:[^<>]|<[^<>]*>)*?)>\s*struct\s+(\w+)\s*\{", re.MULTILINE)

# What the headers left out define goes by one of these; a kernel that includes more of CUTLASS may use them unseen.
_NAMED = re.compile(
    r"sm_?1\d\d|sparse|spatom|umma|tmem|utccp|tcgen|blackwell|tile_to_mma_shape|instr_?desc|op_repeater|ELayout_",
    re.IGNORECASE,
)
_INCLUDED = re.compile(r"#\s*include\s*[<\"]\s*(?P<header>cut(?:e|lass)/[^>\"]+)")
_PLAIN = re.compile(r"cute/|cutlass/(?:arch/(?:barrier|reg_reconfig|memory\w*|mma_sm\d+)|[\w]+)\.h")


def suffices(source: str, architecture: str) -> bool:
    """Whether a kernel can do with them: it names nothing of what is left out, and includes no class of CUTLASS."""
    if architecture.startswith(("sm_10", "sm_12")) or _NAMED.search(source):
        return False
    return all(_PLAIN.match(match["header"]) for match in _INCLUDED.finditer(source))


def write_lean_headers(folder: Path) -> bool:
    """Put them below `folder`. False, and nothing written, where CuTe is of another version than the one known here."""
    declarations = _declarations()
    if declarations is None:
        return False
    for name in _EMPTY:
        _write(folder / FOLDER / name, "#pragma once\n")
    _write(folder / FOLDER / _SPARSE, declarations)
    return True


def _write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    write_text(file, text)


@lru_cache(maxsize=1)
def _declarations() -> str | None:
    """The sparse instructions' templates, declared only."""
    include = cute_include()
    version = include / "cutlass" / "version.h"
    text = version.read_text(encoding="utf-8") if version.is_file() else ""
    if tuple(re.findall(r"#define CUTLASS_(?:MAJOR|MINOR) (\d+)", text)) != _CUTLASS:
        return None
    found = _INSTRUCTION.findall((include / _SPARSE).read_text(encoding="utf-8"))
    lines = [f"template <{' '.join(parameters.split())}> struct {name};" for parameters, name in found]
    opening = ["#pragma once", "#include <cute/arch/mma_sm90_gmma.hpp>", "namespace cute {", _SPARSE_NAMESPACE]
    return "\n".join([*opening, *lines, "}", "}"]) + "\n"
