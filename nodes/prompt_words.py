"""The task and the machine in words, and text in fences that it cannot close."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import AIMessage

from harness.judging.roofline_bound import exact_gflop_s, needed_ms, products_of
from harness.nouns.aten import FREE, of_kinds
from harness.nouns.device_facts import DeviceFacts
from harness.nouns.task import Argument, DTypeArg, Program, Ref, Task, TensorSpec, TracedOp
from harness.nouns.verdict import Precision
from knowledge.topics import functions_of
from nodes.request import Left

MAX_OPERATIONS = 32
_FIRST, _LAST = 14, 4
_MAX_NAMED = 8

# What the FLOPs of a task count (`harness.trusted.facts.watching`), by the names that a traced forward has for it.
_COUNTED = of_kinds("product", "convolution", "attention", "recurrence")
_SORTING = of_kinds("sort")
_NO_ARITHMETIC = FREE | of_kinds("copy", "cast", "create", "rearrange") | {"detach_", "dropout"}

_OF_A_FUNCTION = 20
"""Instructions for a vector of exponentials, erf and the like, about as the processor's guide writes them."""

_TICKS = re.compile(r"`{3,}")


def fenced(text: str, language: str = "") -> str:
    """`text` as a code block whose fence is longer than any in it: a comment in a kernel ends no block of a prompt."""
    longest = max((len(ticks) for ticks in _TICKS.findall(text)), default=0)
    fence = "`" * max(4, longest + 1)
    return f"{fence}{language}\n{text.rstrip()}\n{fence}"


def one_line(text: str) -> str:
    """`text` as part of a line: a second one could begin like a heading, or like another's words."""
    return " ".join(text.split())


def say_operations(program: Program | None) -> str:
    """One line an operation: its name, operands, and the shape and type of what it gives; empty where not traced.

    Of more than `MAX_OPERATIONS`, mostly the turns of a loop, the beginning and the end.
    """
    if program is None:
        return ""
    if len(program.ops) <= MAX_OPERATIONS:
        return "\n".join(map(_operation, program.ops))
    left_out = f"({len(program.ops) - _FIRST - _LAST} more)"
    return "\n".join([*map(_operation, program.ops[:_FIRST]), left_out, *map(_operation, program.ops[-_LAST:])])


def say_uncounted(program: Program | None) -> str:
    """The operations that the FLOPs of a task leave out, the first few by name; empty where all are counted."""
    names = dict.fromkeys(op.target.split(".")[1] for op in program.ops) if program else {}
    others = [name for name in names if name not in _COUNTED | _NO_ARITHMETIC]
    more = f" and {len(others) - _MAX_NAMED} more" if len(others) > _MAX_NAMED else ""
    return ", ".join(others[:_MAX_NAMED]) + more


def say_sorting(program: Program | None) -> str:
    """The operations that choose or order elements, by name, whose comparisons nobody counts; empty without any."""
    return ", ".join(sorted(_SORTING & program.names)) if program else ""


def say_machine(device: DeviceFacts, task: Task, precision: Precision) -> str:
    """The device's rates, and which of them bounds the task's first workload."""
    rates = _gpu(device) if device.architecture else _processor(device)
    functions = {} if device.architecture else functions_of(task.program)
    return f"{rates}\n{_bound(device, task, say_sorting(task.program), functions, precision)}"


def say_left(left: Left) -> str:
    """How deep the run is and how much time it has; which tools may be called, and how often."""
    deep = f"Depth {left.depth} of {left.max_depth}: so many optimizations have been decided, {left.kept} of them kept."
    if left.counted == "generation":
        deep = f"This is generation {left.depth} of {left.max_depth}."
    words = f"{deep} The run has {left.seconds:.0f} s left."
    if not left.tools:
        return words
    tools = ", ".join(f"`{name}`" for name in left.tools)
    return f"{words} Before you answer you may call {tools}: {left.calls} calls in all."


def _processor(device: DeviceFacts) -> str:
    caches = ", ".join(_kib(size) for size in (device.l1_bytes, device.l2_bytes, device.l3_bytes))
    return (
        f"{device.device}, {device.threads} threads, {device.simd_floats} floats a vector, caches of {caches}; "
        f"{device.peak_gb_s:.4g} GB/s, {device.peak_gflop_s:.4g} GFLOP/s in float32."
    )


def _gpu(device: DeviceFacts) -> str:
    return (
        f"{device.device}, {device.architecture}, {device.multiprocessors} multiprocessors with "
        f"{_kib(device.shared_bytes)} of shared memory a block, last cache {_kib(device.l3_bytes)}; "
        f"{device.peak_gb_s:.4g} GB/s, {device.peak_gflop_s / 1000:.4g} TFLOP/s in float32; tensor cores "
        f"{device.tf32_gflop_s / 1000:.4g} in TF32, {device.half_gflop_s / 1000:.4g} in float16 and bfloat16."
    )


