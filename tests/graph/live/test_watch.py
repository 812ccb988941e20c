"""The live page: it grows with a run that goes on, and tells a reader who comes back what is new."""

from __future__ import annotations

import http.client
import json
import re
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from command_line import REPOSITORY
from pages_read import HOSTILE, Page
from scripted_judge import judging_here
from suite_records import row, suite_record
from typer.testing import CliRunner

from graph.api.calls import optimize
from graph.cli.main import app
from graph.cli.watch import look_at, newest
from graph.live.feed import Feed, Told, latest
from graph.live.server import View, Watching
from graph.live.views import RunView, SuiteView
from graph.runs.folder import RunFolder
from graph.runs.progress import Quiet, open_log
from graph.runs.suite_record import SuiteTask
from graph.suites.folder import SuiteFolder, create_suite
from harness.nouns.errors import UserError
from nodes.events import Answering, Progress, Working
from nodes.settings import Settings
from nodes.state import Step

EXAMPLE = REPOSITORY / "examples" / "softsign.py"


@contextmanager
def watched(view: View) -> Iterator[http.client.HTTPConnection]:
    with Watching(view) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        try:
            yield http.client.HTTPConnection("127.0.0.1", server.server_address[1], timeout=60)
        finally:
            server.shutdown()


def got(client: http.client.HTTPConnection, path: str, **headers: str) -> tuple[int, str]:
    client.request("GET", path, headers=headers)
    answer = client.getresponse()
    return answer.status, answer.read().decode()


def events(text: str) -> list[tuple[str, str, dict[str, object]]]:
    """The stream's events: id, kind, data."""
    found = re.findall(r"id: (\d+)\nevent: (\w+)\ndata: (.*)\n\n", text)
    return [(at, kind, json.loads(data)) for at, kind, data in found]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[tuple[str, int, str]]]:
    """A run's folder, and what its live page held after each step: the agent, kernels judged, and the page's inside."""
    out = tmp_path_factory.mktemp("watched") / "run"
    seen: list[tuple[str, int, str]] = []

    class Reader(Quiet):
        """Looks at the page as a reader in another process would, whenever a step is in the checkpoints."""

        def stepped(self, step: Step) -> None:
            record = view().record()
            assert record is not None
            seen.append((step.agent, len(record.verdicts), view().body()[0]))

    def view() -> RunView:
        return RunView(RunFolder(out))

    with judging_here():
        optimize(EXAMPLE, depth=1, target="cpu", out=out, observer=Reader())
    return out, seen


def test_the_page_grows_with_each_step(finished: tuple[Path, list[tuple[str, int, str]]]) -> None:
    _, seen = finished
    assert [agent for agent, _, _ in seen][:3] == ["generator", "tester", "optimizer"]
    counts = [judged for _, judged, _ in seen]
    assert counts == sorted(counts) and counts[0] == 0 and counts[-1] >= 2
    assert "This run has not ended yet." in seen[1][2]
    assert seen[0][2].count("<details") < seen[1][2].count("<details") < seen[-1][2].count("<details")
    assert not Page(seen[-1][2]).open


def test_a_run_that_has_ended_is_told_whole_and_then_no_more(
    finished: tuple[Path, list[tuple[str, int, str]]],
) -> None:
    out, seen = finished
    with watched(RunView(RunFolder(out))) as client:
        status, page = got(client, "/")
        assert status == 200
        assert "What this rests on" in page and "has not ended yet" not in page
        assert '<aside id="now" class=ended' in page and '<b id="state">ended</b>' in page, "before its script runs"
        status, stream = got(client, "/events")
        told = events(stream)
        assert status == 200
        assert [kind for _, kind, _ in told].count("step") == len(seen)
        assert [kind for _, kind, _ in told][-1] == "end"
        assert sum(kind == "page" for _, kind, _ in told) == 1, "the page is fetched once, however much was missed"
        places = [int(at) for at, kind, _ in told if kind == "step"]
        assert places == sorted(places)
        middle = places[1]
        _, again = got(client, "/events", **{"Last-Event-ID": str(middle)})
        assert [each for each in events(again) if each[1] == "step"] == [
            each for each in told if each[1] == "step" and int(each[0]) > middle
        ]
        _, drawn = got(client, f"/events?from={RunFolder(out).log.stat().st_size}")
        assert [kind for _, kind, _ in events(drawn)] == ["page", "end"], "nothing was missed but that"


