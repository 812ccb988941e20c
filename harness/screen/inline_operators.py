"""PyTorch's operators in C++ that may use its tensors: by namespace, as members, by argument-dependent look-up."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from harness.nouns.refusal import Refusal
from harness.screen.operators import plain
from harness.screen.rules import words_of
from harness.screen.tokens import Token

_OTHERS = words_of("std cute cutlass cuda cg cooperative_groups nvcuda cub")
_BEFORE_CALLS = words_of("return else do throw case co_return and or not")
_NOTHING = Token("newline", "", 0)


def operator_calls(tokens: Sequence[Token], operators: frozenset[str]) -> Iterator[Refusal]:
    """Every use of one of these operators, by their plain names."""
    defined = _defined(tokens)
    in_macro = False
    for at, token in enumerate(tokens):
        if token.kind in ("directive", "newline"):
            in_macro = token.kind == "directive" and _text(tokens, at + 1) == "define"
        if plain(token.text) in operators and (in_macro or _hands_back(tokens, at, defined)):
            yield _refusal(token, token.text)


def _hands_back(tokens: Sequence[Token], at: int, defined: frozenset[str]) -> bool:
    called = _text(tokens, at + 1) == "("
    if _text(tokens, at - 1) == "::":
        owner = tokens[at - 2] if at > 1 else _NOTHING
        return owner.kind == "identifier" and owner.text not in _OTHERS
    if _text(tokens, at - 1) in (".", "->"):
        return called
    return called and tokens[at].text not in defined and not _is_type(tokens[at - 1] if at else _NOTHING)


def _defined(tokens: Sequence[Token]) -> frozenset[str]:
    """Names that stand behind a type and before "(": the file's own functions."""
    triples = zip(tokens, tokens[1:], tokens[2:], strict=False)
    return frozenset(name.text for before, name, after in triples if after.text == "(" and _is_type(before))


def _is_type(token: Token) -> bool:
    return token.text in (">", "*", "&") or (token.kind == "identifier" and token.text not in _BEFORE_CALLS)


def _text(tokens: Sequence[Token], at: int) -> str:
    return tokens[at].text if 0 <= at < len(tokens) else ""


def _refusal(token: Token, what: str) -> Refusal:
    return Refusal(
        kind="operator", line=token.line, message=f"{what}: This hands the work back to PyTorch's own operator."
    )
