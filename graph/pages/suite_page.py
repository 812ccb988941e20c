"""A suite's results as a page: a row a task, its bar against the device's floor, sorted by any column."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote

from graph.pages.report import filled_in, told
from graph.runs.suite_record import Row, SuiteRecord
from graph.runs.tables import STATUS, figures_sheet, over_sheets, preamble


@dataclass(frozen=True)
class Bar:
    """Shares of the floor's speed, 0 to 100: the kernel's, and the baseline's mark. None where there is no floor."""

    kernel: float
    baseline: float


@dataclass(frozen=True)
class Line:
    """One task. `kind` is what its numbers say: "won", "lost", "noise" or "failed"; `link` its run's report."""

    row: Row
    status: str
    kind: str
    bar: Bar | None
    link: str
    why: str


def render(record: SuiteRecord, *, live: bool = False) -> str:
    """The page. On a `live` one a task's link leads to its run as it goes on."""
    return filled_in("suite.html.j2", view(record, live=live))


def view(record: SuiteRecord, *, live: bool = False) -> dict[str, object]:
    """What the template shows, by name."""
    paragraphs = preamble(record).split("\n")
    return {
        "record": record,
        "lines": [line_of(row, live=live) for row in record.rows],
        "ended": sum(row.ended for row in record.rows),
        "figures": figures_sheet((("all", record.figures),)),
        "sheets": over_sheets(record.rows),
        "about": [each.removeprefix("- ") for each in paragraphs if each],
    }


def line_of(row: Row, *, live: bool = False) -> Line:
    """How a row is shown."""
    page = "" if live else "report.html"
    return Line(
        row=row,
        status=STATUS[row.status],
        kind=_kind(row),
        bar=_bar(row),
        link=f"{quote(row.name, safe='')}/{page}" if row.status != "waiting" else "",
        why=" ".join(filter(None, [row.timing.task_defect if row.timing else "", row.reason])),
    )


def _kind(row: Row) -> str:
    if row.timing is None:
        return "noise" if row.status in ("waiting", "interrupted") else "failed"
    return "noise" if row.status == "degenerate" else told(row.timing.headline.interval)


def _bar(row: Row) -> Bar | None:
    if row.floor_ms is None or row.timing is None or not row.floor_share:
        return None
    return Bar(
        kernel=min(100.0, 100 * row.floor_share), baseline=min(100.0, 100 * row.floor_ms / row.timing.baseline_ms)
    )
