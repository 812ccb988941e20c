"""A judge that answers at once, as markers in the sources say: no compiler, no child, no clock.

A kernel's line may end in `// judge: WORD ...`. Of several words the first of this list counts:

| word | the kernel |
|---|---|
| `machine_error why` | is not judged: the judge goes away |
| `build_failed message` | does not compile, for an error in this line |
| `refused message` | is refused by the screen, for this line |
| `crashed message`, `timed_out message` | does so when it is called |
| `wrong` | gives wrong numbers |
| `passed 1.5x` | is right, and so many times as fast as the reference; `passed 1.5x 20%` with so wide an interval |

A kernel without any of them passes at `UNMARKED`. Beside them `// judge: finding message` is what a sanitizer finds,
`// judge: code NAME` names the machine code that comes of it (else each source's is its own),
`// judge: share 0.9` a profile's share of the roof, and `// judge: called 1.1x` the speed-up that a caller sees.
`// judge: finally 1.4x` is its speed-up in contests, and `// judge: lost message` how it fails there.
A task's file is taken for x / (1 + |x|), of the size that it gives in `torch.rand` or `torch.randn`; a line of it that
ends in `# judge: no task` makes it none.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, get_args
from unittest import mock

from run_samples import DEVICE

from harness.judging.device_lock import counted
from harness.judging.outcome import Case, Outcome
from harness.judging.protocol import JudgeOrder
from harness.judging.terms import Terms
from harness.nouns.batches import Batches, ServedBatches
from harness.nouns.build import Build, Diagnostic
from harness.nouns.candidate import Candidate
from harness.nouns.contest import Contest, Standing
from harness.nouns.device import DeviceName
from harness.nouns.device_facts import DeviceFacts
from harness.nouns.errors import MachineError, UserError
from harness.nouns.profile import Profile
from harness.nouns.refusal import Refusal
from harness.nouns.sanitizer_run import Finding, SanitizerRun
from harness.nouns.task import Program, Ref, Signature, Task, TensorSpec, TracedOp, Workload
from harness.nouns.tier import Tier
from harness.nouns.verdict import (
    AsCalled,
    CallerTiming,
    Compiled,
    Correctness,
    FirstBad,
    HeadToHead,
    Interval,
    OutputError,
    Status,
    Timing,
    Trial,
    Verdict,
    precision_on,
)

UNMARKED = 1.5
BASELINE_MS = 1.0
_MARKER = re.compile(r"// judge: (\w+) ?(.*)$")
_WORDS = ("machine_error", *get_args(Status))
_SIZES = re.compile(r"torch\.randn?\(([\d, ]+)\)")


class Script:
    """What the markers of a kernel's source say of it."""

    def __init__(self, source: str) -> None:
        self.said: dict[str, tuple[str, int]] = {}
        for number, line in enumerate(source.splitlines(), start=1):
            if found := _MARKER.search(line):
                self.said[found[1]] = (found[2].strip(), number)
        unknown = self.said.keys() - {*_WORDS, "finding", "share", "called", "code", "finally", "lost"}
        assert not unknown, f"no judge says {sorted(unknown)}"

    @property
    def word(self) -> str:
        return next((word for word in _WORDS if word in self.said), "passed")

    def text(self, word: str, default: str = "") -> str:
        return self.said[word][0] if word in self.said else default

    def line(self, word: str) -> int:
        return self.said[word][1]

    @property
    def speedup(self) -> float:
        return float(self.text("passed", f"{UNMARKED}x").split()[0].rstrip("x"))

    @property
    def spread(self) -> float:
        """Half the interval's width, as a share of the speed-up."""
        share = self.text("passed", f"{UNMARKED}x").split()[1:]
        return float(share[0].rstrip("%")) / 200 if share else 0.01


