"""einsum of any number of operands: products of two, in the order that computes and keeps the least.

Without sums an equation is one multiplication of operands that are turned and broadcast: strides say that, too.
"""

from __future__ import annotations

import math
import string
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

from knowledge.compiler.ir.expressions import Node, UnwritableError
from knowledge.compiler.ir.index import Index, along, axes, number, places
from knowledge.compiler.ir.nodes import Values
from knowledge.compiler.lower.contracting import contracted
from knowledge.compiler.lower.lowering import Lower, Lowering
from knowledge.compiler.lower.pointwise import result_dtype
from knowledge.compiler.problem import Op

# Products that an element of what lies between two of them is worth, and operands of which every order is looked at.
KEPT, LOOKED_AT = 8, 5


class Term(NamedTuple):
    """An operand, and the letter of each of its dimensions, each letter once."""

    letters: str
    node: Node


def _einsum(state: Lowering, op: Op) -> Node:
    graph, equation, given = state.graph, op.args[0], op.args[1]
    if not isinstance(equation, str) or not isinstance(given, tuple):
        raise UnwritableError(f"{op.target} of {equation}")
    nodes = [state.operand(each, result_dtype(op)) for each in given]
    words, result = _words(equation.replace(" ", ""), [len(node.shape) for node in nodes])
    extents = _extents(words, nodes)
    terms = [_distinct(graph, word, node, extents) for word, node in zip(words, nodes, strict=True)]
    while len(terms) > 2:
        pair = _next(tuple(each.letters for each in terms), result, extents)
        left, right = (terms[place] for place in pair)
        rest = [each for place, each in enumerate(terms) if place not in pair]
        kept = _kept(left.letters, right.letters, [*(each.letters for each in rest), result])
        terms = [*rest, Term(kept, _product(graph, (left, right), kept, extents))]
    return _product(graph, terms, result, extents)


def _words(equation: str, ranks: Sequence[int]) -> tuple[list[str], str]:
    """The letters of each operand and of the result; dimensions under an ellipsis get letters of their own."""
    terms, arrow, result = equation.partition("->")
    parts = terms.split(",")
    wide = max(
        (rank - len(part) + 3 for part, rank in zip(parts, ranks, strict=True) if "..." in part), default=0
    )  # fmt: skip
    free = [letter for letter in string.ascii_letters if letter not in equation]
    unnamed = "".join(free[:wide])
    words = []
    for part, rank in zip(parts, ranks, strict=True):
        under = rank - len(part) + 3
        words.append(part.replace("...", unnamed[wide - under :] if under else ""))
    if not arrow:
        named = terms.replace(",", "").replace(".", "")
        result = "..." * bool(wide) + "".join(sorted(each for each in set(named) if named.count(each) == 1))
    return words, result.replace("...", unnamed)


def _extents(words: Sequence[str], nodes: Sequence[Node]) -> dict[str, int]:
    """How far each letter goes: operands of extent 1 are the same everywhere along it."""
    found: dict[str, int] = {}
    for word, node in zip(words, nodes, strict=True):
        for letter, size in zip(word, node.shape, strict=True):
            found[letter] = size if found.get(letter, 1) == 1 else found[letter]
    return found


def _distinct(graph: Values, word: str, node: Node, extents: Mapping[str, int]) -> Term:
    """Each letter once: a repeated one is a diagonal, one of extent 1 where others go further is left out."""
    kept = [letter for letter in dict.fromkeys(word) if node.shape[word.index(letter)] == extents[letter]]
    letters = "".join(kept)
    if letters == word:
        return Term(word, node)
    shape = tuple(extents[letter] for letter in letters)
    place = dict(zip(letters, places(shape), strict=True))
    return Term(letters, graph.map(shape, graph.read(node, tuple(place.get(each, number(0)) for each in word))))


def _kept(left: str, right: str, others: Sequence[str]) -> str:
    """What is left of two operands' letters: those that others have, too. The shared ones come first."""
    wanted = set().union(*others)
    shared = [each for each in left if each in right]
    return "".join(each for each in dict.fromkeys((*shared, *left, *right)) if each in wanted)


def _next(words: tuple[str, ...], result: str, extents: Mapping[str, int]) -> tuple[int, int]:
    """The two operands to multiply first."""
    pairs = combinations(range(len(words)), 2)
    return min(pairs, key=lambda pair: _cost(words, pair, result, extents))


def _cost(words: tuple[str, ...], pair: tuple[int, int], result: str, extents: Mapping[str, int]) -> int:
    """Products of this one and of the best ones after it, and what lies between; of many operands, its own alone."""
    rest = tuple(word for place, word in enumerate(words) if place not in pair)
    left, right = (words[place] for place in pair)
    kept = _kept(left, right, [*rest, result])
    own = _size({*left, *right}, extents) + KEPT * _size(kept, extents)
    after = (*rest, kept)
    if len(words) > LOOKED_AT or len(after) < 2:
        return own
    return own + min(_cost(after, each, result, extents) for each in combinations(range(len(after)), 2))


def _size(letters: set[str] | str, extents: Mapping[str, int]) -> int:
    return math.prod(extents[each] for each in letters)


def _product(graph: Values, terms: Sequence[Term], result: str, extents: Mapping[str, int]) -> Node:
    """One operand or two, with these letters left: what both lack of them is summed."""
    shape = tuple(extents[each] for each in result)
    over = "".join(each for each in dict.fromkeys("".join(term.letters for term in terms)) if each not in result)
    sizes = [extents[each] for each in over]
    place = dict(zip(result, places(shape), strict=True))
    place |= dict(zip(over, map(along, axes("r", sizes)), strict=True))
    read = [(term.node, tuple(_at(term.letters, place))) for term in terms]
    if over and len(read) == 2:
        return contracted(graph, shape, sizes, *read)
    factors = [graph.read(node, indices, partial=True) for node, indices in read]
    body = factors[0] if len(factors) == 1 else graph.element("mul", factors[0].dtype, *factors)
    return graph.fold("sum", shape, tuple(sizes), body) if over else graph.map(shape, body)


def _at(letters: str, place: Mapping[str, Index]) -> Iterator[Index]:
    return (place[each] for each in letters)


EINSUM: dict[str, Lower] = {"einsum": _einsum}