def _unit(device: DeviceFacts, task: Task, precision: Precision) -> str:
    """What multiplies at the rate of the task's products."""
    products = products_of(task.program, precision)
    rate = exact_gflop_s(task.signature.dtypes, device, products)
    if rate == device.peak_gflop_s:
        return "in float32"
    if rate == device.half_gflop_s:
        return "in 16 bits"
    return "in TF32" if products == 1 else "as three of TF32 each"


def _bound(device: DeviceFacts, task: Task, sorting: str, functions: Mapping[str, int], precision: Precision) -> str:
    work = task.workloads[0]
    moving_ms, computing_ms = needed_ms(task, device, precision)
    if sorting and not work.flops:
        return (
            f"The bytes alone take {moving_ms:.3g} ms, which no kernel comes below. The comparisons of {sorting} are "
            "not counted: how often each element is looked at decides how near to it one comes."
        )
    functions_ms = 2 * _OF_A_FUNCTION * sum(functions.values()) / (device.peak_gflop_s * 1e6)
    bound = "memory" if moving_ms >= computing_ms + functions_ms else "arithmetic"
    times = [f"the bytes{'' if work.flops or functions else ' alone'} take {moving_ms:.3g} ms"]
    if work.flops:
        times.append(f"the counted products {computing_ms:.3g} ms {_unit(device, task, precision)}")
    if functions:
        times.append(f"{_listed(functions)} some {functions_ms:.2g} ms, at {_OF_A_FUNCTION} instructions a vector")
    cheap = sorting or ("" if work.flops else "the other arithmetic" if functions else "the arithmetic")
    said = f"{_listed(times)}: {bound} bounds {'it' if work.flops else 'the task'}"
    return f"{said[0].upper()}{said[1:]}{f', as far as {cheap} is cheap' if cheap else ''}."


def _listed(words: Iterable[str]) -> str:
    """Words as a list within a sentence."""
    *first, last = words
    return f"{', '.join(first)} and {last}" if first else last


def _kib(size: int) -> str:
    return f"{size // 1024} KiB"


def _operation(op: TracedOp) -> str:
    return f"{', '.join(map(_result, op.results))} = {op.target}({_arguments(op)})"


def _result(spec: TensorSpec) -> str:
    return f"{spec.name} {spec.dtype}[{', '.join(map(str, spec.shape))}]"


def _arguments(op: TracedOp) -> str:
    named = (f"{name}={_argument(value)}" for name, value in op.kwargs.items())
    return ", ".join([*map(_argument, op.args), *named])


def _argument(argument: Argument) -> str:
    match argument:
        case Ref():
            return argument.ref
        case DTypeArg():
            return argument.dtype
        case tuple():
            return f"[{', '.join(map(_argument, argument))}]"
        case _:
            return repr(argument)


# -- A text cut into its fenced code blocks and the prose around them -------------------------------------------------


_FENCE = re.compile(r"^ {0,3}(?P<fence>`{3,}|~{3,})[ \t]*(?P<info>[^`]*)$")


@dataclass(frozen=True)
class Block:
    """A code block: what stands behind its opening fence, its lines, and whether a fence ends it."""

    info: str
    text: str
    closed: bool


def split(text: str) -> tuple[str, list[Block]]:
    """The prose around the fenced blocks, and the blocks. A fence that never closes takes the rest of the text."""
    prose: list[str] = []
    blocks: list[Block] = []
    inside: list[str] = []
    fence, info = "", ""
    for line in text.split("\n"):
        match = _FENCE.match(line)
        if fence:
            if match and match["fence"].startswith(fence) and not match["info"].strip():
                blocks.append(Block(info, "\n".join(inside), closed=True))
                fence = ""
            else:
                inside.append(line)
        elif match:
            fence, info, inside = match["fence"], match["info"].strip(), []
        else:
            prose.append(line)
    if fence:
        blocks.append(Block(info, "\n".join(inside), closed=False))
    return "\n".join(prose), blocks


# -- Halves of characters in what a model says: two that belong together are joined, one alone is replaced ------------

# JSON may spell a character beyond the first 65,536 as two halves, and a stream may cut between them. Half a character
# can be neither recorded, checkpointed, compiled nor sent back.


_FIELDS = ("content", "tool_calls", "invalid_tool_calls", "additional_kwargs", "response_metadata")


def whole_characters(message: AIMessage) -> AIMessage:
    """The message in whole characters; a half without its other half becomes U+FFFD."""
    return message.model_copy(update={name: joined(getattr(message, name)) for name in _FIELDS})


def joined(value: Any) -> Any:
    """A value of JSON in whole characters: texts within lists and objects too."""
    if isinstance(value, str):
        return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    if isinstance(value, list):
        return [joined(part) for part in value]
    if isinstance(value, dict):
        return {joined(name): joined(part) for name, part in value.items()}
    return value
