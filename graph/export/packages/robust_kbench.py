"""Kernels as robust-kbench loads them: one .cu each, with `forward` or `backward` called as the task's file does."""

from __future__ import annotations

import re
from collections.abc import Iterator

from graph.export.drop_in import environment, quotable
from graph.export.packages.native import Native, native
from graph.export.packages.robust_calls import GRADIENT, BackwardCall, backward_call, forward_call
from graph.export.packages.source_package import Judged, architecture_of
from graph.export.training import PREFIX
from harness.nouns.errors import UserError
from harness.nouns.task import Argument, Ref, ScalarSpec, Signature, Task, TensorSpec

FILE = "kernel.cu"
_INCLUDE = re.compile(r"^[ \t]*#[ \t]*include\b.*$", re.MULTILINE)
_OTHERS = re.compile(r"^\s*namespace\s+(?:cute|cutlass|std)\b", re.MULTILINE)


def robust_kbench_files(forward: Judged, backward: Judged | None) -> dict[str, str]:
    """`forward/kernel.cu` and `backward/kernel.cu`, each where its kernel was given.

    Raises `UserError` for a kernel of a processor, and where the task's file does not hand over what the kernel needs.
    """
    judged = [each for each in (forward, backward) if each is not None]
    if any(each.candidate.target == "cpu" for each in judged):
        raise UserError("robust-kbench evaluates kernels for GPUs alone.", "Take a run with --target cuda.")
    texts: dict[str, str] = {}
    for each in judged:
        direction = each.task.direction
        if direction == "both":
            raise UserError("robust-kbench calls a forward and a backward apart.", "Run either with --direction.")
        text = forward_file(each) if direction == "forward" else backward_file(each, forward if backward else None)
        texts[f"{direction}/{FILE}"] = text
    return texts


def forward_file(judged: Judged) -> str:
    """The text for a forward's kernel, `forward` in Python."""
    passed = forward_call(judged.task)
    given = {name: f"p{k}" for k, name in enumerate(passed) if name}
    results = len(judged.task.signature.outputs)
    call = f"cutegen::forward::compute({_arguments(judged.task, given)})"
    return _file(
        judged,
        [judged],
        parameters=_parameters(judged.task, passed, ()),
        lines=[f"return {call};"],
        result="at::Tensor" if results == 1 else f"std::tuple<{', '.join(['at::Tensor'] * results)}>",
    )


def backward_file(judged: Judged, forward: Judged | None) -> str:
    """The text for a backward's kernel, `backward` in Python.

    What the forward returned is not handed to it: where gradients depend on that, the forward's kernel computes it.
    """
    task, call = judged.task, backward_call(judged.task)
    given = dict(_handed(task, call))
    lines, kernels = [], [judged]
    outputs = [spec.name.removeprefix(PREFIX) for spec in task.signature.inputs if spec.name.startswith(PREFIX)]
    if missing := [name for name in outputs if name in _used(task) and name not in given]:
        if forward is None:
            raise UserError(
                f"The kernel reads what the forward returned ({missing[0]}), which robust-kbench hands to no backward.",
                "Export the run of the forward, and name this one with --backward.",
            )
        _require_like(forward.task, task)
        kernels = [forward, judged]
        lines.append(f"at::Tensor const output = cutegen::forward::compute({_arguments(forward.task, given)});")
        given[missing[0]] = "output"
    lines.append(f"auto const made = cutegen::backward::compute({_arguments(task, given)});")
    found = [_gradient(task, name) for name in call.returned]
    lines.append(f"return {found[0]};" if call.single else f"return {{{', '.join(found)}}};")
    return _file(
        judged,
        kernels,
        parameters=_parameters(task, call.passed, call.packed),
        lines=lines,
        result="at::Tensor" if call.single else "std::vector<at::Tensor>",
    )


def _require_like(forward: Task, backward: Task) -> None:
    """The two files of a folder declare their sizes apart: the forward's kernel has to be made for the backward's."""
    known = [_described(each.signature) for each in forward.workloads]
    for each in backward.workloads:
        there = _described(each.signature)
        if not any(mine.items() <= there.items() for mine in known):
            sizes = ", ".join(f"{name} {list(shape)}" for name, (shape, _) in there.items() if name in known[0])
            raise UserError(
                f"The kernel of the forward was not made for {sizes}, where the backward has to compute it again.",
                "Take both from runs on one folder whose two configurations have the same sizes.",
            )


def _described(signature: Signature) -> dict[str, tuple[tuple[int, ...], str]]:
    specs = (*signature.inputs, *signature.parameters)
    return {spec.name: (spec.shape, spec.dtype) for spec in specs if isinstance(spec, TensorSpec)}


