"""A run as it stands: its record where it has ended, else what its checkpoints hold, and the report drawn from that."""

from __future__ import annotations

import sqlite3
import threading
import time
from contextlib import closing
from pathlib import Path

from langgraph.checkpoint.sqlite import SqliteSaver

from graph.live.feed import Feed, has_ended
from graph.live.page import begun
from graph.pages.report import filled_in, view
from graph.runs.beside import found_beside
from graph.runs.comparing import read_run
from graph.runs.folder import RunFolder
from graph.runs.loop import SESSIONS
from graph.runs.record import RunRecord
from graph.runs.store import BUSY_S, PlainSerializer
from harness.nouns.errors import CutegenError, UserError
from tools.judges import open_judge

SHARE = 5
"""A page of a run that goes on is drawn anew only when so many times the time has passed that it took to draw."""


class RunView:
    """One run's page. Readers may share it; it is drawn once for all of them."""

    def __init__(self, folder: RunFolder) -> None:
        """Raises `UserError` where there is no run, or anything but plain files."""
        folder.require_plain()
        self.manifest = folder.manifest()
        self.name = self.manifest.name
        self.folder = folder
        self._lock = threading.Lock()
        self._body, self._at = "", -1
        self._again_s = 0.0

    def feed(self, at: int = 0) -> Feed:
        """What its log tells from a place on."""
        return Feed(self.folder.log, at)

    @property
    def ended(self) -> bool:
        """Whether it came to its end, as its log says; a folder without checkpoints holds a record and no more."""
        return has_ended(self.folder.log) or (self.folder.record.exists() and not self.folder.checkpoints.exists())

    def body(self) -> tuple[str, int]:
        """The report's inside as HTML, and the place in the log that it was drawn at."""
        with self._lock:
            at = _size(self.folder.log)
            if at != self._at and (time.monotonic() >= self._again_s or has_ended(self.folder.log)):
                began = time.monotonic()
                self._body, self._at = self._drawn(), at
                self._again_s = time.monotonic() + SHARE * (time.monotonic() - began)
            return self._body, max(0, self._at)

    def record(self) -> RunRecord | None:
        """What is known of it; None before its first checkpoint."""
        if has_ended(self.folder.log) or not self.folder.checkpoints.exists():
            try:
                return read_run(self.folder.path)
            except UserError:
                pass
        try:
            return self._running()
        except (CutegenError, sqlite3.Error, ValueError):
            return None

    def _drawn(self) -> str:
        record = self.record()
        if record is None:
            return begun(self.manifest.name)
        return filled_in("report_body.html.j2", view(record, found_beside(self.folder, record)))

    def _running(self) -> RunRecord | None:
        """From the checkpoints, which another process may be writing: they are opened to be read alone."""
        if not self.folder.checkpoints.exists():
            return None
        place = f"{self.folder.checkpoints.absolute().as_uri()}?mode=ro"
        with closing(sqlite3.connect(place, uri=True, check_same_thread=False, timeout=BUSY_S)) as connection:
            saver = SqliteSaver(connection, serde=PlainSerializer())
            saver.is_setup = True
            return SESSIONS[self.manifest.kind](self.folder, self.manifest, saver, open_judge).record("running")


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except OSError:
        return 0