class ScriptedJudge:
    """See `Judge`. It remembers what it was asked, as (method, the candidate's digest)."""

    def __init__(self, order: JudgeOrder, device: DeviceName | None = None) -> None:
        self.device = device or DeviceName(target="cuda" if order.target == "cuda" else "cpu")
        self.tier: Tier = "landlock" if order.isolation == "auto" else order.isolation
        self.terms = Terms(self.tier, precision_on(self.device.target, order.precision), order.tolerance)
        self.asked: list[tuple[str, str]] = []

    def describe(self, source: str, *, name: str) -> Task:
        if "# judge: no task" in source:
            raise UserError(f"{name}: it has no class Model.", "Name a task file.")
        return softsign_task(source, name)

    def facts(self) -> DeviceFacts:
        return DEVICE

    def screen(self, task: Task, candidate: Candidate) -> Refusal | None:
        script = Script(candidate.source)
        if script.word != "refused":
            return None
        return Refusal(kind="marked", message=script.text("refused", "It is marked."), line=script.line("refused"))

    def build(self, task: Task, candidate: Candidate) -> Build:
        self._ask("build", candidate)
        script = Script(candidate.source)
        if script.word != "build_failed":
            return Build(digest=2 * candidate.digest, machine_code=script.text("code", candidate.digest), seconds=0.5)
        message = script.text("build_failed")
        error = Diagnostic(severity="error", file="kernel", line=script.line("build_failed"), message=message)
        return Build(diagnostics=(error,), seconds=0.5)

    def evaluate(
        self,
        task: Task,
        candidate: Candidate,
        build: Build | None = None,
        *,
        seed: int | None = None,
        incumbent: Candidate | None = None,
        compile_baseline: bool = False,
    ) -> Verdict:
        case = Case.of(task, candidate, self.terms, seed)
        if refusal := self.screen(task, candidate):
            return case.refused(refusal, build)
        build = build or self.build(task, candidate)
        if not build.succeeded:
            return case.not_built(build)
        self._ask("evaluate", candidate)
        with counted():
            same = incumbent is not None and self._code(incumbent) == self._code(candidate)
            opponent = None if same else incumbent
            outcome = _outcome(Script(candidate.source), case, opponent, compiled=compile_baseline)
            verdict = case.judged(build, [outcome], {})
            return verdict.against_itself(incumbent.digest) if incumbent and same else verdict

    def contest(self, task: Task, candidates: Sequence[Candidate]) -> Contest:
        if len(candidates) < 2:
            raise ValueError("a contest is of two kernels or more")
        for candidate in candidates:
            self._ask("contest", candidate)
        with counted():
            for candidate in candidates:
                if message := Script(candidate.source).text("lost"):
                    return Contest(failed=candidate.digest, message=message)
            return Contest(standings=tuple(self._standing(each, candidates[-1]) for each in candidates))

    @staticmethod
    def _standing(candidate: Candidate, last: Candidate) -> Standing:
        script, speedup = Script(candidate.source), _finally(candidate)
        gain = speedup / _finally(last)
        timing = _timing(script, None, compiled=False).model_copy(
            update={
                "candidate_ms": BASELINE_MS / speedup,
                "speedup": speedup,
                "speedup_interval": _around(speedup, script.spread),
                "head_to_head": HeadToHead(
                    incumbent=last.digest, incumbent_ms=BASELINE_MS / _finally(last), speedup=gain,
                    interval=_around(gain, script.spread), rounds=16,
                ) if candidate is not last else None,
            }
        )  # fmt: skip
        return Standing(candidate=candidate.digest, timing=timing)

    @staticmethod
    def _code(candidate: Candidate) -> str:
        return Script(candidate.source).text("code", candidate.digest)

    def profile(self, task: Task, candidate: Candidate, verdict: Verdict) -> Profile:
        if verdict.timing is None:
            raise ValueError("only a passed verdict can be profiled")
        self._ask("profile", candidate)
        share = float(Script(candidate.source).text("share", "0.5"))
        return Profile(
            target=self.device.target, device=DEVICE.device, time_ms=verdict.timing.candidate_ms,
            achieved_gb_s=DEVICE.peak_gb_s * share, peak_gb_s=DEVICE.peak_gb_s, achieved_gflop_s=1.0,
            peak_gflop_s=DEVICE.peak_gflop_s, bound="memory", share_of_roof=share, findings=("It waits for memory.",),
        )  # fmt: skip

    def sanitize(self, task: Task, candidate: Candidate) -> tuple[SanitizerRun, ...]:
        if refusal := self.screen(task, candidate):
            raise ValueError(str(refusal))
        self._ask("sanitize", candidate)
        script = Script(candidate.source)
        with counted():
            if "finding" not in script.said:
                return (SanitizerRun(tool="scripted", status="clean", seconds=0.1),)
            what = script.text("finding")
            finding = Finding(kind=what.partition(" ")[0], message=what, line=script.line("finding"))
            return (SanitizerRun(tool="scripted", status="found", findings=(finding,), seconds=0.1),)

    def as_called(self, task: Task, candidate: Candidate, verdict: Verdict, drop_in: Mapping[str, str]) -> Verdict:
        if verdict.timing is None:
            return verdict
        self._ask("as_called", candidate)
        speedup = float(Script(candidate.source).text("called", f"{verdict.timing.speedup}x").rstrip("x"))
        called = AsCalled(
            ms=BASELINE_MS / speedup, baseline_ms=BASELINE_MS, speedup=speedup, interval=_around(speedup, 0.01)
        )
        timing = verdict.timing.model_copy(update={"caller": CallerTiming(back_to_back=called, rounds=9)})
        return verdict.model_copy(update={"timing": timing})

    def batches(self, task: Task) -> Batches:
        return Batches(refused="nobody runs the file")

    def serves(self, task: Task, candidate: Candidate, batches: Batches) -> ServedBatches:
        return ServedBatches(own=batches.own, refused=batches.refused)

    def _ask(self, method: str, candidate: Candidate) -> None:
        self.asked.append((method, candidate.digest))
        script = Script(candidate.source)
        if script.word == "machine_error":
            raise MachineError(f"The judge went away: {script.text('machine_error')}.", "Go on with --resume.")


