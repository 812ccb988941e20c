"""What follows a product on one element of its result, as C++ statements: `x` is the element, `d0`, `d1`, ... others.

One statement a traced operation, `x = ...`, over what all of the expression goes through; what one of them needs twice
is named before it. Of two products the second's own element is `u`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from knowledge.compiler.nodes import Element, elements
from knowledge.playbook.emission import literal
from knowledge.playbook.expressions import Node
from knowledge.playbook.gemm_form import SCALAR_PREFIX, UncoveredError
from knowledge.playbook.primitives import PRIMITIVES

# NaN stays NaN, on either side.
EXTREMA = {"maximum": ("<", ">="), "minimum": (">", "<=")}
# Steps longer than this, in statements, would be computed for every element in registers that the product needs.
MOST = 60


class Steps:
    """The statements; `operands` are the reads that they call d0, d1, ... in that order."""

    def __init__(self, names: Mapping[str, str]) -> None:
        self.names = names
        self.operands: list[Element] = []
        self.of_second: tuple[str, ...] = ()
        self._known: dict[int, str] = {}
        self._locals = 0

    def of(self, body: Node, *, second: bool = False) -> tuple[str, ...]:
        """From the total x to the body; of two products, what is done to u alone goes to `of_second`."""
        totals = {node.op: node for node in elements(body) if node.kind == "total"}
        if "x" not in totals:
            raise UncoveredError("the forward holds no matrix product that the output comes from.")
        own: list[Node] = []
        if second:
            own = self.alone(body, totals["u"], totals["x"])
            self._known[id(own[-1])] = "u"
        made = self._along(_narrows(body, totals["x"]), "x")
        if second:
            del self._known[id(own[-1])]
            self.of_second = tuple(self._along(own, "u"))
        if len(made) > MOST:
            raise UncoveredError("so many operations behind one product are not covered.")
        return tuple(made)

    @staticmethod
    def alone(body: Node, one: Node, other: Node) -> list[Node]:
        """From one total to the last value on its way that the other has no part in."""
        return [node for node in _narrows(body, one) if not any(each is other for each in elements(node))]

    def _along(self, chain: list[Node], name: str) -> list[str]:
        """Statements from one value that all goes through to the next, a traced operation at a time."""
        lines: list[str] = []
        self._known[id(chain[0])] = name
        for begins, node in enumerate(chain[1:], 1):
            if begins + 1 < len(chain) and chain[begins + 1].origin == node.origin:
                continue
            lines += self._statement(node, name)
            self._known = {key: text for key, text in self._known.items() if text != name}
            self._known[id(node)] = name
        return lines

    def _statement(self, root: Node, name: str) -> list[str]:
        """One assignment, after names for what it needs more than once."""
        inner = [node for node in elements(root) if node.kind == "compute" and self._open(root, node)]
        self._check(root, inner)
        uses: Counter[int] = Counter()
        for node in inner:
            twice = node.op in EXTREMA
            for arg in node.args:
                uses[id(arg)] += 1 + twice
        lines, own = [], dict(self._known)
        for node in inner[:-1]:
            if uses[id(node)] > 1 and not node.uniform:
                text = self._text(node)
                self._known[id(node)] = f"y{self._locals}"
                lines.append(f"auto const y{self._locals} = {text}")
                self._locals += 1
        lines.append(f"{name} = {self._text(root)}")
        self._known = own
        return lines

    def _check(self, root: Node, inner: list[Node]) -> None:
        """What another operation makes of an operand alone is a kernel's work before this one, numbers apart."""
        ours = set(self._known)
        for node in inner:
            if any(id(arg) in ours for arg in node.args):
                ours.add(id(node))
            scales = node.op in ("mul", "div") and any(arg.uniform for arg in node.args)
            if not (id(node) in ours or node.uniform or scales or node.origin == root.origin):
                raise UncoveredError(f"{node.origin} of an operand is not covered, of the product it is.")

    def _open(self, root: Node, node: Node) -> bool:
        """Whether a value is computed in a statement, and not known before it."""
        if id(node) in self._known:
            return False
        stack, seen = [root], set()
        while stack:
            each = stack.pop()
            if each is node:
                return True
            if id(each) not in self._known and id(each) not in seen:
                seen.add(id(each))
                stack.extend(each.args)
        return False

    def _text(self, node: Node) -> str:
        """The right-hand side for a value that has no name yet."""
        if node.op == "cast":
            return self._operand(node.args[0], node) if node.args[0].uniform else self._missing(node)
        if node.op in EXTREMA:
            return self._extremum(node)
        template = PRIMITIVES[node.op].element
        if "math::" in template:
            self._missing(node)
        call = template.startswith("std::")
        return template.format(*(self._operand(arg, node, bare=call) for arg in node.args))

    def _extremum(self, node: Node) -> str:
        one, other = (self._operand(arg, node) for arg in node.args)
        beyond, not_less = EXTREMA[node.op]
        if node.args[1].kind == "const":
            return f"{one} {beyond} {other} ? {other} : {one}"
        return f"{one} {not_less} {other} || {one} != {one} ? {one} : {other}"

    def _operand(self, node: Node, user: Node, *, bare: bool = False) -> str:
        """How a statement refers to a value: by its name, or by what it is, in parentheses unless `bare`."""
        if id(node) in self._known:
            return self._known[id(node)]
        if node.kind == "const":
            return literal(bool(node.payload[0]), "bool") if node.dtype == "bool" else _number(node)
        if node.kind == "scalar":
            return SCALAR_PREFIX + self.names[node.op]
        if isinstance(node, Element):
            return self._read(node, user)
        text = self._text(node)
        atom = bare or node.op == "cast" or PRIMITIVES[node.op].element.startswith("std::")
        return text if atom else f"({text})"

    def _read(self, node: Element, user: Node) -> str:
        if node.kind != "read":
            self._missing(user)
        if not any(each is node for each in self.operands):
            self.operands.append(node)
        return f"d{next(k for k, each in enumerate(self.operands) if each is node)}"

    @staticmethod
    def _missing(node: Node) -> str:
        raise UncoveredError(f"{node.origin or node.op} behind a product is not covered.")


def _number(node: Node) -> str:
    value = float(node.payload[0])
    return f"T({int(value)})" if value in (0, 1) else f"T({literal(value, 'float64')})"


def _narrows(root: Node, total: Node) -> list[Node]:
    """The values that every way from the total to the root goes through, the total first."""
    order = {id(node): place for place, node in enumerate(elements(root))}
    over: set[int] = set()
    for node in elements(root):
        if node is total or any(id(arg) in over for arg in node.args):
            over.add(id(node))
    found = [root]
    while found[-1] is not total:
        front = {id(arg): arg for arg in found[-1].args if id(arg) in over}
        while len(front) > 1:
            last = front.pop(max(front, key=order.__getitem__))
            front |= {id(arg): arg for arg in last.args if id(arg) in over}
        found += front.values()
    return found[::-1]
