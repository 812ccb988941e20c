"""Which loops of a kernel g++ left scalar, and why, out of the thousands of lines its vectorizer writes."""

from __future__ import annotations

import re
from collections.abc import Sequence

from harness.nouns.build import Diagnostic

MAX_REMARKS = 20

_LINE = re.compile(r"^(?P<file>[^:]+):(?P<line>\d+):(?P<column>\d+): (?P<kind>missed|optimized):\s+(?P<text>.*)$")
_MISSED_LOOP = "couldn't vectorize loop"
_REASON = "not vectorized: "
_VECTORIZED_LOOP = "loop vectorized"
_LOOP = re.compile(r"\s*(?:for|while)\b")

# g++ speaks of its own intermediate code; the left side is how its sentence begins, the right what to change.
_IN_PLAIN_WORDS = {
    "no vectype for stmt": "a value there has no vector form (often a call that is not inlined, or a dependence)",
    "control flow in loop": "a branch, a break or a call keeps its body from being straight-line code",
    "number of iterations cannot be computed": "the trip count is unknown before it starts (a call or an early exit)",
    "possible dependence between data-refs": "one iteration may read what another wrote",
    "statement clobbers memory": "a call inside may write any memory",
    "relevant stmt not supported": "a statement there has no vector instruction",
    "unsupported use in stmt": "a value carried between iterations is not a plain reduction",
    "value used after loop": "a value carried out of the loop is not a plain reduction",
    "unsupported data-type": "a type there does not fit vector registers",
    "complicated access pattern": "the addresses are not a plain stride",
}
_UNINTERESTING = ("multiple nested loops", "loop nest containing two or more consecutive inner loops")


def parse_remarks(text: str, *, kernel_file: str, source: str) -> tuple[Diagnostic, ...]:
    """Innermost loops of the kernel that stayed scalar, one remark a line, in the order of the lines.

    `text` is what -fopt-info-vec-optimized-missed wrote. A loop that was vectorized at least once is left out: g++
    reports each copy that it makes of a loop, and its scalar remainder too. So is one around a loop that was: where
    what the inner one reads was inlined from a header, g++ places it there, right behind the outer one.
    """
    lines = source.splitlines()
    vectorized: set[int] = set()
    missed: dict[int, Diagnostic] = {}
    loop: re.Match[str] | None = None
    before = 0
    for match in filter(None, map(_LINE.match, text.splitlines())):
        ours = match["file"] == kernel_file
        if match["kind"] == "optimized" and match["text"].startswith(_VECTORIZED_LOOP):
            if ours or _holds_a_loop(lines, before):
                vectorized.add(int(match["line"]) if ours else before)
        elif match["text"].startswith(_MISSED_LOOP):
            loop, before = match, 0
        elif loop is not None and match["text"].startswith(_REASON):
            # A loop whose condition was inlined from a header is said to lie there; its body tells where it is.
            place = loop if loop["file"] == kernel_file else match
            if place["file"] == kernel_file:
                before = int(place["line"])
                missed.setdefault(before, _remark(before, match))
            loop = None
    loops = vectorized | set(missed)
    inner = [line for line in sorted(missed) if not any(_encloses(lines, line, other) for other in loops)]
    return tuple(missed[line] for line in inner if line not in vectorized and _says_something(missed[line]))[
        :MAX_REMARKS
    ]


def _remark(loop_line: int, match: re.Match[str]) -> Diagnostic:
    said = match["text"].removeprefix(_REASON)
    known = next((plain for start, plain in _IN_PLAIN_WORDS.items() if said.startswith(start)), None)
    elsewhere = match["file"].startswith("/") or int(match["line"]) == loop_line
    where = "" if elsewhere else f", because of line {match['line']}"
    # What follows a colon names g++'s temporaries, which nobody can find in the source.
    reason = known or said.split(":")[0].rstrip(". ")
    return Diagnostic(severity="note", file="kernel", line=loop_line, message=f"loop not vectorized{where}: {reason}")


def _says_something(remark: Diagnostic) -> bool:
    return not any(phrase in remark.message for phrase in _UNINTERESTING)


def _holds_a_loop(lines: Sequence[str], outer: int) -> bool:
    """Whether a loop is written inside the block that line `outer` opens; there is no line 0."""
    return outer > 0 and any(_LOOP.match(text) and _encloses(lines, outer, n) for n, text in enumerate(lines, start=1))


def _encloses(lines: Sequence[str], outer: int, inner: int) -> bool:
    """Whether line `inner` lies in the block that line `outer` opens, judged by the indentation between them."""
    if not outer < inner <= len(lines):
        return False
    between = [line for line in lines[outer:inner] if line.strip() and not line.lstrip().startswith("#")]
    return all(_indentation(line) > _indentation(lines[outer - 1]) for line in between)


def _indentation(line: str) -> int:
    return len(line) - len(line.lstrip())
