"""Names against what Python itself says of them: its own symbol tables, over files of its library."""

import ast
import symtable
import sysconfig
from pathlib import Path

import pytest

from harness.screen.python_file import PythonFile

LIBRARY = Path(sysconfig.get_path("stdlib"))
FILES = ("textwrap", "heapq", "contextlib", "functools", "dataclasses", "shlex", "tempfile")

TRICKY = """
import os.path, a.b as c
from d import e as f, g
def plain(p, *args, k=(d := 1), **more) -> (r := 2):
    [y := x for x in p if (z := x)]
    with open(p) as (w, [v]):
        pass
    for i, *j in p:
        del i
    match p:
        case [q, *s] | {"a": q, **s} as t:
            pass
        case plain(u=o):
            pass
    class Inner(metaclass=(m := 3)):
        n = 4
        def method(self):
            return n
    lambda l=(h := 5): (aa := l)
    try:
        pass
    except ValueError as error:
        pass
    async def later(ab):
        async for ac in ab:
            import ad
    return y
"""


def tables(table):
    yield table
    for child in table.get_children():
        yield from tables(child)


def locals_by_python(source):
    """Names of functions to the names that are theirs; decorators make their lines a matter of Python's version."""
    found = {}
    for table in tables(symtable.symtable(source, "file", "exec")):
        if isinstance(table, symtable.Function) and table.get_name() not in (
            "listcomp",
            "genexpr",
            "setcomp",
            "dictcomp",
        ):
            own = {name for name in table.get_locals() if not name.startswith(".")}
            found.setdefault(table.get_name(), set()).update(own)
    return found


def locals_by_scopes(source):
    file = PythonFile(ast.parse(source))
    found = {}
    for node in file.nodes:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            names = (name for name, all_ in file.scopes.bindings.items() if any(each.scope is node for each in all_))
            found.setdefault(getattr(node, "name", "lambda"), set()).update(names)
    return found


@pytest.mark.parametrize("source", [TRICKY, *((LIBRARY / f"{name}.py").read_text() for name in FILES)],
                         ids=["tricky", *FILES])  # fmt: skip
def test_each_function_owns_what_python_says_it_owns(source):
    expected, got = locals_by_python(source), locals_by_scopes(source)
    stated = {"nonlocal", "global"} & set(source.split())
    for function, names in expected.items():
        assert got[function] >= names, function
        assert stated or got[function] == names, function


def meanings(source, name):
    """The line of what each use of a name refers to; 0 where that is Python's own."""
    file = PythonFile(ast.parse(source))
    uses = [node for node in file.nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)]
    ordered = sorted((node for node in uses if node.id == name), key=lambda node: (node.lineno, node.col_offset))
    return [min((b.node.lineno for b in file.scopes.meaning(node)), default=0) for node in ordered]


def test_a_use_refers_to_the_innermost_scope_that_binds_its_name():
    assert meanings("x = 1\ndef f(x):\n  def g():\n    return x\n  return x\nx", "x") == [2, 2, 1]
    assert meanings("x\ndef f():\n  x\n  x = 2\n", "x") == [0, 4]
    assert meanings("class A:\n  x = 1\n  y = x\n  def f(self):\n    return x\n", "x") == [2, 0]
    assert meanings("x = 1\ndef f(a=x):\n  x = 2\n", "x") == [1]
    assert meanings("x = 1\n[x for x in\n y]", "x") == [2]
    assert meanings("x = 1\nf = lambda x: x\n", "x") == [2]
    assert meanings("x = 1\n@x\ndef f(x) -> x:\n  pass\n", "x") == [1, 1]
    assert meanings("x = 1\ndef f():\n  return x\n", "x") == [1]
    assert meanings("x = 1\nclass A(x, metaclass=x):\n  x = 2\n", "x") == [1, 1]


def test_a_name_of_one_binding_is_told_from_one_of_more():
    file = PythonFile(ast.parse("a = 1\nb = 1\nb = 2\ndef f(c):\n  c = 1\nimport d\nfrom e import h as g\n"))
    assert isinstance(file.scopes.only("a"), ast.Name)
    assert isinstance(file.scopes.only("d"), ast.Import)
    assert isinstance(file.scopes.only("g"), ast.ImportFrom)
    assert [file.scopes.only(name) for name in "bce"] == [None, None, None]
    assert file.scopes.is_local("c", file.tree.body[3].body[0].value)
    assert not file.scopes.is_local("a", file.tree.body[3].body[0].value)