def test_no_path_leads_out_and_no_other_page_may_ask(
    finished: tuple[Path, list[tuple[str, int, str]]], tmp_path: Path
) -> None:
    out, _ = finished
    suite = SuiteView(suite_of(tmp_path, ["a", "b c"]).path)
    shutil.copytree(out, tmp_path / "suite" / "b c")
    (tmp_path / "suite" / "secret").mkdir()
    shutil.copy(out / "run.json", tmp_path / "suite" / "secret" / "run.json")
    with watched(suite) as client:
        assert got(client, "/b%20c/")[0] == 200
        for path in (
            "/a/", "/secret/", "/../run/", "/..%2frun/", "/%2e%2e/", "/b%20c/../secret/", "/b%20c/run.json",
            "//etc/passwd", "/b%20c//", "/suite.json", "/b%20c/%2e%2e/secret/body", "/b%20c%00/",
        ):  # fmt: skip
            assert got(client, path)[0] == 404, path
        assert got(client, "/", Host="evil.example")[0] == 403
        client.request("POST", "/")
        assert client.getresponse().status == 501


def test_the_page_lets_no_script_run_but_its_own(finished: tuple[Path, list[tuple[str, int, str]]]) -> None:
    out, _ = finished
    with watched(RunView(RunFolder(out))) as client:
        client.request("GET", "/")
        answer = client.getresponse()
        policy, page = answer.headers["Content-Security-Policy"], answer.read().decode()
    (nonce,) = re.findall(r"script-src 'nonce-([\w-]+)'", policy)
    assert "default-src 'none'" in policy
    assert [each.get("nonce") for tag, each in Page(page).tags if tag == "script"] == [nonce]


