"""A suite as it stands: its page, what each of its runs does right now, and the runs by their names."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

from graph.live.feed import Feed, Told
from graph.live.page import begun
from graph.live.run_view import RunView
from graph.pages.report import filled_in
from graph.pages.suite_page import view
from graph.runs.folder import RunFolder
from graph.suites.folder import SuiteFolder, SuiteManifest, look_at
from harness.nouns.errors import UserError


class SuiteView:
    """One suite's page, which leads to those of its runs."""

    def __init__(self, path: Path) -> None:
        """Raises `UserError` where there is no suite."""
        self.folder: SuiteFolder
        self.manifest: SuiteManifest
        self.folder, self.manifest = look_at(path)
        self.name = self.manifest.name
        self.names = frozenset(task.name for task in self.manifest.tasks)
        self._views: dict[str, RunView] = {}
        self._lock = threading.Lock()

    def run(self, name: str) -> RunView | None:
        """The run of a task; None where it is no task of this suite, or has not begun."""
        if name not in self.names:
            return None
        with self._lock:
            if name not in self._views:
                try:
                    self._views[name] = RunView(RunFolder(self.folder.path / name))
                except UserError:
                    return None
            return self._views[name]

    def body(self) -> tuple[str, int]:
        """The page's inside, and when the results were written that it shows, in nanoseconds."""
        at = self.stamp()
        record = self.folder.record()
        if record is None:
            return begun(self.manifest.name), at
        return filled_in("suite_body.html.j2", view(record, live=True)), at

    @property
    def ended(self) -> bool:
        """Whether its results are all there."""
        record = self.folder.record()
        return record is not None and record.outcome == "finished"

    def stamp(self) -> int:
        """When the results were written; 0 before the first."""
        try:
            return self.folder.results.stat().st_mtime_ns
        except OSError:
            return 0

    def feed(self, at: int = 0) -> SuiteFeed:
        """What happens in it, for a reader whose page shows the results of that time."""
        return SuiteFeed(self, at)


class SuiteFeed:
    """One reader of a suite. Whoever comes back is told what each run does now, and of the page where it is older."""

    def __init__(self, suite: SuiteView, at: int) -> None:
        self._suite, self.at = suite, at
        self._feeds: dict[str, Feed] = {}
        self.ended = False

    def read(self) -> Iterator[Told]:
        """The last thing that each run said, where it said one, and whether the results changed."""
        for name in sorted(self._suite.names):
            yield from self._said(name)
        if (stamp := self._suite.stamp()) != self.at:
            self.at = stamp
            yield Told(str(stamp), "page", {})
        record = self._suite.folder.record() if not self.ended else None
        if record is not None and (record.outcome == "finished" or (record.outcome == "interrupted" and self._idle())):
            self.ended = True
            yield Told(str(self.at), "end", {"text": record.outcome})

    def _said(self, name: str) -> Iterator[Told]:
        feed = self._feeds.get(name)
        if feed is None:
            log = RunFolder(self._suite.folder.path / name).log
            if not log.is_file():
                return
            feed = self._feeds[name] = Feed(log)
        last = None
        for told in feed.read():
            last = told if told.kind in ("now", "end") else last
        if last is not None:
            text = "" if last.kind == "end" else str(last.data["text"])
            yield Told(str(self.at), "now", {"run": name, "text": text})

    def _idle(self) -> bool:
        """Whether every run whose log has begun has ended: a suite that goes on says so with its first result only."""
        return all(feed.ended for feed in self._feeds.values())
