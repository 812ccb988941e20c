"""The options of each command, spelt once. Those that are settings are only named: the rest about them is theirs.

`--help` needs this module, so that nothing heavy is imported here.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar, Literal

import typer

from graph.offers import AblationSettings, EvolutionSettings, Given, Offer, RunSettings, SuiteSettings, VerdictSettings
from harness.nouns.errors import UserError
from nodes.roles import Speaker


class Existing:
    """A path that has to be there. Where it is not, that is said before the imports of the command's work.

    `others` are the further places where it is looked for.
    """

    def __init__(self, what: str, remedy: str, others: Callable[[str], tuple[str, ...]] = lambda _: ()) -> None:
        self._what, self._remedy, self._others = what, remedy, others

    def require(self, given: str | Path | None) -> None:
        """Raises `UserError` where nothing lies there."""
        if given is not None and not any(map(os.path.lexists, (given, *self._others(str(given))))):
            raise UserError(f"There is no {self._what} {given}.", self._remedy)


TASK = Existing("file", "Name a Python file with class Model.")
MODEL = Existing(
    "file",
    "Name a Python file with class Model, FILE:FUNCTION of a script, or a Hugging Face config.json.",
    lambda given: (given.rpartition(":")[0],),
)
RUN = Existing("run", "Name the folder that an earlier run printed.", lambda given: (f"runs/{given}",))


Module = Annotated[
    Path, typer.Argument(help="The Python file with the reference module, or a robust-kbench folder."), TASK
]
Scale = Annotated[float, typer.Option(min=1e-4, max=64.0, help="Sizes times this, for a smaller card.")]
CompileBaseline = Annotated[
    bool, typer.Option("--compile-baseline", help="Also time torch.compile's version in the same rounds.")
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object; progress goes to stderr.")]


@dataclass(frozen=True, kw_only=True)
class Optimize:
    """Of `cutegen optimize`."""

    file: Annotated[
        Path | None,
        typer.Argument(help="A Python file with class Model, get_inputs() and get_init_inputs().", show_default=False),
        TASK,
    ] = None
    settings: RunSettings
    out: Annotated[Path | None, typer.Option(help="Folder of the artifacts.", show_default="runs/<task>-<id>")] = None
    resume: Annotated[
        Path | None,
        typer.Option(help="Go on with the run in this folder, with its own settings.", show_default=False),
        RUN,
    ] = None
    trust: Annotated[
        bool,
        typer.Option("--trust", help="Trust a copied run folder whose settings disable isolation or send API keys."),
    ] = False
    compile_baseline: Annotated[
        bool | None,
        typer.Option(help="At the end also time torch.compile's version.", show_default="on a GPU"),
    ] = None
    json: Json = False


@dataclass(frozen=True, kw_only=True)
class Model:
    """Of `cutegen model`."""

    file: Annotated[
        str | None,
        typer.Argument(
            help="A Python file with class Model, FILE:FUNCTION that returns a module and its inputs, or the "
            "config.json of a Hugging Face model.",
            show_default=False,
        ),
        MODEL,
    ] = None
    plan: Annotated[bool, typer.Option("--plan", help="Stop at the table of regions, before any kernel.")] = False
    batch: Annotated[int | None, typer.Option(min=1, help="With a config.json.", show_default="1")] = None
    tokens: Annotated[int | None, typer.Option(min=1, help="With a config.json.", show_default="128")] = None
    compile_baseline: Annotated[
        bool, typer.Option(help="Time torch.compile's versions of the whole in the same rounds.")
    ] = True
    assembly: Annotated[
        bool,
        typer.Option(
            "--assembly",
            help="Run the exported operations one by one, on a GPU as a CUDA graph, instead of having Inductor compile "
            "what is around the kernels.",
        ),
    ] = False
    settings: RunSettings
    out: Annotated[Path | None, typer.Option(help="Folder of the artifacts.", show_default="runs/<model>-<id>")] = None
    resume: Annotated[Path | None, typer.Option(help="Go on with the model in this folder.", show_default=False)] = None
    json: Json = False


@dataclass(frozen=True, kw_only=True)
class Evolve(Optimize):
    """Of `cutegen evolve`."""

    settings: EvolutionSettings


@dataclass(frozen=True, kw_only=True)
class Assistants:
    """Of `cutegen assistants`."""

    url: Annotated[str, typer.Argument(help="Address of the server.")] = "http://127.0.0.1:2024"
    json: Json = False


@dataclass(frozen=True, kw_only=True)
class Answer:
    """Of `cutegen answer`."""

    run: Annotated[Path, typer.Argument(help="The folder of a run that asks: by --model manual, or for approval."), RUN]
    file: Annotated[
        Path | None,
        typer.Argument(
            help="The answer; - reads it from stdin. Without one the question is shown.", show_default=False
        ),
    ] = None
    edit: Annotated[bool, typer.Option("--edit", help="Write the answer in $EDITOR.")] = False
    json: Json = False


@dataclass(frozen=True, kw_only=True)
class Suite:
    """Of `cutegen suite`."""

    name: Annotated[
        str | None,
        typer.Argument(help="A bundled suite (level1, robust, sixteen_bit) or a folder of files.", show_default=False),
    ] = None
    ids: Annotated[str, typer.Option(help="Only these tasks, as 1-18,23.", show_default="all")] = ""
    scale: Scale = 1.0
    each_workload: Annotated[
        bool, typer.Option("--each-workload", help="A kernel for each workload of a task.", show_default=False)
    ] = False
    settings: SuiteSettings
    jobs: Annotated[
        int | None,
        typer.Option(min=1, max=256, help="Tasks side by side.", show_default="8 on a GPU, 1 on cpu"),
    ] = None
    pool: Annotated[
        bool, typer.Option("--pool", help="Share the tasks among all GPUs of this machine.", show_default=False)
    ] = False
    minutes: Annotated[
        float | None,
        typer.Option(min=0.0, help="Stop after this many minutes; running steps finish first.", show_default=False),
    ] = None
    dollars: Annotated[
        float | None,
        typer.Option(
            min=0.0, help="Stop at this cost of all tasks' models; running steps finish first.", show_default=False
        ),
    ] = None
    compile_baseline: CompileBaseline = False
    out: Annotated[Path | None, typer.Option(help="Folder of the results.", show_default="runs/<suite>-<id>")] = None
    resume: Annotated[Path | None, typer.Option(help="Go on with the suite in this folder.", show_default=False)] = None
    json: Json = False


@dataclass(frozen=True, kw_only=True)
class Ablate:
    """Of `cutegen ablate`."""

    task: Annotated[
        str | None, typer.Argument(help="A task file, or one of a suite, as level1:8.", show_default=False)
    ] = None
    profile_from: Annotated[str, typer.Option(help="The depths from which a profile is shown.")] = "1,11"
    by_lessons: Annotated[
        str | None,
        typer.Option(help="Instead: how many lessons of other runs are shown, as 0,3.", show_default=False),
    ] = None
    scale: Scale = 1.0
    settings: AblationSettings
    out: Annotated[Path | None, typer.Option(help="Folder of the results.", show_default="runs/ablate-<task>-<id>")] = (
        None
    )
    resume: Annotated[Path | None, typer.Option(help="Go on with the ablation in this folder.", show_default=False)] = (
        None
    )
    json: Json = False


@dataclass(frozen=True, kw_only=True)
class Compare:
    """Of `cutegen compare`."""

    first: Annotated[Path, typer.Argument(help="The folder of a run."), RUN]
    second: Annotated[Path, typer.Argument(help="The folder of another one."), RUN]
    out: Annotated[
        Path | None, typer.Option(help="Also write a page with the kernels side by side.", show_default=False)
    ] = None
    json: Json = False


@dataclass(frozen=True, kw_only=True)
class Watch:
    """Of `cutegen watch`."""

    folder: Annotated[
        Path | None,
        typer.Argument(help="The folder of a run, a model or a suite.", show_default="the newest in runs/"),
        RUN,
    ] = None
    port: Annotated[int, typer.Option(min=0, max=65535, help="On 127.0.0.1.", show_default="any that is free")] = 0
    json: ClassVar[bool] = False


@dataclass(frozen=True, kw_only=True)
class Verify:
    """Of `cutegen verify`."""

    kernel: Annotated[
        Path,
        typer.Argument(help="A kernel's C++ or CUDA source, or a Python file with ModelNew."),
        Existing("file", "Name a kernel: a C++ or CUDA source, or a Python file with class ModelNew."),
    ]
    file: Module
    settings: VerdictSettings
    sanitize: Annotated[
        bool, typer.Option("--sanitize", help="Also watch every access for memory errors and races.")
    ] = False
    compile_baseline: CompileBaseline = False
    caller: Annotated[bool, typer.Option("--caller", help="Also time the exported drop-in as its caller meets it.")] = (
        False
    )
    batches: Annotated[bool, typer.Option("--batches", help="Also try it at other batches than the file's.")] = False
    json: Json = False


@dataclass(frozen=True, kw_only=True)
class CheckTask:
    """Of `cutegen check-task`."""

    file: Module
    settings: Annotated[Given, Offer("isolation", "direction", "max_describe_s")]
    json: Json = False


@dataclass(frozen=True, kw_only=True)
class Verifiers:
    """Of `cutegen verifiers`."""

    action: Annotated[
        Literal["bench"], typer.Argument(help="bench: show them right kernels, and mutants that the judge finds wrong.")
    ]
    mutants: Annotated[int, typer.Option(min=1, max=100, help="Of each right kernel.")] = 3
    settings: Annotated[Given, Offer("target", "isolation", "model", "base_url", others=True)]
    jobs: Annotated[
        int | None,
        typer.Option(min=1, max=256, help="Kernels built, and judged, at once.", show_default="the machine's cores"),
    ] = None
    without_sanitizers: Annotated[
        bool, typer.Option("--without-sanitizers", help="Leave them out; a later call without it adds what they say.")
    ] = False
    minutes: Annotated[
        float | None, typer.Option(min=0, help="End after so long; the same command goes on.", show_default="none")
    ] = None
    out: Annotated[
        Path | None,
        typer.Option(
            help="Folder of what was judged, and matrix.md; a second go does not judge it again.",
            show_default="runs/verifiers-<target>",
        ),
    ] = None
    json: Json = False


@dataclass(frozen=True, kw_only=True)
class Prompts:
    """Of `cutegen prompts`."""

    path: Annotated[Path, typer.Argument(help="A task's file, or the folder of a run."), TASK]
    settings: Annotated[Given, Offer("target", "exemplar", "direction")]
    role: Annotated[Speaker | None, typer.Option(help="Only this agent's.", show_default="all four")] = None
    tokens: Annotated[bool, typer.Option("--tokens", help="Only how many tokens they are, about.")] = False
    json: Json = False


@dataclass(frozen=True, kw_only=True)
class ListSettings:
    """Of `cutegen settings`."""

    name: Annotated[
        str | None, typer.Argument(help="Show this one in full.", metavar="NAME", show_default="list them all")
    ] = None
    search: Annotated[str, typer.Option(metavar="WORD", help="Only settings with this word.", show_default=False)] = ""
    markdown: Annotated[bool, typer.Option("--markdown", help="Print docs/settings.md.")] = False
    json: Json = False


@dataclass(frozen=True, kw_only=True)
class Doctor:
    """Of `cutegen doctor`."""

    settings: Annotated[Given, Offer("model", "base_url", others=True)]
    json: Json = False


@dataclass(frozen=True, kw_only=True)
class Mcp:
    """Of `cutegen mcp`."""

    settings: Annotated[Given, Offer("target", "isolation", "precision", "tolerance", "device", "max_describe_s")]
    port: Annotated[
        int | None,
        typer.Option(min=0, max=65535, help="Answer over HTTP, at /mcp.", show_default="over stdin and stdout"),
    ] = None
    host: Annotated[str, typer.Option(help="Where to listen; beyond this machine only with CUTEGEN_MCP_TOKEN.")] = (
        "127.0.0.1"
    )
    out: Annotated[Path, typer.Option(help="Folder of the exported kernels.")] = Path("kernels")
    json: ClassVar[bool] = False


@dataclass(frozen=True, kw_only=True)
class Skill:
    """Of `cutegen skill`."""

    action: Annotated[
        Literal["print", "install"], typer.Argument(help="Show it, or put it where an agent looks for skills.")
    ] = "print"
    agent: Annotated[
        Literal["claude", "codex", "cursor", "opencode"] | None,
        typer.Option("--for", help="With install: which agent."),
    ] = None
    user: Annotated[bool, typer.Option("--user", help="With install: for all projects, in your home folder.")] = False
    json: ClassVar[bool] = False


# -- What each command takes that hands kernels to other tools --------------------------------------------------------


BenchSettings = Annotated[
    Given, Offer("target", "model", "base_url", "max_depth", "isolation", "patience", others=True, target="cuda")
]


@dataclass(frozen=True, kw_only=True)
class Bench:
    """Of `cutegen bench`."""

    benchmark: Annotated[Literal["kernelbench"], typer.Argument(help="Whose tasks and evaluator.")]
    level: Annotated[int, typer.Option(min=1, max=3, help="Of the benchmark.")] = 1
    ids: Annotated[str, typer.Option(help="Only these tasks, as 1-18,23.", show_default="all")] = ""
    tasks: Annotated[int | None, typer.Option(min=1, help="So many tasks, drawn.", show_default="all")] = None
    draw: Annotated[int, typer.Option(help="The seed of that draw.")] = 0
    kernelbench: Annotated[
        Path | None, typer.Option(help="A checkout of KernelBench.", show_default="$CUTEGEN_KERNELBENCH")
    ] = None
    suite: Annotated[
        Path | None, typer.Option(help="Score the suite in this folder, and run none.", show_default=False)
    ] = None
    backend: Annotated[
        Literal["cuda", "triton", "tilelang", "cute"],
        typer.Option(help="Of its evaluator; all but cuda load an export from a temporary file."),
    ] = "cuda"
    settings: BenchSettings
    jobs: Annotated[
        int | None, typer.Option(min=1, max=256, help="Runs side by side.", show_default="as cutegen suite")
    ] = None
    evaluators: Annotated[
        int, typer.Option(min=1, max=16, help="Evaluators side by side; one at a time has the GPU.")
    ] = 1
    minutes: Annotated[float | None, typer.Option(min=0.0, help="Then begin nothing more.", show_default=False)] = None
    out: Annotated[
        Path | None, typer.Option(help="Folder of the suite.", show_default="runs/kernelbench-level<n>-<time>")
    ] = None
    json: Json = False


@dataclass(frozen=True, kw_only=True)
class Export:
    """Of `cutegen export`."""

    run: Annotated[Path, typer.Argument(help="The folder of a run with a kernel.")]
    form: Annotated[
        Literal["folder", "kernelbench", "robust-kbench", "hf-kernels", "torch-extension"],
        typer.Option(help="What takes it: see docs/exports.md."),
    ] = "folder"
    backward: Annotated[
        Path | None,
        typer.Option(help="A run of the same module with --direction backward: its kernel goes in, too."),
    ] = None
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Folder of the export.", show_default="exports/<task>-<form>"),
    ] = None
    json: Json = False
