"""Whether a model with kernels in it is right and faster as a whole, and what each of its regions does to that."""

from __future__ import annotations

from typing import Literal

from harness.nouns.frozen import Frozen, SanitizedText
from harness.nouns.verdict import Interval, OutputError

WholeForm = Literal["compiled", "assembled"]
"""What is made of a model and its kernels: Inductor compiles it with the kernels in its graph, or the exported
operations run one by one, with kernels in the place of some."""


class Inside(Frozen):
    """A region within the model: the whole without it / the whole with it, of paired calls; why it was dropped.

    `places` is how many of the compiled model's its kernel took; None where the model is assembled.
    """

    name: str
    places: int | None = None
    speedup: float | None = None
    interval: Interval | None = None
    dropped: SanitizedText = ""


class BesideCompiled(Frozen):
    """torch.compile's version of the whole in one of its modes, in the same rounds: compiled / assembled.

    `failure` says why there is none.
    """

    mode: str
    ms: float | None = None
    speedup: float | None = None
    interval: Interval | None = None
    failure: SanitizedText = ""

    @property
    def what(self) -> str:
        """The baseline as reports call it."""
        return compiled_in(self.mode)


def compiled_in(mode: str) -> str:
    """torch.compile in a mode, as reports call it."""
    return "torch.compile" + ("" if mode == "default" else f" ({mode})")


def not_faster(over_eager: Interval, compiled: tuple[BesideCompiled, ...]) -> str:
    """The sentence that a model is refused with; empty where it is faster than every baseline that was timed."""
    if over_eager.low <= 1.0:
        return "The model is not shown to be faster than eager."
    timed = [each for each in compiled if each.interval is not None and each.interval.low <= 1.0]
    if not timed:
        return ""
    best = min(timed, key=lambda each: each.speedup or 0.0)
    return f"The model is not shown to be faster than {best.what}: use that instead."


class Acceptance(Frozen):
    """The assembled model beside eager, in the same rounds. `speedup` is eager / assembled, with its 95 % interval.

    `accepted` where it is right, and its whole interval over eager and over each `compiled` baseline that was timed
    lies above 1. A "compiled" one is compiled by Inductor in `mode`; `instead` says why one is assembled that was to
    be compiled. `graphs`: it is replayed as CUDA graphs, which make it faster by `graphs_speedup` (without / with).
    `conditions` are what both sides ran under, `device` its name, and `gpu` PyTorch's for a GPU. Peaks are of what
    PyTorch had handed out on the device, weights and inputs included.
    """

    accepted: bool
    reason: SanitizedText = ""
    form: WholeForm = "assembled"
    mode: str = ""
    instead: SanitizedText = ""
    regions: tuple[Inside, ...] = ()
    eager_ms: float | None = None
    ms: float | None = None
    speedup: float | None = None
    interval: Interval | None = None
    rounds: int = 0
    compiled: tuple[BesideCompiled, ...] = ()
    graphs: bool = False
    graphs_speedup: float | None = None
    graphs_interval: Interval | None = None
    errors: tuple[OutputError, ...] = ()
    oracle: SanitizedText = ""
    gpu: SanitizedText = ""
    device: SanitizedText = ""
    conditions: tuple[SanitizedText, ...] = ()
    eager_peak_bytes: int | None = None
    peak_bytes: int | None = None

    @property
    def against(self) -> tuple[str, ...]:
        """The baselines that were timed."""
        return ("eager", *(each.what for each in self.compiled if each.interval is not None))

    @property
    def kept(self) -> tuple[str, ...]:
        """The regions that stay; none where the whole is not accepted."""
        return tuple(each.name for each in self.regions if not each.dropped) if self.accepted else ()
