"""What a device can do at best."""

from __future__ import annotations

import re
from functools import cache

from harness.nouns.frozen import Frozen

HOPPER = "sm_90a"
"""nvcc's name of Hopper with the instructions that no other architecture has."""


class Capabilities(Frozen):
    """What a GPU has beside plain cores. Schedules ask for these, never for an architecture by its name.

    `mma`: tensor cores that threads feed from registers (TF32, 16 bits), and asynchronous copies. `clusters`: blocks
    that reach each other's shared memory, up to `max_cluster`. `wgmma`: products by a warpgroup from shared memory.
    `tcgen05`: products whose sums lie in tensor memory; no schedule asks for it yet.
    """

    mma: bool = False
    clusters: bool = False
    wgmma: bool = False
    tcgen05: bool = False
    max_cluster: int = 1


@cache
def capabilities_of(architecture: str) -> Capabilities:
    """Those of nvcc's architecture (`sm_80`); none where the name tells none."""
    number = re.fullmatch(r"sm_(\d+)[af]?", architecture)
    generation = int(number[1]) if number else 0
    hopper = architecture == HOPPER
    # Hopper runs clusters of 16 where it is asked to; other GPUs may not.
    largest = 16 if hopper else 8 if generation >= 90 else 1
    return Capabilities(
        mma=generation >= 80,
        clusters=generation >= 90,
        wgmma=hopper,
        tcgen05=architecture[-1:] in ("a", "f") and 100 <= generation < 120,
        max_cluster=largest,
    )


class DeviceFacts(Frozen):
    """The device's ceilings. Rates are 1e9 per second in float32; `source` says where they come from ("measured ...").

    `simd_floats` is the number of floats in one vector register (1 on a GPU, where the warp is the vector).
    A GPU also has an `architecture` (nvcc's name, "sm_90a"), `multiprocessors`, and `shared_bytes`: the shared memory
    that one block may ask for, `memory_bytes` of its own, and the dense rates of its tensor cores in TF32 and in
    float16 or bfloat16. Its `l3_bytes` are those of its last cache, the L2.
    """

    device: str
    threads: int
    simd_floats: int
    l1_bytes: int
    l2_bytes: int
    l3_bytes: int
    peak_gb_s: float
    peak_gflop_s: float
    source: str
    architecture: str = ""
    multiprocessors: int = 0
    shared_bytes: int = 0
    memory_bytes: int = 0
    tf32_gflop_s: float = 0.0
    half_gflop_s: float = 0.0
