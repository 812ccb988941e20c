"""An NVIDIA GPU as a device: shareable memory of the driver's, precision flags, clocks. A forked child opens it."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property
from pathlib import Path

import torch

from harness.nouns.candidate import TargetName
from harness.nouns.errors import MachineError
from harness.nouns.verdict import Conditions, Precision
from harness.trusted.device import Segment
from harness.trusted.nvml import ClockReader
from harness.wire.cuda_driver import OUT_OF_MEMORY, Bytes, Driver, DriverError
from harness.wire.layout import ORACLE_SETS

SPREAD_BYTES = 24 << 30
"""All slots together: a kernel that moves bytes and nothing else needs 6 ms for them, and no slot is used twice in a
burst."""
MOST_SLOTS = 256
_SMALLER = "Choose smaller shapes (a suite's --scale makes them), or a GPU with more memory."


class CudaDevice:
    """Device 0 of those that are visible. `cache_bytes` should exceed the L2 cache."""

    kind: TargetName = "cuda"
    place = torch.device("cuda", 0)
    burst_s = 0.015  # the message and the switch between two contexts take about 0.2 ms, and vary by a tenth of it
    settle_s = 0.0
    pings = 8
    messages = 16
    known_work = 100  # 6 ms on an H200, as long as the shortest bursts
    usual_cost = 0.25  # the first ones are slow, since nothing was done before them
    warm_s = 0.3
    seals = False
    queues = True
    keeps_results = True
    verified_slots = 32

    def __init__(self, cache_bytes: int) -> None:
        self._cache_bytes = cache_bytes

    def prepare(self, precision: Precision) -> None:
        """Make the context, and set both TF32 switches as the precision says: for the error and for the clock alike."""
        os.environ["CUDA_CACHE_PATH"] = str(Path.cwd())
        try:
            torch.zeros(1, device=self.place)
            self._driver = Driver(0)
        except (RuntimeError, AssertionError, OSError, DriverError) as error:
            text = " ".join(str(error).split())[:300]
            raise MachineError(f"PyTorch cannot use the GPU: {text}.", "See `cutegen doctor`.") from error
        torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"
        torch.backends.cudnn.allow_tf32 = precision != "ieee"

    def slots(self, wanted: int, each: int, allowed: int) -> int:
        """Enough for a long burst, and as many as leave room for the oracle within what is allowed.

        A slot's inputs are shared by both kernels, its outputs are not; eager's results take as much again.
        """
        free = torch.cuda.mem_get_info(self.place)[0]
        free = min(allowed or free, free)
        if (1 + ORACLE_SETS) * each > free:
            needed = (1 + ORACLE_SETS) * each / 2**30
            problem = f"It takes about {needed:.3g} GiB on the GPU, {free / 2**30:.3g} GiB are free."
            raise MachineError(problem, _SMALLER)
        spread = min(max(wanted, SPREAD_BYTES // each), MOST_SLOTS)
        return max(1, min(spread, (free - ORACLE_SETS * each) // (2 * each)))

    def segment(self, name: str, size: int, *, sealed: bool) -> Segment:
        """Memory of the driver's, for our own mapping and the runner's; the rights there are the runner's to set."""
        torch.cuda.empty_cache()
        try:
            address, real, descriptor = self._driver.create(size)
        except DriverError as error:
            if error.code == OUT_OF_MEMORY:
                raise MachineError(f"The GPU has no {size / 1e9:.3g} GB left for the {name}.", _SMALLER) from error
            raise MachineError(
                f"GPU memory cannot be shared between processes: {error}.", "Update the driver."
            ) from error
        return Segment(descriptor, torch.as_tensor(Bytes(address, real), device=self.place))

    def before_timing(self) -> None:
        """What the oracles used goes back: candidates allocate memory of their own."""
        torch.cuda.empty_cache()

    @cached_property
    def _evictor(self) -> torch.Tensor:
        return torch.ones(self._cache_bytes // 4, dtype=torch.int32, device=self.place)

    def team_in_place(self) -> AbstractContextManager[None]:
        """Nothing to place."""
        return nullcontext()

    def empty_caches(self) -> None:
        """Read the evictor once, and wait."""
        self._evictor.sum()

    @cached_property
    def _clock_reader(self) -> ClockReader | None:
        return ClockReader.open(self._driver.bus_id())

    def conditions(self) -> Conditions | None:
        """As the management library tells; None where it does not."""
        return self._clock_reader.read() if self._clock_reader else None

    def finish(self) -> None:
        """Wait for every stream."""
        torch.cuda.synchronize()
