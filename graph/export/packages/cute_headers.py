"""The CuTe headers that a kernel includes, to travel with it: machines that evaluate kernels seldom have them."""

from __future__ import annotations

import posixpath
import re
import tempfile
from functools import lru_cache
from pathlib import Path

from harness.building.lean_headers import FOLDER, suffices, write_lean_headers
from harness.building.toolchain import cute_include

_INCLUDED = re.compile(r"^[ \t]*#[ \t]*include[ \t]*[<\"]([^>\"]+)[>\"]", re.MULTILINE)


def cute_headers(source: str, architecture: str) -> dict[str, str]:
    """Texts by their paths, as few as the kernel needs on that architecture. Raises `MachineError` without CuTe."""
    found: dict[str, str] = {}
    lean = _lean() if suffices(source, architecture) else {}
    waiting = ["cute/tensor.hpp", *_INCLUDED.findall(source)]
    while waiting:
        name = waiting.pop()
        if name in found or (text := lean.get(name) or _text(name)) is None:
            continue
        found[name] = text
        beside = posixpath.dirname(name)
        waiting += [
            each
            for inner in _INCLUDED.findall(text)
            for each in (inner, posixpath.normpath(posixpath.join(beside, inner)))
        ]
    return dict(sorted(found.items()))


def _text(name: str) -> str | None:
    file = cute_include() / name
    return file.read_text(encoding="utf-8") if ".." not in name and file.is_file() else None


@lru_cache(maxsize=1)
def _lean() -> dict[str, str]:
    with tempfile.TemporaryDirectory() as folder:
        write_lean_headers(Path(folder))
        top = Path(folder, FOLDER)
        files = [file for file in top.rglob("*") if file.is_file()]
        return {file.relative_to(top).as_posix(): file.read_text(encoding="utf-8") for file in files}
