"""How a command ends badly: one sentence on stderr, the documented exit code, and no traceback."""

from __future__ import annotations

import json
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from types import FrameType

from harness.nouns.errors import CutegenError, UserError
from harness.nouns.frozen import printable

_stop = threading.Event()

IMPROVED, NOTHING_FASTER, USER_ERROR, MACHINE_ERROR, WAITING, DEFECT, INTERRUPTED = 0, 1, 2, 3, 4, 70, 130


def guarded(work: Callable[[], int], *, as_json: bool) -> int:
    """The exit code of `work`. Errors of ours become a sentence on stderr, and with `as_json` an object on stdout.

    SIGTERM ends the work as Ctrl-C does: a service manager's stop must lose nothing either. Both do so wherever the
    command was started: a shell has what it puts into the background ignore SIGINT, and nobody could stop it so.
    """
    _stop.clear()
    before = {kind: signal.signal(kind, _interrupt) for kind in (signal.SIGINT, signal.SIGTERM)}
    try:
        return work()
    except CutegenError as error:
        print(f"cutegen: {printable(str(error))}", file=sys.stderr)
        kind = "user" if isinstance(error, UserError) else "machine"
        if as_json:
            print(json.dumps({"error": kind, "problem": error.problem, "remedy": error.remedy}))
        return USER_ERROR if kind == "user" else MACHINE_ERROR
    except KeyboardInterrupt:
        print("cutegen: interrupted.", file=sys.stderr)
        if as_json:
            print(json.dumps({"error": "interrupted", "problem": "The command was interrupted.", "remedy": ""}))
        return INTERRUPTED
    except Exception:  # noqa: BLE001 (a defect of ours: its traceback is what a report needs, its code its own)
        traceback.print_exc()
        print("cutegen: this is a defect in cutegen; please report the lines above.", file=sys.stderr)
        return DEFECT
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def guarded_with_hints(work: Callable[[list[str]], int], *, as_json: bool) -> int:
    """As `guarded`; what `work` puts into its list is said on stderr, after the sentence on what went wrong."""
    hints: list[str] = []
    code = guarded(lambda: work(hints), as_json=as_json)
    for hint in hints:
        print(hint, file=sys.stderr)
    return code


def raise_if_stopped() -> None:
    """Raise `KeyboardInterrupt` again: one that comes while a finalizer or a library's callback runs is lost there."""
    if _stop.is_set():
        raise KeyboardInterrupt


def _interrupt(_signal: int, _frame: FrameType | None) -> None:
    _stop.set()
    raise KeyboardInterrupt
