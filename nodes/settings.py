"""What a run is allowed and asked to do: the graph's context. It never changes while the run goes on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from harness.nouns.candidate import TargetChoice
from harness.nouns.task import DESCRIBE_S, Direction, OpClass
from harness.nouns.tier import TierChoice
from harness.nouns.verdict import Precision
from nodes.address import Effort, Price, PromptCaching, own_addresses
from nodes.roles import Voice
from tools.opinions import Verifier


class Group(BaseModel):
    """Settings that belong together. Studio's form, the options of the commands and their help are made of them."""

    # JSON, in which a run keeps its settings, has no infinity.
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, protected_namespaces=())


Operator = Literal["translation", "mutation", "crossover", "refinement"]
"""How an evolution makes a kernel: of the module, of one kernel, of two, of one that failed."""


class Proposer(Group):
    """One of those who propose kernels in an evolution: a model, and how freely it chooses its words."""

    model: str = Field(title="Model", description="As the setting `model` has it.")
    temperature: float | None = Field(
        default=None, ge=0, le=2, title="Temperature", description="Empty: the setting `temperature`."
    )


class Evolution(Group):
    """How `cutegen evolve` searches: generations of proposals made side by side, out of the kernels before them."""

    proposals: int = Field(default=4, ge=1, le=64, title="Proposals of a generation", description="Made side by side.")
    proposers: tuple[Proposer, ...] = Field(
        default=(),
        title="Proposers",
        description='Take turns, as [{"model": "openai:NAME", "temperature": 0.7}, ...]. Empty: the model above.',
    )
    operators: tuple[Operator, ...] = Field(
        default=("mutation", "crossover", "refinement"),
        title="Operators",
        description="Ways in which kernels are made of others. The first ones are translations; without any, all are.",
    )
    parents: int = Field(
        default=4, ge=1, le=64, title="Parents of a generation", description="Fast kernels, each unlike the others."
    )
    islands: int = Field(
        default=1,
        ge=1,
        le=16,
        title="Islands",
        description="Kernels have parents of their own alone. At most `proposals`.",
    )
    migration: int = Field(
        default=3, ge=1, le=1000, title="Migration", description="Every so many generations, between islands."
    )
    shown_kernels: int = Field(default=3, ge=0, le=16, title="Best kernels that a proposer is shown")
    archive: str = Field(
        default="",
        title="Archive",
        description="Judged kernels that runs and processes share: a SQLite file, or postgresql://... for machines. "
        "Empty: the cache's own; none: none.",
    )
    inspirations: int = Field(
        default=2, ge=0, le=8, title="Kernels of near tasks", description="Shown to proposers, out of the archive."
    )
    verifiers: tuple[Verifier, ...] = Field(
        default=("static",),
        title="Verifiers",
        description="Look at kernels before they are judged: static (warnings, machine code), sanitizers (one watched "
        "call), and by model compile, memory, numerics. They say in which order.",
    )
    clang_tidy: bool = Field(
        default=False,
        title="clang-tidy",
        description="The static verifier asks it, too, where it is found, of kernels for a processor; seconds each.",
    )
    drop_below: float = Field(
        default=0.05,
        ge=0,
        le=1,
        title="Drop below",
        description="A kernel to which the verifiers give a smaller probability of being right is not judged. 0: none.",
    )
    recommendations: bool = Field(
        default=True,
        title="Recommendations",
        description="Three of them for proposers, by a model, from the best kernel's profile. The playbook gives none.",
    )
    held_out: float = Field(
        default=0.25,
        ge=0,
        lt=1,
        title="Share of workloads kept from proposers",
        description="Of a task that has several; kernels are judged on all.",
    )


SHORT_NAMES = {"max_depth": "depth"}
"""What the Python API and the command line call a setting for short."""

Advance = Literal["best", "latest"]
ExemplarChoice = Literal["none", "representative", "retrieved"]
Diagnosed = Literal["when_needed", "every"]


