"""The target of NVIDIA GPUs: it compiles on any machine that has nvcc, and runs where a GPU answers."""

from __future__ import annotations

import ctypes
import os
import re
from collections.abc import Callable
from functools import cache
from importlib import metadata
from pathlib import Path

from harness.building.compilation import compile_candidate
from harness.building.cuda_build import CUDA_LIMITS, CudaToolchain, cuda_architecture
from harness.building.sanitized_build import LineInfoCudaToolchain
from harness.building.toolchain import cuda_compiler, wheel_folder
from harness.isolation.policy import Access, Needs
from harness.machine.gpu import Gpu, find_gpu
from harness.machine.system import ask
from harness.nouns.build import Build
from harness.nouns.candidate import Candidate, TargetName
from harness.nouns.device import DeviceName
from harness.nouns.device_facts import DeviceFacts
from harness.nouns.errors import MachineError
from harness.nouns.profile import Profile
from harness.nouns.sanitizer_run import SanitizerRun
from harness.nouns.task import Workload
from harness.nouns.tier import Tier
from harness.nouns.verdict import Timing
from harness.profile.device import profile_on_device
from harness.sanitize import device
from harness.sanitize.shrinking import small
from harness.targets.ceilings import gpu_facts

_REMEDY = "Use --target cpu: it runs on every machine."
_ASK_S = 20.0


class CudaTarget:
    """nvcc for the device's own architecture, kernels on one of the visible GPUs. Holds no state."""

    name: TargetName = "cuda"

    def __init__(self, ordinal: int = 0) -> None:
        self.ordinal = ordinal

    @property
    def device(self) -> DeviceName:
        """The GPU; one that does not answer has no UUID."""
        gpu = find_gpu(self.ordinal)
        return DeviceName(target="cuda", ordinal=self.ordinal, uuid=gpu.uuid if gpu else "")

    def preparations(self, tier: Tier) -> tuple[Callable[[], object], ...]:
        """None: nvcc precompiles no headers."""
        return ()

    def compile(self, candidate: Candidate, *, tier: Tier) -> Build:
        """Compile in isolation, or take the library from the cache. No GPU is needed for that."""
        toolchain = CudaToolchain(cuda_architecture(self.ordinal))
        return compile_candidate(candidate, toolchain, tier=tier, limits=CUDA_LIMITS)

    def require_device(self) -> None:
        """Raise `MachineError`: no GPU, no nvcc, or a GPU, a driver or a PyTorch that do not fit the toolkit."""
        gpu = find_gpu(self.ordinal)
        if gpu is None and self.ordinal:
            which = f"GPU {self.ordinal} (they count from 0)"
            raise MachineError(f"{which} does not answer on this machine.", "Leave --set device out, or name another.")
        if gpu is None:
            problem = "Running a cuda kernel needs an NVIDIA GPU, and none answers on this machine."
            raise MachineError(problem, _REMEDY, final=True)
        cuda_compiler()
        _require_fit(gpu)

    def running(self) -> Needs:
        """The device nodes, and where the driver's and the runtime's libraries are."""
        folders = _library_folders()
        return Needs(
            Access(read=folders, devices=_device_nodes()),
            {
                "LD_LIBRARY_PATH": os.pathsep.join(folders),
                "CUDA_CACHE_PATH": "{scratch}",
                **({"CUDA_VISIBLE_DEVICES": self.device.uuid} if self.device.uuid else {}),
            },
        )

    def facts(self, *, again: bool = False) -> DeviceFacts:
        """The GPU's ceilings, measured once."""
        self.require_device()
        return gpu_facts(self.ordinal, again=again)

    def profile(self, workload: Workload, timing: Timing, build: Build, *, tier: Tier) -> Profile:
        """Where the kernel stands under this GPU's roofline, and what Nsight Compute reads of it."""
        return profile_on_device(workload, timing, build, self.facts(), self.running(), tier=tier)

    def compile_watched(self, candidate: Candidate, *, tier: Tier) -> Build:
        """With the source's lines beside the machine code; compute-sanitizer needs nothing else of it."""
        toolchain = LineInfoCudaToolchain(cuda_architecture(self.ordinal))
        return compile_candidate(candidate, toolchain, tier=tier, limits=CUDA_LIMITS)

    def ends_soon(self, workload: Workload) -> bool:
        """Only a small workload: compute-sanitizer slows a kernel up to a thousand times."""
        return small(workload)

    def sanitize(
        self, build: Build, workload: Workload, values: Path, *, tier: Tier, limit_s: float | None = None
    ) -> tuple[SanitizerRun, ...]:
        """What compute-sanitizer's four tools say of one call each."""
        self.require_device()
        return device.sanitize_on_device(
            build,
            workload.signature,
            self.running(),
            tier=tier,
            values=values,
            memory_bytes=self.facts().memory_bytes,
            limit_s=limit_s or device.LIMIT_S,
        )


