"""What g++ printed, as diagnostics that a model can act on."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Literal

from harness.isolation.process import Completed
from harness.nouns.build import Build, Diagnostic

KERNEL = "kernel"
MAX_DIAGNOSTICS = 20
_MAX_MESSAGE = 400
_MAX_NOTES_PER_ERROR = 2

_MESSAGE = re.compile(r"^(?P<file>[^:\s][^:]*):(?P<line>\d+):(?:(?P<column>\d+):)? (?P<kind>[a-z ]+): (?P<text>.*)$")
_REQUIRED = re.compile(r"^(?P<file>[^:\s][^:]*):(?P<line>\d+):(?:\d+:)?\s+(?:recursively )?required (?:from|by) ")
# A kernel can have its own text printed: no pattern may look far ahead from each of many places on one long line.
_UNDEFINED = re.compile(r"undefined reference to [`'](?P<symbol>[^`\n]{1,4000})'$", re.MULTILINE)
_ASSEMBLER = re.compile(r"^[^\s:][^:\n]*\.s:\d+: Error: (?P<text>.*)$", re.MULTILINE)
_FATAL = re.compile(r"^(?:cc1plus|g\+\+|as|ld|collect2): (?:internal compiler error|fatal error|out of memory).*$")
_EMPTY_NOTES = ("template argument deduction/substitution failed:", "conversion of argument 1 would be ill-formed:")
_SEVERITIES: dict[str, Literal["error", "warning", "note"]] = {
    "error": "error",
    "fatal error": "error",
    "sorry, unimplemented": "error",
    "warning": "warning",
    "note": "note",
}


@dataclass
class _Parser:
    """Reads lines in order: g++ prints the chain of instantiations before the error that it leads to."""

    kernel_file: str
    found: list[Diagnostic] = field(default_factory=list)
    chain: list[int] = field(default_factory=list)

    def read(self, line: str) -> None:
        required = _REQUIRED.match(line)
        if required:
            if required["file"] == self.kernel_file:
                self.chain.append(int(required["line"]))
            return
        if ": In instantiation of " in line or ": In substitution of " in line:
            self.chain = []
            return
        message = _MESSAGE.match(line)
        if message and message["kind"] in _SEVERITIES:
            self._add(message)

    def _add(self, message: re.Match[str]) -> None:
        if message["text"].strip() in _EMPTY_NOTES:
            return
        severity = _SEVERITIES[message["kind"]]
        file = short_name(message["file"], self.kernel_file)
        text = trim_types(message["text"].strip())
        if severity != "note":
            # The chain runs from the template outwards; its kernel lines are what a model can change.
            uses = [line for line in dict.fromkeys(self.chain) if (file, line) != (KERNEL, int(message["line"]))]
            if uses:
                text = f"{text} (instantiated from kernel line {', '.join(map(str, uses))})"
            self.chain = []
        column = int(message["column"] or 0)
        self.found.append(
            Diagnostic(severity=severity, file=file, line=int(message["line"]), column=column, message=text)
        )


def parse_messages(output: str, *, kernel_file: str, source: str) -> tuple[Diagnostic, ...]:
    """At most `MAX_DIAGNOSTICS`, errors first, the kernel's own before the headers', each with at most two notes."""
    parser = _Parser(kernel_file)
    for line in output.splitlines():
        parser.read(line)
    linker = _undefined_symbols(output, source)
    fatal = [_whole(match[0]) for match in map(_FATAL.match, output.splitlines()) if match]
    assembler = [_whole(f"inline assembly: {match['text']}") for match in _ASSEMBLER.finditer(output)]
    return select([*parser.found, *linker, *assembler, *fatal])


def select(found: Iterable[Diagnostic]) -> tuple[Diagnostic, ...]:
    """Duplicates dropped, errors with their notes first, then warnings, cut to `MAX_DIAGNOSTICS`."""
    groups = list(_groups(found))
    groups.sort(key=lambda group: (group[0].severity != "error", group[0].file != KERNEL))
    kept = [diagnostic for group in groups for diagnostic in group]
    return tuple(dict.fromkeys(kept))[:MAX_DIAGNOSTICS]


def short_name(path: str, kernel_file: str) -> str:
    """ "kernel" for the candidate; for a header what an #include would say, without the machine's folders."""
    if path == kernel_file or path.endswith(f"/{kernel_file}"):
        return KERNEL
    for mark in ("/include/c++/", "/include/"):
        if mark in path:
            return path.rsplit(mark, 1)[1]
    return path.rsplit("/", 1)[-1]