class Gates(BaseModel):
    """From which depth on the optimizer is shown a profile, by the task's op class; earlier where it is stuck."""

    model_config = ConfigDict(frozen=True, extra="forbid", title="Profile from depth")

    gemm: int = Field(default=11, ge=0, title="GEMM family")
    elementwise: int = Field(default=1, ge=0, title="Elementwise")
    reduction: int = Field(default=4, ge=0, title="Reductions")
    other: int = Field(default=4, ge=0, title="Everything else")
    when_stuck: int | None = Field(
        default=2, ge=1, title="Earlier, after so many moves in a row without a gain", description="Empty: never."
    )

    def depth(self, op_class: OpClass) -> int:
        """The first depth whose pass is profiled."""
        gates: dict[OpClass, int] = {
            "gemm": self.gemm,
            "elementwise": self.elementwise,
            "reduction": self.reduction,
            "other": self.other,
        }
        return gates[op_class]


class Models(Group):
    """Who answers for the agents, and how it is asked."""

    model: str = Field(
        default="playbook",
        title="Model",
        description="playbook, openai:NAME[@URL], manual or replay:FILE, for each agent without a model of its own.",
    )
    generator_model: str = Field(default="", title="Generator's model", description="Empty: the model above.")
    diagnoser_model: str = Field(default="", title="Diagnoser's model", description="Empty: the model above.")
    repairer_model: str = Field(default="", title="Repairer's model", description="Empty: the model above.")
    optimizer_model: str = Field(default="", title="Optimizer's model", description="Empty: the model above.")
    optimizer_ensemble: tuple[str, ...] = Field(
        default=(),
        title="Ensemble of the optimizer",
        description="Models that race on each move, the cheapest first: the next is asked where what came before it "
        "won no brief head-to-head. Empty: the optimizer's model.",
    )
    verifier_model: str = Field(
        default="", title="Verifiers' model", description="Of an evolution's verifiers. Empty: the model above."
    )
    summarizer_model: str = Field(
        default="", title="Summarizer's model", description="Of an evolution's profiles. Empty: the model above."
    )
    reviewer_model: str = Field(
        default="",
        title="Reviewer's model",
        description="Plans each move and looks at what came of the last: its diff, machine code and verdict, not its "
        "author's words. Best another model than the authors'. Empty: no reviewer.",
    )
    fallback_model: str = Field(
        default="",
        title="Fall-back model",
        description="Goes on where an endpoint fails for good: openai:<model> or openai:<model>@<base URL>.",
    )
    base_url: str = Field(
        default="",
        title="Base URL",
        description="OpenAI-compatible endpoint, as http://localhost:8000/v1; else that of OPENAI_BASE_URL, or OpenAI.",
    )
    model_timeout_s: float = Field(default=1800.0, gt=0, title="Seconds one answer may take as a whole")
    model_silence_s: float = Field(
        default=600.0,
        gt=0,
        title="Seconds without a token",
        description="Of a streamed answer, its thoughts included: models that reason may need minutes for the first.",
    )
    model_retries: int = Field(
        default=10,
        ge=0,
        le=20,
        title="Retries of a model call that the endpoint failed",
        description="With growing pauses; ten of them take two to three minutes.",
    )
    max_answer_tokens: int | None = Field(
        default=None, ge=1, title="Tokens of one answer", description="Empty: what the endpoint allows."
    )
    reasoning_effort: Effort | None = Field(
        default=None, title="Reasoning effort", description="Empty: what the endpoint does unasked."
    )
    reasoning_efforts: dict[Voice, Effort] = Field(
        default={},
        title="Reasoning effort of single agents",
        description='Before the one above, as {"diagnoser": "low", "optimizer": "high"}.',
    )
    responses_api: bool = Field(
        default=False,
        title="Responses API",
        description="Endpoints are asked by OpenAI's Responses API, and keep nothing; else by chat completions.",
    )
    prompt_caching: PromptCaching = Field(
        default="unasked",
        title="Prompt caching",
        description="unasked: what the endpoint does by itself. key: a prompt_cache_key for each task. marks: a "
        "cache_control mark behind what stays (Anthropic's models, by chat completions).",
    )
    structured_outputs: bool = Field(
        default=False,
        title="Structured outputs",
        description="Agents that answer with one JSON object send its schema, to which the endpoint then holds them.",
    )
    requests_per_minute: float | None = Field(
        default=None, gt=0, title="Requests a minute", description="To one endpoint, by all runs side by side."
    )
    stream_answers: bool = Field(
        default=True, title="Stream answers", description="Off for a server that cannot stream tool calls."
    )
    temperature: float | None = Field(
        default=None, ge=0, le=2, title="Temperature", description="Empty: what the endpoint does unasked."
    )
    prices: dict[str, Price] = Field(
        default={},
        title="Prices",
        description="Dollars per million tokens, by model: input, output, cached. They come before the built-in table.",
    )


