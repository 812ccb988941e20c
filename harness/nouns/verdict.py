"""The judge's word on a candidate, with exactly the fields that its status may carry."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from harness.nouns.batches import ServedBatches
from harness.nouns.build import Build
from harness.nouns.called import AsCalled as AsCalled
from harness.nouns.called import CallerTiming as CallerTiming
from harness.nouns.called import Interval as Interval
from harness.nouns.caller import USUAL, Caller
from harness.nouns.candidate import TargetName
from harness.nouns.devices import on_gpu
from harness.nouns.frozen import Frozen, SanitizedText
from harness.nouns.samples import Samples
from harness.nouns.sanitizer_run import SanitizerRun, first_finding
from harness.nouns.tier import Tier as Tier

Status = Literal["build_failed", "refused", "crashed", "timed_out", "wrong", "passed"]
Precision = Literal["default", "ieee", "tf32"]
"""Where PyTorch may round float32 operands to TF32 on a GPU: in convolutions and cuDNN's recurrent layers (its own
default), nowhere, or in products of matrices as well."""

CLOCK_DRIFT = 0.02
"""A GPU whose clocks moved by a larger share than this while it was timed was not steady."""

MUCH_STOLEN, MUCH_SPREAD = 0.02, 0.2
"""Shares above which a busy machine is named: of its time, and of eager's."""

UNSAID = 0.05
"""A caller's speed-up that is smaller than the judge's by no larger a share leaves the judge's standing."""

SHORT_MS = 0.1
"""What eager PyTorch does in less is won by a caller's clock, too, or not at all: Python and wrapper count there."""

LAUNCH_MS = 0.02
"""Below it a GPU's baseline is marked as bound by its launches, each of which takes some microseconds."""

WORTHWHILE = 1.05
"""A factor: a contest that leaves room for a gain above this has decided nothing."""

Outcome = Literal["faster", "not faster", "undecided"]
Measure = Literal["wall time", "CPU time", "wall and CPU time"]
"""What a head-to-head's figures are of; both where some of several workloads had to be decided by CPU time."""


def precision_on(target: TargetName, precision: Precision) -> Precision:
    """What a precision comes to on a target: a processor has no TF32."""
    return precision if on_gpu(target) else "ieee"


def outcome_of(interval: Interval, held: float) -> Outcome:
    """Of a new kernel whose speed lies within `interval`, against one whose speed is `held`."""
    if interval.low > held:
        return "faster"
    return "undecided" if interval.high > WORTHWHILE * held else "not faster"


class FirstBad(Frozen):
    """The first wrong element in row-major order."""

    index: tuple[int, ...]
    expected: float
    got: float


class OutputError(Frozen):
    """One output's error against the float64 oracle, beside the reference's own in the same measure.

    `relative_l2` is ||got - oracle|| / ||oracle||; `max_scaled` the largest |got - oracle| / (|oracle| + rms(oracle)).
    `first_bad` is present exactly where `bad_fraction` is above 0. `skipped_fraction` were not compared: among special
    inputs, elements on which the reference itself has no defined result.
    """

    output: str
    relative_l2: float
    max_scaled: float
    reference_relative_l2: float
    reference_max_scaled: float
    bad_fraction: float = 0.0
    skipped_fraction: float = 0.0
    first_bad: FirstBad | None = None
    pattern: str = ""


class Trial(Frozen):
    """One comparison: inputs of one distribution under one seed.

    `mild` is above 0 where PyTorch had no results on the first draws, which went further (see `families`).
    `caller` is who called the kernel. Before it `steps` calls wrote the state that this one reads.
    `repeatable` says whether more calls on the same inputs gave the same bits; it is absent where none were made.
    """

    distribution: str
    seed: int
    mild: int = 0
    caller: Caller = USUAL
    steps: int = 0
    repeatable: bool | None = None
    outputs: tuple[OutputError, ...]


class Untried(Frozen):
    """What could not be varied, or a family of inputs on which PyTorch's results hold a kernel to nothing."""

    distribution: str
    seed: int
    reason: SanitizedText


class Correctness(Frozen):
    """The comparisons made, up to and including the first that failed; and what was not tried, with the reason.

    `no_oracle` says why the task has no float64 oracle, where it has none: what PyTorch's results change by when each
    rounding in them is another one then stands for PyTorch's own error.
    """

    trials: tuple[Trial, ...]
    no_oracle: SanitizedText = ""
    untried: tuple[Untried, ...] = ()


