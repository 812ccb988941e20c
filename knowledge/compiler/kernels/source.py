"""Exemplar kernels as text: what their headers say, and their sections, which a recipe may replace.

A section is what stands between the lines `// begin NAME` and `// end NAME`. The section `header` opens with a
sentence on what the kernel computes; its indented lines are facts, `//   name: text`, deeper lines going on.

What several kernels share is written once: a line `// NAME: as in FILE.cu` stands for that section of the other kernel,
and is loaded as the section itself. Where the name begins with `_` the section is no recipe's: it is loaded without its
marks. Sections without a line are a recipe's to fill, and files without an entry are sections for another's frame:
`search/exemplars.py` has the whole kernel. Kernels for a GPU are `.cu` files, those for the processor `.cpp`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType

_FOLDER = Path(__file__).parent
_FACT = re.compile(r"(?P<name>[a-z][\w ]*): (?P<text>.+)")
_SHARED = re.compile(r"^// (?P<section>\w+): as in (?P<name>\w+)\.(?:cu|cpp)$", re.MULTILINE)
_BEGIN = re.compile(r"^// begin (\w+)$", re.MULTILINE)
_MARKER = re.compile(r"^// (?:begin|end) \w+\n", re.MULTILINE)
_UNMARKED = re.compile(r"^// (?:begin|end) _\w+\n", re.MULTILINE)
_ARCHITECTURE = re.compile(r"sm_(?P<number>\d+)(?P<suffix>[af]?)")

PROCESSOR = "cpu"
"""The processor, where an architecture is asked for: whichever it is, for g++ compiles for the one at hand."""


@dataclass(frozen=True)
class Exemplar:
    """One kernel: its name, its text, what it computes, and the facts of its header by name."""

    name: str
    text: str
    computes: str
    facts: Mapping[str, str]

    @property
    def op_class(self) -> str:
        """The class of operation that it is shown for: "gemm", "elementwise", "reduction" or "other"."""
        return self.facts["op class"]

    @property
    def architecture(self) -> str:
        """What it needs: "cpu", or in nvcc's words "sm_80": that and all later; with a letter behind it that alone."""
        return self.facts["architecture"]

    @property
    def shown(self) -> str:
        """The text without the lines that mark its sections, which mean nothing to a reader."""
        return _MARKER.sub("", self.text)

    @property
    def sections(self) -> tuple[str, ...]:
        """The sections' names, in order."""
        return tuple(_BEGIN.findall(self.text))

    def runs_on(self, architecture: str) -> bool:
        """Whether the source can be compiled for an architecture, by nvcc's name, or for `PROCESSOR`."""
        if PROCESSOR in (self.architecture, architecture):
            return self.architecture == architecture
        needed, given = _parsed(self.architecture), _parsed(architecture)
        return needed == given if needed[1] else given[0] >= needed[0]

    def section(self, name: str) -> str:
        """The text of one section, without its two marker lines. Raises ValueError where there is none."""
        return _find(self.text, name)[2]

    def with_sections(self, **texts: str) -> str:
        """The source with the text of each named section replaced. Raises ValueError for a section it does not have."""
        source = self.text
        for name, text in texts.items():
            start, end, _ = _find(source, name)
            source = source[:start] + text.strip("\n") + "\n" + source[end:]
        return source


def names() -> tuple[str, ...]:
    """The exemplars' names, sorted."""
    return tuple(sorted(_files(_FOLDER)))


def load(name: str) -> Exemplar:
    """One exemplar. Raises ValueError where there is none of that name, or its header is incomplete."""
    return _load(name, _FOLDER)


def read(name: str, text: str) -> Exemplar:
    """A kernel's text as an exemplar. Raises ValueError where its header is incomplete."""
    computes, facts = _read_header(_find(text, "header")[2])
    missing = {"op class", "architecture"} - facts.keys()
    if missing:
        raise ValueError(f"The header of {name} does not tell its {' and '.join(sorted(missing))}.")
    return Exemplar(name, text, computes, MappingProxyType(facts))


@cache
def _load(name: str, folder: Path) -> Exemplar:
    return read(name, _UNMARKED.sub("", _whole(name, folder)))


@cache
def _files(folder: Path) -> dict[str, Path]:
    return {path.stem: path for pattern in ("*.cu", "*.cpp") for path in folder.glob(pattern)}


@cache
def _whole(name: str, folder: Path) -> str:
    """The kernel that a file stands for: every shared section in its place. Raises ValueError where there is none."""
    files = _files(folder)
    if name not in files:
        raise ValueError(f"There is no exemplar {name!r}; there are {', '.join(names())}.")

    def shared(line: re.Match[str]) -> str:
        section, text = line["section"], _find(_whole(line["name"], folder), line["section"])[2]
        return text.removesuffix("\n") if section.startswith("_") else f"// begin {section}\n{text}// end {section}"

    return _SHARED.sub(shared, files[name].read_text(encoding="utf-8"))


def _find(text: str, name: str) -> tuple[int, int, str]:
    """Where a section's text starts and ends, and the text."""
    found = re.search(rf"^// begin {re.escape(name)}\n(.*?)^// end {re.escape(name)}$", text, re.MULTILINE | re.DOTALL)
    if found is None:
        raise ValueError(f"The exemplar has no section {name!r}.")
    return found.start(1), found.end(1), found[1]


def _read_header(header: str) -> tuple[str, dict[str, str]]:
    computes: list[str] = []
    facts: dict[str, str] = {}
    for line in header.splitlines():
        text = line.removeprefix("//")
        indent = len(text) - len(text.lstrip())
        fact = _FACT.fullmatch(text.strip())
        if indent < 3:
            computes.append(text.strip())
        elif indent == 3 and fact:
            facts[fact["name"]] = fact["text"]
        elif facts:
            last = next(reversed(facts))
            facts[last] += " " + text.strip()
    return " ".join(computes).strip(), facts


def _parsed(architecture: str) -> tuple[int, str]:
    match = _ARCHITECTURE.fullmatch(architecture)
    if match is None:
        raise ValueError(f"{architecture!r} is no architecture; write it like sm_80.")
    return int(match["number"]), match["suffix"]
