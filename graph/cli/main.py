"""The command line. Only what `--help` needs is imported here: a command imports its work when it is called."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from nodes.roles import Speaker

EXIT_CODES = """Exit codes: 0 a faster kernel was found (verify: it passed; check-task: it is sound);
1 nothing faster (verify: it did not pass; check-task: it is degenerate);
2 something is wrong with what you gave; 3 something is wrong with this machine; 4 a question waits for its
answer; 70 a defect of cutegen's own; 130 interrupted."""

app = typer.Typer(
    name="cutegen",
    help="Give it a PyTorch module; get back a verified, faster drop-in whose hot operators are CuTe kernels.",
    epilog=EXIT_CODES,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)


Target = Annotated[Literal["auto", "cpu", "cuda"], typer.Option(help="auto takes cuda where a GPU answers, else cpu.")]
Isolation = Annotated[
    Literal["auto", "bubblewrap", "landlock", "none"], typer.Option(help="auto takes the strongest that works here.")
]
Exemplar = Annotated[
    Literal["none", "representative", "retrieved"], typer.Option(help="Which finished kernel to show for a GPU.")
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object; progress goes to stderr.")]
Model = Annotated[str, typer.Option(help="playbook, openai:NAME, manual or replay:FILE.")]
BaseUrl = Annotated[str, typer.Option(help="An OpenAI-compatible endpoint for openai:NAME.")]
Scale = Annotated[float, typer.Option(min=1e-4, max=64.0, help="Sizes times this, for a smaller card.")]
Patience = Annotated[
    int | None,
    typer.Option(min=1, help="End a run after so many optimizations without a gain.", show_default="never"),
]
CompileBaseline = Annotated[
    bool, typer.Option("--compile-baseline", help="Also time torch.compile's version in the same rounds.")
]
Caller = Annotated[bool, typer.Option("--caller", help="Also time the exported drop-in as its caller meets it.")]
More = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="Any other setting, as often as needed: see `cutegen settings`."),
]
Seed = Annotated[
    int | None,
    typer.Option(min=0, help="Seed of the inputs that kernels are judged on.", show_default="new for each kernel"),
]


def _settings(target: Target, model: Model, base_url: BaseUrl, depth: int, isolation: Isolation) -> dict[str, Any]:
    """What the commands that run the agents have options for alike, by the settings' names."""
    return {"target": target, "model": model, "base_url": base_url, "max_depth": depth, "isolation": isolation}


def _typed(context: typer.Context) -> frozenset[str]:
    """The settings that the command line names, whatever it says of them."""
    sources = {name: context.get_parameter_source(name) for name in context.params}
    typed = (name for name, source in sources.items() if source is not None and source.name == "COMMANDLINE")
    return frozenset("max_depth" if name == "depth" else name for name in typed)


