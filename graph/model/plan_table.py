"""A plan as a table: each region's place in the module tree, time, share, floor, writer, and what it could bring."""

from __future__ import annotations

import re
from collections import Counter

from graph.model.plan import LEAST_SHARE, Plan, PlannedRegion
from graph.runs.tables import Sheet
from harness.nouns.devices import on_gpu

HEAD = ("region", "where", "operations", "times", "ms", "share", "floor ms", "written by", "at best")
MOST_TIMES = 100.0
"""No bound beyond it says anything: the floor of what a cache holds leaves its bytes out."""
BUSY = 0.3
"""Where so much of a call passes between operations on a processor, the times tell little."""
_MOST_NAMES = 5
_ENTRIES = re.compile(r"(?<=\.)\d+(?=\.|$)|^\d+(?=\.|$)")


def sheet_of(plan: Plan) -> Sheet:
    """The regions, those first that can gain most, then what is in none."""
    rows = [_row(plan, region) for region in plan.regions]
    return Sheet("", HEAD, (*rows, *_rest(plan)))


def sentences_of(plan: Plan, *, playbook_alone: bool) -> list[str]:
    """What the table comes to, for the terminal."""
    chosen = plan.worthwhile(playbook_alone=playbook_alone)
    by_playbook = [region for region in plan.regions if region.writer == "playbook"]
    said = [
        f"One {'eager' if plan.eager_ms is None else 'compiled'} call of {plan.name} on {plan.target}: "
        f"{_ms(plan.whole_ms)} ms{_memory(plan)}.",
        f"At best, if every region took its floor's time: {in_times(plan.bound(plan.regions))}; those that the "
        f"playbook writes: {in_times(plan.bound(by_playbook))}.",
        f"Worth a kernel (each could save {LEAST_SHARE:.0%} or more): {len(chosen)} of {len(plan.regions)} "
        f"regions, {in_times(plan.bound(chosen))} at best.",
    ]
    if not on_gpu(plan.target) and plan.between_ms > BUSY * plan.whole_ms:
        said.append(
            "The model took much longer than its operations one by one: the machine was busy, or its Python is slow."
        )
    if plan.eager_ms is not None:
        said.append(f"Times are those of Inductor's kernels; an eager call takes {_ms(plan.eager_ms)} ms.")
    if plan.uncompiled:
        said.append(f"Times are eager's, for Inductor did not compile the model: {plan.uncompiled.removesuffix('.')}.")
    return said + [
        f"Not captured: {each.path or 'the model as a whole'} ({each.module_type}): {each.reason}"
        for each in plan.missed
    ]


def left_out_of(plan: Plan) -> list[str]:
    """What no region may hold, and why, for reports; the table has it as rows."""
    return [f"In no region: {why}, {_ms(ms)} ms." for why, ms in plan.hindered.items()]


def _memory(plan: Plan) -> str:
    needed = f"{plan.memory_bytes / 2**20:.1f} MiB"
    return f"; its tensors need {needed} at a time" if plan.memory_bytes else ""


def places_in_words(region: PlannedRegion) -> str:
    """The modules that the places stand in, with the numbers of layers left out: `layers.*.norm1`."""
    paths = [_ENTRIES.sub("*", module) or "(model)" for place in region.places for module in place.modules]
    return ", ".join(_few(list(Counter(paths)), 3))


def _row(plan: Plan, region: PlannedRegion) -> tuple[str, ...]:
    writer = f"playbook, {region.recipe}" if region.recipe else region.writer
    return (
        region.name,
        places_in_words(region),
        " ".join(_few(list(region.operations), _MOST_NAMES)),
        str(len(region.places)),
        _ms(region.now_ms),
        f"{plan.share(region):.1%}",
        _ms(region.floor_ms),
        writer,
        in_times(plan.bound([region])),
    )


def _rest(plan: Plan) -> list[tuple[str, ...]]:
    rest = [(f"left out: {why}", ms) for why, ms in plan.hindered.items()]
    rest += [(f"not captured: {each.path or 'the whole'}", each.ms) for each in plan.missed if each.ms]
    rest.append(("looks at memory", plan.views_ms))
    rest.append(("between operations", plan.between_ms))
    return [
        (what, "", "", "", _ms(ms), f"{ms / plan.whole_ms:.1%}", "", "", "")
        for what, ms in rest
        if plan.whole_ms and ms >= plan.whole_ms * 5e-4
    ]


def in_times(bound: float) -> str:
    """A bound on a speed-up, for people."""
    return f"{bound:.2f}x" if bound < MOST_TIMES else f"over {MOST_TIMES:.0f}x"


def _few(names: list[str], most: int) -> list[str]:
    return names if len(names) <= most else [*names[:most], f"+{len(names) - most}"]


def _ms(value: float) -> str:
    return f"{value:.3g}" if value < 1000 else f"{value:.0f}"
