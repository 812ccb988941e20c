"""Which suites there are, and their task files in order.

`robust` are the tasks of robust-kbench with their workloads: eleven forward, 1 to 11, and eight backward, 12 to 19.
`level1` are 32 single operations at the shapes of KernelBench's level 1, problems 1 to 32: eighteen products of
matrices and vectors, and fourteen activations over 6.4 GB. `sixteen_bit` is what language models are made of, in
bfloat16: products from a square one to one token each of sixteen sequences, a gated pair, attention. A file's number
is its id.
"""

from __future__ import annotations

from pathlib import Path

_HERE = Path(__file__).parent


def names() -> tuple[str, ...]:
    """The suites, by name."""
    return tuple(sorted(folder.name for folder in _HERE.iterdir() if any(folder.glob("[0-9]*.py"))))


def folder(name: str) -> Path | None:
    """Where a suite's task files lie; None where there is no such suite."""
    return _HERE / name if name in names() else None
