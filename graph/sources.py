"""The text of a file that a person named, or a sentence that says why there is none."""

from __future__ import annotations

from pathlib import Path

from harness.nouns.errors import UserError
from harness.nouns.reading import cause, read_text

MOST_SOURCE_BYTES = 16 << 20
"""No file that a person or a model writes is larger."""


def read_source(path: Path, remedy: str) -> str:
    """The text of a file that somebody named. Raises `UserError`, with this remedy where it is no such file."""
    try:
        return read_text(path, MOST_SOURCE_BYTES)
    except FileNotFoundError as error:
        raise UserError(f"There is no file {path}.", remedy) from error
    except IsADirectoryError as error:
        raise UserError(f"{path} is a folder.", remedy) from error
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is no UTF-8 text: {error.reason}.", remedy) from error
    except OSError as error:
        raise UserError(f"{path} cannot be read: {cause(error)}.", "Check its rights.") from error
