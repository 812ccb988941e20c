"""Batches beside a file's own: the same forward there, and which of them a kernel was found right at."""

from __future__ import annotations

from harness.nouns.frozen import Frozen, SanitizedText
from harness.nouns.task import Traced, Workload

OTHER_BATCHES = "other batches"
"""The move at a run's end by which its result serves them."""


class Batches(Frozen):
    """Where a forward takes other batches: none where `refused` says why.

    A batch is the extent of the first input's first axis; other inputs of that extent there go with it. The forward was
    proved the same for all from 2 to the largest of `workloads`; `traced` is it at one of them.
    """

    own: int = 0
    workloads: tuple[Workload, ...] = ()
    traced: Traced | None = None
    refused: SanitizedText = ""


class ServedBatches(Frozen):
    """The batches at which a kernel was right beside its `own`; it is for all between. None where `refused` says why.

    Its speed-up over PyTorch was measured at the last of `workloads`.
    """

    own: int
    workloads: tuple[Workload, ...] = ()
    speedup: float | None = None
    refused: SanitizedText = ""

    @property
    def tried(self) -> tuple[int, ...]:
        """The batches, in their order."""
        return tuple(sorted(work.variant.batch for work in self.workloads if work.variant.batch))

    @property
    def said(self) -> str:
        """One sentence; empty where nobody could tell what a batch is."""
        if not self.own:
            return ""
        if not self.workloads:
            return f"Serves batch {self.own} alone: {self.refused.rstrip('.')}."
        low, high = min(self.own, *self.tried), max(self.own, *self.tried)
        shown = ", ".join(map(str, self.tried))
        last = self.workloads[-1].variant
        at = f"; {self.speedup:.2f}x over eager {last.at}" if self.speedup else ""
        return f"Serves batches {low} to {high} (also judged at {shown}{at})."
