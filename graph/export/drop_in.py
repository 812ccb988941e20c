"""A verified kernel as a drop-in: `model_new.py`, to lie beside `kernel.cu`, for programs that know nothing of us."""

from __future__ import annotations

import hashlib
import json
import math
import textwrap
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from graph.export.forms import forward_of
from graph.export.live_module import module_key
from graph.export.places import places
from graph.export.runtime.library import Built, abi, architecture, sha256
from graph.export.serving import Number, Size, served
from graph.export.serving import Tensor as Ruled
from graph.export.serving import View as RuledView
from harness.building.compilation import Toolchain, built_before
from harness.building.cpu_build import CpuToolchain, compile_flags, link_flags
from harness.building.cuda_build import DEFAULT_ARCHITECTURE, CudaToolchain, cuda_architecture
from harness.building.ninja_file import PRELUDE
from harness.building.toolchain import compiler_name
from harness.nouns.candidate import Candidate, TargetName
from harness.nouns.devices import on_gpu
from harness.nouns.task import ScalarSpec, Task, TensorSpec, View, Workload
from harness.nouns.tier import Tier
from harness.wire.entry import ENTRY_NAME

MODEL_NAME = "model_new.py"
RUNTIME = Path(__file__).parent / "runtime"
RUNTIME_NAMES = tuple(f"cutegen_runtime/{file.name}" for file in sorted(RUNTIME.glob("*.py")))

# Flags followed by a word of their own; of these, the ones that do not point into this machine.
_TAKE_AN_ARGUMENT = {
    "-isystem",
    "-include",
    "-ccbin",
    "-o",
    "-Xlinker",
    "-Xptxas",
    "-Xcompiler",
    "--cudart",
    "-diag-suppress",
    "-gencode",
}
_PORTABLE_ARGUMENTS = _TAKE_AN_ARGUMENT - {"-isystem", "-include", "-ccbin", "-o", "-gencode"}
_LOCAL = ("-L", "-l", "-I", "-Wl,-rpath")
_COMPILERS = {"cpu": "g++", "cuda": "nvcc"}


@dataclass(frozen=True)
class _Workload:
    """One workload's arguments and outputs as Python expressions."""

    arguments: tuple[str, ...]
    outputs: tuple[str, ...]


@dataclass(frozen=True)
class _Served:
    """Further sizes, and arguments and outputs by them as Python expressions."""

    sizes: tuple[Size, ...]
    arguments: tuple[str, ...]
    outputs: tuple[str, ...]


def drop_in_files(task: Task, candidate: Candidate, library: Path | None = None) -> dict[str, str]:
    """The texts of a drop-in by their names in its folder, where `kernel.cu` and `kernel.so` go beside them.

    Raises like `export_drop_in`.
    """
    return {MODEL_NAME: export_drop_in(task, candidate, library)} | dict(_runtime())


def judged_library(candidate: Candidate, tier: Tier) -> Path | None:
    """The library that the candidate was judged as, where that was on this machine and is still kept."""
    return built_before(candidate, _toolchain(candidate.target), tier=tier)


def export_drop_in(task: Task, candidate: Candidate, library: Path | None = None) -> str:
    """The text of `model_new.py` for a kernel that passed on this task.

    It defines `ModelNew` with the reference's constructor, forward and state_dict. Where it finds `library` beside it,
    and that fits its machine, it compiles nothing; else the `kernel.cu` beside it, with the judge's own flags. Raises
    `MachineError` where this machine has no compiler for the target, whose flags can then not be told.
    """
    signature, workloads = task.signature, [_workload(workload) for workload in task.workloads]
    return (
        environment()
        .get_template(f"{MODEL_NAME}.j2")
        .render(
            title=quotable(f"A drop-in for the model of task {task.name}."),
            digest=candidate.digest,
            author=quotable(candidate.author),
            compiler_name=_COMPILERS[candidate.target],
            runtime=hashlib.sha256("".join(_runtime().values()).encode()).hexdigest()[:12],
            device=candidate.target,
            flags=_flags(candidate.target),
            prelude=text_literal(PRELUDE),
            built=_built(candidate, library) if library is not None else "None",
            workloads=workloads,
            served=_served(task),
            parameters=tuple(_path(spec.name) for spec in signature.parameters),
            ties=tuple((_path(spec.name), _path(tied)) for spec in signature.parameters for tied in spec.also),
            views=task.views_said,
            state=tuple((_path(name), name in signature.renewed) for name in signature.state),
            places=places(task, candidate.target),
            results=signature.results,
            forward=forward_of(task),
            operator=_operator(task, candidate, workloads, library),
            schema=_schemas(task),
            sizes=sizes(task),
            entry=ENTRY_NAME,
            reads_mode=".training" in task.source,
            live=module_key(task.source) is not None,
            reference=text_literal(task.source),
        )
    )


