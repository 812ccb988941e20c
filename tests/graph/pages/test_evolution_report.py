"""An evolution's own parts of the report: every proposal as a mark, and what each verifier's word was worth."""

from __future__ import annotations

import json
import re
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree

import pytest
from evolution_script import Evolved, answer, name_of
from markupsafe import Markup
from report_records import full_record

from graph.driving.session import EvolutionSession
from graph.pages.charts import generations
from graph.pages.lineage import verifiers_record
from graph.pages.report import render
from graph.runs.record import RunRecord
from nodes.request import Request

JUDGED = ("passed 2x", "wrong", "passed 3x", "passed 9x")
DOUBT = {"_1 ": 0.3, "_2 ": 0.2, "_3 ": 0.01}


@pytest.fixture(scope="module")
def record(tmp_path_factory: pytest.TempPathFactory) -> RunRecord:
    """Two generations of four: a right kernel, a wrong one that was doubted, a right one that was, and one dropped."""

    def author(request: Request) -> str:
        if request.role == "verifier":
            assert request.candidate is not None
            doubt = next((right for name, right in DOUBT.items() if name in request.candidate.source), 0.9)
            return json.dumps({"checked": ["<b>all</b>"], "faults": [], "right": doubt})
        assert request.search is not None and request.left is not None
        if request.left.depth == 2:
            return answer("again", "passed 4x") if request.search.turn == 0 else "CANNOT: nothing is left"
        return answer(name_of(request), JUDGED[request.search.turn])

    folder = tmp_path_factory.mktemp("run")
    settings: dict[str, Any] = {"generations": 2, "verifiers": ("memory",), "drop_below": 0.05, "parents": 1}
    end = Evolved(folder, author, **settings).go()
    session: Any = SimpleNamespace(state=lambda: end)
    candidates, verdicts, _ = EvolutionSession.judged(session)
    told = {"steps": end.history, "best": end.best, "candidates": candidates, "verdicts": verdicts}
    return full_record().model_copy(update=told | {"search": EvolutionSession.searched(session), "profiles": {}})


def marks(record: RunRecord, width: int = 900) -> dict[str, list[tuple[float, float]]]:
    """Where each kind of mark stands."""
    found: dict[str, list[tuple[float, float]]] = {}
    for each in ElementTree.fromstring(str(generations(record, width))).iter():
        kind = each.get("class", "")
        if kind.startswith("dot"):
            found.setdefault(kind, []).append((float(each.attrib["cx"]), float(each.attrib["cy"])))
        elif kind == "fail":
            found.setdefault(kind, []).append(tuple(map(float, re.findall(r"[\d.]+", each.attrib["d"])[:2])))  # type: ignore[arg-type]
    return found


def test_every_proposal_is_a_mark_in_its_generation(record: RunRecord) -> None:
    assert record.search is not None and len(record.search.proposals) == 8
    found = marks(record)
    assert {kind: len(places) for kind, places in found.items()} == {
        "dot won": 3, "fail": 1, "dot dropped": 4,
    }  # fmt: skip
    middle = 54 + (900 - 54 - 16) / 2
    assert sorted(x > middle for places in found.values() for x, _ in places) == [False] * 4 + [True] * 4
    assert [y for _, y in sorted(found["dot won"])] == sorted((y for _, y in found["dot won"]), reverse=True), "higher"
    narrow = [x for places in marks(record, 400).values() for x, _ in places]
    assert len(set(narrow)) == 8 and all(54 < x < 384 for x in narrow)
    assert generations(full_record(), 900) == Markup("")


def test_a_verifiers_word_is_held_against_the_judges(record: RunRecord) -> None:
    [memory] = verifiers_record(record)
    assert (memory.name, memory.kernels, memory.unjudged) == ("memory", 5, 1)
    assert (memory.alarms, memory.right, memory.caught, memory.wrong) == (1, 3, 1, 1)
    assert memory.brier == pytest.approx((2 * 0.1**2 + 0.8**2 + 0.3**2) / 4)
    page = render(record)
    assert "What each verifier said before the judge" in page and "1 of 3" in page and "not judged" in page
    assert verifiers_record(full_record()) == []


@pytest.mark.parametrize("caption", ["Every kernel below the one it came from", "Each step of the run, in order"])
def test_a_cell_that_a_phone_shows_without_its_column_has_the_columns_name(record: RunRecord, caption: str) -> None:
    table = render(record).split(f"<caption>{caption}</caption>")[1].split("</table>")[0]
    columns = re.findall(r'<th scope="col"[^>]*>([^<]*)</th>', table)
    rows = [re.findall(r'<td data-name="([^"]*)"', row) for row in table.split("<tr")[2:]]
    assert len(columns) >= 7 and len(rows) >= 8
    assert all(row == columns for row in rows)
