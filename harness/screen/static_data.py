"""What outlives a kernel's call: callers call from several threads at once, so only what is filled once may be there.

The compiled object says what there is (`Build.static_data`), the source how it was declared. What the source does not
show plainly is refused. That a constant stays one is looked at while the kernel runs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from harness.nouns.build import StaticData
from harness.nouns.refusal import Refusal
from harness.screen.rules import words_of
from harness.screen.tokens import LexicalError, Token, tokenize

_HEADERS = words_of("std tvm cute cutlass cub cuda cooperative_groups nvcuda __gnu_cxx __cxxabiv1")
_SYNCHRONISES = re.compile(r"once_flag|atomic(?:_\w+)?|(?:\w+_)?mutex|omp_(?:nest_)?lock_t")
_HOLDS_MEMORY = words_of(
    "new malloc calloc realloc aligned_alloc posix_memalign make_unique make_shared unique_ptr shared_ptr mutable "
    "const_cast span reference_wrapper function Tensor TensorView FromEnvAlloc cudaMalloc cudaMallocAsync"
)
"""What a constant may hold that is none itself."""
_WRITES_SYMBOLS = words_of("cudaMemcpyToSymbolAsync cudaGetSymbolAddress")
_NUMBER = re.compile(
    r"bool|char|short|int|long|unsigned|signed|float|double|(?:u?int(?:8|16|32|64|ptr)|s?size|ssize|ptrdiff)_t"
    r"|std|::|static|inline|volatile|alignas|[()\d]+|array|<|>|,"
)
_KEEPS = words_of("static thread_local __device__ __constant__ __managed__")
_AFTER_NAMES = words_of("= { [ ; , (")
_ENDS = words_of("; { }")
_ADVICE = (
    "Several threads of a caller's may be in the kernel at once. Keep scratch in the call: a local, or memory of the "
    "caller's allocator (tvm::ffi::Tensor::FromEnvAlloc). What is computed once is a const static of a function."
)


def screen_static_data(found: Sequence[StaticData], source: str) -> Refusal | None:
    """A refusal that names the first variable that outlives a call and is no constant; None where there is none."""
    if not found:
        return None
    try:
        text = _Text(tokenize(source))
    except LexicalError as error:
        return Refusal(kind="unreadable", line=error.line, message=error.problem)
    own = {data: text.declarations(data.name) for data in found if data.within not in _HEADERS - text.opened}
    agreed = any(_synchronises(each) for declared in own.values() for each in declared)
    for data, declared in own.items():
        for each in declared:
            if not _is_constant(each, data, text, agreed=agreed):
                return _refusal(data, each.line)
        if not declared:
            return _refusal(data, None)
    return None


def _refusal(data: StaticData, line: int | None) -> Refusal:
    lives = "is kept for each thread" if data.per_thread else "outlives its call"
    return Refusal(kind="static_data", line=line, message=f"{data.name} {lives} and can be written. {_ADVICE}")


@dataclass(frozen=True)
class _Declaration:
    """The words before a variable's name, and from there to the statement's end."""

    line: int
    before: tuple[str, ...]
    after: tuple[str, ...]


class _Text:
    """A source without its directives."""

    def __init__(self, tokens: Sequence[Token]) -> None:
        self._tokens = list(_without_directives(tokens))
        self.words = frozenset(token.text for token in self._tokens)

    @cached_property
    def opened(self) -> frozenset[str]:
        """Namespaces that the source adds to."""
        texts = [token.text for token in self._tokens]
        return frozenset(
            texts[at + 1]
            for at, text in enumerate(texts[:-2])
            if text == "namespace" and texts[at - 1] != "using" and texts[at + 2] != "="
        )

    def declarations(self, name: str) -> list[_Declaration]:
        """Of variables of this name that outlive a call: they say so, or stand outside of functions and classes."""
        found, outside, start = [], [True], 0
        for at, token in enumerate(self._tokens):
            if token.text == name and self._text(at + 1) in _AFTER_NAMES:
                before = tuple(each.text for each in self._tokens[start:at])
                typed = any(each.isidentifier() for each in before) and before[-1] not in (".", "->", "return")
                if typed and "using" not in before and (outside[-1] or _KEEPS & set(before)):
                    found.append(_Declaration(token.line, before, self._rest(at)))
            if token.text == "{":
                texts = [each.text for each in self._tokens[start:at]]
                outside.append(outside[-1] and ("namespace" in texts or texts[:1] == ["extern"]))
            elif token.text == "}" and len(outside) > 1:
                outside.pop()
            if token.text in _ENDS:
                start = at + 1
        return found

    def _text(self, at: int) -> str:
        return self._tokens[at].text if at < len(self._tokens) else ""

    def _rest(self, at: int) -> tuple[str, ...]:
        depth, words = 0, []
        for token in self._tokens[at:]:
            depth += (token.text in ("{", "(", "[")) - (token.text in ("}", ")", "]"))
            if depth < 0 or (token.text == ";" and depth == 0):
                break
            words.append(token.text)
        return tuple(words)


def _without_directives(tokens: Sequence[Token]) -> Iterator[Token]:
    inside = False
    for token in tokens:
        if token.kind == "directive":
            inside = True
        elif token.kind == "newline":
            inside = False
        elif not inside:
            yield token


def _synchronises(declaration: _Declaration) -> bool:
    """Whether several threads agree by it."""
    return any(_SYNCHRONISES.fullmatch(word) for word in declaration.before)


def _is_constant(declaration: _Declaration, data: StaticData, text: _Text, *, agreed: bool) -> bool:
    """Whether it is filled once at most, or is what threads agree by. `agreed`: there is something of that kind."""
    before, after = declaration.before, declaration.after
    if _synchronises(declaration):
        return True
    if _HOLDS_MEMORY & {*before, *after}:
        return False
    if "__constant__" in before:
        return len(after) > 1 and bool({"=", "{"} & set(after)) and not _WRITES_SYMBOLS & text.words
    if "const" in before or "constexpr" in before:
        return data.guarded and _points_to_constants(before)
    plain = all(_NUMBER.fullmatch(word) for word in before) and not data.per_thread
    return plain and (data.guarded or agreed)


def _points_to_constants(before: Sequence[str]) -> bool:
    """Whether neither what is pointed or referred to can be written by that name, nor the pointer itself."""
    marks = [at for at, word in enumerate(before) if word in ("*", "&", "&&")]
    if not marks:
        return True
    fixed = before[marks[-1]] != "*" or "const" in before[marks[-1] :]
    return "const" in before[: marks[0]] and fixed and len(marks) == 1


# -- What runs when a library is loaded runs before anybody asked for it: only what compilers put there may -----------


_SHOWN = 3


def screen_load_time(names: Sequence[str]) -> Refusal | None:
    """A refusal that names what a kernel would run at load time (`Build.load_time`); None where that is nothing."""
    if not names:
        return None
    shown = ", ".join(names[:_SHOWN]) + (", ..." if len(names) > _SHOWN else "")
    message = (
        f"The kernel runs code of its own when its library is loaded ({shown}). Initialize at compile time "
        "(constexpr), or inside a function: what is static there is made in the first call."
    )
    return Refusal(kind="load_time", message=message)
