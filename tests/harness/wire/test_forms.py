"""What is taken apart is put together again the same, whatever lies within what; what no form describes is named."""

from __future__ import annotations

import types
from collections import OrderedDict, namedtuple
from dataclasses import dataclass, field

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from harness.nouns.form import Form
from harness.wire.forms import FormlessError, put_together, take_apart

Pair = namedtuple("Pair", "first second")


@dataclass
class Output(OrderedDict):
    """As model libraries return them: a dataclass and a dict."""

    loss: object = None
    logits: object = None
    size: int = field(init=False, default=3)


HOME = types.ModuleType(__name__)
HOME.Pair, HOME.Output = Pair, Output  # type: ignore[attr-defined]
NUMBERS = st.integers() | st.floats(allow_nan=False) | st.booleans()
TEXTS = st.text(st.characters(categories=("L", "N")), max_size=5)


def within(inner):
    return st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(TEXTS | st.integers(), inner, max_size=3),
        st.dictionaries(TEXTS, inner, max_size=3).map(OrderedDict),
        st.builds(Pair, inner, inner),
        st.builds(Output, inner, inner),
    )


VALUES = st.recursive(NUMBERS | TEXTS | st.none(), within, max_leaves=8)


def same(one, other):
    if type(one) is not type(other):
        return False
    if isinstance(one, Output):
        return same((one.loss, one.logits), (other.loss, other.logits))
    if isinstance(one, dict):
        return list(one) == list(other) and same([*one.values()], [*other.values()])
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    return one == other


@given(VALUES)
def test_what_is_taken_apart_is_put_together_again(value):
    form, found = take_apart(value, (int, float), HOME)
    plain = Form.model_validate_json(Form.model_validate(form).model_dump_json())
    assert plain.model_dump(mode="json") == Form.model_validate(form).model_dump(mode="json")
    assert len(plain.paths) == len(set(plain.paths)) or any(map(str.isdigit, sum(plain.paths, ())))
    assert same(put_together(plain.model_dump(mode="json"), iter(found), HOME), value)


def test_paths_lead_from_the_outside_in():
    value = Output(loss=None, logits=(1.5, {"a": [2.5], 7: Pair(3.5, "text")}))
    form = Form.model_validate(take_apart(value, (float,), HOME)[0])
    assert [".".join(path) for path in form.paths] == ["logits.0", "logits.1.a.0", "logits.1.7.first"]
    assert Form.model_validate(take_apart(1.5, (float,), HOME)[0]).paths == ((),)


def test_results_with_names_of_their_own_keep_their_class():
    form, found = take_apart(torch.rand(2, 3).max(1), (torch.Tensor,), None)
    assert form["type"] == "torch.return_types:max"
    assert put_together(form, iter(found), None).indices is found[1]


@pytest.mark.parametrize(("value", "flat"), [((1, 2), True), ((), True), ([1], False), ((1, None), False), (1, False)])
def test_flat_is_one_value_after_the_other(value, flat):
    assert Form.model_validate(take_apart(value, (int,), None)[0]).flat is flat


class Own(tuple):
    """No plain tuple, and nobody knows how to make one."""


def _deep():
    value = 1
    for _ in range(100):
        value = [value]
    return value


def _local():
    @dataclass
    class Inner:
        x: int

    return Inner(1)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ((1, [{2}]), "a set at 1.0"),
        (Own((1,)), "a Own"),
        ({(1, 2): 1}, "a dict"),
        ({True: 1}, "a dict"),
        (_deep(), "a list at 0.0"),
        (_local(), "a class that is not found by its name"),
        (object(), "a object"),
    ],
)
def test_what_no_form_describes_is_named(value, said):
    with pytest.raises(FormlessError, match=said):
        take_apart(value, (int,), HOME)


@pytest.mark.parametrize(
    "form",
    [
        {"kind": "dict", "parts": [{"kind": "value"}]},
        {"kind": "tuple", "keys": ["a"], "parts": [{"kind": "value"}]},
        {"kind": "object", "type": "a:b", "keys": ["a b"], "parts": [{"kind": "value"}]},
        {"kind": "object", "type": "a:b()", "keys": ["a"], "parts": [{"kind": "value"}]},
        {"kind": "dict", "keys": ["`"], "parts": [{"kind": "value"}]},
        {"kind": "constant", "constant": "two\nlines"},
    ],
)
def test_a_form_of_others_holds_nothing_but_names(form):
    with pytest.raises(ValidationError):
        Form.model_validate(form)
