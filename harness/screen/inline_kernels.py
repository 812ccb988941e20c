"""The C++ and CUDA that a foreign Python file passes to load_inline, held to the rules of kernels.

PyTorch's headers and tensors are allowed there, since that is how such files exchange data; its operators are not.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from harness.nouns.refusal import Refusal
from harness.screen.inline_names import foreign_names
from harness.screen.inline_operators import operator_calls
from harness.screen.python_file import PythonFile
from harness.screen.source import refusals_of
from harness.screen.tokens import LexicalError, tokenize

_SOURCES = ("cpp_sources", "cuda_sources", "cpp_source", "cuda_source")
_ONLY = frozenset(
    {"name", "functions", "with_cuda", "verbose", "extra_cflags", "extra_cuda_cflags", "extra_ldflags", *_SOURCES}
)
_LOOSE = re.compile(r"fast-math|fast_math|Ofast|unsafe|associative|ftz|prec-|finite-math")
_FLAG = re.compile(
    r"|-O[0-3]|-std=(?:c|gnu)\+\+(?:17|20|23)|-march=native|-fopenmp|-g|--?expt-[\w-]+|-lineinfo|-arch=\w+|-gencode[=\w,]*"
)
_FRAMEWORK_HEADER = re.compile(r'[<"](?:torch/(?!csrc/)|ATen/|c10/|pybind11/|tvm/)[\w/.]+[>"]')
_NAME = re.compile(r"\w+")
_SAID = re.compile(r"[\w .,:()-]*")


def refuse_inline(file: PythonFile, operators: frozenset[str], allowances: frozenset[str]) -> list[Refusal]:
    """Every offence in the sources and options of the file's calls of load_inline."""
    calls = [node for node in file.nodes if isinstance(node, ast.Call) and file.makes_extension(node)]
    return [refusal for call in calls for refusal in _call(file, call, operators, allowances)]


def _call(file: PythonFile, call: ast.Call, operators: frozenset[str], allowances: frozenset[str]) -> Iterator[Refusal]:
    if any(isinstance(value, ast.Starred) for value in call.args):
        yield _unreadable(call, "Each argument of load_inline")
        return
    given = {keyword.arg or "**": keyword.value for keyword in call.keywords}
    given.update(zip(("name", *_SOURCES[:2], "functions"), call.args, strict=False))
    for option in sorted(given.keys() - _ONLY):
        yield Refusal(kind="option", line=call.lineno, message=f"load_inline({option}=...) is not allowed here.")
    for option, value in given.items():
        if option in _SOURCES:
            for text in _texts(file, value):
                yield from [_unreadable(call, option)] if text is None else _source(text, operators, allowances)
        elif option.endswith("flags"):
            yield from _flags(file, call, option, value)
        elif option in ("name", "functions") and not _plain_words(value):
            yield _unreadable(call, f"{option}, made of names,")


def _texts(file: PythonFile, value: ast.expr) -> Iterator[ast.Constant | None]:
    """The literals that an expression stands for; None where it is not made of literals."""
    if isinstance(value, ast.List | ast.Tuple):
        for part in value.elts:
            yield from _texts(file, part)
    elif isinstance(value, ast.Constant) and isinstance(value.value, str):
        yield value
    elif isinstance(value, ast.Name):
        held = _held(file, value)
        if held is None:
            yield None
        else:
            yield from _texts(file, held)
    else:
        yield None


def _held(file: PythonFile, name: ast.Name) -> ast.expr | None:
    """What a name is given in the one place that binds it; a list only where nobody else can change it."""
    bound = file.scopes.only(name.id)
    holder = file.parents[bound] if bound is not None else None
    if not isinstance(holder, ast.Assign) or bound not in holder.targets:
        return None
    uses = sum(isinstance(node, ast.Name) and node.id == name.id for node in file.nodes)
    return None if isinstance(holder.value, ast.List) and uses > 2 else holder.value


def _source(text: ast.Constant, operators: frozenset[str], allowances: frozenset[str]) -> Iterator[Refusal]:
    source = str(text.value)
    for refusal in refusals_of(source, allowances):
        if refusal.kind == "framework" or (refusal.kind == "include" and _FRAMEWORK_HEADER.search(refusal.message)):
            continue
        yield _moved(refusal, text)
    try:
        tokens = tokenize(source)
    except LexicalError:
        return  # told already, by the rules
    yield from (_moved(refusal, text) for refusal in (*operator_calls(tokens, operators), *foreign_names(tokens)))


def _plain_words(value: ast.expr, allowed: re.Pattern[str] = _NAME) -> bool:
    """Names, and what a dictionary says about them: nothing that means something else in the C++ made of them."""
    if isinstance(value, ast.List | ast.Tuple):
        return all(map(_plain_words, value.elts))
    if isinstance(value, ast.Dict):
        keys = all(key is not None and _plain_words(key) for key in value.keys)
        return keys and all(_plain_words(said, _SAID) for said in value.values)
    return isinstance(value, ast.Constant) and bool(allowed.fullmatch(str(value.value)))


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
    message = f"{option} must be a literal, or a name that is given one once."
    return Refusal(kind="dynamic", line=call.lineno, message=message)


def _moved(refusal: Refusal, text: ast.Constant) -> Refusal:
    """The refusal at its line of the Python file."""
    return refusal.model_copy(update={"line": text.lineno + (refusal.line or 1) - 1})
