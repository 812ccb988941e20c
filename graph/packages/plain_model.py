"""`ModelNew` on plain PyTorch: what the forms that hold a module have in common."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable

from graph.export.drop_in import environment, sizes
from graph.export.forms import forward_of
from graph.export.live_module import module_key
from graph.export.training import Pair
from harness.nouns.errors import UserError
from harness.nouns.task import Task, TensorSpec


def plain_model(
    task: Task, taken: Callable[[TensorSpec, str], str] = lambda _, here: here, pair: Pair | None = None
) -> str:
    """Its text, for a file that defines KERNEL and has the reference's text before; with a `pair` BACKWARD, too.

    `taken` is what becomes of an input, an expression, on its way to the kernel. Raises `UserError` for a kernel of a
    backward.
    """
    require_forward(task)
    forward, signature = forward_of(task), task.signature
    inputs = [
        taken(spec, here) if isinstance(spec, TensorSpec) else here
        for spec, here in zip(signature.inputs, forward.inputs, strict=True)
    ]
    ties = [(found(spec.name), found(tied)) for spec in signature.parameters for tied in spec.also]
    template = environment().get_template("packages/model.py.j2")
    return template.render(
        forward=forward,
        made={name: _made(kind) for name, kind in forward.made.items()},
        inputs=inputs,
        numbers=numbers_of(task, forward.inputs),
        parameters=[found(spec.name) for spec in signature.parameters],
        names=tuple(spec.name for spec in signature.parameters),
        ties=ties,
        pair=pair,
        sizes=sizes(task),
        constructed=defines(task, "get_init_inputs"),
        reads_mode=".training" in task.source,
    )


def require_forward(task: Task) -> None:
    """Raises `UserError` for a kernel that computes gradients."""
    if task.direction != "forward":
        raise UserError(
            f"The kernel of {task.name} computes {task.direction}, and this form holds a forward.",
            "Export the run of the forward; --backward adds this one where a form has a place for it.",
        )


def numbers_of(task: Task, inputs: tuple[str, ...]) -> list[tuple[str, str, str]]:
    """Inputs that are numbers, by their names, expressions and the values that the kernel knows."""
    return [
        (spec.name, here, repr((spec.value, *spec.others)))
        for spec, here in zip(task.signature.inputs, inputs, strict=True)
        if not isinstance(spec, TensorSpec) and not spec.free
    ]


def _made(kind: str) -> str:
    """A class of the reference's results, as an expression."""
    module, _, qualified = kind.partition(":")
    return f"importlib.import_module({module!r}).{qualified}" if module else qualified


def found(name: str) -> str:
    """A parameter from the module on; the parts of a sequence are attributes, too."""
    here = "self"
    for part in name.split("."):
        here = f"{here}.{part}" if part.isidentifier() else f'getattr({here}, "{part}")'
    return here


# -- A task's file as the beginning of another Python file ------------------------------------------------------------


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
