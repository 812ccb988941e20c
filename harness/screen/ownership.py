"""Whose a name is: the source's own, by a declaration of it in scope, or a library's.

Own are members, parameters, variables, and functions with a body. A declaration without one, an `extern`, a friend, is
a library's; so is whatever macros or conditions leave in doubt. An own function outside of namespaces is one more
overload beside a library's: for names that the list of imports cannot refuse it makes nothing own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from harness.screen.outline import FAR, NOWHERE, Outline, owner_of
from harness.screen.rules import words_of
from harness.screen.tokens import Token
from harness.wire.entry import KEYWORDS

_IMPORTABLE = words_of("open syscall atexit at_quick_exit")
"""A library that holds libstdc++ may import the first two, and the linker puts the others into each library."""
_IN_TYPES = words_of(
    "auto bool char char8_t char16_t char32_t double float int long short signed unsigned void wchar_t const volatile "
    "constexpr constinit static inline mutable thread_local typename struct class enum union virtual template"
)
_BOUNDARIES = words_of("; { } ( , : )") | {"", "\n"}
_POINTS = words_of("* & && :: ...")
_AFTER_VARIABLES = words_of("= ; { [ , :")
_CONTROLS = words_of("for if while switch constexpr")
_MOST = 200
"""Declarations of one name: with more than any kernel has, looking through them for each use takes too long."""
_LITERALS = frozenset({"number", "string", "character"})
_NO_LIBRARYS = words_of("float double bool auto > >>")
"""Words of types that none of the functions in the rules returns: what is declared with one is no redeclaration."""
_BUILT_IN = words_of("auto bool char double float int long short signed unsigned wchar_t")
_ENDS_TYPES = words_of("* & && > >> ] [ ,")
_NAMES_TYPES = words_of("class typename struct union enum using namespace")


@dataclass(frozen=True)
class _Declaration:
    """Where a name is own: within `first` to `last`, or in a class or namespace wherever its scope reaches."""

    at: int
    first: int = 0
    last: int = -1
    member_of: int = -1
    namespace: str | None = None
    """Empty outside of namespaces."""


class Ownership:
    """Of the names in `watched` in one source. `given` are places in macros' arguments: nothing is declared there."""

    def __init__(self, tokens: Sequence[Token], watched: frozenset[str], given: frozenset[int]) -> None:
        self._tokens, self._watched, self._given = tokens, watched, given
        self._seen: dict[tuple[int, str], frozenset[int]] = {}

    def is_own(self, at: int, *, strictly: bool) -> bool:
        """Whether the name there is the source's own. `strictly`: functions outside of namespaces do not count."""
        text = self._text
        if text(at - 1) in (".", "->"):
            return True
        if self._text(at + 1) == "(" and self._is_macro(at):
            return True
        if not self._usable(at) or self._is_foreign(at):
            return False
        declared = self._declared.get(text(at), ())
        if text(at - 1) == "::":
            return self._is_qualified_own(at, declared)
        if len(declared) > _MOST:
            return False
        around = self._classes_around(at) if any(each.member_of >= 0 for each in declared) else frozenset()
        return any(self._reaches(each, at, around, strictly) for each in declared)

    def in_strange_brackets(self, at: int) -> bool:
        """Whether a place lies in the arguments of an attribute, or of what may be a macro for one."""
        for opening in self._outline.around(at):
            head = self._text(opening - 1)
            if self._text(opening) == "[" and head == "[":
                return True
            if self._text(opening) == "(" and (head.startswith("_") or head.isupper() or head in self._outline.macros):
                return True
        return not self._outline.sound

    def is_namespace(self, name: str) -> bool:
        """Whether the source opens a namespace of that name."""
        return name in self._namespaces

    def _is_macro(self, at: int) -> bool:
        """Whether a macro with parameters replaces it, whatever conditions hold; rules look at what it stands for."""
        defined, *others = self._macros.get(self._text(at), [-1])
        used = self._outline.parents[at] != NOWHERE or at == defined + 2
        return used and not others and 0 <= defined < at and self._outline.regions[defined] == 0

    @cached_property
    def _macros(self) -> dict[str, list[int]]:
        """Where each macro is defined with parameters; -1 where it is without, or is undefined."""
        found: dict[str, list[int]] = {}
        for at, token in enumerate(self._tokens):
            if token.kind == "directive" and self._text(at + 1) in ("define", "undef"):
                replaces = self._text(at + 1) == "define" and self._text(at + 3) == "("
                found.setdefault(self._text(at + 2), []).append(at if replaces else -1)
        return found

    @cached_property
    def _outline(self) -> Outline:
        return Outline(self._tokens)

    @cached_property
    def _declared(self) -> dict[str, list[_Declaration]]:
        found: dict[str, list[_Declaration]] = {}
        for at, token in enumerate(self._tokens):
            if token.text in self._watched and token.kind == "identifier" and self._usable(at):
                declaration = self._declaration(at)
                if declaration is not None:
                    found.setdefault(token.text, []).append(declaration)
        return found

    @cached_property
    def _behind_types(self) -> dict[str, list[int]]:
        """Where each name stands behind what may be a type, but for what declares types."""
        found: dict[str, list[int]] = {}
        for at, (before, token) in enumerate(pairwise(self._tokens), start=1):
            typed = before.text not in _NAMES_TYPES if before.kind == "identifier" else before.text in _ENDS_TYPES
            if token.kind == "identifier" and typed and self._usable(at):
                found.setdefault(token.text, []).append(at)
        return found

    @cached_property
    def _braces(self) -> list[int]:
        parents = self._outline.parents
        return [at for at, t in enumerate(self._tokens) if t.text == "{" and parents[at] != NOWHERE]

    @cached_property
    def _namespaces(self) -> frozenset[str]:
        blocks = map(self._outline.block, self._braces)
        return frozenset(block.name for block in blocks if block.kind == "namespace")

    @cached_property
    def _classes(self) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for at in self._braces:
            if self._outline.block(at).kind == "class":
                found.setdefault(self._outline.block(at).name, []).append(at)
        return found

    def _text(self, at: int) -> str:
        return self._tokens[at].text if 0 <= at < len(self._tokens) else ""

    def _usable(self, at: int) -> bool:
        outline = self._outline
        return outline.sound and outline.parents[at] != NOWHERE and self._text(at) not in outline.macros

    # Where a name is declared.

    def _declaration(self, at: int) -> _Declaration | None:
        opening = self._outline.parents[at]
        before = self._text(at - 1)
        if at in self._given or before in (".", "->", "::"):
            return None
        if self._text(opening) == "(" and opening >= 0:
            return self._parameter(at, opening)
        if self._text(opening) == "[" and opening >= 0:
            return self._binding(at, opening)
        kind = self._outline.block(opening).kind if opening >= 0 else "namespace"
        if kind == "class":
            return self._member(at, opening)
        if kind == "namespace":
            return self._in_namespace(at, opening)
        return self._local(at, opening) if kind == "block" else None

    def _member(self, at: int, opening: int) -> _Declaration | None:
        listed = self._text(at - 1) == "," and self._text(at + 1) in _AFTER_VARIABLES
        return _Declaration(at, member_of=opening) if listed or self._has_type(at) else None

    def _in_namespace(self, at: int, opening: int) -> _Declaration | None:
        after, words = self._text(at + 1), self._type(at)
        variable = after in _AFTER_VARIABLES and self._text(at - 1) not in ("&", "&&")
        called = after == "(" and (self._body_end(at + 1) is not None or "static" in words or self._makes_object(at))
        return _Declaration(at, namespace=self._namespace_of(opening)) if words and (variable or called) else None

    def _local(self, at: int, opening: int) -> _Declaration | None:
        before, after = self._text(at - 1), self._text(at + 1)
        lambdas = after == "=" and self._text(at + 2) == "["
        if not self._has_type(at) and not self._is_listed(at):
            return None
        bound = after in ("=", "{", ":") if before in ("&", "&&") else after in _AFTER_VARIABLES
        if not (lambdas or bound or (after == "(" and self._makes_object(at))):
            return None
        return _Declaration(at, at, self._outline.closes[opening])

    def _is_listed(self, at: int) -> bool:
        """Whether it is another variable of a statement that declares one: time in `int n = f(), time(n);`."""
        k = at - 1
        if self._text(k) != "," or self._text(at) in _IMPORTABLE:
            return False
        while at - k < FAR and self._text(k) not in ("", ";", "{", "}", "(", "["):
            k = self._outline.opens.get(k, k) - 1
        firsts = (first for first in range(k + 1, at) if self._text(first + 1) in ("=", "(", "{", ",", "["))
        first = next(firsts, at)
        return first < at and self._tokens[first].kind == "identifier" and self._has_type(first)

    def _makes_object(self, at: int) -> bool:
        """`Timer time(3);` rather than a function's declaration: by its type, or by its first argument.

        Nothing is made of a library's function, either, by a declaration with a type that no such function has.
        """
        words, closing = self._type(at), self._outline.closes[at + 1]
        if self._text(at - 1) in _POINTS and _BUILT_IN.isdisjoint(words):
            return False
        no_librarys = not _NO_LIBRARYS.isdisjoint(words) and self._text(closing + 1) != "->"
        return no_librarys or self._text(at - 1) in self._classes or self._is_value(at + 2)

    def _is_value(self, at: int) -> bool:
        """Whether an argument begins with what no parameter's declaration does: a literal, a variable, `x.`, `(`."""
        token = self._tokens[at]
        if token.kind in _LITERALS or token.text in ("(", "-", "!", "~", "&", "*"):
            return True
        if token.kind != "identifier" or token.text in self._outline.macros:
            return False
        if token.text in KEYWORDS:
            return token.text not in _IN_TYPES and token.text not in ("decltype", "register")
        return self._text(at + 1) in (".", "->", "+", "-", "/", "%") or self._names_variable(at)

    def _names_variable(self, at: int) -> bool:
        """Whether the source declares a parameter or a variable of that name that reaches this place."""
        places = self._behind_types.get(self._text(at), ())
        return len(places) <= _MOST and any(
            (found := self._declaration(k)) is not None and self._reaches(found, at, frozenset(), strictly=False)
            for k in places
            if k < at
        )

    def _parameter(self, at: int, opening: int) -> _Declaration | None:
        after, before = self._text(at + 1), self._text(at - 1)
        if before in ("*", "&") and self._text(opening + 1) == before and self._text(at + 1) in (")", "["):
            return self._pointer(at, opening)
        head, end = self._text(opening - 1), self._body_end(opening)
        made = head in _CONTROLS and after == "(" and self._makes_object(at)
        if not self._has_type(at) or not (made or after in (",", ")", "=", "[", ":")):
            return None
        if head in _CONTROLS:
            loose = before in _POINTS and after not in ("=", ":")
            return None if loose else _Declaration(at, at, end or self._statement_end(opening))
        named = head not in KEYWORDS and head not in self._outline.macros and not head.startswith("__")
        if end is None or not (head in ("]", ")", ">") or (named and head.isidentifier())):
            return None
        return _Declaration(at, self._outline.closes[opening], end)

    def _pointer(self, at: int, opening: int) -> _Declaration | None:
        """Of `float (*time)(float)`: its scope is that of what stands around the parentheses."""
        around, after = self._outline.parents[opening], self._text(self._outline.closes[opening] + 1)
        if after not in ("(", "[") or around < 0 or not self._has_type(opening):
            return None
        if self._text(around) == "(":
            end = self._body_end(around)
            return None if end is None else _Declaration(at, self._outline.closes[around], end)
        local = self._text(around) == "{" and self._outline.block(around).kind == "block"
        return _Declaration(at, at, self._outline.closes[around]) if local else None

    def _binding(self, at: int, opening: int) -> _Declaration | None:
        """Of `auto& [open, time] = ...`."""
        before = opening - 1 - (self._text(opening - 1) in ("&", "&&"))
        closing = self._outline.closes[opening]
        if self._text(before) != "auto" or self._text(closing + 1) not in ("=", "{", "(", ":"):
            return None
        outer = self._outline.parents[opening]
        if outer < 0:
            return None
        end = self._outline.closes[outer] if self._text(outer) == "{" else self._statement_end(outer)
        return _Declaration(at, at, end)

    def _has_type(self, at: int) -> bool:
        """Whether what stands in front, from the statement's beginning on, is a type and nothing else."""
        return bool(self._type(at))

    def _type(self, at: int) -> list[str]:
        """The words of that type, from the last to the first; of a template's arguments ">" alone. Empty if none."""
        words: list[str] = []
        k = at - 1
        while at - k < FAR:
            token = self._tokens[k] if k >= 0 else None
            if token is None or token.text in _BOUNDARIES or token.kind in ("newline", "directive"):
                return words if any(word.isidentifier() for word in words) else []
            if token.text in (">", ">>"):
                words.append(token.text)
                k = self._angle(k)
                if k < 0:
                    return []
            elif token.kind == "identifier":
                if (token.text in KEYWORDS and token.text not in _IN_TYPES) or token.text in self._outline.macros:
                    return []
                words.append(token.text)
            elif token.text == "]":
                k = self._outline.opens.get(k, -1)
            elif token.text not in _POINTS:
                return []
            k -= 1
        return []

    def _angle(self, at: int) -> int:
        """The place of the "<" that belongs to a ">"; -1 where none does."""
        depth = 0
        for k in range(at, max(-1, at - FAR), -1):
            text = self._text(k)
            depth += text.count(">") * (set(text) == {">"}) - (text == "<")
            if depth == 0:
                return k
            if text in (";", "{", "}"):
                return -1
        return -1

    # How far a declaration reaches.

    def _reaches(self, declared: _Declaration, at: int, around: frozenset[int], strictly: bool) -> bool:
        if not self._outline.sees(declared.at, at):
            return False
        if declared.member_of >= 0:
            return declared.member_of in around
        if declared.namespace is None:
            return at == declared.at or declared.first <= at <= declared.last
        if declared.namespace == "":
            return not strictly and at >= declared.at and self._text(at) not in _IMPORTABLE
        return at >= declared.at and any(
            self._outline.block(k).kind == "namespace" and self._outline.block(k).name == declared.namespace
            for k in self._outline.around(at)
            if self._text(k) == "{"
        )

    def _is_qualified_own(self, at: int, declared: Sequence[_Declaration]) -> bool:
        name = self._text(at - 2)
        classes = self._classes.get(name, [])
        return any(
            (len(classes) == 1 and each.member_of == classes[0]) or (each.namespace == name and each.at < at)
            for each in declared
            if name and self._outline.sees(each.at, at)
        )

    def _classes_around(self, at: int) -> frozenset[int]:
        """The classes whose members a place sees without naming them, bases included."""
        opening = self._outline.parents[at]
        outside = opening < 0 or (self._text(opening) == "{" and self._outline.block(opening).kind == "namespace")
        owner = owner_of(self._outline.head(at)) if outside else ""
        if (opening, owner) not in self._seen:
            self._seen[opening, owner] = self._classes_of(at, owner)
        return self._seen[opening, owner]

    def _classes_of(self, at: int, owner: str) -> frozenset[int]:
        found: list[int] = []
        names = [owner]
        for k in self._outline.around(at):
            if self._text(k) == "{":
                block = self._outline.block(k)
                found += [k] * (block.kind == "class")
                names.append(block.owner)
        seen: set[int] = set()
        found += [k for name in names for k in self._only(name)]
        while found:
            k = found.pop()
            if k not in seen and len(seen) < _MOST:
                seen.add(k)
                found += [base for name in self._outline.block(k).bases for base in self._only(name)]
        return frozenset(seen)

    def _only(self, name: str) -> Iterator[int]:
        classes = self._classes.get(name, []) if name else []
        return iter(classes if len(classes) == 1 else [])

    def _is_foreign(self, at: int) -> bool:
        """Whether the name is declared here as somebody else's: `extern`, a friend, in a block of extern "C"."""
        opening = self._outline.parents[at]
        if opening >= 0 and self._text(opening) == "{" and self._outline.block(opening).kind == "linkage":
            return True
        return not {"extern", "friend", "using"}.isdisjoint(self._outline.head(at))

    def _namespace_of(self, opening: int) -> str:
        """Names of namespaces without a name are seen outside of them."""
        return self._outline.block(opening).name if opening >= 0 else ""

    def _body_end(self, opening: int) -> int | None:
        """The end of the body behind a function's parameters; None where none follows."""
        at = self._outline.closes[opening] + 1
        for _ in range(FAR):
            text = self._text(at)
            if text == "{":
                end = self._outline.closes[at]
                if self._text(end + 1) not in (",", "{"):
                    return end
                at = end
            elif text in ("(", "["):
                at = self._outline.closes[at]
            elif text in (";", "}", ")", "]", "=", "", "\n"):
                return None
            at += 1
        return None

    def _statement_end(self, opening: int) -> int:
        at = self._outline.closes[opening] + 1
        while at < len(self._tokens) and self._text(at) != ";":
            at = self._outline.closes.get(at, at) + 1
        return at
