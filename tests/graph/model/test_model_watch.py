"""A model's page: it grows with its regions, leads to their runs, and has the number that counts at its head."""

from __future__ import annotations

import re
import threading
from pathlib import Path

import pytest
from pages_read import Page
from test_model_flow import ScriptedBench, begun, open_judge

from graph.cli.watch import look_at, newest
from graph.live.views import ModelView, RunView
from graph.model.run import ModelRecord, drive_model, reopen_model
from graph.runs.progress import Quiet
from harness.nouns.errors import UserError
from nodes.events import Progress, RegionEnded


class Reader(Quiet):
    """Looks at the page as a reader in another process would: at each step, and whenever a region has ended."""

    def __init__(self, view: ModelView) -> None:
        self.view, self.steps, self.regions = view, list[str](), list[str]()
        self._lock = threading.Lock()

    def started(self, agent: str) -> None:
        if agent != "region":
            self.steps.append(self.view.body()[0])

    def heard(self, progress: Progress) -> None:
        if isinstance(progress.event, RegionEnded):
            with self._lock:
                self.regions.append(self.view.body()[0])


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> tuple[ModelView, Reader, ModelRecord]:
    folder = tmp_path_factory.mktemp("watched") / "toy"
    begun(folder)
    reader = Reader(ModelView(folder))
    bench = ScriptedBench(losing=("norm",))
    record = drive_model(*reopen_model(folder), reader, open_workbench=lambda _: bench, open_judge=open_judge)
    return ModelView(folder), reader, record


def test_the_page_grows_with_each_step_and_region(watched: tuple[ModelView, Reader, ModelRecord]) -> None:
    view, reader, _ = watched
    assert "Nothing has been judged yet." in reader.steps[0]
    assert "not ended yet" in reader.steps[-1]
    assert [body.count('<tr class="left">') for body in reader.regions] == [4, 2, 0], "six places of three regions"
    body, at = view.body()
    assert at == view.folder.log.stat().st_size
    assert not Page(body).open
    assert re.search(r'<p class="number improved">2\.00x</p>\s*<p class="quiet">the whole model over eager', body)


def test_its_regions_are_told_of_and_lead_to_their_runs(watched: tuple[ModelView, Reader, ModelRecord]) -> None:
    view, _, record = watched
    told = [*view.feed().read()]
    names = {outcome.name for outcome in record.outcomes}
    assert {each.data.get("run") for each in told if each.kind == "now"} - {None} == names
    steps = [each.data["text"] for each in told if each.kind == "now" and "run" not in each.data]
    assert steps[0] == "running the model"
    assert told[-1].kind == "end"
    assert "2.00x over eager" in str(told[-1].data["text"])
    body, _ = view.body()
    for name in names:
        assert f'href="{name}/"' in body
        assert isinstance(view.run(name), RunView)
    assert view.run("../toy") is None
    assert view.run("") is None
    report = view.folder.tree.read_text()
    assert '<p class="number improved">2.00x</p>' in report
    for link in re.findall(r'href="(regions/[^"]+)"', report):
        assert (view.folder.path / link).exists()
    assert report.count('href="regions/') == 6


def test_the_command_finds_models(
    watched: tuple[ModelView, Reader, ModelRecord], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert isinstance(look_at(watched[0].folder.path), ModelView)
    monkeypatch.chdir(tmp_path)
    begun(tmp_path / "runs" / "toy")
    assert isinstance(look_at(newest()), ModelView)
    (tmp_path / "runs" / "toy" / "record.json").symlink_to("/dev/zero")
    with pytest.raises(UserError, match="no plain file"):
        look_at(Path("toy"))


def test_without_a_gain_the_head_says_so(tmp_path: Path) -> None:
    begun(tmp_path / "toy")
    bench = ScriptedBench(losing=("norm", "product"))
    drive_model(*reopen_model(tmp_path / "toy"), open_workbench=lambda _: bench, open_judge=open_judge)
    assert '<p class="number">nothing faster</p>' in (tmp_path / "toy" / "report.html").read_text()