@cache
def _require_fit(gpu: Gpu) -> None:
    compiler = cuda_compiler()
    release = re.search(r"release (\d+)\.(\d+)", compiler.version)
    toolkit = (int(release[1]), int(release[2])) if release else (0, 0)
    shown = ".".join(map(str, toolkit))
    if why := driver_too_old(gpu.driver, _driver_cuda(), toolkit):
        raise MachineError(why, f"Update the driver, or set CUDA_HOME to a CUDA {_driver_cuda() // 1000} toolkit.")
    if gpu.architecture.rstrip("a") not in _known_architectures(compiler.command[0]):
        raise MachineError(
            f"nvcc {shown} does not compile for the {gpu.name} ({gpu.architecture}).",
            "Set CUDA_HOME to a toolkit that does, or use --target cpu.",
        )
    if "+cpu" in _torch_version():
        raise MachineError(
            f"PyTorch {_torch_version()} is built without CUDA.", "Install the CUDA build from https://pytorch.org."
        )


def driver_too_old(driver: str, supported: int, toolkit: tuple[int, int]) -> str:
    """Why code of the toolkit does not run under a driver that supports CUDA `supported` (12040 is 12.4), or nothing.

    Within a major version any driver runs what is compiled for the device itself.
    """
    if not supported or supported // 1000 >= toolkit[0]:
        return ""
    return (
        f"The driver {driver} supports CUDA {supported // 1000}.{supported % 1000 // 10}, too old for "
        f"nvcc {toolkit[0]}.{toolkit[1]}."
    )


def _driver_cuda() -> int:
    """The newest CUDA that the driver supports (13000 is 13.0), 0 where it does not tell. Makes no context."""
    version = ctypes.c_int()
    try:
        ctypes.CDLL("libcuda.so.1").cuDriverGetVersion(ctypes.byref(version))
    except OSError:
        return 0
    return version.value


def _known_architectures(nvcc: str) -> set[str]:
    answer = ask([nvcc, "--list-gpu-code"], timeout_s=_ASK_S)
    return set(answer.stdout.split())


def _torch_version() -> str:
    try:
        return metadata.version("torch")
    except metadata.PackageNotFoundError:
        return "unknown"


def _device_nodes() -> tuple[str, ...]:
    """Control and memory nodes, and the GPUs themselves; not the nodes that reconfigure them."""
    numbered = sorted(str(node) for node in Path("/dev").glob("nvidia[0-9]*"))
    return ("/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools", *numbered)


def _library_folders() -> tuple[str, ...]:
    """Folders of libcuda and of the runtime that kernels are linked with, where they are not the system's own."""
    home = Path(cuda_compiler().command[0]).resolve().parent.parent
    named = [Path(entry) for entry in os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep) if entry]
    wheel = wheel_folder("nvidia-cuda-runtime") / "nvidia" / "cu13" / "lib"
    candidates = [*named, wheel, home / "lib64", home / "targets" / "x86_64-linux" / "lib"]
    return tuple(dict.fromkeys(str(folder.resolve()) for folder in candidates if folder.is_dir()))
