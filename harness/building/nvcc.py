"""What nvcc and ptxas printed, as diagnostics and as each kernel's registers, shared memory and spills."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal

from harness.building.gcc import KERNEL, parse_messages, select, short_name, trim_types
from harness.nouns.build import Diagnostic, Resources

_MESSAGE = re.compile(
    r"^(?P<file>[^\s(][^(]*)\((?P<line>\d+)\): "
    r"(?P<kind>error|warning|catastrophic error|note)(?: #[\w-]+)?: (?P<text>.*)$"
)
_INSTANTIATED = re.compile(r"^\s+(?:detected during|instantiation of ).* at line (?P<line>\d+)(?P<other> of .+)?$")
_PTXAS_PROBLEM = re.compile(r"^ptxas (?P<where>.*?)\s*(?P<kind>error|fatal)\s*: (?P<text>.*)$")
_COMPILING = re.compile(r"Compiling entry function '(?P<kernel>[^']+)'")
_SPILLS = re.compile(r"(?P<stores>\d+) bytes spill stores, (?P<loads>\d+) bytes spill loads")
_USED = re.compile(r"Used (?P<registers>\d+) registers")
_SHARED = re.compile(r"(?P<bytes>\d+) bytes smem")
_LENGTH = re.compile(r"(\d+)")

_SEVERITIES: dict[str, Literal["error", "warning", "note"]] = {
    "error": "error",
    "catastrophic error": "error",
    "warning": "warning",
    "note": "note",
}


def parse_nvcc_messages(output: str, *, kernel_file: str, source: str) -> tuple[Diagnostic, ...]:
    """At most 20 diagnostics, errors first; those of the host compiler, of the linker and of ptxas among them."""
    host = parse_messages(output, kernel_file=kernel_file, source=source)
    return select([*_device_messages(output, kernel_file), *_ptxas_problems(output), *host])


def parse_resources(output: str) -> tuple[Resources, ...]:
    """One entry a kernel, from `-Xptxas -v`. Spills are the bytes stored and loaded, added up.

    Functions that stayed out of line, compiled again for each kernel that calls them, are told of behind it.
    """
    found: list[Resources] = []
    kernel, spilled = "", 0
    for line in output.splitlines():
        if entry := _COMPILING.search(line):
            kernel, spilled = unmangled(entry["kernel"]), 0
        elif spills := _SPILLS.search(line):
            spilled += int(spills["stores"]) + int(spills["loads"])
            if found and not kernel:
                found[-1] = found[-1].model_copy(update={"spill_bytes": spilled})
        elif kernel and (used := _USED.search(line)):
            shared = _SHARED.search(line)
            found.append(
                Resources(
                    kernel=kernel,
                    registers=int(used["registers"]),
                    shared_bytes=int(shared["bytes"]) if shared else 0,
                    spill_bytes=spilled,
                )
            )
            kernel = ""
    return tuple(found)


def unmangled(symbol: str) -> str:
    """The function's own name out of an Itanium-mangled symbol: `_ZN3foo3barEPf` gives `bar`; others are kept."""
    if not symbol.startswith("_Z"):
        return symbol
    position = 3 if symbol.startswith("_ZN") else 2
    name = symbol
    while length := _LENGTH.match(symbol, position):
        start = length.end()
        position = start + int(length[1])
        name = symbol[start:position]
    return name


def _device_messages(output: str, kernel_file: str) -> Iterator[Diagnostic]:
    lines = output.splitlines()
    for index, line in enumerate(lines):
        match = _MESSAGE.match(line)
        if match is None:
            continue
        file = short_name(match["file"], kernel_file)
        origin = "" if file == KERNEL else _origin(lines, index + 1, kernel_file)
        yield Diagnostic(
            severity=_SEVERITIES[match["kind"]],
            file=file,
            line=int(match["line"]),
            message=trim_types(match["text"].strip()) + origin,
        )


def _origin(lines: list[str], start: int, kernel_file: str) -> str:
    """The kernel's lines among the instantiations that nvcc lists below a message, up to the next message."""
    found: list[str] = []
    for line in lines[start:]:
        if _MESSAGE.match(line):
            break
        step = _INSTANTIATED.match(line)
        if step and step["other"] and kernel_file in step["other"]:
            found.append(step["line"])
    return f" (instantiated from kernel line {', '.join(dict.fromkeys(found))})" if found else ""


def _ptxas_problems(output: str) -> Iterator[Diagnostic]:
    for line in output.splitlines():
        match = _PTXAS_PROBLEM.match(line)
        if match:
            yield Diagnostic(severity="error", file=KERNEL, line=1, message=f"ptxas: {trim_types(match['text'])}")
