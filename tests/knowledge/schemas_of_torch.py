"""The schemas of all aten operations that the compiler lowers, as PyTorch has them.

PYTHONPATH=.:tests/knowledge python -m schemas_of_torch    # writes knowledge/compiler/lower/schemas.json
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import torch

from knowledge.compiler.lower.front import OPERATIONS
from knowledge.compiler.lower.schemas import FILE

Schema = dict[str, list[Any]]


def schemas() -> dict[str, Schema]:
    """By operation and overload, those that have defaults; an argument by keyword has a star before its name."""
    return dict(sorted(_schemas()))


def _schemas() -> Iterator[tuple[str, Schema]]:
    for name in (each + end for each in OPERATIONS for end in ("", "_")):
        packet = getattr(torch.ops.aten, name, None)
        for overload in packet.overloads() if packet is not None else ():
            arguments = getattr(packet, overload)._schema.arguments
            if any(each.has_default_value() for each in arguments) and not any(each.is_out for each in arguments):
                yield (
                    f"{name}.{overload}",
                    {
                        "*" * each.kwarg_only + each.name: [each.default_value] if each.has_default_value() else []
                        for each in arguments
                    },
                )


def text() -> str:
    """The file: a line a schema."""
    lines = (f" {json.dumps(target)}: {json.dumps(schema)}" for target, schema in schemas().items())
    return "{\n" + ",\n".join(lines) + "\n}\n"


if __name__ == "__main__":
    FILE.write_text(text(), encoding="utf-8")
