"""The guides as sections: those that belong into a prompt, those that answer a query, and what messages have meant."""

from __future__ import annotations

import re
import sqlite3
import tomllib
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from itertools import islice
from typing import Literal

from harness.nouns.candidate import TargetName
from harness.nouns.devices import on_gpu
from knowledge.compiler.kernels.source import Exemplar
from knowledge.compiler.search.exemplars import load, names
from knowledge.topics import Topic

_GUIDES = files("knowledge") / "guides"
_WORD = re.compile(r"\w+")
# Too frequent to tell one section from another.
_FILLERS = re.compile(r"an?|and|at|by|do(es)?|for|from|how|in|is|it|of|on|or|the|to|what|when|why|with")
_FOR_BEGINNERS = ("Order of work", "Order of work on the processor", "The layers of a kernel")
"""Of the guides on writing: for who begins a kernel, and nobody else."""
_LOOKED_UP = (
    "Transposition and lane sums by shuffles",
    "Small inner strides",
    "Streaming stores on the processor",
    "Spilled registers on the processor",
)
"""Of the guide on writing: too long or too special for a prompt; `look_up` finds it."""
_OF_TOPICS: dict[str, Topic] = {
    "Products": "products",
    "Arithmetic": "products",
    "Functions in vectors": "functions",
    "erf and GELU in vectors": "erf",
    "Attention on the processor": "attention",
    "Windows on the processor": "windows",
    "Selection on the processor": "selection",
    "Windows": "windows",
    "Selection": "selection",
    "Attention": "attention",
    "Scans on the processor": "scans",
    "Scans": "scans",
    "Narrow weights on the processor": "narrow weights",
    "Narrow weights": "narrow weights",
}
"""Sections of the guides on writing that a task without such operations does not need."""
Failure = Literal["build_failed", "refused", "wrong", "crashed", "timed_out", "sanitizer", "memory"]
_PAGES: dict[Failure, tuple[str, ...]] = {
    "build_failed": ("It does not compile", "It does not compile on the processor"),
    "refused": ("Refused before it ran",),
    "wrong": ("It computes the wrong thing",),
    "crashed": ("It crashes", "It crashes on the processor"),
    "timed_out": ("It crashes", "It crashes on the processor"),
    "sanitizer": ("What compute-sanitizer says", "What the sanitizers say on the processor"),
    "memory": ("It runs out of memory",),
}
"""Where the guides on failures tell what a kind of them means; a hang is told with the crashes."""
_UNSTEADY = ("Races and stages", "It is wrong or slow on the processor only sometimes")
_OF_BOTH, _PROCEDURE = "debugging", "Procedure"
_ON_WRITING: dict[TargetName, str] = {"cpu": "cpu", "cuda": "cute"}
_OF_THE_PROCESSOR = frozenset(("cpu", "debugging_cpu", "optimize_cpu"))
_MOVES_OF = {
    "elementwise": "Moves for streams of elements on the processor",
    "reduction": "Moves for reductions on the processor",
    "gemm": "Moves for products on the processor",
    "windows": "Moves for windows on the processor",
}


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


def writing(target: TargetName, topics: Collection[Topic]) -> str:
    """How a kernel is written with CuTe, as far as whoever changes a kernel for a task of these topics needs it."""
    left_out = {title for title, topic in _OF_TOPICS.items() if topic not in topics}
    parts = (part for part in guide(_ON_WRITING[target]) if part.title not in {*left_out, *_FOR_BEGINNERS, *_LOOKED_UP})
    return _joined(tuple(parts))


def beginning(target: TargetName) -> str:
    """What the guide on writing tells beyond that to who begins a kernel."""
    return _joined(tuple(part for part in guide(_ON_WRITING[target]) if part.title in _FOR_BEGINNERS))


def debugging(target: TargetName, failure: Failure, *, moving: bool = False) -> str:
    """From a kind of failure to its cause; also where results that are `moving` between calls come from."""
    titles = (*_PAGES[failure], *(_UNSTEADY if moving else ()))
    introduction, *parts = (*guide(_OF_BOTH), *guide(f"debugging_{target}"))
    return _joined((introduction, *(part for part in parts if part.title in (_PROCEDURE, *titles))))


def moves(op_class: str, target: TargetName, topics: Collection[Topic]) -> str:
    """The moves worth trying on a kernel of this class for a task of these topics, in their order."""
    if not on_gpu(target):
        left_out = {*_MOVES_OF.values()} - _kinds_of_moves(op_class, topics)
        return _joined(tuple(part for part in guide("optimize_cpu") if part.title not in left_out))
    named = f"optimize_{op_class}"
    if named in guide_names() and op_class != "other":
        return _joined(guide(named))
    # What has no class of its own mostly streams or reduces: its guide refers to two kinds of moves.
    first = "optimize_gemm" if "attention" in topics else "optimize_elementwise"
    return _joined((*guide("optimize_other"), *guide(first), *guide("optimize_reduction")))


