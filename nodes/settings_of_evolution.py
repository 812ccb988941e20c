"""How an evolution searches, and who proposes kernels in it."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from nodes.settings_group import Group
from tools.opinions import Verifier

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
