"""Which kernels do without the newest instructions' headers, and that what is left out goes by the names looked for."""

from __future__ import annotations

import re

import pytest

from harness.building import lean_headers
from harness.building.lean_headers import FOLDER, suffices, write_lean_headers
from harness.building.toolchain import cute_include

PLAIN = "#include <cute/tensor.hpp>\n#include <cutlass/arch/barrier.h>\n#include <cutlass/numeric_types.h>\n"
LEFT_OUT = (
    "cute/atom/copy_traits_sm100.hpp",
    "cute/atom/copy_traits_sm100_tma.hpp",
    "cute/atom/mma_traits_sm100.hpp",
    "cute/atom/mma_traits_sm120.hpp",
    "cute/atom/mma_traits_sm120_sparse.hpp",
    "cute/atom/mma_traits_sm90_gmma_sparse.hpp",
    "cute/arch/mma_sm100.hpp",
    "cute/arch/mma_sm100_umma.hpp",
    "cute/arch/mma_sm120.hpp",
    "cute/arch/copy_sm100.hpp",
    "cute/arch/copy_sm100_tma.hpp",
)
# What goes by these headers' names too; there it stands in the namespace UMMA.
KEPT = ("cute/atom/copy_atom.hpp", "cute/atom/mma_traits_sm90_gmma.hpp")


@pytest.mark.parametrize(
    ("source", "architecture", "lean"),
    [
        (PLAIN, "sm_80", True),
        (PLAIN, "sm_90a", True),
        (PLAIN, "sm_100a", False),
        (PLAIN, "sm_120", False),
        (PLAIN + "using Op = SM100_TMEM_LOAD_32dp32b1x;", "sm_90a", False),
        (PLAIN + "using Op = SM90::GMMA::SPARSE::GMMA_64x8x32_F16F16F16_SS<>;", "sm_90a", False),
        (PLAIN + "using Layout = Layout_K_SW128_SpAtom<half_t, 2>;", "sm_90a", False),
        (PLAIN + "#include <cutlass/gemm/collective/collective_builder.hpp>\n", "sm_90a", False),
        (PLAIN + '#  include "cutlass/arch/arch.h"\n', "sm_90a", False),
        ('#include "cute/atom/mma_traits_sm90_gmma.hpp"\n#include <cmath>\n', "sm_90a", True),
    ],
)
def test_who_names_none_of_it_does_without(source, architecture, lean):
    assert suffices(source, architecture) is lean


@pytest.mark.parametrize("header", LEFT_OUT)
def test_types_left_out_go_by_the_names_looked_for(header):
    text = (cute_include() / header).read_text(encoding="utf-8")
    named = re.findall(r"^(?:struct|class)\s+(\w+)\s*(<?)", text, re.MULTILINE)
    kept = "".join((cute_include() / name).read_text(encoding="utf-8") for name in KEPT)
    fresh = [name for name, specialized in named if not specialized and not re.search(rf"\b{name}\b", kept)]
    assert named and not [name for name in fresh if suffices(name, "sm_90a")]


def test_sparse_instructions_are_declared_and_the_rest_is_empty(tmp_path):
    assert write_lean_headers(tmp_path)
    written = {path.name: path.read_text() for path in (tmp_path / FOLDER).rglob("*.hpp")}
    sparse = written.pop("mma_sm90_gmma_sparse.hpp")
    assert len(written) == 5 and set(written.values()) == {"#pragma once\n"}
    full = (cute_include() / "cute/arch/mma_sm90_gmma_sparse.hpp").read_text()
    assert sparse.count("> struct GMMA_") == full.count("\nstruct GMMA_") > 100
    assert len(sparse) < len(full) / 8


def test_another_cutlass_is_left_alone(tmp_path, monkeypatch):
    (tmp_path / "cutlass").mkdir()
    (tmp_path / "cutlass" / "version.h").write_text("#define CUTLASS_MAJOR 4\n#define CUTLASS_MINOR 3\n")
    for include in (tmp_path, tmp_path / "none"):
        lean_headers._declarations.cache_clear()
        monkeypatch.setattr(lean_headers, "cute_include", lambda include=include: include)
        assert not write_lean_headers(tmp_path) and not (tmp_path / FOLDER).exists()
    lean_headers._declarations.cache_clear()
