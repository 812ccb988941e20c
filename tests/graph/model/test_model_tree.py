"""The tree of a report: where regions stand, and that shares add up."""

from __future__ import annotations

import pytest
from captures import captured, two_layers
from run_samples import DEVICE

from graph.model.plan import plan_of
from graph.model.report import page
from graph.model.tree import Leaf, common, rows, tree_of
from graph.model.tree_page import tree_page


@pytest.mark.parametrize(
    ("paths", "shared"),
    [
        (("layers.0.up", "layers.0"), "layers.0"),
        (("layers.0.up", "layers.01.up"), "layers"),
        (("a.b",), "a.b"),
        (("", "a"), ""),
        ((), ""),
    ],
)
def test_a_region_stands_in_the_innermost_module_that_holds_it(paths: tuple[str, ...], shared: str) -> None:
    assert common(paths) == shared


def test_the_shares_of_regions_add_up_to_those_of_their_modules() -> None:
    plan = plan_of(captured(two_layers(), whole_ms=22.0), "cpu", DEVICE)
    tree = tree_of(plan, (), None)
    assert tree.share == pytest.approx(1.0)
    assert list(tree.inner) == ["layers"]
    layers = tree.inner["layers"].inner
    assert {name: each.share for name, each in layers.items()} == pytest.approx({"0": 0.5, "1": 0.5})
    leaves = [each for _, each in rows(tree) if isinstance(each, Leaf)]
    assert len(leaves) == 6
    assert {leaf.fate for leaf in leaves} == {"left"}


def test_what_a_model_is_called_is_text_on_the_page() -> None:
    plan = plan_of(captured(two_layers(), whole_ms=22.0), "cpu", DEVICE)
    assert "<script>" not in tree_page("<script>", plan, (), None)


def test_reports_say_what_each_region_could_bring_at_best_and_what_lies_in_none() -> None:
    plan = plan_of(captured(two_layers(), whole_ms=22.0), "cpu", DEVICE)
    plan = plan.model_copy(update={"hindered": {"aten.rand.default: it draws random numbers": 1.5}})
    html, markdown = tree_page("toy", plan, (), None), page("toy", plan, (), None)
    for text in (html, markdown):
        assert "In no region: aten.rand.default: it draws random numbers, 1.5 ms." in text
    assert html.count(f"{plan.bound([plan.regions[0]]):.2f}x</td></tr>") >= len(plan.regions[0].places)
