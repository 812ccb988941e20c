"""A whole model as it stands: its tree of modules from its checkpoints, and each region's run by its name."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from langgraph.checkpoint.sqlite import SqliteSaver
from pydantic import ValidationError

from graph.live.feed import Feed, Told, has_ended
from graph.live.page import begun
from graph.live.run_view import RunView
from graph.model.run import ModelFolder, ModelManifest, ModelRecord, kept_record
from graph.model.state import RegionOutcome
from graph.model.steps import outcome_of
from graph.model.terminal import STEPS
from graph.model.tree_page import tree_body
from graph.runs.folder import RunFolder
from graph.runs.now import Now
from graph.runs.record import RunRecord
from graph.runs.store import BUSY_S, PlainSerializer
from harness.nouns.errors import CutegenError, UserError
from harness.nouns.reading import read_bounded
from nodes.events import Progress, RegionEnded


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

    @property
    def ended(self) -> bool:
        """Whether it came to its end, as its log says."""
        return has_ended(self.folder.log)

    def body(self) -> tuple[str, int]:
        """The page's inside, and the place in the log that it was drawn at."""
        at = self._size()
        record = self.record()
        if record is None or record.plan is None:
            return begun(self.name), at
        links = {name: f"{name}/" for name in self._runs()}
        ended = self.ended
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
