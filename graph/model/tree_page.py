"""`report.html` of a model: its modules as a tree, coloured by what became of their regions, as wide as their time."""

from __future__ import annotations

from graph.model.plan import Plan
from graph.model.plan_table import left_out_of, sentences_of
from graph.model.report import verdict_of
from graph.model.state import RegionOutcome
from graph.model.tree import Branch, rows, tree_of
from graph.pages.report import filled_in
from harness.nouns.acceptance import Acceptance


def tree_page(name: str, plan: Plan, outcomes: tuple[RegionOutcome, ...], acceptance: Acceptance | None) -> str:
    """One HTML page that needs nothing beside itself."""
    tree = tree_of(plan, outcomes, acceptance)
    said = [*verdict_of(acceptance, outcomes), *sentences_of(plan, playbook_alone=True), *left_out_of(plan)]
    lines = [
        {"depth": depth, "branch": each if isinstance(each, Branch) else None, "leaf": each, "share": each.share}
        for depth, each in rows(tree)
    ]
    return filled_in("model_report.html.j2", {"name": name, "said": said, "lines": lines})
