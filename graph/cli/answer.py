"""`cutegen answer`: show the question that a run waits with, or take its answer and go on."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

from graph.cli.errors import IMPROVED
from graph.cli.optimize import show_run
from graph.cli.options import Answer
from graph.loading import MOST_SOURCE_BYTES
from graph.runs.folder import RunFolder, reopen
from harness.nouns.errors import UserError
from harness.nouns.frozen import printable
from harness.nouns.reading import cause, read_text

_CUT = "<!-- Write the answer above this line. The question, for reading: -->"


def run(options: Answer) -> int:
    """Do the command; its exit code."""
    if options.file is not None and options.edit:
        raise UserError("A file and --edit exclude each other.", "Give the answer one way.")
    folder, manifest = reopen(options.run)
    question = _question(folder)
    if options.file is None and not options.edit:
        print(question)
        return IMPROVED
    answer = _edited(question) if options.file is None else _read(options.file)
    return show_run(folder, manifest, as_json=options.json, answer=answer)


def _question(folder: RunFolder) -> str:
    try:
        return printable(read_text(folder.question))
    except UnicodeDecodeError as error:
        raise UserError(f"{folder.question} is no UTF-8 text.", "cutegen optimize --resume writes it anew.") from error
    except OSError as error:
        raise UserError(
            f"No question waits in {folder.path}.",
            "Only runs with --model manual or --set approve_best=true ask; cutegen optimize --resume goes on.",
        ) from error


def _read(file: Path) -> str:
    try:
        return sys.stdin.read() if str(file) == "-" else read_text(file, MOST_SOURCE_BYTES)
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(
            f"The answer in {file} cannot be read: {cause(error)}.", "Name a text file, or - for stdin."
        ) from error


def _edited(question: str) -> str:
    """What the user leaves above the cut in $VISUAL or $EDITOR."""
    editor = shlex.split(os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi")
    with tempfile.TemporaryDirectory(prefix="cutegen-") as scratch:
        draft = Path(scratch) / "answer.md"
        draft.write_text(f"\n{_CUT}\n\n{question}", encoding="utf-8")
        try:
            subprocess.run([*editor, str(draft)], check=True)
        except (OSError, subprocess.CalledProcessError) as error:
            raise UserError(f"The editor {editor[0]} failed: {error}.", "Set EDITOR, or name a file.") from error
        answer = draft.read_text(encoding="utf-8").partition(_CUT)[0]
    if not answer.strip():
        raise UserError("The answer is empty; the question still waits.", "Write it above the marked line.")
    return answer
