"""`cutegen verifiers bench`: how many wrong kernels the verifiers catch, how many right ones they would drop."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from rich.console import Console
from rich.text import Text

from graph.cli.errors import IMPROVED, INTERRUPTED, NOTHING_FASTER
from graph.cli.options import Verifiers
from graph.cli.settings import settings_of
from graph.runs.folder import replace_file
from graph.runs.tables import Sheet, drawn, markdown
from graph.verifiers.bench import Bench, Look, ModelVerifiers, Sample, counted, looks, said_of, sheets
from harness.judging.local import LocalJudge
from harness.judging.protocol import JudgeOrder, KernelJudge
from harness.targets.select import resolve_target
from nodes.roles import KEYLESS
from nodes.settings import Settings
from tools.judges import QUICK_S, settled, terms_of

WANTED_SHARE = 0.5
"""Of the wrong kernels, which the verifiers without a model are to catch without a false alarm."""


def run(options: Verifiers) -> int:
    """Do the command; its exit code."""
    settings = settings_of(options.settings)
    judge = _judge(settings)
    progress = Console(stderr=True)
    folder = options.out or Path("runs") / f"verifiers-{judge.device.target}"

    def told(samples: Sequence[Sample]) -> None:
        progress.print(Text(f"[{len(samples)}] {said_of(samples[-1])}", style="dim"), soft_wrap=True)
        replace_file(folder / "matrix.md", "\n".join(map(_markdown, sheets(samples))))

    bench = Bench(
        judge,
        folder,
        verifiers=_verifiers(settings, judge, watched=not options.without_sanitizers),
        mutants=options.mutants,
        jobs=options.jobs or len(os.sched_getaffinity(0)),
    )
    found = bench.measured(told, minutes=options.minutes)
    rows = counted(found.samples)
    if options.json:
        said = {"samples": str(folder), "left": found.left, "verifiers": [each.model_dump() for each in rows]}
        print(json.dumps(said))
    else:
        console = Console()
        for sheet in sheets(found.samples):
            console.print(drawn(sheet))
            console.print()
    if found.left:
        print(f"{found.left} kernels are left: the same command goes on with them.", file=sys.stderr)
        return INTERRUPTED
    evidence = next(each for each in rows if each.verifier == "static and sanitizers")
    reached = evidence.caught >= WANTED_SHARE * evidence.wrong and evidence.alarms == 0
    return IMPROVED if reached else NOTHING_FASTER


def _judge(settings: Settings) -> KernelJudge:
    """Whose checks are all made, and whose timing is short: what matters is whether a kernel is right."""
    order = JudgeOrder(
        settings.target, settings.isolation, settings.precision, settings.tolerance, ordinal=settings.device
    )
    order = settled(order)
    return LocalJudge(resolve_target(order.target, order.ordinal), replace(terms_of(order), timing_s=QUICK_S))


def _verifiers(settings: Settings, judge: KernelJudge, *, watched: bool) -> dict[str, Look]:
    """The models' too, where there is a model to ask."""
    without = looks(judge, tidy=settings.clang_tidy, watched=watched)
    if settings.model_for("verifier") == KEYLESS:
        return without
    asked = settings.model_copy(update={"verifiers": ("compile", "memory", "numerics")})
    return without | {"models": ModelVerifiers(asked, judge)}


def _markdown(sheet: Sheet) -> str:
    return f"{sheet.title}\n\n{markdown(sheet.head, sheet.rows)}\n"