class HeadToHead(Frozen):
    """A candidate against an earlier kernel in the same rounds. `speedup` is incumbent / candidate: above 1 is faster.

    Both it and its interval, a 99.5 % one, are those of each side's faster half, of CPU time those of all rounds by
    ranks (`timing.statistics`); `incumbent_ms` is the median. `rounds` are those that decided: two kernels that
    cannot be told apart go on without the baselines. There are none where both are the same machine code: then nothing
    was run, and the ratio is 1. `measure`: wall time, whose interval allows for what threads waited for a processor;
    or, where that decides nothing, what each kernel computes on one thread. `alone` says why that could not be asked,
    where it was needed.
    """

    incumbent: str = Field(description="the earlier kernel's digest")
    incumbent_ms: float = Field(gt=0)
    speedup: float = Field(gt=0)
    interval: Interval
    rounds: int = Field(ge=0)
    measure: Measure = "wall time"
    alone: str = Field(default="", description="why CPU time could not decide what wall time did not")

    @classmethod
    def of_identical(cls, incumbent: str, ms: float) -> Self:
        """Of an incumbent that is the candidate's own machine code."""
        return cls(incumbent=incumbent, incumbent_ms=ms, speedup=1.0, interval=Interval(low=1.0, high=1.0), rounds=0)

    @property
    def identical(self) -> bool:
        """Whether both kernels are the same machine code."""
        return self.rounds == 0

    @property
    def by(self) -> str:
        """What follows its figures wherever they are shown: the measure, where it is not wall time as ever."""
        if self.alone and self.outcome == "undecided":
            return f", by wall time alone, because {self.alone}"
        return "" if self.measure == "wall time" else f", by {self.measure}"

    @property
    def within(self) -> str:
        """The interval in words, and by what."""
        return f"({self.interval.said()}){self.by}"

    @property
    def outcome(self) -> Outcome:
        """What it says of the candidate; "undecided" where it may be faster by a gain that matters, or not at all."""
        return outcome_of(self.interval, 1.0)


class Conditions(Frozen):
    """A GPU's clocks in MHz and its temperature in degrees Celsius at one moment."""

    sm_mhz: int
    memory_mhz: int
    temperature_c: int


class Clocks(Frozen):
    """The range of a GPU's conditions over the rounds of a timing."""

    lowest: Conditions
    highest: Conditions

    @property
    def steady(self) -> bool:
        """Whether no clock moved by more than 2 %: else times of different rounds are not the same machine's."""
        pairs = ((self.lowest.sm_mhz, self.highest.sm_mhz), (self.lowest.memory_mhz, self.highest.memory_mhz))
        return all(high - low <= CLOCK_DRIFT * high for low, high in pairs)


class Busy(Frozen):
    """How busy a machine was with other things over the rounds of a timing.

    `stolen`: the share of its processors' time that other machines on its host had. `others`: how many threads of other
    programs ran, or waited for a processor, the median of moments between rounds. `threads`: the kernel's own.
    `spread`: the middle half of eager's own times, as a share of their median.
    """

    stolen: float
    others: float
    threads: int
    processors: int
    spread: float

    @property
    def crowded(self) -> bool:
        """Whether threads of the kernel had to share a processor with others."""
        return self.others + self.threads > self.processors and self.others >= 1

    @property
    def said(self) -> str:
        """What of it can have disturbed the times, with numbers; empty where nothing can."""
        said = []
        if self.crowded:
            said.append(f"{self.others:.3g} other threads wanted its {self.processors} processors")
        if self.stolen > MUCH_STOLEN:
            said.append(f"{self.stolen:.0%} of its processors' time was taken from outside")
        if self.spread > MUCH_SPREAD:
            said.append(f"half of eager's own times lay {self.spread:.0%} apart or more")
        return f"the machine was busy: {', '.join(said)}" if said else ""


class Compiled(Frozen):
    """torch.compile (default mode, warm) in the same rounds. `speedup` is compiled / candidate: above 1 is faster."""

    ms: float = Field(gt=0)
    speedup: float = Field(gt=0)
    interval: Interval


ClockName = Literal["judge", "back to back", "synchronized"]

CLOCKS: dict[ClockName, str] = {
    "judge": "by the judge's clock, with cold caches",
    "back to back": "as called, back to back",
    "synchronized": "as called, each call waited for",
}
"""What each clock's figures are called wherever they are shown."""


