"""A model's page: how much faster it became, its modules as a tree, as wide as their time, and what became of each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from graph.model.plan import Plan
from graph.model.plan_table import left_out_of, sentences_of
from graph.model.report import verdict_of
from graph.model.state import RegionOutcome
from graph.model.tree import Branch, rows, tree_of
from graph.pages.report import filled_in
from harness.nouns.acceptance import Acceptance


def tree_page(
    name: str,
    plan: Plan,
    outcomes: tuple[RegionOutcome, ...],
    acceptance: Acceptance | None,
    links: Mapping[str, str] | None = None,
) -> str:
    """`report.html`: one HTML page that needs nothing beside itself. `links` lead to regions' own pages, by name."""
    return filled_in("model_report.html.j2", _values(name, plan, outcomes, acceptance, links or {}, ended=True))


def tree_body(
    name: str,
    plan: Plan,
    outcomes: tuple[RegionOutcome, ...],
    acceptance: Acceptance | None,
    links: Mapping[str, str],
    *,
    ended: bool,
) -> str:
    """The inside of the page, of a model that may not have `ended`."""
    return filled_in("model_body.html.j2", _values(name, plan, outcomes, acceptance, links, ended=ended))


def _values(
    name: str,
    plan: Plan,
    outcomes: tuple[RegionOutcome, ...],
    acceptance: Acceptance | None,
    links: Mapping[str, str],
    *,
    ended: bool,
) -> dict[str, Any]:
    tree = tree_of(plan, outcomes, acceptance)
    judged = verdict_of(acceptance, outcomes) if ended else []
    lines = [
        {
            "depth": depth,
            "branch": each if isinstance(each, Branch) else None,
            "leaf": each,
            "share": each.share,
            "link": "" if isinstance(each, Branch) else links.get(each.region.name, ""),
        }
        for depth, each in rows(tree)
    ]
    return {
        "name": name,
        "lines": lines,
        "said": [*judged, *sentences_of(plan, playbook_alone=True), *left_out_of(plan)],
        **_headline(acceptance, ended=ended),
    }


def _headline(acceptance: Acceptance | None, *, ended: bool) -> dict[str, Any]:
    """The number at the head: how much faster the model that is handed out is."""
    if acceptance is None or not acceptance.accepted or acceptance.interval is None:
        return {"number": "nothing faster" if ended else "not ended yet", "quiet": "", "improved": False}
    return {
        "number": f"{acceptance.speedup:.2f}x",
        "quiet": f"the whole model over eager, 95 % interval {acceptance.interval.said()}, {acceptance.rounds} rounds",
        "improved": True,
    }
