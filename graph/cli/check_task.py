"""`cutegen check-task`: is a task worth a kernel, and what does its reference cost?"""

from __future__ import annotations

import json

from rich.console import Console
from rich.text import Text

from graph.cli.errors import IMPROVED, NOTHING_FASTER
from graph.cli.options import CheckTask
from graph.loading import load_task
from graph.runs.progress import waiting
from graph.runs.tables import Sheet, drawn
from harness.isolation.tiers import resolve_tier
from harness.nouns.task_filters import FilterResult, TaskCheck, WorkloadFacts
from harness.tasks.describing import describe_task
from harness.tasks.examining import examine_task


def run(options: CheckTask) -> int:
    """Do the command; its exit code."""
    direction = options.settings.values["direction"]
    given = load_task(options.file, direction=direction)
    tier = resolve_tier(options.settings.values["isolation"])
    with waiting("describing the task"):
        within_s = options.settings.values["max_describe_s"]
        task = describe_task(given.source, name=given.name, tier=tier, within_s=within_s)
    with waiting("running the reference under several seeds"):
        check = examine_task(task, tier=tier)
    if options.json:
        print(json.dumps(check.model_dump(mode="json") | {"defects": check.defects}))
    else:
        _show(check, Console())
    return NOTHING_FASTER if check.defects else IMPROVED


def _show(check: TaskCheck, console: Console) -> None:
    sound = not check.defects
    console.print(Text("sound" if sound else "degenerate", style="bold green" if sound else "bold red"))
    for defect in check.defects:
        console.print(Text(defect), soft_wrap=True)
    console.print(f"{check.op_class}{'' if check.traced else ', not traced'}; {check.seeds} seeds")
    for reason in check.left_out:
        console.print(Text(f"Left out: {reason}"), soft_wrap=True)
    for work in check.workloads:
        flops = f"{work.flops} FLOPs of products and convolutions" if work.flops else "no products or convolutions"
        console.print(f"\n{work.name}: {flops}, {work.bytes_moved} bytes")
        console.print(drawn(_filters(work)))
        if work.influence:
            console.print(f"a constant would be wrong on {work.influence} inputs")
        for part in work.conditioning:
            console.print(f"{part.output}: PyTorch's own error {part.relative_l2:.2e} (largest {part.max_scaled:.2e})")


def _filters(work: WorkloadFacts) -> Sheet:
    rows = ((each.name, f"{each.value:.3g}", f"{each.relative:.3g}", _word(each)) for each in work.filters)
    return Sheet("", ("filter", "value", "of its size", ""), tuple(rows))


def _word(result: FilterResult) -> str:
    return "below 0.01" if result.rejected else ""
