"""The command line. Only what `--help` needs is imported here: a command imports its work when it is called."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, TypeVar

import typer

from graph.cli import options as of
from graph.cli.command import LateCommand, Options, function_of

EXIT_CODES = """Exit codes: 0 a faster kernel was found (verify: it passed; check-task: it is sound;
verifiers: they caught half of the bad kernels and rejected no good one);
1 nothing faster (verify: it did not pass; check-task: it is degenerate);
2 something is wrong with what you gave; 3 something is wrong with this machine; 4 a question waits for its
answer; 70 a defect of cutegen's own; 130 interrupted."""

Chosen = TypeVar("Chosen", bound=Options)
Work = Callable[[Chosen], int]

app = typer.Typer(
    name="cutegen",
    help="Give it a PyTorch module; get back a verified, faster drop-in whose hot operators are CuTe kernels.",
    epilog=EXIT_CODES,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)


def command(name: str, options: type[Chosen]) -> Callable[[Work[Chosen]], Work[Chosen]]:
    """Make a command of a function that takes its options and returns its exit code; its docstring is the help."""

    def register(work: Work[Chosen]) -> Work[Chosen]:
        app.command(name, help=work.__doc__, epilog=EXIT_CODES, cls=LateCommand)(lambda: function_of(options, work))
        return work

    return register


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


@command("optimize", of.Optimize)
def optimize(options: of.Optimize) -> int:
    """Write, check and speed up a kernel for the module in FILE."""
    from graph.cli.optimize import run

    return run(options)


@command("model", of.Model)
def model(options: of.Model) -> int:
    """Make a whole model faster: find the regions that are worth a kernel, and put in those that gain inside it."""
    from graph.cli.model import run

    return run(options)


@command("evolve", of.Evolve)
def evolve(options: of.Evolve) -> int:
    """Search for the fastest kernel for the module in FILE by generations of proposals."""
    from graph.cli.optimize import work

    return work("evolve", options)


@command("answer", of.Answer)
def answer(options: of.Answer) -> int:
    """Show the question that a run waits with, or answer it and go on to the next."""
    from graph.cli.answer import run

    return run(options)


@command("suite", of.Suite)
def suite(options: of.Suite) -> int:
    """Take many tasks through the agents, and put what comes out into one table."""
    from graph.cli.suite import run

    return run(options)


@command("bench", of.Bench)
def bench(options: of.Bench) -> int:
    """Run a benchmark's tasks as a suite, and score what comes out with the benchmark's own evaluator.

    Kernels are not tried at other batches: `--set serve_batches=true` does that.
    """
    from graph.cli.bench import run

    return run(options)


@command("ablate", of.Ablate)
def ablate(options: of.Ablate) -> int:
    """Run TASK with the profiler's gate at several depths, or several numbers of lessons, and draw the trajectories."""
    from graph.cli.ablate import run

    return run(options)


@command("watch", of.Watch)
def watch(options: of.Watch) -> int:
    """Show a run, a model or a suite as a page that grows meanwhile, whoever started it, on this machine alone."""
    from graph.cli.watch import run

    return run(options)


@command("compare", of.Compare)
def compare(options: of.Compare) -> int:
    """Hold two runs beside each other: is it the same task, what was set otherwise, which kernel is faster?"""
    from graph.cli.compare import run

    return run(options)


@command("export", of.Export)
def export(options: of.Export) -> int:
    """Write a run's kernel in a form that another tool takes."""
    from graph.cli.export import run

    return run(options)


@command("verify", of.Verify)
def verify(options: of.Verify) -> int:
    """Judge KERNEL against the module in FILE: is it right, and how fast?"""
    from graph.cli.verify import run

    return run(options)


@command("check-task", of.CheckTask)
def check_task(options: of.CheckTask) -> int:
    """Say whether the module in FILE is worth a kernel: do its outputs vary, is it exact, what does it cost?"""
    from graph.cli.check_task import run

    return run(options)


@command("verifiers", of.Verifiers)
def verifiers(options: of.Verifiers) -> int:
    """Measure who looks at kernels before the judge: what of a corpus of right and wrong ones would be dropped?"""
    from graph.cli.verifiers import run

    return run(options)


@command("prompts", of.Prompts)
def prompts(options: of.Prompts) -> int:
    """Print each agent's prompt for the task in PATH, or its last prompt of the run there."""
    from graph.cli.prompts import run

    return run(options)


@command("settings", of.ListSettings)
def settings(options: of.ListSettings) -> int:
    """List every setting that --set takes; the other options are settings, too."""
    from graph.cli.settings import run

    return run(options)


@command("mcp", of.Mcp)
def mcp(options: of.Mcp) -> int:
    """Offer the judge to coding agents: a Model Context Protocol server."""
    from graph.cli.mcp import run

    return run(options)


@command("assistants", of.Assistants)
def assistants(options: of.Assistants) -> int:
    """Create preset assistants (cpu, GPU, thorough, cheap) on a server; $CUTEGEN_SERVER_TOKEN is its token."""
    from graph.cli.assistants import run

    return run(options)


@command("skill", of.Skill)
def skill(options: of.Skill) -> int:
    """Teach a coding agent how to work with the judge."""
    from graph.cli.skill import run

    return run(options)


@command("doctor", of.Doctor)
def doctor(options: of.Doctor) -> int:
    """Say what is found and what to do about the rest, for a run with these models. Exits 3 where it cannot be had."""
    from graph.cli.doctor import run

    return run(options)


if __name__ == "__main__":
    app()
