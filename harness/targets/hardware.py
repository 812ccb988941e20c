"""The GPU's facts: what its driver tells, what its datasheet says, and what a probe of our own measures once."""

from __future__ import annotations

import hashlib
from importlib import resources
from pathlib import Path

from harness.building.store import write_text
from harness.building.toolchain import Compiler, cuda_compiler, host_compiler
from harness.isolation.policy import Limits
from harness.machine.gpu import Gpu, find_gpu, generation
from harness.nouns.device_facts import DeviceFacts
from harness.nouns.errors import MachineError
from harness.nouns.frozen import Frozen
from harness.targets.measured import build_probe, measured_once, run_probe

_PROBE = "probe.cu"
_PROBE_LIMITS = Limits(wall_s=60.0, memory_bytes=8 << 30)
_ARRAY_BYTES = 2 << 30
"""Each of the two arrays, or an eighth of a smaller card's memory: its start and end weigh little against the rest."""


class GpuCeilings(Frozen):
    """What the probe prints. Sizes in bytes, `clock_mhz` the highest clock of the multiprocessors.

    `gb_s` is a device copy (bytes read plus written), `gflop_s` float32 multiply-adds on the plain units (two each);
    both 1e9 per second.
    """

    multiprocessors: int
    memory_bytes: int
    l2_bytes: int
    shared_bytes: int
    shared_bytes_per_multiprocessor: int
    threads_per_multiprocessor: int
    registers_per_multiprocessor: int
    clock_mhz: float
    gb_s: float
    gflop_s: float


def gpu_facts(ordinal: int = 0, *, again: bool = False) -> DeviceFacts:
    """A GPU's facts. Raises `MachineError` where none answers, or the probe cannot be built or run.

    Measured once a GPU and driver, about 5 s with the probe's compilation. With `again` the ceilings are measured
    once more and the higher ones kept: a busy GPU measures too low.
    """
    gpu = find_gpu(ordinal)
    if gpu is None:
        problem = "Measuring a GPU needs an NVIDIA GPU, and none answers on this machine."
        raise MachineError(problem, "Use --target cpu: it runs on every machine.")
    return facts_of(gpu, measured_ceilings(gpu, again=again))


def facts_of(gpu: Gpu, found: GpuCeilings) -> DeviceFacts:
    """The facts of a GPU whose ceilings are known. The tensor cores' rates are the published ones at full clock."""
    known = generation(gpu.capability)
    per_clock = found.multiprocessors * found.clock_mhz * 1e-3
    return DeviceFacts(
        device=gpu.name,
        threads=found.multiprocessors * found.threads_per_multiprocessor,
        simd_floats=1,
        l1_bytes=known.l1_bytes,
        l2_bytes=found.l2_bytes,
        l3_bytes=found.l2_bytes,
        peak_gb_s=found.gb_s,
        peak_gflop_s=found.gflop_s,
        source="measured on this GPU: best of a streaming device copy, and of float32 multiply-adds in registers; "
        f"tensor cores: {known.source}",
        architecture=gpu.architecture,
        multiprocessors=found.multiprocessors,
        shared_bytes=found.shared_bytes,
        memory_bytes=found.memory_bytes,
        tf32_gflop_s=known.tf32 * per_clock,
        half_gflop_s=known.half * per_clock,
    )


def measured_ceilings(gpu: Gpu, *, again: bool = False) -> GpuCeilings:
    """From the disk, else measured and kept."""
    source = resources.files("harness.targets").joinpath(_PROBE).read_text(encoding="utf-8")
    key = hashlib.sha256(f"{gpu}\n{source}".encode()).hexdigest()[:32]

    def measure(folder: Path) -> GpuCeilings:
        write_text(folder / _PROBE, source)
        program = compile_probe(folder, gpu.architecture)
        environment = {"CUDA_CACHE_PATH": str(folder), "CUDA_VISIBLE_DEVICES": gpu.uuid}
        return parse_probe(run_probe(program, _ARRAY_BYTES, limits=_PROBE_LIMITS, environment=environment))

    return measured_once(key, GpuCeilings, measure, again=again)


def compile_probe(folder: Path, architecture: str) -> Path:
    """The probe's program, built from the source that lies in `folder`. No GPU is needed for that."""
    nvcc, host = cuda_compiler(), host_compiler()
    compiler = Compiler(nvcc.command, nvcc.version, (*nvcc.roots, *host.roots))
    command = (*nvcc.command, "-ccbin", host.command[0], "-std=c++17", "-O3", f"-arch={architecture}")
    return build_probe(folder, compiler, command, _PROBE)


def parse_probe(text: str) -> GpuCeilings:
    """The probe's lines, each "name value"."""
    pairs = (line.split() for line in text.splitlines())
    values = {name: float(value) for name, value in pairs}
    whole = {name for name, field in GpuCeilings.model_fields.items() if field.annotation is int}
    return GpuCeilings.model_validate({name: int(v) if name in whole else v for name, v in values.items()})
