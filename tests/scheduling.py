"""In which order test files are begun, and which stay in one process."""

from __future__ import annotations

import hashlib
from pathlib import Path

SHARING_A_BUILD = (
    "test_cuda_gemm_runs", "test_exemplars_runs", "test_cuda_gemm_16bit", "test_cuda_gemm_fused",
    "test_cuda_gemm_wgmma", "test_cuda_judging", "test_cheats",
)  # fmt: skip
"""Files whose tests on a GPU use kernels that are all built at first: each stays in one process."""

LONG_ON_A_GPU = ("test_ending_on_gpu", *SHARING_A_BUILD, "test_device_sanitizers")
"""What takes longest there."""


def mixed(file: Path) -> str:
    """A rank by which neighbours in a folder are none in the run: what compiles is spread among what waits its turn."""
    return hashlib.sha256(file.stem.encode()).hexdigest()


def scope_of(test: str) -> str:
    """Tests of the same scope run in the same process: the test alone, or all of its file."""
    file = test.partition("::")[0]
    return file if Path(file).stem in SHARING_A_BUILD else test
