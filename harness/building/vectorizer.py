"""Why g++'s vectorizer left loops of a kernel alone, out of the thousands of lines that it writes."""

from __future__ import annotations

import re

_LINE = re.compile(r"^(?P<file>[^:]+):(?P<line>\d+):(?P<column>\d+): missed:\s+(?P<text>.*)$")
_MISSED_LOOP = "couldn't vectorize loop"
_REASON = "not vectorized: "

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


def missed_loops(text: str, *, kernel_file: str) -> dict[int, str]:
    """Why a loop was left alone, by the line that g++ places it on: that of the loop, of its pragma, or one inside.

    `text` is what -fopt-info-vec-missed wrote. g++ speaks of each copy that it makes of a loop, of those that it takes
    up in the end, too: which loops have vectors only the machine code tells.
    """
    missed: dict[int, str] = {}
    loop: re.Match[str] | None = None
    for match in filter(None, map(_LINE.match, text.splitlines())):
        if match["text"].startswith(_MISSED_LOOP):
            loop = match
        elif loop is not None and match["text"].startswith(_REASON):
            # A loop whose condition was inlined from a header is said to lie there; its body tells where it is.
            place = loop if loop["file"] == kernel_file else match
            reason = _reason(int(place["line"]), match)
            if place["file"] == kernel_file and not reason.startswith(_UNINTERESTING):
                missed.setdefault(int(place["line"]), reason)
            loop = None
    return missed


def _reason(loop_line: int, match: re.Match[str]) -> str:
    said = match["text"].removeprefix(_REASON)
    known = next((plain for start, plain in _IN_PLAIN_WORDS.items() if said.startswith(start)), None)
    # What follows a colon names g++'s temporaries, which nobody can find in the source.
    reason = known or said.split(":")[0].rstrip(". ")
    elsewhere = match["file"].startswith("/") or int(match["line"]) == loop_line
    return reason if elsewhere else f"{reason} (line {match['line']})"