class Judging(Group):
    """What kernels compute, where they run, and what a verdict holds them to."""

    direction: Direction | None = Field(
        default=None,
        title="Direction",
        description="forward, backward (the gradients of inputs and parameters) or both. Empty: what the file says.",
    )
    target: TargetChoice = Field(
        default="auto", title="Target", description="auto takes cuda where a GPU answers, else cpu."
    )
    device: int = Field(
        default=0, ge=0, title="Device", description="Which of the target's devices, counted from 0: 1 is a second GPU."
    )
    precision: Precision = Field(
        default="default",
        title="Precision",
        description="Where a GPU may use TF32, candidate and reference both: default is PyTorch's own, in convolutions "
        "but not in products; ieee nowhere; tf32 in both.",
    )
    tolerance: float = Field(
        default=1.0,
        ge=1,
        le=1000,
        title="Tolerance",
        description="Accept errors so many times what PyTorch's own error allows.",
    )
    isolation: TierChoice = Field(
        default="auto",
        title="Isolation",
        description="What keeps kernels from doing harm; auto takes the strongest that works here.",
    )
    max_describe_s: float = Field(
        default=DESCRIBE_S,
        gt=0,
        title="Seconds for describing a task",
        description="Seconds for importing a task's file, making its inputs, running and tracing its forward.",
    )
    seed: int | None = Field(
        default=None,
        ge=0,
        lt=2**63,
        title="Seed",
        description="Draws the inputs that kernels are judged on; without one, new inputs for each kernel.",
    )
    sanitize: bool = Field(
        default=True,
        title="Sanitize the final kernel",
        description="Watch its every access for memory errors and races before it is reported.",
    )
    ablate_moves: bool = Field(
        default=False,
        title="Ablate the accepted moves",
        description="At the end take each back alone, and time the best kernel without it. A verdict each.",
    )
    serve_batches: bool = Field(
        default=True,
        title="Serve other batches",
        description="At the end of a task of one workload: is the kernel right at others, with the compiler's loops "
        "beside it where it is for one batch? A build and two verdicts.",
    )


class Search(Group):
    """What the agents are shown, and how often they may try."""

    exemplar: ExemplarChoice = Field(
        default="representative",
        title="Exemplar kernel",
        description="Finished kernel that writers are shown: the class's, or the one whose header fits the task best.",
    )
    max_tool_calls: int = Field(
        default=6,
        ge=0,
        le=100,
        title="Tool calls in one answer",
        description="How often a model may compile, run or look up before it answers. 0: without tools.",
    )
    max_sweep: int = Field(
        default=12,
        ge=1,
        le=100,
        title="Variants of one sweep",
        description="Combinations of parameters (tile, stages, block size) that one move may try. 1: no sweeps.",
    )
    max_repairs: int = Field(default=3, ge=0, le=100, title="Repairs in a row of one kernel")
    diagnose: Diagnosed = Field(
        default="when_needed",
        title="Failures that are diagnosed",
        description="every: each, before its repair. when_needed: a build that fails for the first time is repaired at "
        "once, by what the compiler says.",
    )
    first_inspirations: int = Field(
        default=0,
        ge=0,
        le=8,
        title="Kernels of near tasks for the generator",
        description="Shown to it, out of the archive of evolutions.",
    )
    lessons: int = Field(
        default=0,
        ge=0,
        le=8,
        title="Lessons",
        description="Judged moves on near tasks, out of the archive, shown to the optimizer in 400 tokens at most; the "
        "run's own moves go into it. 0: neither.",
    )
    max_regenerations: int = Field(
        default=2, ge=0, le=100, title="Regenerations", description="New starts while no kernel has passed yet."
    )
    max_reasks: int = Field(
        default=2, ge=0, le=20, title="Re-asks", description="How often an unusable answer goes back to the model."
    )
    profile_from_depth: Gates = Field(
        default=Gates(), title="Profile from depth", description="Before it, the optimizer never sees a profile."
    )
    advance: Advance = Field(
        default="best", title="Optimize from", description="The best kernel so far, or the latest that passed."
    )
    approve_best: bool = Field(
        default=False,
        title="Approve each new best",
        description="A run of `cutegen optimize` waits, before it keeps one, until somebody accepts or rejects it.",
    )


