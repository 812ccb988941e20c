"""How a command ends badly: one sentence on stderr, the documented exit code, and no traceback."""

from __future__ import annotations

import json
import os
import select
import sys
import traceback
from collections.abc import Callable

from graph.runs.interrupts import interruptible
from harness.nouns.errors import CutegenError, UserError
from harness.nouns.frozen import printable

IMPROVED, NOTHING_FASTER, USER_ERROR, MACHINE_ERROR, WAITING, DEFECT, INTERRUPTED = 0, 1, 2, 3, 4, 70, 130
NOBODY_READS = 141

# What LangGraph notes on an error that goes through a graph: an identity that helps nobody here.
GRAPHS_NOTE = "During task with name"


def guarded(work: Callable[[], int], *, as_json: bool) -> int:
    """The exit code of `work`. Errors of ours become a sentence on stderr, and with `as_json` an object on stdout.

    An error's notes, as how to go on, follow its sentence.
    """
    try:
        with interruptible():
            code = work()
            sys.stdout.flush()
            return code
    except CutegenError as error:
        kind = "user" if isinstance(error, UserError) else "machine"
        _tell(error, printable(str(error)), kind, error.problem, error.remedy, as_json=as_json)
        return USER_ERROR if kind == "user" else MACHINE_ERROR
    except KeyboardInterrupt as error:
        _tell(error, "interrupted.", "interrupted", "The command was interrupted.", "", as_json=as_json)
        return INTERRUPTED
    except Exception as error:  # noqa: BLE001 (a defect of ours: its traceback is what a report needs, its code its own)
        if isinstance(error, BrokenPipeError) and _nobody_reads():
            return NOBODY_READS
        traceback.print_exc()
        print("cutegen: this is a defect in cutegen; please report the lines above.", file=sys.stderr)
        return DEFECT


def _nobody_reads() -> bool:
    """Whether the reader of stdout has gone, as in `cutegen settings | head`; what is left to print then is dropped."""
    asked = select.poll()
    asked.register(sys.stdout.fileno(), 0)
    gone = any(event & select.POLLERR for _, event in asked.poll(0))
    if gone:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return gone


def note_way_on(error: BaseException, words: str) -> None:
    """Have an error say how to go on, unless its remedy is another run."""
    if not getattr(error, "final", False):
        error.add_note(words)


def _tell(error: BaseException, sentence: str, kind: str, problem: str, remedy: str, *, as_json: bool) -> None:
    print(f"cutegen: {sentence}", file=sys.stderr)
    for note in getattr(error, "__notes__", ()):
        if not note.startswith(GRAPHS_NOTE):
            print(note, file=sys.stderr)
    if as_json:
        print(json.dumps({"error": kind, "problem": problem, "remedy": remedy}))
