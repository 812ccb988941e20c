"""Two verified kernels, a forward's and its backward's, as one drop-in that trains."""

from __future__ import annotations

from typing import NamedTuple

from graph.export.drop_in import MODEL_NAME, drop_in_files, environment
from harness.nouns.candidate import Candidate
from harness.nouns.errors import UserError
from harness.nouns.task import Signature, Task, TensorSpec

PREFIX = "grad_"
KERNEL_NAME = "kernel.cu"


class Pair(NamedTuple):
    """How a forward's kernel and its backward's go together.

    `asked` are the outputs whose gradients the backward takes; `places` say, for each input and parameter, which of the
    backward's outputs is its gradient, None for what has none.
    """

    parameters: tuple[str, ...]
    inputs: int
    asked: tuple[int, ...]
    places: tuple[int | None, ...]


def pair_of(forward: tuple[Task, Candidate], backward: tuple[Task, Candidate]) -> Pair:
    """How they go together.

    Raises `UserError` where they do not, or the module takes more than tensors one after the other.
    """
    there, back = forward[0], backward[0]
    _require_pair(there, back)
    given, results = there.signature, [spec.name for spec in back.signature.outputs]
    names = [spec.name for spec in (*given.inputs, *given.parameters)]
    taken = {spec.name for spec in back.signature.inputs}
    return Pair(
        parameters=tuple(spec.name for spec in given.parameters),
        inputs=len(given.inputs),
        asked=tuple(k for k, spec in enumerate(given.outputs) if PREFIX + spec.name in taken),
        places=tuple(results.index(PREFIX + name) if PREFIX + name in results else None for name in names),
    )


def training_files(forward: tuple[Task, Candidate], backward: tuple[Task, Candidate]) -> dict[str, str]:
    """The files of a folder by their names: `model_new.py`, and the two drop-ins that it loads, each in its folder.

    Both kernels passed, on one module in either direction. Raises `UserError` like `pair_of`, and like
    `drop_in_files`.
    """
    pair, text = pair_of(forward, backward), environment().get_template("training.py.j2")
    files = {
        MODEL_NAME: text.render(
            parameters=tuple(tuple(name.split(".")) for name in pair.parameters),
            inputs=pair.inputs,
            asked=pair.asked,
            places=pair.places,
            file=MODEL_NAME,
        )
    }
    for name, (task, candidate) in (("forward", forward), ("backward", backward)):
        files |= {f"{name}/{file}": told for file, told in drop_in_files(task, candidate).items()}
        files[f"{name}/{KERNEL_NAME}"] = candidate.source
    return files


def _require_pair(there: Task, back: Task) -> None:
    if (there.direction, back.direction) != ("forward", "backward"):
        raise UserError(
            f"A drop-in that trains has a forward and a backward kernel, not {there.direction} and {back.direction}.",
            "Run the task once with --direction forward, and once with --direction backward.",
        )
    if there.signature.state:
        raise UserError(
            f"The forward of {there.name} writes {there.signature.state[0]}, which a drop-in that trains does not.",
            "Such a module's kernels can be exported each by itself.",
        )
    own = back.signature.inputs[: len(there.signature.inputs)]
    saved = back.signature.inputs[len(own) :][: len(there.signature.outputs)]
    pair = (there.signature.inputs, there.signature.parameters, there.signature.outputs)
    if pair != (own, back.signature.parameters, saved):
        raise UserError("The two kernels are not one module's.", "Take both from runs on the same file.")
    if there.takes or there.returns or not all(isinstance(spec, TensorSpec) for spec in _arguments(there.signature)):
        raise UserError(
            f"{there.name} takes or returns more than tensors one after the other.",
            "Such a module's kernels can be exported each by itself.",
        )


def _arguments(signature: Signature) -> tuple[object, ...]:
    return (*signature.inputs, *signature.parameters)
