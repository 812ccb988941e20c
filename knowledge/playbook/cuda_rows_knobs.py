"""The knobs of row kernels for GPUs, and the types that reductions are taken in there."""

from __future__ import annotations

from dataclasses import dataclass

from knowledge.playbook.emission import ELEMENT_TYPES
from knowledge.playbook.expressions import Node
from knowledge.playbook.recipe import Plan
from knowledge.playbook.reducers import identity


@dataclass(frozen=True)
class Knobs:
    """A plan's knobs.

    `keep`: the row stays in registers from its only load to its last use. `items`: elements of a row that a thread
    holds then, else packs in flight. `group`: threads that share a row; `rows`: rows side by side in a block;
    `cluster`: blocks that share a row; `staged`: the next row is copied to shared memory meanwhile, `chain`: rows that
    one cluster takes in turn; `once`: cache hints; `across`: threads side by side take rows, not columns;
    `each`: rows that a thread takes at once, where what they share is read once for all of them;
    `split`: blocks that share a row and leave their results to a second kernel; `parts`: the memory of the next
    row is refilled in so many steps; `online`: one sweep finds a maximum and the sum of exponentials below it;
    `exact`: arithmetic in its cheaper spelling; `blocks`: that a multiprocessor holds at once, at least.
    """

    vector: bool
    keep: bool
    items: int
    group: int
    rows: int
    cluster: int
    chain: int
    staged: bool
    once: bool
    across: bool
    each: int
    split: int
    parts: int
    online: bool
    exact: bool
    blocks: int

    @classmethod
    def of(cls, plan: Plan) -> Knobs:
        """The knobs a plan sets, the others at their plain values."""
        get = {name: int(value) for name, value in plan.knobs.items()}.get
        return cls(
            vector=bool(get("vector", 0)), keep=bool(get("keep", 0)), items=get("items", 1), group=get("group", 256),
            rows=get("rows", 1), cluster=get("cluster", 1), chain=get("chain", 1), staged=bool(get("staged", 0)),
            once=bool(get("once", 0)), across=bool(get("across", 0)), each=get("each", 1),
            split=get("split", 1), parts=get("parts", 1), online=bool(get("online", 0)),
            exact=bool(get("exact", 0)), blocks=get("blocks", 1),
        )  # fmt: skip

    @property
    def threads(self) -> int:
        """Threads a block."""
        return self.group * self.rows


def part_type(node: Node) -> str:
    """The type one thread's partial result has."""
    element = ELEMENT_TYPES[node.args[0].dtype]
    if node.op.startswith("arg"):
        return f"Best<{element}>"
    return "int64_t" if node.op in ("sum", "prod") and element not in ("float", "double") else element


def total_type(node: Node) -> str:
    """The type partial results are joined in: sums of floats one size up."""
    kind = part_type(node)
    return "double" if kind == "float" and node.op in ("sum", "prod") else kind


def neutral(node: Node) -> str:
    """The value that changes nothing."""
    kind = part_type(node)
    if not kind.startswith("Best"):
        return identity(node, kind)
    return f"{kind}{{{identity(node, ELEMENT_TYPES[node.args[0].dtype])}, INT64_MAX}}"


def neutral_total(node: Node) -> str:
    """The same, in the type that partial results are joined in."""
    kind = total_type(node)
    return neutral(node) if kind.startswith("Best") else identity(node, kind)
