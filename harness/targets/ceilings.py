"""The measured ceilings of a processor or a GPU: a probe of our own runs once on a machine, and its rates are kept."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable
from importlib import resources
from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError

from harness.building.ninja_file import Edge, run_edges
from harness.building.store import Store, write_text
from harness.building.toolchain import Compiler, cuda_compiler, host_compiler
from harness.isolation.policy import Access, Limits
from harness.isolation.process import Completed, run_isolated
from harness.machine.gpu import Gpu, find_gpu, generation
from harness.machine.processor import Processor, processor
from harness.nouns.device_facts import DeviceFacts
from harness.nouns.errors import MachineError
from harness.nouns.frozen import Frozen
from harness.nouns.tier import Tier

_RESULT = "ceilings.json"
_STORE = Store("machine")
_MEASURING = threading.Lock()
_LOOKED_AT = set[str]()
"""Processors whose ceilings this process has asked for."""
_PROGRAM = "probe"
_TIER: Tier = "none"
"""A probe is our own source: it needs the limits, not the walls."""

Rates = TypeVar("Rates", bound=Frozen)


def measured_by(
    probe: str, device: str, kind: type[Rates], measure: Callable[[Path], Rates], *, again: Callable[[Rates], bool]
) -> Rates:
    """What is known of a device by a probe of this package; else what `measure` finds in a folder that holds the probe.

    Where `again` says so of it, it is measured once more and the higher of each number kept, but the lower load: a
    busy machine measures too low.
    """
    source = resources.files("harness.targets").joinpath(probe).read_text(encoding="utf-8")
    key = hashlib.sha256(f"{device}\n{source}".encode()).hexdigest()[:32]
    kept = _STORE.entry(key) / _RESULT
    with _MEASURING, _STORE.lock(key):
        known = _read(kept, kind)
        if known and not again(known):
            return known
        with _STORE.staging() as folder:
            write_text(folder / probe, source)
            found = _highest(measure(folder), known)
            write_text(folder / _RESULT, found.model_dump_json())
            if kept.parent.is_dir():
                (folder / _RESULT).replace(kept)
            else:
                _STORE.publish(folder, key)
    return found


def build_probe(folder: Path, compiler: Compiler, command: tuple[str, ...], source: str) -> Path:
    """The program that `command` makes of the source in `folder`. Raises `MachineError`."""
    edge = Edge("probe", (*command, source, "-o", _PROGRAM), (source,), _PROGRAM)
    _require_success(run_edges([edge], folder, compiler=compiler, tier=_TIER), "be compiled")
    return folder / _PROGRAM


def run_probe(program: Path, *arguments: object, limits: Limits, environment: dict[str, str]) -> str:
    """What it prints. Raises `MachineError`."""
    completed = run_isolated(
        [str(program), *map(str, arguments)],
        cwd=program.parent,
        access=Access(),
        limits=limits,
        environment={"LC_ALL": "C", **environment},
        tier=_TIER,
    )
    _require_success(completed, "run")
    return completed.stdout.decode()


def _require_success(completed: Completed, what: str) -> None:
    """`MachineError` where a probe could not `what` ("be compiled", "run")."""
    if completed.exit_code != 0:
        said = completed.stderr.decode(errors="replace").strip()[-300:] or completed.note or completed.outcome
        problem = f"The probe of this machine's ceilings could not {what}: {said}"
        raise MachineError(problem, "Run cutegen doctor to see what is missing.")


def _read(kept: Path, kind: type[Rates]) -> Rates | None:
    """What was kept; None where nothing was, or where a power cut or a full disk left something else."""
    try:
        return kind.model_validate_json(kept.read_bytes())
    except (FileNotFoundError, ValidationError):
        return None


def _highest(measured: Rates, known: Rates | None) -> Rates:
    if known is None:
        return measured
    return type(measured)(
        **{name: (min if name == "load" else max)(value, getattr(known, name)) for name, value in measured}
    )


# -- Processors -------------------------------------------------------------------------------------------------------


_CPU_PROBE = "probe.cpp"
_CPU_FLAGS = ("-std=c++17", "-O3", "-march=native", "-fopenmp")
_CPU_S = 1.2
_CPU_LIMITS = Limits(wall_s=30.0, memory_bytes=4 << 30)

# Each of the two arrays: four times the last-level cache, so that at most a quarter could still lie there.
_CACHES_PER_ARRAY = 4
_MIN_ARRAY_BYTES = 64 << 20
_MAX_ARRAY_BYTES = 1 << 30


class Ceilings(Frozen):
    """1e9 bytes moved, and 1e9 float32 operations (a multiply-add is two), per second over all threads.

    `load` is how many processes wanted a processor, by the system's average of a minute, when they were measured.
    """

    gb_s: float
    gflop_s: float
    load: float = 0.0

    def held_down(self, load: float, threads: int) -> bool:
        """Whether others had taken much of the machine, and have left it at a load like this one."""
        return self.load > threads and load <= self.load / 2


def cpu_facts(*, again: bool = False) -> DeviceFacts:
    """This processor's facts. Raises `MachineError` where the probe cannot be built or run.

    With `again` the ceilings are measured once more and the higher ones kept: a busy machine measures too low.
    """
    here = processor()
    ceilings = measured_ceilings(here, again=again)
    return DeviceFacts(
        device=here.model,
        threads=here.threads,
        simd_floats=here.simd_floats,
        l1_bytes=here.l1_bytes,
        l2_bytes=here.l2_bytes,
        l3_bytes=here.l3_bytes,
        peak_gb_s=ceilings.gb_s,
        peak_gflop_s=ceilings.gflop_s,
        source=f"measured on this machine with {here.threads} threads: best of streaming copy and read beyond the "
        "caches; float32 multiply-add in registers",
    )


def measured_ceilings(here: Processor, *, again: bool = False) -> Ceilings:
    """From the disk, else measured (about 3 s with the probe's compilation) and kept.

    What a busy machine measured is measured once more, at most once a process, when it has become quieter: no run
    should be told of two floors.
    """
    device, load = f"{here.identity}\n{here.threads}", os.getloadavg()[0]
    first = device not in _LOOKED_AT
    _LOOKED_AT.add(device)

    def once_more(known: Ceilings) -> bool:
        return again or (first and known.held_down(load, here.threads))

    return measured_by(_CPU_PROBE, device, Ceilings, lambda folder: _run_probe(folder, here, load), again=once_more)


def _run_probe(folder: Path, here: Processor, load: float) -> Ceilings:
    compiler = host_compiler()
    program = build_probe(folder, compiler, (*compiler.command, *_CPU_FLAGS), _CPU_PROBE)
    array_bytes = min(max(_CACHES_PER_ARRAY * here.l3_bytes, _MIN_ARRAY_BYTES), _MAX_ARRAY_BYTES)
    environment = {"OMP_NUM_THREADS": str(here.threads), "OMP_PROC_BIND": "true"}
    said = run_probe(program, array_bytes, _CPU_S, limits=_CPU_LIMITS, environment=environment)
    gb_s, gflop_s = map(float, said.split())
    return Ceilings(gb_s=gb_s, gflop_s=gflop_s, load=load)


# -- GPUs -------------------------------------------------------------------------------------------------------------


_GPU_PROBE = "probe.cu"
_GPU_LIMITS = Limits(wall_s=60.0, memory_bytes=8 << 30)
_GPU_ARRAY_BYTES = 2 << 30
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
    return facts_of(gpu, gpu_ceilings(gpu, again=again))


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


def gpu_ceilings(gpu: Gpu, *, again: bool = False) -> GpuCeilings:
    """From the disk, else measured and kept."""

    def measure(folder: Path) -> GpuCeilings:
        program = compile_probe(folder, gpu.architecture)
        environment = {"CUDA_CACHE_PATH": str(folder), "CUDA_VISIBLE_DEVICES": gpu.uuid}
        return parse_probe(run_probe(program, _GPU_ARRAY_BYTES, limits=_GPU_LIMITS, environment=environment))

    return measured_by(_GPU_PROBE, str(gpu), GpuCeilings, measure, again=lambda _: again)


def compile_probe(folder: Path, architecture: str) -> Path:
    """The probe's program, built from the source that lies in `folder`. No GPU is needed for that."""
    nvcc, host = cuda_compiler(), host_compiler()
    compiler = Compiler(nvcc.command, nvcc.version, (*nvcc.roots, *host.roots))
    command = (*nvcc.command, "-ccbin", host.command[0], "-std=c++17", "-O3", f"-arch={architecture}")
    return build_probe(folder, compiler, command, _GPU_PROBE)


def parse_probe(text: str) -> GpuCeilings:
    """The probe's lines, each "name value"."""
    pairs = (line.split() for line in text.splitlines())
    values = {name: float(value) for name, value in pairs}
    whole = {name for name, field in GpuCeilings.model_fields.items() if field.annotation is int}
    return GpuCeilings.model_validate({name: int(v) if name in whole else v for name, v in values.items()})
