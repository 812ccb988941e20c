"""The guides as sections: those that belong into a prompt, those that answer a query, and what messages have meant."""

from __future__ import annotations

import re
import sqlite3
import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Literal

Target = Literal["cpu", "cuda"]

_GUIDES = files("knowledge") / "guides"
_WORD = re.compile(r"\w+")
# Too frequent to tell one section from another.
_FILLERS = re.compile(r"an?|and|at|by|do(es)?|for|from|how|in|is|it|of|on|or|the|to|what|when|why|with")
# What a processor's kernel has use for of the CuTe guide: the rest is about threads of a GPU.
_FOR_CPU = ("Order of work", "Layouts and tensors")


@dataclass(frozen=True)
class Section:
    """A part of a guide under its own heading. `text` begins with the heading."""

    guide: str
    title: str
    text: str


@dataclass(frozen=True)
class KnownError:
    """A kind of message, its causes with the likeliest first, and the section that says more."""

    pattern: re.Pattern[str]
    causes: tuple[str, ...]
    section: str


@cache
def guide(name: str) -> tuple[Section, ...]:
    """A guide's sections in order, its introduction first. Raises `FileNotFoundError` for a name that is none."""
    text = (_GUIDES / f"{name}.md").read_text(encoding="utf-8")
    parts = re.split(r"^(?=##? )", text, flags=re.MULTILINE)
    return tuple(
        Section(name, part.splitlines()[0].lstrip("# ").strip(), part.rstrip() + "\n") for part in parts if part
    )


@cache
def guide_names() -> tuple[str, ...]:
    """All guides, sorted."""
    return tuple(sorted(file.name.removesuffix(".md") for file in _GUIDES.iterdir() if file.name.endswith(".md")))


def writing(target: Target) -> str:
    """How a kernel is written with CuTe."""
    parts = guide("cute")
    return _joined(parts if target == "cuda" else tuple(part for part in parts if part.title in _FOR_CPU))


def debugging() -> str:
    """From a failure's kind to its cause."""
    return _joined(guide("debugging"))


def moves(op_class: str, target: Target) -> str:
    """The moves worth trying on a class of kernels, in their order."""
    if target == "cpu":
        return _joined(guide("optimize_cpu"))
    named = f"optimize_{op_class}"
    return _joined(guide(named if named in guide_names() else "optimize_other"))


def metrics(target: Target) -> str:
    """What a profile's words mean; the processor's roofline needs no glossary."""
    return _joined(guide("metrics")) if target == "cuda" else ""


def look_up(query: str, limit: int = 3) -> tuple[Section, ...]:
    """The sections that fit the query's words best (BM25 over titles and texts); none where no word occurs."""
    words = [word for word in _WORD.findall(query.lower()) if not _FILLERS.fullmatch(word)]
    if not words:
        return ()
    asked = " OR ".join(f'"{word}"' for word in words)
    rows = _index().execute(
        "SELECT rowid FROM sections WHERE sections MATCH ? ORDER BY bm25(sections, 10.0, 1.0) LIMIT ?", (asked, limit)
    )
    return tuple(_all_sections()[row - 1] for (row,) in rows)


@cache
def known_errors() -> tuple[KnownError, ...]:
    """The catalogue of messages, special ones before general ones."""
    entries = tomllib.loads((_GUIDES / "errors.toml").read_text(encoding="utf-8"))["error"]
    return tuple(
        KnownError(re.compile(entry["pattern"], re.IGNORECASE | re.DOTALL), tuple(entry["causes"]), entry["section"])
        for entry in entries
    )


def likely_causes(message: str, limit: int = 2) -> tuple[KnownError, ...]:
    """The entries of the catalogue that a message matches, at most `limit` of them."""
    return tuple(known for known in known_errors() if known.pattern.search(message))[:limit]


def _joined(parts: tuple[Section, ...]) -> str:
    return "\n".join(part.text for part in parts)


@cache
def _all_sections() -> tuple[Section, ...]:
    return tuple(part for name in guide_names() for part in guide(name))


@cache
def _index() -> sqlite3.Connection:
    """All sections in memory; SQLite's own full-text index, whose word stems make "barriers" find "barrier"."""
    index = sqlite3.connect(":memory:", check_same_thread=False)
    index.execute("CREATE VIRTUAL TABLE sections USING fts5(title, text, tokenize='porter unicode61')")
    index.executemany(
        "INSERT INTO sections(rowid, title, text) VALUES (?, ?, ?)",
        [(number, part.title, part.text) for number, part in enumerate(_all_sections(), start=1)],
    )
    return index
