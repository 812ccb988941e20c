"""Kernels as robust-kbench loads them: one .cu each, with `forward` or `backward` called as the task's file does."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from graph.export.drop_in import environment, quotable
from graph.export.training import PREFIX
from graph.packages.native import Native, native
from graph.packages.source_package import Judged, architecture_of
from harness.nouns.devices import on_gpu
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
    if not all(on_gpu(each.candidate.target) for each in judged):
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


# -- How a robust-kbench file calls its kernels: `fn(...)` in the module's forward, `backward_fn(...)` in its funct ---

# Both are read off the text. What a call passes goes by the kernel's own names of its arguments; "" is what no kernel
# takes.


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
