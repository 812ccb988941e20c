"""Rendered kernels that were compiled and found right once: built anew only where something that made them changed.

A test tells `Golden.holds` all that it would compile. Where `goldens/<its file>.json` has the digest of that, the test
is over: it passed on the same text. Where not, it compiles, runs and compares, as it does on a machine that renders
otherwise, and says that `make goldens` would write the new digest down. `make test-all` compiles everything again: for
another g++, nvcc or torch, and for a test that looks at the same kernels in another way.
"""

from __future__ import annotations

import hashlib
import json
import re
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

Mode = Literal["trust", "prove", "renew"]
FOLDER = Path(__file__).parent
_FOLDERS = re.compile(r"(?:^|(?<=^-L)|(?<=,))/\S+")
"""Where headers and libraries lie: elsewhere in every checkout."""
_INCLUDED = re.compile(r'#include "(/[^"]+)"')


class Golden:
    """What one test compiles, beside what it compiled when it last passed."""

    def __init__(self, file: Path, name: str, mode: Mode) -> None:
        self._file, self._name, self._mode = file, name, mode
        self._digest = ""

    def holds(self, texts: Iterable[str], *flags: str) -> bool:
        """Whether the test passed on these very texts, compiled by these flags; asked once a test."""
        assert not self._digest, "a test asks once, for all that it compiles"
        parts = [*filter(None, (_FOLDERS.sub("", flag) for flag in flags)), *map(_without_folders, texts)]
        self._digest = hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]
        return self._mode != "prove" and self._known().get(self._name) == self._digest

    def settle(self) -> None:
        """After the test has passed: write down what is new, or say that it is."""
        if not self._digest or (known := self._known()).get(self._name) == self._digest:
            return
        if self._mode != "renew":
            warnings.warn("Right, and not what is held as golden; `make goldens` makes it quick again.", stacklevel=2)
            return
        self._entries.parent.mkdir(exist_ok=True)
        text = json.dumps(known | {self._name: self._digest}, indent=0, sort_keys=True)
        self._entries.write_text(text + "\n", encoding="utf-8")

    @property
    def _entries(self) -> Path:
        return FOLDER / "goldens" / f"{self._file.stem}.json"

    def _known(self) -> dict[str, str]:
        return json.loads(self._entries.read_text(encoding="utf-8")) if self._entries.exists() else {}


def _without_folders(text: str) -> str:
    """A source with the text of what it includes from this checkout, wherever that lies."""
    return _INCLUDED.sub(lambda found: Path(found[1]).read_text(encoding="utf-8"), text)
