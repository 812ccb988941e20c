"""`ModelNew` on plain PyTorch: what the forms that hold a module have in common."""

from __future__ import annotations

from collections.abc import Callable

from graph.export.drop_in import environment, sizes
from graph.export.forms import forward_of
from graph.export.packages.reference import defines
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
