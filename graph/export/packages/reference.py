"""A task's file as the beginning of another Python file."""

from __future__ import annotations

import ast
import re

from graph.export.live_module import module_key
from harness.nouns.errors import UserError
from harness.nouns.task import Task

_BY_MODE = re.compile(r"\b(?:Sync|Lazy)?BatchNorm(?:[123]d)?\b|\bbatch_norm\b|\bRReLU\b|\.training\b")
_PERHAPS_BY_MODE = re.compile(r"dropout", re.IGNORECASE)
_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def reference_text(task: Task) -> tuple[tuple[str, ...], str]:
    """Its `from __future__` lines, and the rest without comments and docstrings, which say nothing of the kernel.

    Raises `UserError` for a live module, whose program is in a file of its own.
    """
    if module_key(task.source) is not None:
        raise UserError(
            f"{task.name} is a live module, which has no source text to put into this form.",
            "Export it with --form folder, or write the module as a task file.",
        )
    tree = ast.parse(task.source)
    for node in ast.walk(tree):
        if isinstance(node, _DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            node.body = node.body[1:] or [ast.Expr(ast.Constant(...))]
    futures = [node for node in tree.body if isinstance(node, ast.ImportFrom) and node.module == "__future__"]
    tree.body = [node for node in tree.body if node not in futures and not _is_main(node)]
    return tuple(map(ast.unparse, futures)), ast.unparse(ast.fix_missing_locations(tree))


def defines(task: Task, name: str) -> bool:
    """Whether the file has such a name at its top level."""
    for node in ast.parse(task.source).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name == name:
            return True
        targets = node.targets if isinstance(node, ast.Assign) else []
        if any(isinstance(target, ast.Name) and target.id == name for target in targets):
            return True
    return False


def by_mode(task: Task, *, perhaps: bool = False) -> bool:
    """Whether the module computes something else in training mode than in evaluation mode, by its file's text.

    With `perhaps` also where it depends on values, as of a dropout that may drop nothing.
    """
    if module_key(task.source) is not None:
        return False
    text = reference_text(task)[1]
    return _BY_MODE.search(text) is not None or (perhaps and _PERHAPS_BY_MODE.search(text) is not None)


def _is_main(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and "__name__" in ast.unparse(node.test)
