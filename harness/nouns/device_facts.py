"""What a device can do at best."""

from __future__ import annotations

from harness.nouns.frozen import Frozen


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
