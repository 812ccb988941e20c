"""The target of NVIDIA GPUs: it compiles on any machine that has nvcc."""

from __future__ import annotations

from typing import NoReturn

from harness.build import Build
from harness.building.compilation import compile_candidate
from harness.building.cuda_build import CUDA_LIMITS, CudaToolchain, cuda_architecture
from harness.building.sanitized_build import LineInfoCudaToolchain
from harness.candidate import Candidate, TargetName
from harness.errors import MachineError
from harness.machine.gpu import find_gpu
from harness.profile.summary import Profile
from harness.sanitize.report import SanitizerRun
from harness.targets.target import DeviceFacts
from harness.task import Workload
from harness.verdict import Tier, Timing

_REMEDY = "Use --target cpu: it runs on every machine."


class CudaTarget:
    """nvcc for the device's own architecture. Kernels compile; this version does not run them."""

    name: TargetName = "cuda"

    def compile(self, candidate: Candidate, *, tier: Tier) -> Build:
        """Compile in isolation, or take the library from the cache. No GPU is needed for that."""
        return compile_candidate(candidate, CudaToolchain(cuda_architecture()), tier=tier, limits=CUDA_LIMITS)

    def require_device(self) -> None:
        """Raise `MachineError`: no GPU answers, or one does and this version does not judge on it yet."""
        self._cannot_run()

    def facts(self, *, again: bool = False) -> DeviceFacts:
        """Raise `MachineError`: the ceilings of a GPU are measured by running on it."""
        self._cannot_run()

    def profile(self, workload: Workload, timing: Timing, build: Build) -> Profile:
        """Raise `MachineError`: a profile needs a run."""
        self._cannot_run()

    def compile_watched(self, candidate: Candidate, *, tier: Tier) -> Build:
        """With the source's lines beside the machine code; compute-sanitizer needs nothing else of it."""
        return compile_candidate(candidate, LineInfoCudaToolchain(cuda_architecture()), tier=tier, limits=CUDA_LIMITS)

    def sanitize(self, build: Build, workload: Workload, *, tier: Tier) -> tuple[SanitizerRun, ...]:
        """Raise `MachineError`: sanitizing needs a run."""
        self._cannot_run()

    def _cannot_run(self) -> NoReturn:
        gpu = find_gpu()
        if gpu is None:
            raise MachineError("Running a cuda kernel needs an NVIDIA GPU, and none answers on this machine.", _REMEDY)
        raise MachineError(f"This version compiles for the {gpu.name} but does not run kernels on it.", _REMEDY)
