"""The screen of a source: every token against the rules, the first that offends is the refusal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache

from harness.nouns.refusal import Refusal
from harness.screen.directives import KEYWORDS, pragma_operator, refuse_assembly, refuse_directive, refuse_optimize
from harness.screen.meanings import Meanings, meanings_of
from harness.screen.rules import RULES, Rule, words_of
from harness.screen.tokens import LexicalError, Token, tokenize
from harness.wire.entry import KEYWORDS as WORDS_OF_CPP

MAX_CHARACTERS = 400_000
"""The largest kernels of this kind have 40,000 characters; reading this many takes a second."""

_ATTRIBUTES = frozenset({"optimize", "__optimize__", "mode", "__mode__"})
_GNU = frozenset({"gnu", "__gnu__"})
_BUILTIN = "__builtin_"
# Between these a name that is no variable's is a type's, in `half* x;`, `Tensor<half, L>`, `sizeof(half)`.
_BEFORE_TYPES = words_of("; { } const constexpr static volatile typename extern __shared__") | {"", "\n"}
_AFTER_TYPES = words_of("* & && ::")
_IN_LISTS, _ENDS_IN_LISTS = words_of("< , ("), words_of(", > >> * & && :: )")
_NAMES_A_TYPE = words_of("using class typename")
_EDGE = Token("newline", "", 0)


@lru_cache(maxsize=64)
def screen_source(source: str, allowances: frozenset[str] = frozenset()) -> Refusal | None:
    """Why a source may not run, or None. `allowances` are the dtypes of the task's tensors and the precision."""
    return next(refusals_of(source, allowances), None)


def refusals_of(source: str, allowances: frozenset[str]) -> Iterator[Refusal]:
    """Every offence of a source, in its order."""
    if len(source) > MAX_CHARACTERS:
        yield Refusal(kind="size", message=f"The source has {len(source)} characters, more than {MAX_CHARACTERS}.")
        return
    rules = [rule for rule in RULES if not rule.unless & allowances]
    try:
        yield from _refusals(tokenize(source), rules)
    except LexicalError as error:
        yield Refusal(kind="unreadable", line=error.line, message=error.problem)


def _refusals(tokens: Sequence[Token], rules: Sequence[Rule]) -> Iterator[Refusal]:
    meanings = meanings_of(tokens)
    for at, token in enumerate(tokens):
        refusal = None
        if token.text == "##":
            refusal = Refusal(kind="paste", line=token.line, message="Names may not be glued with ##: write them out.")
        elif token.kind == "directive":
            refusal = refuse_directive(tokens, at)
        elif token.text == "_Pragma":
            yield from _refusals(pragma_operator(tokens, at), rules)
        elif token.kind == "identifier":
            refusal = _refuse_construct(tokens, at, rules, meanings) or _refuse_name(tokens, at, rules, meanings)
        if refusal is not None:
            yield refusal


def _refuse_construct(tokens: Sequence[Token], at: int, rules: Sequence[Rule], meanings: Meanings) -> Refusal | None:
    """What needs more than the name: assembly, the optimizer's options, types by their width."""
    name, called = tokens[at].text, _text(tokens, at + 1) == "("
    if name in KEYWORDS:
        return refuse_assembly(tokens, at, rules)
    if name in ("optimize", "__optimize__") and called:
        return refuse_optimize(tokens, at)
    if name in _ATTRIBUTES and not called and at in meanings.macros:
        return Refusal(kind="macro", line=tokens[at].line, message=f"{name}: an attribute's name may be no macro's.")
    if name in ("mode", "__mode__") and called and meanings.owners.in_strange_brackets(at):
        return Refusal(kind="precision", line=tokens[at].line, message=f"{name}(...): name a type by its own name.")
    return None


def _refuse_name(tokens: Sequence[Token], at: int, rules: Sequence[Rule], meanings: Meanings) -> Refusal | None:
    for rule in rules:
        if _offends(rule, tokens, at, meanings) or _is_used(rule, tokens, at, meanings):
            return Refusal(kind=rule.kind, line=tokens[at].line, message=f"{tokens[at].text}: {rule.advice}")
    return None


def _offends(rule: Rule, tokens: Sequence[Token], at: int, meanings: Meanings) -> bool:
    """What the name and its neighbours tell."""
    name = tokens[at].text
    return (
        (rule.claims(name) and not (rule.scoped and name in rule.words and meanings.owners.is_own(at, strictly=True)))
        or (name.startswith(_BUILTIN) and name.removeprefix(_BUILTIN) in rule.words)
        or (name in rule.std and _text(tokens, at - 1) == "::" and _text(tokens, at - 2) == "std")
        or (name in rule.namespaces and _is_namespace(tokens, at))
    )


def _is_used(rule: Rule, tokens: Sequence[Token], at: int, meanings: Meanings) -> bool:
    """What depends on what else the source makes of the name."""
    name = tokens[at].text.removeprefix(_BUILTIN)
    if name in rule.types:
        return _declares(tokens, at) or (name not in meanings.variables and _may_be_type(tokens, at))
    if name not in rule.called and name not in rule.attributes:
        return False
    attribute = name in rule.attributes and _may_be_attribute(tokens, at, meanings)
    if name == tokens[at].text and not attribute and meanings.owners.is_own(at, strictly=False):
        return False
    given = name in rule.attributes and at in meanings.given
    return given or _is_called(tokens, at, meanings) or at in meanings.macros


def _may_be_attribute(tokens: Sequence[Token], at: int, meanings: Meanings) -> bool:
    """Whatever else of the source's is called so: attributes know no scope."""
    member = _text(tokens, at - 1) in (".", "->")
    return not member and (at in meanings.given or meanings.owners.in_strange_brackets(at))


def _is_called(tokens: Sequence[Token], at: int, meanings: Meanings) -> bool:
    before, earlier = _text(tokens, at - 1), _token(tokens, at - 2)
    named = earlier.kind == "identifier" and earlier.text not in WORDS_OF_CPP
    if before == "::" and (named or earlier.text == ">"):
        return earlier.text in _GNU or meanings.owners.is_namespace(earlier.text)
    return before == "::" or _text(tokens, at + 1) == "("


def _is_namespace(tokens: Sequence[Token], at: int) -> bool:
    """Named in front of "::", in a using directive, or in an alias; not where it is inside another namespace."""
    before, earlier, after = _text(tokens, at - 1), _token(tokens, at - 2), _text(tokens, at + 1)
    if before == "::":
        return (earlier.kind != "identifier" and after in ("::", ";")) or earlier.text == "namespace"
    return after == "::" or before == "namespace" or (before == "=" and _text(tokens, at - 3) == "namespace")


def _declares(tokens: Sequence[Token], at: int) -> bool:
    """`half x`, whatever else is called so."""
    after = _token(tokens, at + 1)
    return after.kind == "identifier" and after.text not in ("and", "or", "xor")


def _may_be_type(tokens: Sequence[Token], at: int) -> bool:
    """A cast, a declaration or a template's argument, where no variable has that name."""
    before, after = _text(tokens, at - 1), _text(tokens, at + 1)
    if after == "(":
        return _token(tokens, at - 1).kind != "identifier"
    if before == "=":
        return _text(tokens, at - 3) in _NAMES_A_TYPE
    return (before in _IN_LISTS and after in _ENDS_IN_LISTS) or (before in _BEFORE_TYPES and after in _AFTER_TYPES)


def _token(tokens: Sequence[Token], at: int) -> Token:
    return tokens[at] if 0 <= at < len(tokens) else _EDGE


def _text(tokens: Sequence[Token], at: int) -> str:
    return _token(tokens, at).text
