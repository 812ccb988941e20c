"""The report of a run: one HTML page that needs nothing beside itself, readable in light and dark."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from graph.pages.charts import generations, roofline, samples_chart, trajectory
from graph.pages.kernel_changes import changes, cpp_lines, python_lines, worst_errors
from graph.pages.lineage import lineage, model_of, operator_of, verifiers_record, yields
from graph.pages.reproduce import again, use
from graph.runs.folder import Beside
from graph.runs.record import RunRecord, levels
from harness.nouns.frozen import Frozen
from harness.nouns.profile import Profile
from harness.nouns.task import ScalarSpec, TensorSpec
from harness.nouns.verdict import HeadToHead, Interval, WorkloadResult
from harness.profile.render import render as render_profile
from harness.profile.render import say_phases
from nodes.history import say_decision, say_tried
from nodes.models.replay import Called, Exchange, Said
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
        "clocks": [*say_other_clocks(record.timing), *filter(None, [record.views, record.served])]
        if record.timing
        else [],
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


# -- What each move of a run's best kernel was worth: when it was made, and taken back by itself at the end -----------


class Worth(Frozen):
    """One accepted move. `then` is the kernel that it made against the one before, `now` the best kernel against itself
    without the move; each empty where nothing was measured. `why` says so."""

    move: str
    then: str
    now: str
    why: str = ""


def worths(record: RunRecord) -> list[Worth]:
    """One for each move that was taken back, or should have been, the oldest first."""
    best = record.best.candidate.digest if record.best else ""
    tests = {step.candidate: step for step in record.steps if step.agent == "tester"}
    taken = [step for step in record.steps if step.agent == "ablator" and step.candidate == best]
    return [_worth(step, tests.get(step.parent)) for step in taken]


def _worth(step: Step, test: Step | None) -> Worth:
    made = test.head_to_head if test else None
    return Worth(
        move=step.move,
        then=_factor(made.speedup, made.interval) + made.by if made else "",
        now=_against(step.head_to_head) if step.head_to_head else "",
        why=step.message or ("" if step.head_to_head else "They did not meet in the same rounds."),
    )


def _against(met: HeadToHead) -> str:
    """The whole against what is left without the move: the head-to-head was the other way round."""
    return _factor(1 / met.speedup, met.interval.inverse) + met.by


def _factor(speedup: float, interval: Interval) -> str:
    return f"{speedup:.2f}x ({interval.said()})"


# -- What was said to the models and what they answered, by the step of the run that it belongs to --------------------


MOST_CHARS, MOST_OF_ONE = 400_000, 16_000
"""Of all messages together and of a single one: a page that holds more is slow to open on a phone."""


@dataclass(frozen=True)
class Message:
    """One message. `same_as` names the place where the same text stands already, `left` characters are not shown."""

    kind: str
    text: str
    place: str
    same_as: str = ""
    left: int = 0


@dataclass(frozen=True)
class Turn:
    """One agent's turn: the last of its prompts, which holds the earlier ones, and the answer."""

    step: Step | None
    role: str
    exchanges: int
    index: int
    tokens: int
    messages: list[Message] = field(default_factory=list)


def turns(exchanges: Sequence[Exchange], steps: Sequence[Step]) -> list[Turn]:
    """The turns in the order of the steps; at the end those that belong to none, as of a step that was stopped."""
    known = {exchange.index: exchange for exchange in exchanges}
    pages = _Pages()
    found, begun = [], 0
    for step in steps:
        said = [known[index] for index in range(begun, begun + step.usage.calls) if index in known]
        begun += step.usage.calls
        if said and all(each.role == step.agent for each in said):
            found.append(_turn(step, said, pages))
            for each in said:
                del known[each.index]
    return [*found, *(_turn(None, [each], pages) for each in known.values())]


class _Pages:
    """The room that is left for messages, and where each text stands."""

    def __init__(self) -> None:
        self.room = MOST_CHARS
        self.places: dict[str, str] = {}

    def message(self, kind: str, text: str, place: str) -> Message:
        """The message as far as there is room for it."""
        if before := self.places.get(text):
            return Message(kind, "", place, same_as=before)
        shown = text[: min(MOST_OF_ONE, self.room)]
        self.room -= len(shown)
        if len(shown) == len(text):
            self.places[text] = place
        return Message(kind, shown, place, left=len(text) - len(shown))


def _turn(step: Step | None, said: list[Exchange], pages: _Pages) -> Turn:
    last = said[-1]
    spoken = [*_kinds(last.prompt), ("answer", _answer(last))]
    return Turn(
        step=step,
        role=last.role,
        exchanges=len(said),
        index=last.index,
        tokens=sum(each.usage.tokens for each in said),
        messages=[pages.message(kind, text, f"said-{last.index}-{at}") for at, (kind, text) in enumerate(spoken)],
    )


def _kinds(prompt: Sequence[Said]) -> Iterator[tuple[str, str]]:
    names = {"human": "asked", "ai": "answered before", "system": "system", "tool": "a tool's answer"}
    for each in prompt:
        yield names.get(each.type, each.type), each.content


def _answer(exchange: Exchange) -> str:
    return "\n".join([exchange.answer, *map(_called, exchange.tool_calls), *filter(None, [exchange.refusal])]).strip()


def _called(call: Called) -> str:
    return f"{call.name}({call.args})"
