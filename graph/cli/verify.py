"""`cutegen verify`: one kernel, one verdict."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from graph.cli.errors import IMPROVED, NOTHING_FASTER
from graph.cli.options import Verify
from graph.pages.kernel_changes import WorstError, worst_errors
from graph.runs.progress import waiting
from graph.runs.tables import Sheet, drawn
from graph.verify import verify
from harness.nouns.verdict import Verdict
from tools.wording import (
    say_compiled,
    say_headline,
    say_oracle,
    say_other_clocks,
    say_sanitizers,
    say_tolerance,
    say_trials,
)


def run(options: Verify) -> int:
    """Do the command; its exit code."""
    with waiting("judging"):
        verdict = verify(
            options.kernel,
            options.file,
            sanitize=options.sanitize,
            compile_baseline=options.compile_baseline,
            caller=options.caller,
            batches=options.batches,
            **options.settings.values,
        )
    if options.json:
        print(verdict.model_dump_json())
    else:
        _show(verdict, Console())
    return IMPROVED if verdict.passed else NOTHING_FASTER


def _show(verdict: Verdict, console: Console) -> None:
    console.print(Text(verdict.status, style="bold green" if verdict.passed else "bold red"))
    if verdict.message:
        console.print(Text(f"{verdict.check}: {verdict.message}"), soft_wrap=True)
    if verdict.timing is not None:
        timing = verdict.timing
        for line in (say_headline(timing), *say_other_clocks(timing)):
            console.print(Text(line), soft_wrap=True)
        if timing.noise:
            console.print(Text(timing.noise), soft_wrap=True)
        for line in _further(verdict):
            console.print(Text(line), soft_wrap=True)
        if timing.advisory:
            console.print(Text(f"The time is advisory. {timing.advisory}"), soft_wrap=True)
    notes = (
        say_tolerance(verdict.tolerance),
        say_oracle(verdict),
        say_trials(verdict),
        say_sanitizers(verdict.sanitizers),
        verdict.served.said if verdict.served else "",
    )
    for line in "\n".join(filter(None, notes)).splitlines():
        console.print(Text(line), soft_wrap=True)
    if errors := worst_errors(verdict):
        console.print(drawn(_error_sheet(errors)))


def _further(verdict: Verdict) -> list[str]:
    """The second baseline, each workload's own speed-up, and what is wrong with the task."""
    timing = verdict.timing
    if timing is None:
        return []
    lines: list[str] = [*filter(None, [say_compiled(timing)])]
    lines += [f"{part.name}: {part.timing.speedup:.2f}x" for part in verdict.workloads if part.timing]
    return [*lines, *filter(None, [timing.degenerate, timing.influence_said])]


def _error_sheet(errors: tuple[WorstError, ...]) -> Sheet:
    rows = (
        (
            worst.error.output,
            worst.distribution,
            f"{worst.error.relative_l2:.2e}",
            f"{worst.error.reference_relative_l2:.2e}",
            f"{worst.error.bad_fraction:.0%}",
        )
        for worst in errors
    )
    return Sheet("", ("output", "worst inputs", "relative L2", "reference's own", "wrong"), tuple(rows))
