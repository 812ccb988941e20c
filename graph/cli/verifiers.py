"""`cutegen verifiers bench`: how many wrong kernels the verifiers catch, how many right ones they would drop."""

from __future__ import annotations

import json
from pathlib import Path

from rich.console import Console
from rich.text import Text

from graph.cli.errors import IMPROVED, NOTHING_FASTER
from graph.cli.options import Verifiers
from graph.cli.settings import settings_of
from graph.cli.suite import default_jobs
from graph.pages.sheet import drawn
from graph.verifiers.bench import Look, looks, measured
from graph.verifiers.by_model import ModelVerifiers
from graph.verifiers.matrix import by_operator, calibration, confusion, counted
from harness.judging.protocol import Judge, JudgeOrder
from nodes.roles import KEYLESS
from nodes.settings import Settings
from tools.judges import open_judge

WANTED_SHARE = 0.5
"""Of the wrong kernels, which the verifiers without a model are to catch without a false alarm."""


def run(options: Verifiers) -> int:
    """Do the command; its exit code."""
    settings = settings_of(options.settings)
    judge = open_judge(
        JudgeOrder(settings.target, settings.isolation, settings.precision, settings.tolerance, ordinal=settings.device)
    )
    progress = Console(stderr=True)
    folder = options.out or Path("runs") / f"verifiers-{judge.device.target}"
    samples = measured(
        judge,
        folder,
        verifiers=_verifiers(settings, judge),
        mutants=options.mutants,
        told=lambda line: progress.print(Text(line, style="dim"), soft_wrap=True),
        jobs=options.jobs or default_jobs(judge.device.target),
    )
    rows = counted(samples)
    if options.json:
        print(json.dumps({"samples": str(folder), "verifiers": [each.model_dump() for each in rows]}))
    else:
        console = Console()
        for sheet in (confusion(samples), by_operator(samples), calibration(samples)):
            console.print(drawn(sheet))
            console.print()
    evidence = next(each for each in rows if each.verifier == "static and sanitizers")
    reached = evidence.caught >= WANTED_SHARE * evidence.wrong and evidence.alarms == 0
    return IMPROVED if reached else NOTHING_FASTER


def _verifiers(settings: Settings, judge: Judge) -> tuple[Look, ...]:
    """The models' too, where there is a model to ask."""
    if settings.model_for("verifier") == KEYLESS:
        return looks(judge, tidy=settings.clang_tidy)
    asked = settings.model_copy(update={"verifiers": ("compile", "memory", "numerics")})
    return (*looks(judge, tidy=settings.clang_tidy), ModelVerifiers(asked, judge))
