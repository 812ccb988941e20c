"""Captures by hand: operations in a row, as a model's could be, without PyTorch."""

from __future__ import annotations

from math import prod

from harness.nouns.capture import Capture, Missed, Operation, Part
from harness.nouns.task import Argument, Ref, TensorSpec, TracedOp


def packed(name: str, *shape: int) -> TensorSpec:
    strides = tuple(prod(shape[axis + 1 :]) for axis in range(len(shape)))
    return TensorSpec(name=name, shape=shape, strides=strides, dtype="float32")


def operation(
    result: str, target: str, *args: object, shape: tuple[int, ...], ms: float = 1.0, module: str = "", **more: object
) -> Operation:
    """A text among the arguments is a value's name; `flops` and `hindrance` may be given, too."""
    taken: list[Argument] = [Ref(ref=each) if isinstance(each, str) else each for each in args]  # type: ignore[misc]
    op = TracedOp(target=f"aten.{target}", args=tuple(taken), results=(packed(result, *shape),))
    return Operation.model_validate({"op": op, "module": module, "ms": ms, **more})


ROWS, WIDTH = 64, 32


def block(layer: int, taken: str) -> list[Operation]:
    """A norm, a product with an activation, a product added to what came in: 1, 4 + 1 and 4 + 1 ms."""
    at = f"layers.{layer}"
    shape = (ROWS, WIDTH)
    return [
        operation(
            f"norm{layer}", "layer_norm.default", taken, (WIDTH,), f"g{layer}", f"b{layer}", shape=shape,
            module=f"{at}.norm",
        ),
        operation(
            f"up{layer}", "linear.default", f"norm{layer}", f"u{layer}", shape=shape, ms=4.0, module=f"{at}.up",
            flops=2 * ROWS * WIDTH * WIDTH,
        ),
        operation(f"act{layer}", "relu.default", f"up{layer}", shape=shape, module=at),
        operation(
            f"down{layer}", "linear.default", f"act{layer}", f"d{layer}", shape=shape, ms=4.0, module=f"{at}.down",
            flops=2 * ROWS * WIDTH * WIDTH,
        ),
        operation(f"out{layer}", "add.Tensor", taken, f"down{layer}", shape=shape, module=at),
    ]  # fmt: skip


def weights(layer: int) -> list[TensorSpec]:
    return [
        packed(f"g{layer}", WIDTH), packed(f"b{layer}", WIDTH), packed(f"u{layer}", WIDTH, WIDTH),
        packed(f"d{layer}", WIDTH, WIDTH),
    ]  # fmt: skip


def part(*operations: Operation, inputs: tuple[TensorSpec, ...], weights: list[TensorSpec], path: str = "") -> Part:
    """A part that returns what its last operation gives."""
    return Part(
        path=path,
        inputs=inputs,
        weights=tuple(weights),
        operations=operations,
        outputs=(operations[-1].op.results[0].name,),
    )


def two_layers(hindrance: str = "") -> Part:
    """Two equal blocks; with a hindrance, the activation of the first one has it."""
    first = [
        each.model_copy(update={"hindrance": hindrance}) if each.name == "relu" else each for each in block(0, "x")
    ]
    return part(
        *first, *block(1, "out0"), inputs=(packed("x", ROWS, WIDTH),), weights=[*weights(0), *weights(1)]
    )  # fmt: skip


def captured(*parts: Part, whole_ms: float, missed: tuple[Missed, ...] = ()) -> Capture:
    return Capture(
        name="toy", parts=parts, missed=missed, whole_ms=whole_ms, calls=3, memory_bytes=1 << 20,
        weight_bytes=1 << 10, flops=1,
    )  # fmt: skip
