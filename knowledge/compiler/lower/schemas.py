"""Calls of aten operations with every argument of their schema: in its place, and at PyTorch's default if left out.

`schemas.json` holds the arguments of each overload with defaults, in order: [] is required, [x] has the default x, and
a name behind "*" is given by keyword. `python -m schemas_of_torch` in tests/knowledge writes it.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from knowledge.compiler.problem import Argument, Op

FILE = Path(__file__).with_suffix(".json")


def completed(op: Op) -> Op:
    """The operation with all arguments of its schema; as it is where the schema has no defaults."""
    schema = _schemas().get(op.target.removeprefix("aten."))
    if schema is None:
        return op
    args, kwargs = list(op.args), dict(op.kwargs)
    for position, (name, default) in enumerate(schema.items()):
        if name.startswith("*"):
            kwargs.setdefault(name[1:], *default)
        elif position >= len(op.args):
            args.append(kwargs.pop(name, *default))
    return op.model_copy(update={"args": tuple(args), "kwargs": kwargs})


@cache
def _schemas() -> dict[str, dict[str, tuple[Argument, ...]]]:
    read = json.loads(FILE.read_text(encoding="utf-8"))
    return {
        target: {name: tuple(map(_argument, default)) for name, default in schema.items()}
        for target, schema in read.items()
    }


def _argument(value: Any) -> Any:
    return tuple(map(_argument, value)) if isinstance(value, list) else value
