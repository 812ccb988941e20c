"""The processor's measured ceilings, kept on disk: a probe runs once per machine and thread count."""

from __future__ import annotations

import hashlib
from importlib import resources
from pathlib import Path

from harness.building.store import write_text
from harness.building.toolchain import host_compiler
from harness.isolation.policy import Limits
from harness.machine.processor import Processor, processor
from harness.nouns.device_facts import DeviceFacts
from harness.nouns.frozen import Frozen
from harness.targets.measured import build_probe, measured_once, run_probe

_PROBE = "probe.cpp"
_FLAGS = ("-std=c++17", "-O3", "-march=native", "-fopenmp")
_PROBE_S = 1.2
_PROBE_LIMITS = Limits(wall_s=30.0, memory_bytes=4 << 30)

# Each of the two arrays: four times the last-level cache, so that at most a quarter could still lie there.
_CACHES_PER_ARRAY = 4
_MIN_ARRAY_BYTES = 64 << 20
_MAX_ARRAY_BYTES = 1 << 30


class Ceilings(Frozen):
    """1e9 bytes moved, and 1e9 float32 operations (a multiply-add is two), per second over all threads."""

    gb_s: float
    gflop_s: float


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
    """From the disk, else measured (about 3 s with the probe's compilation) and kept."""
    source = resources.files("harness.targets").joinpath(_PROBE).read_text(encoding="utf-8")
    key = hashlib.sha256(f"{here.identity}\n{here.threads}\n{source}".encode()).hexdigest()[:32]

    def measure(folder: Path) -> Ceilings:
        write_text(folder / _PROBE, source)
        return _run_probe(folder, here)

    return measured_once(key, Ceilings, measure, again=again)


def _run_probe(folder: Path, here: Processor) -> Ceilings:
    compiler = host_compiler()
    program = build_probe(folder, compiler, (*compiler.command, *_FLAGS), _PROBE)
    array_bytes = min(max(_CACHES_PER_ARRAY * here.l3_bytes, _MIN_ARRAY_BYTES), _MAX_ARRAY_BYTES)
    environment = {"OMP_NUM_THREADS": str(here.threads), "OMP_PROC_BIND": "true"}
    said = run_probe(program, array_bytes, _PROBE_S, limits=_PROBE_LIMITS, environment=environment)
    gb_s, gflop_s = map(float, said.split())
    return Ceilings(gb_s=gb_s, gflop_s=gflop_s)
