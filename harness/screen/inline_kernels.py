"""The C++ and CUDA that a foreign Python file passes to load_inline, held to the rules of kernels.

PyTorch's headers and tensors are allowed there, since that is how such files exchange data; its operators are not.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from harness.screen.operators import plain
from harness.screen.python_file import PythonFile, last_name
from harness.screen.refusal import Refusal
from harness.screen.rules import words_of
from harness.screen.source import refusals_of
from harness.screen.tokens import LexicalError, Token, tokenize

_SOURCES = ("cpp_sources", "cuda_sources", "cpp_source", "cuda_source")
_ONLY = frozenset({"name", "functions", "with_cuda", "verbose", "extra_cflags", "extra_cuda_cflags", *_SOURCES})
_LOOSE = re.compile(r"fast-math|fast_math|Ofast|unsafe|associative|ftz|prec-|finite-math")
_FLAG = re.compile(
    r"-O[0-3]|-std=c\+\+\d\d|-march=native|-fopenmp|-g|--?expt-[\w-]+|-lineinfo|-arch=\w+|-gencode[=\w,]*"
)
_FRAMEWORK_HEADER = re.compile(r'[<"](?:torch|ATen|c10|pybind11|tvm)/[\w/.]+[>"]|[<"]Python\.h[>"]')
_OWNERS = words_of("at torch aten native functional nn linalg special")


def refuse_inline(file: PythonFile, operators: frozenset[str], allowances: frozenset[str]) -> list[Refusal]:
    """Every offence in the sources and options of the file's calls of load_inline."""
    calls = [node for node in file.nodes if isinstance(node, ast.Call) and last_name(node.func) == "load_inline"]
    return [refusal for call in calls for refusal in _call(file, call, operators, allowances)]


def _call(file: PythonFile, call: ast.Call, operators: frozenset[str], allowances: frozenset[str]) -> Iterator[Refusal]:
    given = {keyword.arg or "**": keyword.value for keyword in call.keywords}
    given.update(zip(("name", *_SOURCES[:2], "functions"), call.args, strict=False))
    for option in sorted(given.keys() - _ONLY):
        yield Refusal(kind="option", line=call.lineno, message=f"load_inline({option}=...) is not allowed here.")
    for option, value in given.items():
        if option in _SOURCES:
            for text in _texts(file, value):
                yield from [_unreadable(call, option)] if text is None else _source(text, operators, allowances)
        elif option.endswith("cflags"):
            yield from _flags(file, call, option, value)


def _texts(file: PythonFile, value: ast.expr) -> Iterator[ast.Constant | None]:
    """The literals that an expression stands for; None where it is not made of literals."""
    if isinstance(value, ast.List | ast.Tuple):
        for part in value.elts:
            yield from _texts(file, part)
    elif isinstance(value, ast.Constant) and isinstance(value.value, str):
        yield value
    elif isinstance(value, ast.Name):
        stores = [
            n for n in file.nodes if isinstance(n, ast.Name) and n.id == value.id and isinstance(n.ctx, ast.Store)
        ]
        holder = file.parents[stores[0]] if len(stores) == 1 else None
        if isinstance(holder, ast.Assign):
            yield from _texts(file, holder.value)
        else:
            yield None
    else:
        yield None


def _source(text: ast.Constant, operators: frozenset[str], allowances: frozenset[str]) -> Iterator[Refusal]:
    source = str(text.value)
    for refusal in refusals_of(source, allowances):
        if refusal.kind == "framework" or (refusal.kind == "include" and _FRAMEWORK_HEADER.search(refusal.message)):
            continue
        yield _moved(refusal, text)
    try:
        yield from (_moved(refusal, text) for refusal in _operator_calls(tokenize(source), operators))
    except LexicalError:
        return  # told already, by the rules


def _operator_calls(tokens: tuple[Token, ...], operators: frozenset[str]) -> Iterator[Refusal]:
    for at in range(2, len(tokens) - 1):
        owner, link, token, after = tokens[at - 2 : at + 2]
        owned = link.text in (".", "->") or (link.text == "::" and owner.text in _OWNERS)
        if owned and after.text == "(" and plain(token.text) in operators:
            message = f"{token.text}: This hands the work back to PyTorch's own operator."
            yield Refusal(kind="operator", line=token.line, message=message)


def _flags(file: PythonFile, call: ast.Call, option: str, value: ast.expr) -> Iterator[Refusal]:
    for text in _texts(file, value):
        flag = str(text.value) if text is not None else ""
        if _LOOSE.search(flag):
            message = f"{option} {flag}: options that change values are not allowed."
            yield Refusal(kind="fast_math", line=call.lineno, message=message)
        elif not _FLAG.fullmatch(flag):
            yield Refusal(
                kind="option", line=call.lineno, message=f"{option} {flag!r} is not among the options allowed."
            )


def _unreadable(call: ast.Call, option: str) -> Refusal:
    message = f"{option} must be a string literal, or a name that is given one once."
    return Refusal(kind="dynamic", line=call.lineno, message=message)


def _moved(refusal: Refusal, text: ast.Constant) -> Refusal:
    """The refusal at its line of the Python file."""
    return refusal.model_copy(update={"line": text.lineno + (refusal.line or 1) - 1})
