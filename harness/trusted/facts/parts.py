"""Operations that the compiler has no lowering for, as those that PyTorch writes them as."""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from torch._decomp import decomposition_table
from torch.export import ExportedProgram

from harness.nouns.aten import LOWERED
from harness.trusted.keeping import Parts

_BESIDE = (
    torch.ops.aten.ldexp.Tensor, torch.ops.aten.dist.default, torch.ops.aten._native_batch_norm_legit.default,
    torch.ops.aten._native_batch_norm_legit.no_stats,
)  # fmt: skip
"""Decompositions that PyTorch leaves out of what it exports to, and that end in ATen."""

_STATISTICS = torch.ops.aten._native_batch_norm_legit_functional.default
"""What a batch norm in training is where nothing is written in place: results, statistics, and their new averages."""


def parts_of(exported: ExportedProgram) -> Parts:
    """The decompositions to run a program through: empty where all its operations have a lowering, or some of their
    parts have none. A kernel is written for all of a forward or for nothing, and reports name what the user wrote."""
    if not any(map(_is_apart, _targets(exported))):
        return {}
    try:
        made = exported.run_decompositions(dict(parts()))
    except Exception:  # noqa: BLE001 (a decomposition may raise anything; the program is as good without it)
        return {}
    return parts() if all(each.namespace == "aten" and not _is_apart(each) for each in _targets(made)) else {}


def parts_with_state(exported: ExportedProgram) -> Parts:
    """The same for a program whose writes become results."""
    return {**parts_of(exported), _STATISTICS: decomposition_table[_STATISTICS]}


def _targets(exported: ExportedProgram) -> list[torch._ops.OpOverload]:
    return [node.target for node in exported.graph.nodes if isinstance(node.target, torch._ops.OpOverload)]


@cache
def parts() -> Parts:
    """A decomposition for every operation that PyTorch can write as others and that has no lowering."""
    named = {op: decomposition_table[op] for op in _BESIDE} | dict(torch.export.default_decompositions())
    return {op: decomposed for op, decomposed in named.items() if _is_apart(op)}


def _is_apart(op: Any) -> bool:
    """Whether it is an operation on tensors without a lowering."""
    if not isinstance(op, torch._ops.OpOverload) or op.namespace != "aten" or not op._schema.returns:
        return False
    name = op._opname
    return not (name in LOWERED or (op._schema.is_mutable and name.removesuffix("_") in LOWERED))