class Headline(Frozen):
    """The times and the speed-up by one clock, each the medians of `rounds`, and the speed-up their quotient."""

    clock: ClockName
    ms: float
    baseline_ms: float
    speedup: float
    interval: Interval
    rounds: int

    @property
    def whose(self) -> str:
        """Whose clock it is, in words."""
        return CLOCKS[self.clock]


class Timing(Frozen):
    """Medians of interleaved runs, in ms a call. `speedup` is their quotient, baseline / candidate: above 1 is faster.

    The interval is a bootstrap over the rounds, whose pairs stay together. `head_to_head` is there where an incumbent
    ran in the same rounds; `advisory` says why the time is not to be compared with a kernel's, where it is not.
    `caller` is there on a run's final kernel, or `caller_failure` says why it could not be had; `headline` weighs both.
    `compiled` is there where that baseline was asked for, or `compiled_failure` says why it could not be had.
    `task_defect` says why the task is degenerate (see `cutegen check-task`); on such a task nothing wins.
    """

    candidate_ms: float = Field(gt=0)
    baseline: str = "eager"
    baseline_ms: float = Field(gt=0)
    speedup: float = Field(gt=0)
    speedup_interval: Interval
    rounds: int
    threads: int
    converged: bool
    hopeless: str = Field(default="", description="why it was timed only briefly: many times slower than the baseline")
    head_to_head: HeadToHead | None = None
    compiled: Compiled | None = None
    compiled_failure: str = ""
    task_defect: str = ""
    influence: str = Field(default="", description="the family of trials on which a constant would be wrong")
    advisory: str = ""
    caller: CallerTiming | None = Field(
        default=None, description="of a final verdict: the drop-in as its caller has it"
    )
    caller_failure: str = ""
    clocks: Clocks | None = Field(default=None, description="where the device tells its clocks")
    busy: Busy | None = Field(default=None, description="with what else the machine was busy, where the system tells")
    samples: Samples | None = Field(default=None, description="where there is one workload")

    @property
    def wins(self) -> bool:
        """Whether the whole interval is above 1, on a task where that means something."""
        shown = [self.headline.interval, *([each.interval for each in self._called] if self.short else [])]
        return min(each.low for each in shown) > 1.0 and not self.task_defect

    @property
    def under_load(self) -> bool:
        """Whether the machine was too busy for its times to be shares of what it can do."""
        return self.busy is not None and self.busy.said != ""

    @property
    def short(self) -> bool:
        """Whether a call is so short that what surrounds it decides what it is worth."""
        return self.baseline_ms < SHORT_MS

    @property
    def launch_bound(self) -> bool:
        """Whether eager's call is about as long as its launches take, so that a factor says little of the kernel."""
        return self.baseline_ms < LAUNCH_MS

    @property
    def degenerate(self) -> str:
        """Why nothing wins here, as a sentence; empty where a win counts."""
        return f"No win on a degenerate task: {self.task_defect}." if self.task_defect else ""

    @property
    def influence_said(self) -> str:
        """Which family shows what the outputs depend on, as a sentence; empty where the file's own inputs do."""
        if self.influence in ("", "given"):
            return ""
        return f"On the file's own inputs the outputs hardly vary; {self.influence} inputs show what they depend on."

    @property
    def headline(self) -> Headline:
        """The judge's, or the caller's worst where that gain is smaller by more than 5 % (of a short task, at all)."""
        judged = self._judged
        worst = min(self._called, key=lambda each: each.speedup, default=judged)
        allowed = 0.0 if self.short else UNSAID
        return worst if worst.speedup < (1 - allowed) * self.speedup else judged

    @property
    def other_clocks(self) -> list[Headline]:
        """What the clocks say that are not the headline's."""
        return [each for each in (self._judged, *self._called) if each.clock != self.headline.clock]

    @property
    def _judged(self) -> Headline:
        return Headline(
            clock="judge",
            ms=self.candidate_ms,
            baseline_ms=self.baseline_ms,
            speedup=self.speedup,
            interval=self.speedup_interval,
            rounds=self.rounds,
        )

    @property
    def _called(self) -> list[Headline]:
        if self.caller is None:
            return []
        rounds = self.caller.rounds
        called = [Headline(clock="back to back", rounds=rounds, **dict(self.caller.back_to_back))]
        if self.caller.synchronized is not None:
            called.append(Headline(clock="synchronized", rounds=rounds, **dict(self.caller.synchronized)))
        return called

    @property
    def noise(self) -> str:
        """What makes the times less sure than usual, as a sentence; empty where nothing does."""
        said = []
        if self.hopeless:
            said.append(self.hopeless)
        elif not self.converged:
            half = (self.speedup_interval.high - self.speedup_interval.low) / (2 * self.speedup)
            said.append(f"after {self.rounds} rounds the interval is still {half:.1%} to either side")
        if self.clocks and not self.clocks.steady:
            low, high = self.clocks.lowest, self.clocks.highest
            said.append(
                f"the GPU's clocks moved: {low.sm_mhz} to {high.sm_mhz} MHz, memory {low.memory_mhz} to "
                f"{high.memory_mhz} MHz"
            )
        if self.busy and self.busy.said:
            said.append(self.busy.said)
        return f"Noise: {'; '.join(said)}." if said else ""


