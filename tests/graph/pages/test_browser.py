"""A browser opens the report, the pages of suites, ablations and two runs, and the live page."""

from __future__ import annotations

import html
import json
import re
import shutil
import struct
import threading
from pathlib import Path

import pytest
from ablation_records import ablation, gated
from browser import browser, dom_of, screenshot
from report_records import exchanges, full_record, long_record
from suite_records import row, suite_record

from graph.live.feed import Feed
from graph.live.server import Watching
from graph.live.views import RunView
from graph.pages import ablation_page, compare_page, suite_page
from graph.pages.report import render
from graph.runs.ablation import schedule_of
from graph.runs.comparing import compare_runs
from graph.runs.folder import Beside, RunFolder, create
from graph.runs.progress import open_log
from nodes.settings import Settings

WIDE, SMALL, PHONE = 1200, 1000, 390
# Each page in frames of these widths. What sticks out of a frame is what a reader would have to scroll sideways for;
# what is cut has a bar of its own for that.
PROBE = """<!doctype html><body><script>
const pages = PAGES, told = {};
let left = 0;
const looked = (frame, page, width) => {
  const doc = frame.contentDocument, found = told[page + " " + width] = {};
  found.out = doc.documentElement.scrollWidth - doc.documentElement.clientWidth;
  found.cut = [...doc.querySelectorAll(".scroll")].filter(each => each.scrollWidth > each.clientWidth);
  found.cut = found.cut.map(each => each.getAttribute("aria-label"));
  found.headings = doc.querySelectorAll("h2").length;
  found.hidden = [...doc.querySelectorAll("svg")].filter(each => !each.getBoundingClientRect().width).length;
  found.pictures = doc.querySelectorAll("svg").length;
  const details = doc.querySelector("details"), rows = () => [...doc.querySelectorAll("table.sorted tbody tr")];
  if (details) {
    details.querySelector("summary").click();
    found.opened = details.open;
  }
  const heads = [...doc.querySelectorAll("table.sorted th button")];
  if (heads.length) {
    found.sorted = {};
    for (const name of ["speed-up", "task", "id"]) {
      const head = heads.find(each => each.textContent === name);
      if (!head) continue;
      for (const way of ["up", "down"]) {
        head.click();
        const words = rows().map(each => each.querySelector("td").textContent);
        found.sorted[name + " " + way] = words.join(",") + " " + head.parentNode.getAttribute("aria-sort");
      }
    }
  }
  if (!--left) document.title = "looked";
};
for (const page of pages) for (const width of WIDTHS) {
  left++;
  const frame = document.createElement("iframe");
  frame.style.cssText = `width:${width}px;height:800px;border:0`;
  frame.onload = () => looked(frame, page, width);
  frame.src = page;
  document.body.append(frame);
}
addEventListener("load", () => {
  const out = document.createElement("pre");
  out.id = "told";
  out.textContent = JSON.stringify(told);
  document.body.append(out);
});
</script></body>"""


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one page of each kind."""
    browser()
    folder = tmp_path_factory.mktemp("pages")
    record = long_record(6)
    rows = (row(10, 2.0, floor_ms=8.0), row(9, 1.01, floor_ms=3.0), row(100, None, reason="It crashed."), row(2, 0.7))
    written = {
        "report.html": render(record, Beside(exchanges=exchanges(record))),
        "suite.html": suite_page.render(suite_record(*rows)),
        "ablation.html": ablation_page.render(ablation(*(schedule_of(gated(depth, 2)) for depth in (1, 11)))),
        "compare.html": compare_page.render(compare_runs(full_record(), record), ("a", "b")),
    }
    for name, text in written.items():
        (folder / name).write_text(text, encoding="utf-8")
    probe = PROBE.replace("PAGES", json.dumps(sorted(written))).replace("WIDTHS", str([WIDE, SMALL, PHONE]))
    (folder / "probe.html").write_text(probe, encoding="utf-8")
    return folder


def test_pages_fit_wide_and_narrow_windows_open_and_sort(pages: Path, tmp_path: Path) -> None:
    dom = dom_of((pages / "probe.html").as_uri(), tmp_path)
    assert "<title>looked</title>" in dom
    told = json.loads(html.unescape(re.findall(r'<pre id="told">(.*?)</pre>', dom)[0]))
    assert len(told) == 12
    assert {place: each["out"] for place, each in told.items()} == dict.fromkeys(told, 0)
    assert [place for place, each in told.items() if each["cut"] and str(PHONE) not in place] == []
    assert "Each step of the run, in order" not in told[f"report.html {PHONE}"]["cut"]
    assert told[f"compare.html {PHONE}"]["cut"] == [], "two runs stand beside each other on a phone, too"
    assert all(each["headings"] > 1 for each in told.values())
    for place, each in told.items():
        if place.startswith("report"):
            assert each["opened"] is True
            assert 2 * each["hidden"] == each["pictures"] >= 6, "one drawing for each kind of window"
    for width in (WIDE, PHONE):
        assert told[f"suite.html {width}"]["sorted"] == {
            "speed-up up": "2,9,10,100 ascending",
            "speed-up down": "10,9,2,100 descending",
            "task up": "2,9,10,100 ascending",
            "task down": "100,10,9,2 descending",
            "id up": "2,9,10,100 ascending",
            "id down": "100,10,9,2 descending",
        }


@pytest.mark.parametrize(("width", "dark"), [(WIDE, False), (PHONE, True)])
def test_a_picture_can_be_taken_of_the_report(pages: Path, tmp_path: Path, width: int, *, dark: bool) -> None:
    taken = tmp_path / "taken.png"
    picture = screenshot((pages / "report.html").as_uri(), taken, tmp_path / "p", width=width, height=1600, dark=dark)
    assert picture[:8] == b"\x89PNG\r\n\x1a\n"
    assert struct.unpack(">II", picture[16:24]) == (width, 1600)
    assert len(picture) > 20_000, "a page without anything on it is smaller"


class EndsWhenWatched(RunView):
    """A run that comes to its end at the moment in which somebody begins to watch it."""

    def feed(self, at: int = 0) -> Feed:
        record = full_record().model_copy(update={"id": self.manifest.id})
        if not self.folder.record.exists():
            self.folder.record.write_text(record.model_dump_json(), encoding="utf-8")
            with open_log(self.folder.log, "r") as log:
                for step in record.steps:
                    log.stepped(step)
                log.ended(record.outcome, record.stop_reason)
        return super().feed(at)


def test_the_live_page_grows_without_being_loaded_again(tmp_path: Path) -> None:
    browser()
    folder, _ = create(tmp_path / "run", name="softsign", source="class Model: ...", settings=Settings())
    view = EndsWhenWatched(RunFolder(folder.path))
    before, _ = view.body()
    assert "Nothing has been judged yet." in before
    with Watching(view) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        dom = dom_of(server.url, tmp_path / "p")
        server.shutdown()
    assert "Nothing has been judged yet." not in dom
    assert re.search(r'<b id="state">ended</b> <span id="doing" role="status">improved: no gain in 2 depths<', dom)
    assert "What this rests on" in dom
    assert "chunk size" in re.findall(r'<pre id="last"[^>]*>(.*?)</pre>', dom, re.DOTALL)[0]
    shutil.rmtree(tmp_path / "p", ignore_errors=True)
