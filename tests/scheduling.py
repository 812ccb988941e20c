"""Which test files are begun first, and which stay in one process."""

from __future__ import annotations

from pathlib import Path

LONG = (
    "test_cli_interrupt", "test_exemplars", "test_sweep", "test_gemm_kernels", "test_recorded", "test_pointwise_ops",
    "test_api", "test_cuda_gemm_16bit", "test_answer", "test_row_ops", "test_workflow", "test_stages",
    "test_hostile_kernels_of_a_user", "test_cuda_gemm", "test_cheats", "test_cuda_gemm_fused", "test_ablation",
    "test_cuda_gemm_wgmma", "test_ending", "test_pointwise_shapes", "test_cli_suite", "test_cuda_rows", "test_export",
    "test_workloads", "test_cli", "test_server",
)  # fmt: skip
"""Files of 45 s and more on two cores. Begun last, one of them would keep all waiting; those that wait for their turn
at the clock alternate with those that compile."""


SHARING_A_BUILD = (
    "test_cuda_gemm_runs", "test_exemplars_runs", "test_cuda_gemm_16bit", "test_cuda_gemm_fused",
    "test_cuda_gemm_wgmma", "test_cuda_judging", "test_cheats",
)  # fmt: skip
"""Files whose tests on a GPU use kernels that are all built at first: each stays in one process."""

LONG_ON_A_GPU = ("test_ending_on_gpu", *SHARING_A_BUILD, "test_device_sanitizers")
"""What takes longest there."""


def scope_of(test: str) -> str:
    """Tests of the same scope run in the same process: the test alone, or all of its file."""
    file = test.partition("::")[0]
    return file if Path(file).stem in SHARING_A_BUILD else test