def _handed(task: Task, call: BackwardCall) -> Iterator[tuple[str, str]]:
    gradient = next(spec.name for spec in task.signature.inputs if spec.name.startswith(PREFIX))
    for k, name in enumerate(call.passed):
        if name:
            yield gradient if name == GRADIENT else name, f"p{k}[0]" if k in call.packed else f"p{k}"


def _gradient(task: Task, name: str) -> str:
    outputs = [spec.name for spec in task.signature.outputs]
    if PREFIX + name not in outputs:
        raise UserError(
            f"The file of {task.name} asks for the gradient of {name or 'an unknown argument'}, which the kernel does "
            "not compute.",
            "Export it with --form folder.",
        )
    place = outputs.index(PREFIX + name)
    return "made" if len(outputs) == 1 else f"std::get<{place}>(made)"


def _used(task: Task) -> set[str]:
    """The names of arguments that the outputs depend on; all where that is not known."""
    if task.program is None:
        return {spec.name for spec in (*task.signature.inputs, *task.signature.parameters)}
    found: set[str] = set(task.program.outputs)
    for op in task.program.ops:
        for each in (*op.args, *op.kwargs.values()):
            found |= set(_refs(each))
    return found


def _refs(argument: Argument) -> Iterator[str]:
    if isinstance(argument, tuple):
        for each in argument:
            yield from _refs(each)
    elif isinstance(argument, Ref):
        yield argument.ref


def _arguments(task: Task, given: dict[str, str]) -> str:
    """What the kernel is called with: what it does not depend on may be anything, and is zeros."""
    scalars = {spec.name for spec in task.signature.inputs if isinstance(spec, ScalarSpec)}
    used, here = _used(task), next((each for name, each in given.items() if name not in scalars), "p0")
    return ", ".join(
        _argument(task, spec, given, used, here) for spec in (*task.signature.inputs, *task.signature.parameters)
    )


def _argument(task: Task, spec: TensorSpec | ScalarSpec, given: dict[str, str], used: set[str], here: str) -> str:
    if spec.name in given:
        return given[spec.name]
    if isinstance(spec, ScalarSpec):
        return repr(spec.value).lower()
    if spec.name in used:
        raise UserError(
            f"The kernel takes {spec.name}, which the file of {task.name} does not hand to its function.",
            "Export it with --form folder.",
        )
    shape = ", ".join(map(str, spec.shape))
    return f"at::zeros({{{shape}}}, {here}.options().dtype(at::k{_SCALARS[spec.dtype]}))"


_SCALARS = {
    "float32": "Float", "float64": "Double", "float16": "Half", "bfloat16": "BFloat16", "int8": "Char",
    "uint8": "Byte", "int16": "Short", "int32": "Int", "int64": "Long", "bool": "Bool",
}  # fmt: skip


def _parameters(task: Task, passed: tuple[str, ...], packed: tuple[int, ...]) -> str:
    scalars = {spec.name for spec in task.signature.inputs if isinstance(spec, ScalarSpec)}
    kinds = [
        "std::vector<at::Tensor> const&"
        if k in packed
        else "double"
        if name in scalars
        else "at::Tensor const&"
        if name
        else "pybind11::object const&"
        for k, name in enumerate(passed)
    ]
    return ", ".join(f"{kind} p{k}" for k, kind in enumerate(kinds))


def _file(judged: Judged, kernels: list[Judged], *, parameters: str, lines: list[str], result: str) -> str:
    task, candidate = judged
    natives = [native(*each) for each in kernels]
    return (
        environment()
        .get_template("packages/robust_kbench.cu.j2")
        .render(
            title=quotable(f"A kernel for {task.name}"),
            digest=candidate.digest,
            author=quotable(candidate.author),
            architecture=architecture_of(candidate.target),
            view=natives[0].view,
            binding=natives[0].binding,
            operators=[each.operator for each in natives],
            kernels=_apart(kernels, natives),
            direction=task.direction,
            parameters=parameters,
            lines=lines,
            result=result,
        )
    )


def _apart(kernels: list[Judged], natives: list[Native]) -> list[str]:
    """Kernels and PyTorch's headers in one file: each kernel in a namespace of its own, after the headers of all."""
    for task, candidate in kernels:
        if _OTHERS.search(candidate.source):
            raise UserError(
                f"The {task.direction} kernel adds to a namespace of CuTe's, and cannot share a file with PyTorch.",
                "Export it with --form folder or torch-extension.",
            )
    headers = dict.fromkeys(line.strip() for each in natives for line in _INCLUDE.findall(each.kernel))
    texts = [
        f"namespace kernel_{each.task.direction} {{\n{_INCLUDE.sub('', text.kernel)}\n}}"
        for each, text in zip(kernels, natives, strict=True)
    ]
    return ["\n".join(headers), *texts]