def _version(wanted: bool) -> None:
    if wanted:
        from graph.runs.machine import cutegen_version

        typer.echo(f"cutegen {cutegen_version()}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Read the options before the command."""


@app.command(epilog=EXIT_CODES)
def optimize(
    context: typer.Context,
    file: Annotated[
        Path | None,
        typer.Argument(help="A Python file with class Model, get_inputs() and get_init_inputs().", show_default=False),
    ] = None,
    target: Target = "auto",
    model: Model = "playbook",
    base_url: BaseUrl = "",
    depth: Annotated[int, typer.Option(min=0, max=1000, help="Optimizations that pass before the run ends.")] = 12,
    out: Annotated[Path | None, typer.Option(help="Folder of the artifacts.", show_default="runs/<task>-<id>")] = None,
    resume: Annotated[
        Path | None, typer.Option(help="Go on with the run in this folder, with its own settings.", show_default=False)
    ] = None,
    trust: Annotated[
        bool,
        typer.Option("--trust", help="Resume a folder from elsewhere that runs kernels unisolated or sends a key."),
    ] = False,
    seed: Seed = None,
    isolation: Isolation = "auto",
    more: More = None,
    json: Json = False,
) -> None:
    """Write, check and speed up a kernel for the module in FILE."""
    from graph.cli.optimize import Options, run

    raise typer.Exit(
        run(
            Options(
                file=file,
                resume=resume,
                out=out,
                as_json=json,
                more=tuple(more or ()),
                typed=_typed(context),
                trust=trust,
                settings=_settings(target, model, base_url, depth, isolation) | {"seed": seed},
            )
        )
    )


@app.command(epilog=EXIT_CODES)
def answer(
    run: Annotated[Path, typer.Argument(help="The folder of a run that began with --model manual.")],
    file: Annotated[
        Path | None,
        typer.Argument(
            help="The answer; - reads it from stdin. Without one the question is shown.", show_default=False
        ),
    ] = None,
    edit: Annotated[bool, typer.Option("--edit", help="Write the answer in $EDITOR.")] = False,
    json: Json = False,
) -> None:
    """Show the question that a run waits with, or answer it and go on to the next."""
    from graph.cli.answer import run as work

    raise typer.Exit(work(run, file, edit=edit, as_json=json))


@app.command(epilog=EXIT_CODES)
def suite(
    context: typer.Context,
    name: Annotated[
        str | None, typer.Argument(help="A bundled suite (level1) or a folder of task files.", show_default=False)
    ] = None,
    ids: Annotated[str, typer.Option(help="Only these tasks, as 1-18,23.", show_default="all")] = "",
    scale: Scale = 1.0,
    target: Target = "auto",
    model: Model = "playbook",
    base_url: BaseUrl = "",
    depth: Annotated[int, typer.Option(min=0, max=1000, help="Optimizations a task, at most.")] = 12,
    patience: Patience = None,
    jobs: Annotated[
        int | None,
        typer.Option(min=1, max=256, help="Tasks side by side.", show_default="8 on a GPU, 1 on cpu"),
    ] = None,
    minutes: Annotated[
        float | None, typer.Option(min=0.0, help="Then end after the present steps.", show_default=False)
    ] = None,
    dollars: Annotated[
        float | None, typer.Option(min=0.0, help="Then end after the present steps, too.", show_default=False)
    ] = None,
    compile_baseline: CompileBaseline = False,
    out: Annotated[Path | None, typer.Option(help="Folder of the results.", show_default="runs/<suite>-<id>")] = None,
    resume: Annotated[
        Path | None, typer.Option(help="Go on with the suite in this folder.", show_default=False)
    ] = None,
    isolation: Isolation = "auto",
    more: More = None,
    json: Json = False,
) -> None:
    """Take many tasks through the agents, and put what comes out into one table."""
    from graph.cli.suite import Options, run

    raise typer.Exit(
        run(
            Options(
                suite=name,
                ids=ids,
                scale=scale,
                resume=resume,
                out=out,
                jobs=jobs,
                minutes=minutes,
                dollars=dollars,
                compile_baseline=compile_baseline,
                as_json=json,
                more=tuple(more or ()),
                typed=_typed(context),
                settings=_settings(target, model, base_url, depth, isolation) | {"patience": patience},
            )
        )
    )


@app.command(epilog=EXIT_CODES)
def ablate(
    context: typer.Context,
    task: Annotated[
        str | None, typer.Argument(help="A task file, or one of a suite, as level1:8.", show_default=False)
    ] = None,
    profile_from: Annotated[str, typer.Option(help="The depths from which a profile is shown.")] = "1,11",
    scale: Scale = 1.0,
    target: Target = "auto",
    model: Model = "playbook",
    base_url: BaseUrl = "",
    depth: Annotated[int, typer.Option(min=0, max=1000, help="Optimizations a run, at most.")] = 14,
    out: Annotated[
        Path | None, typer.Option(help="Folder of the results.", show_default="runs/ablate-<task>-<id>")
    ] = None,
    resume: Annotated[
        Path | None, typer.Option(help="Go on with the ablation in this folder.", show_default=False)
    ] = None,
    isolation: Isolation = "auto",
    more: More = None,
    json: Json = False,
) -> None:
    """Run TASK with the profiler's gate at several depths, and draw the trajectories side by side."""
    from graph.cli.ablate import Options, run

    raise typer.Exit(
        run(
            Options(
                task=task,
                profile_from=profile_from,
                scale=scale,
                out=out,
                resume=resume,
                as_json=json,
                more=tuple(more or ()),
                typed=_typed(context),
                settings=_settings(target, model, base_url, depth, isolation),
            )
        )
    )


@app.command(epilog=EXIT_CODES)
def verify(
    kernel: Annotated[Path, typer.Argument(help="A kernel's C++ or CUDA source, or a Python file with ModelNew.")],
    file: Annotated[Path, typer.Argument(help="The Python file with the reference module.")],
    target: Target = "auto",
    seed: Seed = None,
    isolation: Isolation = "auto",
    tolerance: Annotated[
        float, typer.Option(min=1, max=1000, help="Accept errors so many times what PyTorch's own error allows.")
    ] = 1.0,
    sanitize: Annotated[
        bool, typer.Option("--sanitize", help="Also watch every access for memory errors and races.")
    ] = False,
    compile_baseline: CompileBaseline = False,
    caller: Caller = False,
    json: Json = False,
) -> None:
    """Judge KERNEL against the module in FILE: is it right, and how fast?"""
    from graph.cli.verify import run

    raise typer.Exit(
        run(
            kernel,
            file,
            target=target,
            seed=seed,
            isolation=isolation,
            tolerance=tolerance,
            sanitize=sanitize,
            compile_baseline=compile_baseline,
            caller=caller,
            as_json=json,
        )
    )


@app.command(name="check-task", epilog=EXIT_CODES)
def check_task(
    file: Annotated[Path, typer.Argument(help="The Python file with the reference module.")],
    isolation: Isolation = "auto",
    json: Json = False,
) -> None:
    """Say whether the module in FILE is worth a kernel: do its outputs vary, is it exact, what does it cost?"""
    from graph.cli.check_task import run

    raise typer.Exit(run(file, isolation=isolation, as_json=json))


@app.command(epilog=EXIT_CODES)
def prompts(
    path: Annotated[Path, typer.Argument(help="A task's file, or the folder of a run.")],
    target: Target = "auto",
    role: Annotated[Speaker | None, typer.Option(help="Only this agent's.", show_default="all four")] = None,
    exemplar: Exemplar = "representative",
    tokens: Annotated[bool, typer.Option("--tokens", help="Only how many tokens they are, about.")] = False,
    json: Json = False,
) -> None:
    """Show what each agent's model is told for the task in PATH, or was told last in the run there."""
    from graph.cli.prompts import run

    raise typer.Exit(
        run(
            path,
            target=target,
            role=role,
            exemplar=exemplar,
            tokens=tokens,
            as_json=json,
        )
    )


@app.command()
def settings(json: Json = False) -> None:
    """List every setting that --set takes; the other options are settings, too."""
    from graph.cli.settings import run

    raise typer.Exit(run(as_json=json))


@app.command()
def doctor(
    model: Model = "playbook",
    base_url: BaseUrl = "",
    more: More = None,
    json: Json = False,
) -> None:
    """Say what is found and what to do about the rest, for a run with these models. Exits 3 where it cannot be had."""
    from graph.cli.doctor import run

    raise typer.Exit(run({"model": model, "base_url": base_url}, tuple(more or ()), as_json=json))


if __name__ == "__main__":
    app()