@lru_cache(maxsize=1)
def _runtime() -> dict[str, str]:
    """The package that each drop-in brings along."""
    return {name: (RUNTIME / Path(name).name).read_text(encoding="utf-8") for name in RUNTIME_NAMES}


def _toolchain(target: TargetName) -> Toolchain:
    return CudaToolchain(cuda_architecture()) if on_gpu(target) else CpuToolchain()


def _built(candidate: Candidate, library: Path) -> str:
    """What is said of the library, as an expression."""
    built = Built(
        sha256=sha256(library),
        source_sha256=hashlib.sha256(candidate.source.encode()).hexdigest(),
        architecture=_made_for(candidate.target),
        abi=abi(),
        compiler=compiler_name(_toolchain(candidate.target).compiler.version),
    )
    lines = "".join(f"            {name}={_literal(value)},\n" for name, value in asdict(built).items())
    return f"runtime.Built(\n{lines}        )"


def _made_for(target: TargetName) -> str:
    return cuda_architecture() if on_gpu(target) else architecture("cpu", None)


@lru_cache(maxsize=1)
def environment() -> Environment:
    """Of the templates beside this file."""
    found = Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        undefined=StrictUndefined,
        keep_trailing_newline=True,
        autoescape=False,
    )
    found.filters.update(literal=_literal, words=_words)
    return found


def _literal(value: str | bool | tuple[object, ...]) -> str:
    """A Python expression, with double quotes where the text allows it."""
    if isinstance(value, tuple):
        return f"({', '.join(map(_literal, value))}{',' if len(value) == 1 else ''})"  # type: ignore[arg-type]
    return repr(value) if isinstance(value, bool) else json.dumps(value)


def _words(words: Sequence[str]) -> str:
    """An expression for a list of words, a few a line."""
    # A long flag must not be torn at its hyphens.
    lines = textwrap.wrap(" ".join(words), width=100, break_long_words=False, break_on_hyphens=False)
    return '"""\n' + "".join(f"    {line}\n" for line in lines) + '""".split()'


def _flags(target: TargetName) -> tuple[str, ...]:
    """The judge's flags to compile and link, without the folders, files and architecture of this machine."""
    if not on_gpu(target):
        return _portable((*compile_flags(), *link_flags()))
    toolchain = CudaToolchain(DEFAULT_ARCHITECTURE)
    edge = toolchain.whole()
    return _portable(edge.command[len(toolchain.compiler.command) :], files=(*edge.inputs, edge.output))


def _portable(words: Sequence[str], files: Sequence[str] = ()) -> tuple[str, ...]:
    """The words that mean the same on every machine, each once."""
    kept: list[str] = []
    rest = iter(words)
    for word in rest:
        if word in _TAKE_AN_ARGUMENT:
            argument = next(rest)
            if word in _PORTABLE_ARGUMENTS and not argument.startswith("-rpath"):
                kept += [word, argument]
        elif word not in (*files, *kept) and not word.startswith(_LOCAL):
            kept.append(word)
    return tuple(kept)


def _workload(workload: Workload) -> _Workload:
    signature = workload.signature
    return _Workload(
        arguments=tuple(_argument(argument) for argument in (*signature.inputs, *signature.parameters)),
        outputs=tuple(_argument(output) for output in signature.outputs),
    )


def _served(task: Task) -> _Served | None:
    """The sizes beside the workloads', with the arguments and outputs of a call that has some."""
    found = served(task)
    if found is None:
        return None
    signature = task.signature
    places = enumerate((*signature.inputs, *signature.parameters))
    arguments = (_ruled(found.arguments[k]) if k in found.arguments else _argument(each) for k, each in places)
    return _Served(found.sizes, tuple(arguments), tuple(map(_ruled, found.outputs)))


