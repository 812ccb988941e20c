"""What became of a model, as a page: each region alone, inside the model, and its bound; and what was not captured."""

from __future__ import annotations

from graph.model.plan import Plan, PlannedRegion
from graph.model.plan_table import in_times, left_out_of, places_in_words, sentences_of
from graph.model.state import NOT_BEGUN, RegionOutcome
from graph.runs.tables import markdown
from harness.nouns.acceptance import Acceptance, BesideCompiled, Inside, compiled_in
from harness.nouns.verdict import Interval

HEAD = ("region", "where", "times", "share", "alone", "inside", "at best", "what became of it")


def page(name: str, plan: Plan | None, outcomes: tuple[RegionOutcome, ...], acceptance: Acceptance | None) -> str:
    """Markdown."""
    if plan is None:
        return f"# {name}\n\nIt was not captured.\n"
    rows = region_rows(plan, outcomes, acceptance)
    told = (*verdict_of(acceptance, outcomes), *sentences_of(plan, playbook_alone=True), *left_out_of(plan))
    said = "\n".join(f"- {sentence}" for sentence in told)
    return f"# {name}\n\n{said}\n\n{markdown(HEAD, rows)}\n"


def region_rows(
    plan: Plan, outcomes: tuple[RegionOutcome, ...], acceptance: Acceptance | None
) -> tuple[tuple[str, ...], ...]:
    """A row a region, those first that could gain most."""
    found = {outcome.name: outcome for outcome in outcomes}
    inside = {each.name: each for each in (acceptance.regions if acceptance else ())}
    accepted = acceptance is not None and acceptance.accepted
    return tuple(_row(plan, each, found.get(each.name), inside.get(each.name), accepted) for each in plan.regions)


def verdict_of(acceptance: Acceptance | None, outcomes: tuple[RegionOutcome, ...]) -> list[str]:
    """What is said of the whole, in sentences."""
    late = sum(outcome.reason == NOT_BEGUN for outcome in outcomes)
    stays = f"Nothing faster{' in this time' if late else ''}: the model stays as it is."
    told = _verdict_of(acceptance, stays) if acceptance else [f"{stays} No kernel won by itself."]
    if late:
        told.append(f"The budget was too small for {late} of the {len(outcomes)} regions worth a kernel.")
    return told


def told_of(acceptance: Acceptance) -> dict[str, str]:
    """Of each region that was put into the model what became of it there, and why."""
    return {each.name: _inside_of(each) for each in acceptance.regions}


def _inside_of(inside: Inside) -> str:
    gain = _factor(inside.speedup, inside.interval)
    places = f" at {inside.places} place{'s' if inside.places != 1 else ''}" if inside.places else ""
    fate = f"dropped: {inside.dropped}" if inside.dropped else "kept"
    return f"{fate}{places}{f', {gain} over the model without' if gain else ''}"


def _verdict_of(acceptance: Acceptance, stays: str) -> list[str]:
    if acceptance.speedup is None or acceptance.interval is None:
        return [f"{stays} {acceptance.reason}", *_form(acceptance)]
    said = (
        f"{acceptance.speedup:.2f}x over eager (95 % interval {acceptance.interval.said()}): "
        f"{acceptance.ms:.3g} ms against {acceptance.eager_ms:.3g} ms, "
        f"{acceptance.rounds} rounds by turns. Outputs held against {acceptance.oracle}."
    )
    told = [said if acceptance.accepted else f"{stays} {said} {acceptance.reason}"]
    if acceptance.accepted:
        told.append(f"Accepted against {' and '.join(acceptance.against)}.")
    beside = map(_beside, acceptance.compiled)
    under = [f"Measured with {'; '.join(acceptance.conditions)}."] if acceptance.conditions else []
    return [*told, *_form(acceptance), *beside, *_graphs(acceptance), *_memory(acceptance), *under]


def _form(acceptance: Acceptance) -> list[str]:
    if acceptance.instead:
        return [f"{acceptance.instead.removesuffix('.')}. So its operations run one by one around the kernels."]
    if acceptance.form == "compiled" and acceptance.accepted:
        return [f"It is compiled by {compiled_in(acceptance.mode)}, with the kernels inside."]
    return []


def _beside(compiled: BesideCompiled) -> str:
    if compiled.interval is None:
        return f"{compiled.what} is no baseline: {compiled.failure}"
    gain = _factor(compiled.speedup, compiled.interval)
    return f"{gain} over {compiled.what}, {compiled.ms:.3g} ms, in the same rounds."


def _graphs(acceptance: Acceptance) -> list[str]:
    if not acceptance.graphs:
        return []
    alone = "" if acceptance.kept else "; no kernel is in it: all of the gain is that operations are started at once"
    return [
        f"Calls are replayed as a CUDA graph, {_factor(acceptance.graphs_speedup, acceptance.graphs_interval)} over "
        f"the same model without{alone}."
    ]


def _memory(acceptance: Acceptance) -> list[str]:
    before, after = acceptance.eager_peak_bytes, acceptance.peak_bytes
    if before is None or after is None:
        return []
    return [f"Memory at its peak: {after / 2**20:.1f} MiB, eager {before / 2**20:.1f} MiB."]


def _row(
    plan: Plan, region: PlannedRegion, outcome: RegionOutcome | None, inside: Inside | None, accepted: bool
) -> tuple[str, ...]:
    return (
        region.name,
        places_in_words(region),
        str(len(region.places)),
        f"{plan.share(region):.1%}",
        _factor(outcome.speedup, outcome.interval) if outcome else "",
        _factor(inside.speedup, inside.interval) if inside else "",
        in_times(plan.bound([region])),
        _fate(outcome, inside, accepted),
    )


def _factor(speedup: float | None, interval: Interval | None) -> str:
    if speedup is None or interval is None:
        return ""
    return f"{speedup:.2f}x ({interval.said()})"


def _fate(outcome: RegionOutcome | None, inside: Inside | None, accepted: bool) -> str:
    if outcome is None:
        return "left as it is"
    if outcome.reason == NOT_BEGUN:
        return NOT_BEGUN
    if inside is None:
        return "no gain by itself" if outcome.speedup else f"no kernel: {outcome.reason}"
    if inside.dropped:
        return f"dropped: {inside.dropped}"
    if not accepted:
        return "gains inside, but the whole is not handed out" if inside.interval else "right inside, not handed out"
    return f"kept, {outcome.reason}" if outcome.reason else "kept"
