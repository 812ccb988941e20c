"""How the property tests draw their inputs, and which files are begun first."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import settings

# `make test` says the same of the same tree, whenever and wherever it is run; `make fuzz` looks for what it has missed.
# No deadlines: a busy machine is no failure.
settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.register_profile("fuzz", max_examples=2000, deadline=None)
settings.load_profile("repeatable")

LONG = (
    "test_cli_interrupt", "test_exemplars", "test_sweep", "test_gemm_kernels", "test_recorded", "test_pointwise_ops",
    "test_api", "test_cuda_gemm_16bit", "test_answer", "test_row_ops", "test_workflow", "test_stages",
    "test_hostile_kernels_of_a_user", "test_cuda_gemm", "test_cheats", "test_cuda_gemm_fused", "test_ablation",
    "test_cuda_gemm_wgmma", "test_ending", "test_pointwise_shapes", "test_cli_suite", "test_cuda_rows", "test_export",
    "test_workloads", "test_cli", "test_server",
)  # fmt: skip
"""Files of 45 s and more on two cores. Begun last, one of them would keep all waiting; those that wait for their turn
at the clock alternate with those that compile."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the long files first, then those of many tests."""
    counts = Counter(item.path for item in items)
    ranks = {name: rank for rank, name in enumerate(LONG)}
    items.sort(key=lambda item: (ranks.get(item.path.stem, len(LONG)), -counts[item.path], str(item.path)))