def _ruled(tensor: Ruled) -> str:
    return _tensor(tensor.name, tensor.shape, tensor.strides, tensor.dtype, tensor.view)


def _argument(argument: TensorSpec | ScalarSpec) -> str:
    if isinstance(argument, ScalarSpec):
        if argument.free:
            return "None"
        values = ", ".join(map(_number, (argument.value, *argument.others)))
        return f"Number({_literal(argument.name)}, ({values},))"
    return _tensor(argument.name, argument.shape, argument.strides, argument.dtype, argument.view, argument.pairs)


def _tensor(
    name: str,
    shape: Sequence[Number],
    strides: Sequence[Number],
    dtype: str,
    view: View | RuledView | None,
    pairs: bool = False,
) -> str:
    within = "" if view is None else (
        f", View({_literal(view.of)}, {_numbers(view.strides)}, {view.offset}, {view.detached})"
    )  # fmt: skip
    within += ", pairs=True" if pairs else ""
    return f"Tensor({_literal(name)}, {_numbers(shape)}, {_numbers(strides)}, torch.{dtype}{within})"


def _numbers(numbers: Sequence[Number]) -> str:
    return f"({', '.join(map(str, numbers))}{',' if len(numbers) == 1 else ''})"


def _path(name: str) -> tuple[str, ...]:
    return tuple(name.split("."))


def _number(value: float) -> str:
    return repr(value) if math.isfinite(value) else f'float("{value}")'


def _operator(task: Task, candidate: Candidate, workloads: Sequence[_Workload], library: Path | None) -> str:
    """The operator's name, by which compile caches know it: a digest of what it computes, and of its gradients."""
    made_for = _made_for(candidate.target) if library is not None else candidate.target
    what = [candidate.source, PRELUDE, *_flags(candidate.target), made_for, *_schemas(task), *map(repr, workloads)]
    what += [repr(more)] if (more := _served(task)) else []
    return f"k_{hashlib.sha256(json.dumps([*what, sizes(task), task.source]).encode()).hexdigest()[:16]}"


def _schemas(task: Task) -> tuple[str, str]:
    """The operator's schema, and that of its overload which writes to memory that it is given.

    Inputs and parameters by number, since their names need not be identifiers.
    """
    arguments = (*task.signature.inputs, *task.signature.parameters)
    kinds = [each.type if isinstance(each, ScalarSpec) else "Tensor" for each in arguments]
    taken = ", ".join(f"{kind} a{i}" for i, kind in enumerate(kinds))
    count = len(task.signature.outputs)
    marked = [f"Tensor(o{k}!)" for k in range(count)]
    written = ", ".join(f"{each} out{k if count > 1 else ''}" for k, each in enumerate(marked))
    between = ", " if taken else ""
    return f"({taken}) -> {_several(['Tensor'] * count)}", f"({taken}{between}*, {written}) -> {_several(marked)}"


def _several(kinds: list[str]) -> str:
    return kinds[0] if len(kinds) == 1 else f"({', '.join(kinds)})"


def sizes(task: Task) -> str:
    """What the file's functions are given in each workload, as an expression."""
    each = [
        ", ".join(f"{_literal(name)}: {_plain(value)}" for name, value in workload.variant.arguments.items())
        for workload in task.workloads
    ]
    return f"({''.join(f'{{{one}}}, ' for one in each).rstrip()})"


def _plain(value: bool | float | str) -> str:
    return _literal(value) if isinstance(value, str) else _number(value)


def quotable(text: str) -> str:
    """One line that cannot end the docstring it is put into."""
    return " ".join(text.split()).replace("\\", "/").replace('"', "'")


def text_literal(text: str) -> str:
    """A readable Python literal: the text's own lines between quotes that docstrings seldom use."""
    # Quotes at the very end would merge with the closing ones.
    body = text.rstrip("'")
    last = "\\'" * (len(text) - len(body))
    escaped = body.replace("\\", "\\\\").replace("'''", "\\'\\'\\'").replace("\r", "\\r").replace("\0", "\\0")
    return f"'''\\\n{escaped}{last}'''"