def trim_types(text: str) -> str:
    """The message with template arguments below the second level left out, and cut to a readable length."""
    kept: list[str] = []
    depth = 0
    for position, letter in enumerate(text):
        opens = letter == "<" and position > 0 and (text[position - 1].isalnum() or text[position - 1] == "_")
        if opens:
            depth += 1
            kept.append("<" if depth <= 2 else "<...>" if depth == 3 else "")
        elif letter == ">" and depth and text[position - 1] != "-":
            kept.append(">" if depth <= 2 else "")
            depth -= 1
        elif depth <= 2:
            kept.append(letter)
    trimmed = "".join(kept)
    return trimmed if len(trimmed) <= _MAX_MESSAGE else trimmed[: _MAX_MESSAGE - 3] + "..."


def _groups(found: Iterable[Diagnostic]) -> Iterator[list[Diagnostic]]:
    group: list[Diagnostic] = []
    for diagnostic in found:
        if diagnostic.severity != "note":
            if group:
                yield group
            group = [diagnostic]
        elif group and len(group) <= _MAX_NOTES_PER_ERROR:
            group.append(diagnostic)
    if group:
        yield group


def _undefined_symbols(output: str, source: str) -> list[Diagnostic]:
    found = dict.fromkeys(match["symbol"] for match in _UNDEFINED.finditer(output))
    symbols = islice(found, MAX_DIAGNOSTICS)  # each is looked for in the whole source
    return [
        Diagnostic(
            severity="error",
            file=KERNEL,
            line=_line_of(symbol, source),
            message=f"declared or used, but defined nowhere: {trim_types(symbol)}",
        )
        for symbol in symbols
    ]


def _line_of(symbol: str, source: str) -> int:
    base = symbol.split("(", 1)[0].split("::")[-1]
    for number, line in enumerate(source.splitlines(), start=1):
        if re.search(rf"\b{re.escape(base)}\b", line):
            return number
    return 1


def _whole(message: str) -> Diagnostic:
    return Diagnostic(severity="error", file=KERNEL, line=1, message=message[:_MAX_MESSAGE])


# -- A build that did not come off, in words that a model can act on --------------------------------------------------


_TAIL_LINES = 6
_TAIL_CHARACTERS = 600


def failed_build(completed: Completed, diagnostics: tuple[Diagnostic, ...], output: str) -> Build:
    """The failed build. Where no message of the compiler explains the failure, one that tells how it ended is added."""
    if completed.outcome != "exited":
        diagnostics = select((_error(_ending(completed)), *diagnostics))
    elif not any(diagnostic.severity == "error" for diagnostic in diagnostics):
        tail = "\n".join(_compilers_words(output)[-_TAIL_LINES:])[-_TAIL_CHARACTERS:]
        said = f"and said: {tail}" if tail else "and said nothing"
        diagnostics = select((_error(f"The compiler ended with exit code {completed.exit_code} {said}"), *diagnostics))
    return Build(diagnostics=diagnostics, seconds=completed.wall_s)


def _compilers_words(output: str) -> list[str]:
    """The output's lines without those of ninja: a failed edge is announced, and its command repeated below that."""
    kept: list[str] = []
    lines = iter(output.strip().splitlines())
    for line in lines:
        if line.startswith("FAILED: "):
            next(lines, None)
        elif not line.startswith("ninja: "):
            kept.append(line)
    return kept


def _ending(completed: Completed) -> str:
    took = f"after {completed.wall_s:.0f} s"
    peak = f"with {completed.peak_memory_bytes >> 20} MB in use"
    return {
        "timed_out": f"The compiler was stopped {took}: the source takes too long to compile. Unroll and nest less.",
        "out_of_memory": f"The compiler was stopped {peak}: the source needs too much memory. Instantiate less.",
        "flooded": f"The compiler was stopped: {completed.note}.",
        "signalled": f"The compiler was ended by {completed.signal} {took}.",
    }[completed.outcome]


def _error(message: str) -> Diagnostic:
    return Diagnostic(severity="error", file=KERNEL, line=1, message=message)
