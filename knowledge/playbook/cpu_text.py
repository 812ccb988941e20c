"""Chooses the helper functions that a kernel's text calls, each after those that it calls itself."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

from knowledge.playbook.cpu_exact import EXACT
from knowledge.playbook.cpu_lanes import ACCESS, FUNCTIONS, REQUIRES, TYPES
from knowledge.playbook.cpu_math import GENERIC

_ON_LANES = {**GENERIC, **FUNCTIONS, **EXACT}


def helpers(functions: str, entry: str, lanes: int, more: Mapping[str, str] = MappingProxyType({})) -> str:
    """The helpers that the arithmetic and the entry call; with SIMD registers, their types too.

    `more` are helpers beside the library's own, for one element.
    """
    if lanes == 1:
        return _math(functions + entry, {**GENERIC, **more})
    math = _math(functions + entry, _ON_LANES)
    access = _access("\n".join((math, functions, entry)))
    return TYPES.replace("{lanes}", str(lanes)) + access + math


def _access(text: str) -> str:
    code = _without_comments(text)
    wanted = [name for name in ACCESS if re.search(rf"\b{name}(<\w+>)?\(", code)]
    for name in list(wanted):
        wanted += REQUIRES.get(name, ())
    return "".join(body for name, body in ACCESS.items() if name in wanted)


def _math(text: str, library: Mapping[str, str]) -> str:
    chosen: list[str] = []

    def add(name: str) -> None:
        if name not in library or name in chosen:
            return
        for callee in re.findall(r"(?<!std::)\b(\w+)\(", _without_comments(library[name])):
            if callee != name:
                add(callee)
        chosen.append(name)

    for name in re.findall(r"\bmath::(\w+)\(", text):
        add(name)
    if not chosen:
        return ""
    return "\nnamespace math {" + "".join(library[name] for name in chosen) + "}  // namespace math\n"


def _without_comments(text: str) -> str:
    return re.sub(r"//.*", "", text)
