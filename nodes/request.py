"""What an agent asks of its model: the facts a prompt is rendered from, attached to the message beside its text."""

from __future__ import annotations

from typing import Literal

from harness.nouns.candidate import Candidate, TargetName
from harness.nouns.device_facts import DeviceFacts
from harness.nouns.devices import on_gpu
from harness.nouns.frozen import Frozen, Label, SanitizedText
from harness.nouns.profile import Profile
from harness.nouns.task import Task
from harness.nouns.verdict import Precision, Verdict
from knowledge.compiler.kernels.source import PROCESSOR
from nodes.assessment import Assessment, Critique, Diagnosis
from nodes.roles import Voice
from nodes.settings import ExemplarChoice, Operator
from nodes.state import Step
from tools.lessons import Lesson
from tools.opinions import Verifier


class Left(Frozen):
    """What a run and one turn of it have left. `depth` optimizations of `max_depth` were decided, `kept` of them were
    gains; `tools` may be called.

    In an evolution `counted` is "generation", and `depth` the number of the present one, counted from 1.

    `seconds` are the run's. None are left to call where a model answers without tools.
    """

    depth: int
    max_depth: int
    seconds: float
    kept: int = 0
    tools: tuple[str, ...] = ()
    calls: int = 0
    counted: Literal["depth", "generation"] = "depth"


class Shown(Frozen):
    """A kernel that a proposer is shown beside its task: its source, and one line on what it is."""

    source: str
    about: Label


class Search(Frozen):
    """What an evolution tells a proposer beside its parents.

    `second` is a crossover's other parent. `best` are the fastest kernels by now, `errors` what went wrong lately,
    `inspiration` kernels of other tasks, `recommendations` what a summarizer drew from the best one's profile. A
    generator is told of inspiration alone.
    `taken` are the digests of all kernels so far and `turn` counts the orders that are otherwise the same: by them an
    author that answers by rule knows which of its kernels to give.
    """

    operator: Operator
    second: Candidate | None = None
    best: tuple[Shown, ...] = ()
    errors: tuple[SanitizedText, ...] = ()
    inspiration: tuple[Shown, ...] = ()
    recommendations: tuple[SanitizedText, ...] = ()
    turn: int = 0
    taken: tuple[str, ...] = ()


class Review(Frozen):
    """What one verifier is asked to look for, and in the second round what it said in the first."""

    aspect: Verifier
    before: Assessment | None = None


class Compared(Frozen):
    """What a reviewer is shown of the kernel judged last, free of its author's words.

    `diff` is against the kernel that it was made of; of one that was made of none it is the `whole` kernel. `built` is
    what its build tells, `built_before` what that of the other told.
    """

    diff: str
    whole: bool
    built: str
    built_before: str = ""
    verdict: str


class Request(Frozen):
    """One question to a model. `candidate` is the kernel to repair or to improve; `verdict` the last word on it.

    `profile` is present only past the depth gate. `max_sweep`: how many variants one move may try; 1 where it may not
    sweep. `search` is there where an evolution asks, `review` where a verifier is asked,
    `compared` where a reviewer is, whose `critique` the next author is told. `lessons` are other runs' moves.
    `compiled_with` names the compilers and CUTLASS with their versions. The request travels as it is in the human
    message's `additional_kwargs["request"]`, so that a rule-based model can answer without reading prose; no endpoint
    is sent it.
    """

    role: Voice
    task: Task
    target: TargetName
    precision: Precision
    tolerance: float = 1.0
    device: DeviceFacts
    compiled_with: str = ""
    stub: str
    left: Left | None = None
    candidate: Candidate | None = None
    verdict: Verdict | None = None
    diagnosis: Diagnosis | None = None
    profile: Profile | None = None
    history: tuple[Step, ...] = ()
    max_sweep: int = 1
    exemplar: ExemplarChoice = "representative"
    search: Search | None = None
    review: Review | None = None
    compared: Compared | None = None
    critique: Critique | None = None
    lessons: tuple[Lesson, ...] = ()

    @property
    def architecture(self) -> str:
        """What an exemplar has to run on: "cpu", or the GPU's architecture, which is sm_80 where nothing tells it."""
        return (self.device.architecture or "sm_80") if on_gpu(self.target) else PROCESSOR
