"""The report of a run: one HTML page that needs nothing beside itself, readable in light and dark."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from graph.pages.generations_chart import generations
from graph.pages.highlight import cpp_lines, python_lines
from graph.pages.kernel_changes import changes, worst_errors
from graph.pages.lineage import lineage, model_of, operator_of, verifiers_record, yields
from graph.pages.moves import worths
from graph.pages.report_chart import roofline, trajectory
from graph.pages.reproduce import again, use
from graph.pages.samples_chart import samples_chart
from graph.pages.talk import turns
from graph.runs.beside import Beside
from graph.runs.levels import levels
from graph.runs.record import RunRecord
from harness.nouns.profile import Profile
from harness.nouns.task import ScalarSpec, TensorSpec
from harness.nouns.verdict import Interval, WorkloadResult
from harness.profile.render import render as render_profile
from harness.profile.render import say_phases
from nodes.history import say_decision, say_tried
from nodes.state import Best, Step, Usage
from tools.sweep import say_values
from tools.wording import (
    say_compiled,
    say_oracle,
    say_other_clocks,
    say_resources,
    say_smaller,
    say_tolerance,
    say_trials,
)

WIDE, NARROW = 940, 400

TEMPLATES = Path(__file__).parent / "templates"

OUTCOMES = {
    "improved": "Faster than the baseline, and as accurate.",
    "nothing_faster": "No kernel was faster than the baseline beyond the noise.",
    "interrupted": "Interrupted. The best kernel so far is kept; the run can be resumed.",
    "waiting": "A question waits for its answer. The best kernel so far is kept.",
    "running": "This run has not ended yet.",
}


def render(record: RunRecord, beside: Beside | None = None) -> str:
    """The page; `beside` is what the run's folder holds more."""
    return filled_in("report.html.j2", view(record, beside))


def filled_in(template: str, values: dict[str, Any]) -> str:
    """A template with these values. Whatever came from a kernel, a model or a task file is escaped."""
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True,
    )  # fmt: skip
    environment.filters.update(
        ms=_ms,
        share=_share,
        shapes=_shapes,
        small=_small,
        clock=_clock,
        values=say_values,
        decided=say_decision,
        tried=say_tried,
        oracle=say_oracle,
        compiled=say_compiled,
        trials=say_trials,
        tolerance=say_tolerance,
        told=told,
        zip=zip,
    )
    return environment.get_template(template).render(values)


def view(record: RunRecord, beside: Beside | None = None) -> dict[str, Any]:
    """The values that the template shows, by name."""
    beside = beside or Beside()
    best, profiles = record.best, _profiles(record)
    return {
        "record": record,
        "headline": OUTCOMES[record.outcome] if record.outcome != "nothing_faster" or not record.degenerate else "",
        "clocks": say_other_clocks(record.timing) if record.timing else [],
        "levels": levels(record),
        "beside": beside.compiled or (record.timing if record.timing and record.timing.compiled else None),
        "samples": [samples_chart(record.timing, width) for width in (WIDE, NARROW)],
        "made": _made(best),
        "evidence": worst_errors(best.verdict) if best else (),
        "speedups": {each.name: each.timing.speedup for each in _workloads(record) if each.timing},
        "defects": _defects(record),
        "plots": [(generations if record.search else trajectory)(record, width) for width in (WIDE, NARROW)],
        "roofs": [roofline(profiles, width) for width in (WIDE, NARROW)],
        "profile": profiles[-1][1] if profiles else None,
        "counters": render_profile(profiles[-1][1]) if profiles and profiles[-1][1].kernels else "",
        "phases": "\n".join(say_phases(profiles[-1][1])) if profiles else "",
        "watched_smaller": say_smaller(best.verdict.sanitizers) if best else [],
        "changes": changes(record),
        "worths": worths(record),
        "kernel": cpp_lines(best.candidate.source) if best else (),
        "reference": python_lines(record.task.source) if record.task else (),
        "use": use(record),
        "again": again(record),
        "turns": turns(beside.exchanges, record.steps),
        "costs": _costs(record),
        "lineage": lineage(record),
        "yields": [("operator", yields(record, operator_of)), ("model", yields(record, model_of))],
        "verifiers": verifiers_record(record),
        "settings": {name: value for name, value in record.settings.items() if value not in (None, "", {}, [])},
    }


def _made(best: Best | None) -> list[str]:
    """What the best kernel's build tells: registers, shared memory, spills, and which instructions it has."""
    if best is None or best.verdict.build is None:
        return []
    return [line for line in (*say_resources(best.verdict.build), best.instructions) if line]


def _workloads(record: RunRecord) -> tuple[WorkloadResult, ...]:
    """Each one's results, where there are several."""
    return record.best.verdict.workloads if record.best else ()


def _defects(record: RunRecord) -> list[str]:
    """What is wrong with the task, and what of it was left out."""
    task, timing = record.task, record.timing
    said = [timing.task_defect if timing else "", task.defect if task else "", *(task.left_out if task else ())]
    return list(dict.fromkeys(filter(None, said)))


def _profiles(record: RunRecord) -> list[tuple[str, Profile]]:
    """The profiles in the order their kernels were judged, each with a short label."""
    depths = {step.candidate: step.depth for step in reversed(record.steps) if step.agent == "tester"}
    ordered = sorted(record.profiles.items(), key=lambda item: depths.get(item[0], 0))
    return [(f"depth {depths.get(digest, 0)}", profile) for digest, profile in ordered]


def _costs(record: RunRecord) -> list[tuple[str, int, float, Usage]]:
    """A row an agent: name, steps, seconds, what its model used."""
    rows: dict[str, list[Step]] = defaultdict(list)
    for step in record.steps:
        rows[step.agent].append(step)
    return [
        (agent, len(steps), sum(step.seconds for step in steps), sum((step.usage for step in steps), Usage()))
        for agent, steps in rows.items()
    ]


def _shapes(specs: Sequence[TensorSpec | ScalarSpec]) -> str:
    """Names, shapes and types, as x 16x4 float32."""
    return ", ".join(
        f"{spec.name} {'x'.join(map(str, spec.shape)) or 'a number'} {spec.dtype}" if isinstance(spec, TensorSpec)
        else spec.name
        for spec in specs
    )  # fmt: skip


def told(interval: Interval) -> str:
    """What a speed-up's interval says; "noise" where it holds 1."""
    return "won" if interval.low > 1 else "lost" if interval.high < 1 else "noise"


def _ms(value: float) -> str:
    return f"{value:.3g} ms" if value < 1000 else f"{value / 1000:.3g} s"


def _share(value: float) -> str:
    return f"{value:.0%}"


def _small(value: float) -> str:
    return f"{value:.2e}"


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{seconds:.1f} s" if seconds < 60 else f"{minutes} min {rest} s"
