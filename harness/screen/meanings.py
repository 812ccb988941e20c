"""What a source itself gives a meaning: names of its own, variables of types' names, what macros take and stand for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from harness.screen.ownership import Ownership
from harness.screen.rules import RULES, words_of
from harness.screen.tokens import Token

_TYPES = frozenset().union(*(rule.types for rule in RULES))
_WATCHED = frozenset().union(
    *(rule.called | rule.attributes | (rule.words if rule.scoped else set()) for rule in RULES)
)
_NO_TYPES = words_of(
    "return co_return co_yield co_await throw const constexpr typename using class struct static new delete else do "
    "case goto sizeof and or not xor"
)
_AFTER_A_VARIABLE = frozenset({"=", ";", ",", ")", "[", "{", ":", ">"})
_ARITHMETIC = frozenset({"+", "-", "*", "/", "%"})
_ASSIGNS = frozenset({"=", "+=", "-=", "*=", "/=", "++", "--"})


@dataclass(frozen=True)
class Meanings:
    """`variables` are names, `macros` places in what macros stand for, `given` in what they take."""

    owners: Ownership
    variables: frozenset[str]
    macros: frozenset[int]
    given: frozenset[int]


def meanings_of(tokens: Sequence[Token]) -> Meanings:
    """Those of one source."""
    names = frozenset(tokens[at + 2].text for at in _definitions(tokens) if _text(tokens, at + 3) == "(")
    given = frozenset(_arguments(tokens, names))
    return Meanings(
        owners=Ownership(tokens, _WATCHED, given),
        variables=frozenset(t.text for at, t in enumerate(tokens) if t.text in _TYPES and _is_variable(tokens, at)),
        macros=frozenset(at for start in _definitions(tokens) for at in _body(tokens, start)),
        given=given,
    )


def _definitions(tokens: Sequence[Token]) -> Iterator[int]:
    for at, token in enumerate(tokens):
        if token.kind == "directive" and _text(tokens, at + 1) == "define":
            yield at


def _body(tokens: Sequence[Token], start: int) -> Iterator[int]:
    """Places in what the macro defined at `start` stands for, but for its parameters.

    `#define A (x)` looks as if it had some, since blanks are no tokens: without anything behind them they are none.
    """
    end = next(at for at in range(start, len(tokens)) if tokens[at].kind == "newline")
    parameters: set[str] = set()
    if _text(tokens, start + 3) == "(":
        close = next((at for at in range(start + 3, end) if tokens[at].text == ")"), end)
        parameters = {tokens[at].text for at in range(start + 4, close)} if close + 1 < end else set()
    return (at for at in range(start + 3, end) if tokens[at].text not in parameters)


def _arguments(tokens: Sequence[Token], macros: frozenset[str]) -> Iterator[int]:
    """Places inside the parentheses of a macro's use."""
    depth, outside = 0, 0
    for at, token in enumerate(tokens):
        if not outside and token.text == "(" and at and tokens[at - 1].text in macros:
            outside = depth + 1
        depth += (token.text == "(") - (token.text == ")")
        if outside and depth < outside:
            outside = 0
        elif outside:
            yield at


def _is_variable(tokens: Sequence[Token], at: int) -> bool:
    """Whether a name that may be a type's is a variable's here: declared, computed with, assigned to."""
    before, after = tokens[at - 1] if at else None, _text(tokens, at + 1)
    if before is None:
        return False
    if before.text in ("define", "[") or after == "]":
        return True
    if _is_type_name(before):
        return after in _AFTER_A_VARIABLE
    return before.text in _ARITHMETIC or (after in _ASSIGNS and before.text != "using")


def _is_type_name(token: Token) -> bool:
    return token.kind == "identifier" and token.text not in _NO_TYPES


def _text(tokens: Sequence[Token], at: int) -> str:
    return tokens[at].text if 0 <= at < len(tokens) else ""
