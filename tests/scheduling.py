"""In which order test files are begun, and which stay in one process."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol, TypeVar

SHARING_A_BUILD = (
    "test_cuda_gemm_runs", "test_exemplars_runs", "test_cuda_gemm_16bit", "test_cuda_gemm_fused",
    "test_cuda_gemm_wgmma", "test_cuda_judging", "test_cheats",
)  # fmt: skip
"""Files whose tests on a GPU use kernels that are all built at first: each stays in one process."""

LONG_ON_A_GPU = ("test_ending_on_gpu", *SHARING_A_BUILD, "test_device_sanitizers")
"""What takes longest there."""

LONG = (
    "test_cli", "test_live_example", "test_installed", "test_packages", "test_hostile_kernels_of_a_user",
    "test_compiled_whole", "test_compiled", "test_sweep", "test_compile_models", "test_model_assembly",
    "test_model_budget", "test_compile_backend",
)  # fmt: skip
"""Files with tests of more than ten CPU seconds: begun last, one of them would leave the other processes idle."""

WAITS_ON_CLOCKS = (
    "test_cancelling", "test_cli_errors", "test_cli_interrupt", "test_cli_suite", "test_endpoint_watch",
    "test_hostile_endpoints", "test_mcp_command", "test_mcp_desk", "test_model_endpoint", "test_process",
    "test_progress", "test_ray_pool", "test_running", "test_runs", "test_server", "test_server_threads",
    "test_stopping", "test_store", "test_suite_jobs", "test_suite_resume", "test_tree",
)  # fmt: skip
"""Files whose tests wait for servers, signals and other processes: what fails there is run once more. Never those that
judge: a cheat that passes one time in eight is a hole, and no noise."""

NEVER_AGAIN = ("cheats", "harness/candidate", "harness/checks", "harness/judging", "harness/screen", "harness/trusted")
"""Folders whose tests have one try."""


class Named(Protocol):
    """A case of a test."""

    nodeid: str


Case = TypeVar("Case", bound=Named)


def left_out(cases: Sequence[Case], many: int) -> list[Case]:
    """Those that `make test` leaves out where it takes about one in `many`, by their names, and always one: which they
    are changes only with their own names."""
    ranked = sorted(cases, key=lambda case: hashlib.sha256(case.nodeid.encode()).hexdigest())
    return [case for case in ranked[1:] if int(hashlib.sha256(case.nodeid.encode()).hexdigest(), 16) % many]


def mixed(file: Path) -> str:
    """A rank by which neighbours in a folder are none in the run: what compiles is spread among what waits its turn."""
    return hashlib.sha256(file.stem.encode()).hexdigest()


def scope_of(test: str) -> str:
    """Tests of the same scope run in the same process: the test alone, or all of its file."""
    file = test.partition("::")[0]
    return file if Path(file).stem in SHARING_A_BUILD else test


def begun_at(files: Sequence[Path], worker: int, workers: int) -> list[Path]:
    """The files in the order in which a worker collects them: each begins elsewhere, and later finds the bytecode of
    what the others have read. All sort the tests that they find in the same way."""
    first = len(files) * worker // workers
    return [*files[first:], *files[:first]]