def test_a_log_is_read_from_a_place_on_as_far_as_it_is_whole(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    feed = Feed(log)
    assert list(feed.read()) == []
    with open_log(log, "r") as told:
        told.started("tester")
        told.heard(Progress(agent="tester", seconds=1.0, event=Answering(pieces=2, characters=30)))
        told.heard(Progress(agent="tester", seconds=1.1, event=Answering(pieces=3, characters=31)))
        told.heard(Progress(agent="tester", seconds=2.0, event=Working(doing="it")))
    first = list(feed.read())
    assert [each.kind for each in first] == ["now", "now"], "what is told many times a second is kept once a second"
    assert first[0].data["text"] == "compiling and judging"
    assert "30 characters" in str(first[1].data["text"])
    whole = log.read_bytes()
    log.write_bytes(whole + b'not json\n[1]\n{"event": "step"}\n{"event": "sta')
    assert list(feed.read()) == []
    assert feed.at == len(whole) + len(b'not json\n[1]\n{"event": "step"}\n')
    (now,) = Feed(log, len(whole)).read()
    assert now == Told(str(len(whole)), "now", first[1].data), "who comes later is told what is being done"
    log.write_bytes(b'{"event": "started", "agent": "intake"}\n')
    assert [each.data["text"] for each in feed.read()] == ["reading the task"], "a log that was begun anew"
    assert not feed.ended


@pytest.mark.parametrize(
    ("outcome", "reason", "words"),
    [
        ("improved", "no move left", "improved: no move left"),
        ("nothing_faster", "no move left", "nothing faster: no move left"),
        ("nothing_faster", "Nothing faster: the model stays.", "Nothing faster: the model stays."),
    ],
)
def test_the_end_is_told_of_a_log_with_words_behind_it(outcome: str, reason: str, words: str, tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    with open_log(log, "r") as told:
        told.started("tester")
        told.ended(outcome, reason)
        told.heard(Progress(agent="tester", seconds=2.0, event=Answering(pieces=2, characters=30)))
    feed = Feed(log, log.stat().st_size)
    assert [each.data["text"] for each in feed.read() if each.kind == "end"] == [words]
    assert feed.ended


def test_of_one_batch_only_the_last_word_of_each_run_is_sent() -> None:
    told = [
        Told("1", "now", {"run": "a", "text": "x"}), Told("2", "now", {"run": "b", "text": "x"}),
        Told("3", "step", {"line": "1"}), Told("4", "page", {}), Told("5", "step", {"line": "2"}),
        Told("6", "page", {}), Told("7", "now", {"run": "a", "text": "y"}),
    ]  # fmt: skip
    assert [each.id for each in latest(told)] == ["2", "3", "5", "6", "7"]


def suite_of(tmp_path: Path, names: list[str]) -> SuiteFolder:
    tasks = tuple(SuiteTask(id=at, name=name, source="class Model: ...") for at, name in enumerate(names, 1))
    folder, _ = create_suite(tmp_path / "suite", name="mine", tasks=tasks, scale=1.0, settings=Settings())
    return folder


def test_ten_runs_at_once_are_told_of_on_one_page(tmp_path: Path) -> None:
    names = [f"task{at}" for at in range(10)]
    folder = suite_of(tmp_path, names)
    view = SuiteView(folder.path)
    assert "Nothing has been judged yet." in view.body()[0]
    assert not view.ended
    for name in names:
        (folder.path / name).mkdir()
        with open_log(folder.path / name / "log.jsonl", "r") as log:
            log.started("optimizer")
    folder.write(suite_record(row(0, 2.0), outcome="running"))
    feed = view.feed()
    told = list(feed.read())
    assert [each.data["run"] for each in told if each.kind == "now"] == names
    assert {each.data["text"] for each in told if each.kind == "now"} == {"choosing a move"}
    assert [each.kind for each in told][-1] == "page"
    assert list(feed.read()) == []
    with open_log(folder.path / "task3" / "log.jsonl", "r") as log:
        log.ended("improved", "done")
    folder.write(suite_record(*(row(at, 2.0) for at in range(10))))
    assert [(each.kind, each.data.get("text")) for each in feed.read()] == [
        ("now", ""), ("page", None), ("end", "finished"),
    ]  # fmt: skip
    assert view.ended
    body, at = view.body()
    assert 'href="task3/"' in body, "it leads to the run's own live page"
    assert [each.kind for each in view.feed(at).read() if each.kind == "page"] == [], "whose page is new comes back"


def test_what_is_shown_of_a_hostile_log_is_data(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    log.write_text(json.dumps({"event": "ended", "outcome": "improved", "reason": HOSTILE}) + "\n", encoding="utf-8")
    (_, end) = Feed(log).read()
    assert end.data["text"] == f"improved: {HOSTILE}", "which the page writes as text"
    source = (REPOSITORY / "graph" / "pages" / "templates" / "live.js").read_text(encoding="utf-8")
    assert re.findall(r"innerHTML = (.*);", source) == ["await answer.text()"], "only what the server drew is markup"


def test_the_command_finds_what_it_is_to_show(
    finished: tuple[Path, list[tuple[str, int, str]]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match="no run in runs/"):
        newest()
    done = CliRunner().invoke(app, ["watch", "nowhere"])
    assert done.exit_code == 2 and "There is no run nowhere" in " ".join(done.stderr.split())
    out, _ = finished
    shutil.copytree(out, tmp_path / "runs" / "one")
    assert isinstance(look_at(newest()), RunView)
    assert isinstance(look_at(Path("one")), RunView)
    assert isinstance(look_at(suite_of(tmp_path, ["a"]).path), SuiteView)
    with Watching(look_at(Path("one"))) as server:
        taken = CliRunner().invoke(app, ["watch", "one", "--port", str(server.server_address[1])])
    assert taken.exit_code == 3
    assert "cannot be had" in " ".join(taken.stderr.split())