class Budgets(Group):
    """What ends a run. Each may be raised on resume; one that is empty is unlimited."""

    max_depth: int = Field(
        default=12, ge=0, le=1000, title="Depth", description="Optimizations that pass before the run ends."
    )
    generations: int = Field(
        default=10, ge=1, le=10_000, title="Generations", description="Of an evolution, before it ends."
    )
    max_attempts: int = Field(
        default=60,
        ge=1,
        le=10_000,
        title="Attempts",
        description="Kernels tested before the run ends; each variant of a sweep that ran is one.",
    )
    patience: int | None = Field(
        default=None,
        ge=1,
        title="Patience",
        description="End after so many optimizations in a row, failed ones included, without a gain; else never.",
    )
    target_speedup: float | None = Field(
        default=None, gt=0, title="Target speed-up", description="End when the best kernel's interval lies above it."
    )
    roof_share: float | None = Field(
        default=None,
        gt=0,
        le=1,
        title="Share of the roof",
        description="End when the best kernel's profile reaches it.",
    )
    max_wall_s: float = Field(
        default=3600.0,
        gt=0,
        title="Seconds in all",
        description="Counted across resumes. Of a whole model: all of the wait, its acceptance too.",
    )
    max_device_s: float = Field(
        default=1800.0,
        gt=0,
        title="Device seconds",
        description="Of kernels that run or are profiled; waits do not count.",
    )
    max_tokens: int = Field(default=5_000_000, ge=1, title="Tokens", description="Prompts and answers together.")
    max_dollars: float = Field(
        default=20.0,
        gt=0,
        title="Dollars",
        description="Of the calls whose price is known, by the endpoint or a table.",
    )
    max_calls: int = Field(default=2000, ge=1, title="Model calls", description="Re-asks and tool rounds included.")
    max_builds: int = Field(
        default=1000,
        ge=1,
        title="Builds",
        description="Kernels given to the compiler, those that the models try out included.",
    )


class Settings(Evolution, Budgets, Search, Judging, Models):
    """Everything that a run is asked and allowed; pydantic puts the fields of the last group first."""

    model_config = ConfigDict(title="Settings")

    run_dir: str | None = Field(
        default=None, title="Run folder", description="Where the conversation is recorded. Empty: nowhere."
    )

    @classmethod
    def groups(cls) -> Iterator[type[Group]]:
        """The groups, in the order of their fields."""
        return reversed([base for base in cls.__bases__ if issubclass(base, Group)])

    def model_for(self, role: Voice) -> str:
        """The model that one agent speaks to."""
        return str(getattr(self, self.model_setting(role)))

    @classmethod
    def model_settings(cls) -> list[str]:
        """The settings that name a model."""
        return [name for name in cls.model_fields if name == "model" or name.endswith("_model")]

    def model_setting(self, role: Voice) -> str:
        """The setting that names the model of one agent; who has none of its own speaks to the model of all."""
        own = f"{role}_model"
        return own if getattr(self, own, "") else "model"

    def addresses(self) -> dict[str, list[str]]:
        """The web addresses that settings name, by setting."""
        named = {name: own_addresses(getattr(self, name)) for name in self.model_settings()}
        proposing = [address for each in self.proposers for address in own_addresses(each.model)]
        racing = [address for each in self.optimizer_ensemble for address in own_addresses(each)]
        return {
            "base_url": [self.base_url] if self.base_url else [],
            **named,
            "proposers": proposing,
            "optimizer_ensemble": racing,
        }

    def ensemble(self) -> tuple[Proposer, ...]:
        """Who proposes kernels in an evolution; there is at least one."""
        return self.proposers or (Proposer(model=self.model),)

    def as_proposer(self, proposer: Proposer) -> Settings:
        """These settings with one proposer as every agent's model."""
        own = {name: "" for name in self.model_settings() if name.endswith("_model") and name != "fallback_model"}
        warmth = self.temperature if proposer.temperature is None else proposer.temperature
        return self.model_copy(update=own | {"model": proposer.model, "temperature": warmth})
