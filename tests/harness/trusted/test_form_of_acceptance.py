"""In which form a model is accepted: compiled, unless there is nothing that kernels could be put into."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from harness.nouns.acceptance import Acceptance, Inside
from harness.trusted.models import accepting
from harness.trusted.models.whole_compiled import CompiledWhole


def accepted(
    monkeypatch: pytest.MonkeyPatch, base: CompiledWhole, *inside: Inside, form: str = "compiled"
) -> Acceptance:
    within = Acceptance(accepted=False, reason="inside", form="compiled", regions=inside)
    monkeypatch.setattr(accepting, "accept_inside", lambda *_: within)
    monkeypatch.setattr(accepting, "_accept", lambda *_: Acceptance(accepted=True, form="assembled"))
    whole: Any = SimpleNamespace(job=SimpleNamespace(form=form, within="default"))
    return accepting._accept_in_form(whole, [base])


def test_kernels_are_tried_inside_what_torch_compile_makes(monkeypatch: pytest.MonkeyPatch) -> None:
    base = CompiledWhole("default", lambda: None)
    tried = Inside(name="one", places=2, dropped="no gain is shown inside the compiled model")
    assert accepted(monkeypatch, base, tried, Inside(name="two", places=0, dropped="nowhere")).reason == "inside"
    assert accepted(monkeypatch, base).reason == "inside", "no kernel won by itself"
    assert accepted(monkeypatch, base, tried, form="assembled").form == "assembled"


def test_a_model_that_torch_compile_cannot_compile_is_assembled_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    found = accepted(monkeypatch, CompiledWhole("default", failure="Unsupported: a graph break"))
    assert (found.form, found.accepted) == ("assembled", True)
    assert found.instead == "torch.compile did not compile the model: Unsupported: a graph break"


def test_where_kernels_find_no_place_in_its_graph_the_model_is_assembled(monkeypatch: pytest.MonkeyPatch) -> None:
    nowhere = Inside(name="one", places=0, dropped="torch 9.9 has moved names that kernels are placed by")
    found = accepted(monkeypatch, CompiledWhole("default", lambda: None), nowhere)
    assert found.form == "assembled"
    assert "torch 9.9 has moved names" in found.instead