class Scripted:
    """Opens scripted judges, the same one for the same order, as `open_judge` of a graph or of the whole process."""

    def __init__(self, device: DeviceName | None = None) -> None:
        self.device = device
        self.judges: dict[JudgeOrder, ScriptedJudge] = {}

    def __call__(self, order: JudgeOrder) -> ScriptedJudge:
        return self.judges.setdefault(order, ScriptedJudge(order, self.device))

    @property
    def asked(self) -> list[tuple[str, str]]:
        """What all of them were asked, by judge."""
        return [call for judge in self.judges.values() for call in judge.asked]


def softsign_task(source: str, name: str) -> Task:
    """A task as tracing x / (1 + |x|) gives it, of the size in the source."""
    found = _SIZES.search(source)
    shape = tuple(int(extent) for extent in found[1].split(",") if extent.strip()) if found else (64, 256)
    strides = tuple(_product(shape[axis + 1 :]) for axis in range(len(shape)))
    spec = TensorSpec(name="x", shape=shape, strides=strides, dtype="float32")

    def value(name: str) -> TensorSpec:
        return spec.model_copy(update={"name": name})

    ops = (
        TracedOp(target="aten.abs.default", args=(Ref(ref="x"),), results=(value("abs_1"),)),
        TracedOp(target="aten.add.Tensor", args=(Ref(ref="abs_1"), 1), results=(value("add"),)),
        TracedOp(target="aten.div.Tensor", args=(Ref(ref="x"), Ref(ref="add")), results=(value("div"),)),
    )
    workload = Workload(
        name="given", signature=Signature(inputs=(spec,), outputs=(value("output"),)), flops=0,
        bytes_moved=8 * _product(shape), computed=("float32",),
    )  # fmt: skip
    program = Program(tracer="export", ops=ops, outputs=("div",), reads=("x",))
    return Task(name=name, source=source, workloads=(workload,), op_class="elementwise", program=program)


@contextmanager
def judging_here() -> Iterator[Scripted]:
    """Meanwhile scripted judges are those of this process."""
    with mock.patch("tools.judges.local_judge", Scripted()) as opened:
        yield opened


def _finally(candidate: Candidate) -> float:
    script = Script(candidate.source)
    return float(script.text("finally", f"{script.speedup}x").rstrip("x"))


def _product(extents: tuple[int, ...]) -> int:
    product = 1
    for extent in extents:
        product *= extent
    return product


def _around(speedup: float, spread: float) -> Interval:
    return Interval(low=speedup * (1 - spread), high=speedup * (1 + spread))


def _outcome(script: Script, case: Case, incumbent: Candidate | None, *, compiled: bool = False) -> Outcome:
    word, raw = script.word, {"seconds": {"check": 0.25, "time": 0.25}}
    said: dict[str, Any] = {"status": word, "check": "", "message": "", **raw}
    if word in ("crashed", "timed_out"):
        said |= {"check": "signal" if word == "crashed" else "timeout", "message": script.text(word) or "It ended."}
    else:
        said["correctness"] = _comparisons(case, wrong=word == "wrong").model_dump()
    if word == "wrong":
        said |= {"check": "correctness", "message": "output is wrong on given inputs: 25 % of it."}
    if word == "passed":
        said["timing"] = _timing(script, incumbent, compiled=compiled).model_dump()
    return Outcome(workload="given", **said)


def _comparisons(case: Case, *, wrong: bool) -> Correctness:
    bad: dict[str, Any] = {
        "bad_fraction": 0.25, "first_bad": FirstBad(index=(3, 1), expected=1.5, got=2.5), "pattern": "whole rows",
    } if wrong else {}  # fmt: skip
    error = OutputError(
        output="output", relative_l2=0.5 if wrong else 1e-8, max_scaled=1.0 if wrong else 1e-8,
        reference_relative_l2=1e-8, reference_max_scaled=1e-8, **bad,
    )  # fmt: skip
    return Correctness(trials=(Trial(distribution="given", seed=case.seed, repeatable=True, outputs=(error,)),))


def _timing(script: Script, incumbent: Candidate | None, *, compiled: bool) -> Timing:
    """torch.compile's version is as fast as a kernel marked `passed 1.25x`."""
    head_to_head = None
    over = script.speedup / 1.25
    if incumbent is not None:
        other = Script(incumbent.source).speedup
        gain = script.speedup / other
        interval = _around(gain, script.spread)
        head_to_head = HeadToHead(
            incumbent=incumbent.digest, incumbent_ms=BASELINE_MS / other, speedup=gain, interval=interval, rounds=9
        )
    return Timing(
        candidate_ms=BASELINE_MS / script.speedup, baseline_ms=BASELINE_MS, speedup=script.speedup,
        speedup_interval=_around(script.speedup, script.spread), rounds=9, threads=2, converged=True,
        head_to_head=head_to_head,
        compiled=Compiled(ms=BASELINE_MS / 1.25, speedup=over, interval=_around(over, 0.01)) if compiled else None,
    )  # fmt: skip
