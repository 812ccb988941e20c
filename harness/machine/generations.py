"""What each generation of NVIDIA GPUs can do a clock, where no query of the driver tells it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Generation:
    """Floating-point operations a clock and multiprocessor (a multiply-add is two), dense, at full clock.

    `tf32` and `half` (float16 and bfloat16, accumulated in float32) on the tensor cores.
    `l1_bytes` is the memory that L1 and shared memory divide among themselves.
    """

    name: str
    tf32: int
    half: int
    l1_bytes: int
    source: str


_KIB = 1 << 10

# Datasheet rate / (multiprocessors x boost clock), rounded to the power of two that the architecture's paper names.
# GeForce cards of sm_86 and sm_89 do half of the tensor rates.
GENERATIONS: dict[tuple[int, int], Generation] = {
    (8, 0): Generation(
        "A100", 1024, 2048, 192 * _KIB, "NVIDIA A100 datasheet: 19.5, 156 and 312 TFLOP/s of 108 SMs at 1.41 GHz"
    ),
    (8, 6): Generation(
        "A10, A40, RTX 30", 512, 1024, 128 * _KIB, "NVIDIA A40 datasheet: 37.4, 74.8, 149.7 TFLOP/s of 84 SMs"
    ),
    (8, 9): Generation(
        "L4, L40S, RTX 40", 512, 1024, 128 * _KIB, "NVIDIA L40S datasheet: 91.6, 183 and 362 TFLOP/s of 142 SMs"
    ),
    (9, 0): Generation(
        "H100, H200", 2048, 4096, 256 * _KIB, "NVIDIA H100 datasheet (SXM): 67, 494 and 989 TFLOP/s of 132 SMs"
    ),
    (10, 0): Generation(
        "B200", 4096, 8192, 256 * _KIB, "NVIDIA DGX B200 datasheet: 1.1 and 2.25 PFLOP/s a GPU of 148 SMs, dense"
    ),
}


def generation(capability: tuple[int, int]) -> Generation:
    """The GPU's own generation, else the newest one listed that is not newer than it, else the oldest."""
    older = [known for known in GENERATIONS if known <= capability]
    return GENERATIONS[max(older, default=min(GENERATIONS))]