def _kinds_of_moves(op_class: str, topics: Collection[Topic]) -> set[str]:
    """The sections for a kernel on the processor: windows are no rows to be reduced, whatever stands behind them, and
    attention is no stream."""
    kinds = {op_class} if op_class in _MOVES_OF else {"elementwise", "reduction"}
    if "windows" in topics:
        kinds = {"windows"}
    elif "attention" in topics:
        kinds = {"reduction"}
    if "products" in topics:
        kinds.add("gemm")
    return {_MOVES_OF[kind] for kind in kinds}


def metrics(target: TargetName) -> str:
    """What a profile's words mean; the processor's roofline needs no glossary."""
    return _joined(guide("metrics")) if on_gpu(target) else ""


def look_up(query: str, target: TargetName, limit: int = 3) -> tuple[Section, ...]:
    """The sections for the target that fit the query's words best (BM25 over titles and texts).

    None where no word occurs in them.
    """
    asked = _any_word_of(query)
    if not asked:
        return ()
    rows = _index().execute(
        "SELECT rowid FROM sections WHERE sections MATCH ? ORDER BY bm25(sections, 10.0, 1.0)", (asked,)
    )
    found = (_all_sections()[row - 1] for (row,) in rows)
    return tuple(islice((part for part in found if _is_for(part, target)), limit))


def unknown_words(query: str, target: TargetName) -> tuple[str, ...]:
    """The query's words that occur in none of the sections for the target, each once."""
    words = dict.fromkeys(word for word in _WORD.findall(query.lower()) if not _FILLERS.fullmatch(word))
    return tuple(word for word in words if not look_up(word, target, 1))


def _is_for(part: Section, target: TargetName) -> bool:
    return part.guide == _OF_BOTH or (part.guide in _OF_THE_PROCESSOR) != on_gpu(target)


def retrieved(op_class: str, architecture: str, query: str) -> Exemplar | None:
    """The exemplar that runs on `architecture` whose header fits the query's words best, those of the class first.

    None where no exemplar of the class runs there and no header shares a word with the query.
    """
    running = {name: exemplar for name in names() if (exemplar := load(name)).runs_on(architecture)}
    own = {name for name, exemplar in running.items() if exemplar.op_class == op_class}
    found = [name for name in _headers_by(query) if name in running]
    ordered = [*(name for name in found if name in own), *sorted(own), *found]
    return running[ordered[0]] if ordered else None


@cache
def known_errors() -> tuple[KnownError, ...]:
    """The catalogue of messages, special ones before general ones."""
    entries = tomllib.loads((_GUIDES / "errors.toml").read_text(encoding="utf-8"))["error"]
    return tuple(
        KnownError(re.compile(entry["pattern"], re.IGNORECASE | re.DOTALL), tuple(entry["causes"]), entry["section"])
        for entry in entries
    )


def likely_causes(message: str, limit: int = 2) -> tuple[KnownError, ...]:
    """The entries of the catalogue that a message matches, at most `limit` of them.

    Those of an earlier line first, since what a compiler says later is mostly the echo of its first error.
    """
    found = [(message.count("\n", 0, match.start()), known) for known, match in _matches(message)]
    return tuple(known for _, known in sorted(found, key=lambda place: place[0])[:limit])


def _matches(message: str) -> Iterator[tuple[KnownError, re.Match[str]]]:
    for known in known_errors():
        if match := known.pattern.search(message):
            yield known, match


def _any_word_of(query: str) -> str:
    """The query in SQLite's words; empty where it has none that tells anything."""
    words = [word for word in _WORD.findall(query.lower()) if not _FILLERS.fullmatch(word)]
    return " OR ".join(f'"{word}"' for word in dict.fromkeys(words))


def _headers_by(query: str) -> tuple[str, ...]:
    """The exemplars whose headers share a word with the query, the best fit first."""
    asked = _any_word_of(query.replace("_", " "))
    if not asked:
        return ()
    rows = _exemplar_index().execute(
        "SELECT name FROM exemplars WHERE exemplars MATCH ? ORDER BY bm25(exemplars, 4.0, 4.0, 1.0)", (asked,)
    )
    return tuple(name for (name,) in rows)


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


@cache
def _exemplar_index() -> sqlite3.Connection:
    """The exemplars' headers: what each computes weighs more than the facts about it."""
    index = sqlite3.connect(":memory:", check_same_thread=False)
    index.execute('CREATE VIRTUAL TABLE exemplars USING fts5(name, computes, facts, tokenize="porter unicode61")')
    index.executemany(
        "INSERT INTO exemplars(name, computes, facts) VALUES (?, ?, ?)",
        [(name, load(name).computes, " ".join(load(name).facts.values())) for name in names()],
    )
    return index