class WorkloadResult(Frozen):
    """One workload's part of a verdict. Held-out ones, and all by turns in one process, are checked, but not timed."""

    name: str
    correctness: Correctness | None = None
    timing: Timing | None = None


class Verdict(Frozen):
    """What one evaluation found. `check` names the check that failed and `message` says it with numbers.

    With a `tolerance` above 1 errors so many times what PyTorch's own error allows were accepted.
    `sanitizers` are those that were asked afterwards; what they find withdraws a pass. So is `served`: at which batches
    beside its own the kernel of a file with one workload is right.

    | status | build | correctness | timing | check, message |
    |---|---|---|---|---|
    | build_failed | failed | - | - | yes |
    | refused, crashed, timed_out | any | maybe | - | yes |
    | wrong | succeeded | yes | - | yes |
    | passed | succeeded | yes, all right | yes | - |

    Of a task with several workloads `workloads` holds each one's results up to the first that failed; `correctness` is
    then that one's (the first one's where all passed), and `timing` their geometric mean (`judging.aggregate`).
    """

    status: Status
    candidate: str
    task: str
    seed: int
    tier: Tier
    precision: Precision = "ieee"
    tolerance: float = 1.0
    build: Build | None = None
    correctness: Correctness | None = None
    timing: Timing | None = None
    workloads: tuple[WorkloadResult, ...] = ()
    check: SanitizedText = ""
    message: SanitizedText = ""
    seconds: dict[str, float] = Field(default_factory=dict)
    sanitizers: tuple[SanitizerRun, ...] = ()
    served: ServedBatches | None = None

    def sanitized(self, runs: tuple[SanitizerRun, ...]) -> Verdict:
        """This verdict with what the sanitizers said; a pass with a finding becomes a refusal (check "sanitizer")."""
        found = first_finding(runs)
        if found is None or not self.passed:
            return self.model_copy(update={"sanitizers": runs})
        kept = {name: value for name, value in self if name != "timing"}
        refused = {"status": "refused", "check": "sanitizer", "message": found.message, "sanitizers": runs}
        return Verdict(**(kept | refused))

    def against_itself(self, incumbent: str) -> Self:
        """This verdict with its word on an incumbent that is the same machine code; as it is unless it passed."""
        if self.timing is None:
            return self
        met = HeadToHead.of_identical(incumbent, self.timing.candidate_ms)
        return self.model_copy(update={"timing": self.timing.model_copy(update={"head_to_head": met})})

    @property
    def no_oracle(self) -> str:
        """Why no float64 oracle could be had, in the first comparisons without one; empty where all had it."""
        every = (self.correctness, *(each.correctness for each in self.workloads))
        return next((each.no_oracle for each in every if each and each.no_oracle), "")

    @property
    def passed(self) -> bool:
        """Whether the candidate is right and timed."""
        return self.status == "passed"

    @model_validator(mode="after")
    def _fields_fit_the_status(self) -> Self:
        built = self.build is not None and self.build.succeeded
        if self.passed != (self.timing is not None):
            raise ValueError("a timing belongs to a passed verdict and to no other")
        if self.passed == bool(self.check):
            raise ValueError("a verdict names a failed check exactly where it did not pass")
        if self.status in ("passed", "wrong") and not (built and self.correctness):
            raise ValueError(f"a {self.status} verdict needs a build that succeeded and its comparisons")
        if self.passed and any(map(_wrong, (self.correctness, *(each.correctness for each in self.workloads)))):
            raise ValueError("no comparison of a passed verdict found anything wrong")
        if self.status == "build_failed" and (self.build is None or built or self.correctness):
            raise ValueError("a build_failed verdict carries the failed build and nothing measured")
        return self


def _wrong(correctness: Correctness | None) -> bool:
    trials = correctness.trials if correctness else ()
    return any(error.bad_fraction > 0 for trial in trials for error in trial.outputs)
