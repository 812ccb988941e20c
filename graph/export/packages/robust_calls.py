"""How a robust-kbench file calls its kernels: `fn(...)` in the module's forward, `backward_fn(...)` in its function.

Both are read off the text. What a call passes goes by the kernel's own names of its arguments; "" is what no kernel
takes.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from harness.nouns.errors import UserError
from harness.nouns.task import ScalarSpec, Task, TensorSpec

FUNCTION = "AutogradFunction"


@dataclass(frozen=True)
class BackwardCall:
    """`passed` are names of the forward's arguments, and `GRADIENT`; the places in `packed` hold a tuple of one.

    `returned` names, for each result in order, the argument whose gradient it is.
    """

    passed: tuple[str, ...]
    packed: tuple[int, ...]
    returned: tuple[str, ...]
    single: bool


GRADIENT = "gradient of the output"


def forward_call(task: Task) -> tuple[str, ...]:
    """What `fn` is called with; a file without one passes inputs, then parameters. Raises `UserError`."""
    signature = task.signature
    names = tuple(spec.name for spec in (*_forward_inputs(task), *signature.parameters))
    method = _method(task.source, "Model", "forward")
    if method is None:
        return names
    parameters = [each.arg for each in method.args.args[1:]]
    calls = [node for node in ast.walk(method) if isinstance(node, ast.Call) and _called(node) in parameters]
    if not calls:
        return names
    if calls[0].keywords:
        raise UserError(f"{task.name} calls its function by keyword.", "Pass its arguments in order.")
    taken = [each for each in parameters if each != _called(calls[0])]
    inputs = dict(zip(taken, (spec.name for spec in _forward_inputs(task)), strict=False))
    weights = {spec.name for spec in signature.parameters}
    return tuple(_name_of(each, inputs, weights) for each in calls[0].args)


def backward_call(task: Task) -> BackwardCall:
    """What `backward_fn` is called with, and what its results are. Raises `UserError` where the text has none."""
    there, back = _method(task.source, FUNCTION, "forward"), _method(task.source, FUNCTION, "backward")
    call = next(_backward_calls(back), None) if back is not None else None
    if there is None or back is None or call is None:
        raise UserError(
            f"{task.name} has no {FUNCTION} that calls backward_fn, as robust-kbench's files have.",
            "Export it with --form folder or torch-extension.",
        )
    arguments = [each.arg for each in there.args.args[1:]]
    meant = dict(zip(arguments, forward_call(task), strict=False))
    names, whole = _saved(there, back, meant)
    names |= {each.arg: GRADIENT for each in back.args.args[1:]}
    assigned = next((node for node in ast.walk(back) if isinstance(node, ast.Assign) and node.value is call), None)
    results = [] if assigned is None else _targets(assigned)
    given = _returned(back)
    places = {each.id: k for k, each in enumerate(given) if isinstance(each, ast.Name)}
    return BackwardCall(
        passed=tuple(names.get(each.id, "") if isinstance(each, ast.Name) else "" for each in call.args),
        packed=tuple(k for k, each in enumerate(call.args) if isinstance(each, ast.Name) and each.id in whole),
        returned=tuple(meant.get(arguments[places[each]], "") if each in places else "" for each in results),
        single=assigned is not None and isinstance(assigned.targets[0], ast.Name),
    )


def _forward_inputs(task: Task) -> tuple[TensorSpec | ScalarSpec, ...]:
    """A backward's inputs begin with the forward's own."""
    inputs = task.signature.inputs
    if task.direction == "forward":
        return inputs
    gradients = [spec.name for spec in inputs if spec.name.startswith("grad_")]
    outputs = [each.removeprefix("grad_") for each in gradients]
    return tuple(spec for spec in inputs if spec.name not in (*gradients, *outputs))


def _method(source: str, class_name: str, name: str) -> ast.FunctionDef | None:
    for outer in ast.parse(source).body:
        if isinstance(outer, ast.ClassDef) and outer.name == class_name:
            for inner in outer.body:
                if isinstance(inner, ast.FunctionDef) and inner.name == name:
                    return inner
    return None


def _called(node: ast.Call) -> str:
    return node.func.id if isinstance(node.func, ast.Name) else ""


def _name_of(given: ast.expr, inputs: dict[str, str], weights: set[str]) -> str:
    text = ast.unparse(given)
    name = text.removeprefix("self.")
    return inputs.get(text, name if text.startswith("self.") and name in weights else "")


def _backward_calls(method: ast.FunctionDef) -> Iterator[ast.Call]:
    for node in ast.walk(method):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "backward_fn":
            yield node


def _saved(there: ast.FunctionDef, back: ast.FunctionDef, meant: dict[str, str]) -> tuple[dict[str, str], set[str]]:
    """Names in the backward for what the forward saved; and those that stand for the whole tuple of one."""
    kept = [
        [meant.get(each.id, "") if isinstance(each, ast.Name) else "" for each in node.args]
        for node in ast.walk(there)
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "ctx.save_for_backward"
    ]
    taken = [
        node
        for node in ast.walk(back)
        if isinstance(node, ast.Assign) and ast.unparse(node.value) == "ctx.saved_tensors"
    ]
    if not kept or not taken:
        return {}, set()
    names = dict(zip(_targets(taken[0]), kept[0], strict=False))
    whole = {taken[0].targets[0].id} if isinstance(taken[0].targets[0], ast.Name) else set()
    return names, whole


def _targets(node: ast.Assign) -> list[str]:
    target = node.targets[0]
    parts = target.elts if isinstance(target, ast.Tuple) else [target]
    return [each.id if isinstance(each, ast.Name) else "" for each in parts]


def _returned(method: ast.FunctionDef) -> list[ast.expr]:
    value = next((node.value for node in ast.walk(method) if isinstance(node, ast.Return)), None)
    if value is None:
        return []
    return value.elts if isinstance(value, ast.Tuple) else [value]
