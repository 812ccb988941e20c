"""A run as it stands: its record where it has ended, else what its checkpoints hold, and the report drawn from that."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from langgraph.checkpoint.sqlite import SqliteSaver
from pydantic import ValidationError

from graph.driving.loop import SESSIONS
from graph.live.feed import Feed, Told, begun, has_ended
from graph.model.run import ModelFolder, ModelManifest, ModelRecord, kept_record
from graph.model.state import RegionOutcome
from graph.model.steps import outcome_of
from graph.model.terminal import STEPS
from graph.model.tree_page import tree_body
from graph.pages.report import filled_in, view
from graph.pages.suite_page import view as suite_values
from graph.runs.comparing import read_run
from graph.runs.folder import RunFolder, found_beside
from graph.runs.progress import Now
from graph.runs.record import RunRecord
from graph.runs.store import BUSY_S, PlainSerializer
from graph.suites.folder import SuiteFolder, SuiteManifest, look_at
from harness.nouns.errors import CutegenError, UserError
from harness.nouns.reading import read_bounded
from nodes.events import Progress, RegionEnded
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

    @property
    def ended(self) -> bool:
        """Whether nothing more is to come."""
        return has_ended(self.folder.log)

    def feed(self, at: int = 0) -> Feed:
        """What its log tells from a place on."""
        return Feed(self.folder.log, at)

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


# -- A suite as it stands: its page, what each of its runs does right now, and the runs by their names ----------------


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

    @property
    def ended(self) -> bool:
        """Whether every task has its result."""
        record = self.folder.record()
        return record is not None and record.outcome == "finished"

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
        return filled_in("suite_body.html.j2", suite_values(record, live=True)), at

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


# -- A whole model as it stands: its tree of modules from its checkpoints, and each region's run by its name ----------


class ModelView:
    """One model's page, which leads to those of its regions' runs."""

    def __init__(self, path: Path) -> None:
        """Raises `UserError` where there is no model, or anything but plain files."""
        RunFolder(path).require_plain()
        self.folder = ModelFolder(path.absolute())
        self.manifest: ModelManifest = self.folder.read_manifest()[0]
        self.name = self.manifest.model.name
        self._views: dict[str, RunView] = {}
        self._lock = threading.Lock()

    @property
    def ended(self) -> bool:
        """Whether nothing more is to come."""
        return has_ended(self.folder.log)

    def run(self, name: str) -> RunView | None:
        """A region's run; None where it has none."""
        if name not in self._runs():
            return None
        with self._lock:
            if name not in self._views:
                try:
                    self._views[name] = RunView(RunFolder(self.folder.regions / name))
                except UserError:
                    return None
            return self._views[name]

    def body(self) -> tuple[str, int]:
        """The page's inside, and the place in the log that it was drawn at."""
        at = self._size()
        record = self.record()
        if record is None or record.plan is None:
            return begun(self.name), at
        links = {name: f"{name}/" for name in self._runs()}
        ended = has_ended(self.folder.log)
        outcomes = record.outcomes if ended else self._outcomes(record)
        return tree_body(self.name, record.plan, outcomes, record.acceptance, links, ended=ended), at

    def record(self) -> ModelRecord | None:
        """What is known of it; None before its first checkpoint."""
        try:
            if has_ended(self.folder.log) and self.folder.record.exists():
                return ModelRecord.model_validate_json(read_bounded(self.folder.record))
            return self._running()
        except (CutegenError, OSError, sqlite3.Error, ValueError):
            return None

    def feed(self, at: int = 0) -> ModelFeed:
        """What its log tells from a place on."""
        return ModelFeed(self.folder.log, at)

    def _running(self) -> ModelRecord | None:
        if not self.folder.checkpoints.exists():
            return None
        place = f"{self.folder.checkpoints.as_uri()}?mode=ro"
        with closing(sqlite3.connect(place, uri=True, check_same_thread=False, timeout=BUSY_S)) as connection:
            saver = SqliteSaver(connection, serde=PlainSerializer())
            saver.is_setup = True
            return kept_record(self.manifest, saver)

    def _outcomes(self, record: ModelRecord) -> tuple[RegionOutcome, ...]:
        """Those of regions that have ended while others go on: no checkpoint has them before all have."""
        found = {outcome.name: outcome for outcome in record.outcomes}
        for name in self._runs() - found.keys():
            try:
                written = RunRecord.model_validate_json(read_bounded(RunFolder(self.folder.regions / name).record))
            except (OSError, ValidationError):
                continue
            found[name] = outcome_of(name, written)
        return tuple(found.values())

    def _runs(self) -> set[str]:
        return {file.parent.name for file in self.folder.regions.glob("*/run.json")}

    def _size(self) -> int:
        try:
            return self.folder.log.stat().st_size
        except OSError:
            return 0


class ModelFeed(Feed):
    """One reader of a model's log: the step at hand, what each region does, and when the page is to be drawn anew."""

    def __init__(self, log: Path, at: int = 0) -> None:
        super().__init__(log, at)
        self._regions: dict[str, Now] = {}

    def _told(self, written: dict[str, Any]) -> Iterator[Told]:
        if written.get("event") == "progress":
            progress = Progress.model_validate(written["progress"])
            if progress.region:
                yield from self._of_region(progress)
                return
        yield from super()._told(written)
        if written.get("event") == "started":
            yield Told(str(self.at), "page", {})

    def _of_region(self, progress: Progress) -> Iterator[Told]:
        ended = isinstance(progress.event, RegionEnded)
        now = self._regions.setdefault(progress.region, Now())
        now.heard(progress)
        text = "" if ended else now.text() or progress.agent
        yield Told(str(self.at), "now", {"run": progress.region, "text": text})
        if ended:
            yield Told(str(self.at), "page", {})

    def _saying(self) -> Told:
        told = super()._saying()
        if self._agent in STEPS:
            told.data["text"] = told.data["text"].replace(self._agent, STEPS[self._agent], 1)
        return told
