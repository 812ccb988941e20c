"""Whatever binds a name or reaches an attribute, over the grammar of the Python that runs this."""

from __future__ import annotations

import ast
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from python_texts import IEEE, SOFTMAX, module

from harness.screen.python_file import INTERNALS, NODES, ROLES, bound
from harness.screen.python_source import screen_python

LEAVES = {
    name: kind
    for name, kind in vars(ast).items()
    if isinstance(kind, type) and issubclass(kind, ast.AST) and not kind.__subclasses__()
}
RETIRED = {
    "AugLoad", "AugStore", "Param", "Suite", "Index", "ExtSlice", "Num", "Str", "Bytes", "NameConstant", "Ellipsis",
    "Expression", "Interactive", "FunctionType",
}  # fmt: skip
"""What `ast.parse` of a file no longer makes, or never did."""
FORMS = {
    ("Attribute", "attr"): "x.{}",
    ("MatchClass", "kwd_attrs"): "match x:\n    case object({}=y):\n        pass",
    ("Name", "id"): "{} = x",
    ("FunctionDef", "name"): "def {}():\n    pass",
    ("AsyncFunctionDef", "name"): "async def {}():\n    pass",
    ("ClassDef", "name"): "class {}:\n    pass",
    ("arg", "arg"): "(lambda {}: 1)(x)",
    ("ExceptHandler", "name"): "try:\n    pass\nexcept E as {}:\n    pass",
    ("MatchAs", "name"): "match x:\n    case [1 as {}]:\n        pass",
    ("MatchStar", "name"): "match x:\n    case [*{}]:\n        pass",
    ("MatchMapping", "rest"): "match x:\n    case {{**{}}}:\n        pass",
    ("ImportFrom", "module"): "from {} import a",
    ("alias", "name"): "import {}",
    ("alias", "asname"): "import math as {}",
    ("Global", "names"): "global {}",
    ("Nonlocal", "names"): "def f():\n    nonlocal {}",
    ("keyword", "arg"): "f({}=1)",
}
"""A statement for each identifier field, with a place for the name."""
SURROUNDINGS = ("{}", "if x:\n{}", "for i in x:\n{}", "with x:\n{}", "def g(x):\n{}", "class K:\n{}", "while x:\n{}")

forbidden = st.one_of(
    st.sampled_from(sorted(INTERNALS)),
    st.from_regex(r"__[a-z]{1,9}__", fullmatch=True).filter(
        lambda name: name not in ("__init__", "__call__", "__repr__", "__name__", "__doc__", "__len__", "__main__")
    ),
)


def indented(form: str, body: str) -> str:
    """The body inside a form."""
    return form.format("\n".join(f"    {line}" for line in body.splitlines()) if form != "{}" else body)


def test_every_identifier_of_the_grammar_has_a_role() -> None:
    fields = {
        (name, field)
        for name, kind in LEAVES.items()
        for field in re.findall(r"identifier[?*]? (\w+)", kind.__doc__ or "")
    }
    assert fields <= set(ROLES), "a new way to spell a name: give it a role, and think about what it reaches"
    assert {key for key in ROLES if key[0] in LEAVES} == fields
    assert fields <= set(FORMS) | {key for key in ROLES if key[0] in ("TypeVar", "ParamSpec", "TypeVarTuple")}


def test_every_node_is_known_or_no_more_made() -> None:
    assert set(LEAVES) - RETIRED <= NODES, "a new node: is it understood by the rules?"


@given(
    field=st.sampled_from(sorted(key for key in FORMS if ROLES[key] in ("reaches", "binds", "name"))),
    name=forbidden,
    around=st.lists(st.sampled_from(SURROUNDINGS), max_size=3),
)
def test_what_leads_into_the_interpreter_is_refused_wherever_it_is_said(
    field: tuple[str, str], name: str, around: list[str]
) -> None:
    body = FORMS[field].format(name)
    for form in around:
        body = indented(form, body)
    assert screen_python(module(f"{body}\nreturn x"), SOFTMAX, IEEE) is not None, body


@given(name=st.from_regex(r"[a-z]{1,6}_of_[a-z]{1,4}", fullmatch=True), around=st.sampled_from(SURROUNDINGS))
def test_an_innocent_name_is_bound_and_passes(name: str, around: str) -> None:
    for field in (key for key in FORMS if ROLES[key] in ("binds", "name") and key[0] != "ExceptHandler"):
        body = indented(around, FORMS[field].format(name))
        tree = ast.parse(module(body))
        assert name in {each for node in ast.walk(tree) for each in bound(node)}, field
        assert screen_python(module(f"{body}\nreturn x"), SOFTMAX, IEEE) is None, body


@pytest.mark.parametrize(
    "body",
    [
        "return getattr(x.abs(), 'softmax')(1)",
        "return getattr([x][0], '__self__')",
        "return getattr(x, 'gi_frame', None)",
        "return getattr(x, 'a', exec('1'))",
        "match x:\n    case torch.Tensor(softmax=f):\n        return f(1)",
        "match print:\n    case object(__self__=b):\n        return b.exec('1')",
        "return type('T', (nn.Module,), {'__getattr__': x})",
        "return (i for i in x).gi_frame.f_builtins['exec']('1')",
        "@dataclass\nclass K:\n    gi_frame: int\nreturn x",
        "class K:\n    __match_args__ = ('__self__',)\nreturn x",
    ],
)
def test_ways_that_were_open(body: str) -> None:
    top = "from dataclasses import dataclass"
    assert screen_python(module(body, top=top), SOFTMAX, IEEE) is not None


def test_attributes_by_literals_are_attributes() -> None:
    assert screen_python(module("return getattr(x, 'exp')() + getattr(self, 'scale', 2)"), SOFTMAX, IEEE) is None
    assert screen_python(module("return type(x)(x) if isinstance(x, int) else x"), SOFTMAX, IEEE) is None
