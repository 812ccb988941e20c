"""An evolution's folder: made, told, gone on with, by the playbook before a scripted judge."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from scripted_judge import Scripted
from softsign_script import SOURCE

from graph.api.calls import RunResult, aevolve, evolve, load_task, resume
from graph.cli.errors import guarded
from graph.cli.optimize import work
from graph.cli.options import Evolve, Optimize
from graph.offers import Given
from graph.pages.lineage import lineage, operator_of, yields
from graph.runs.record import RunRecord
from harness.nouns.errors import UserError


@pytest.fixture(scope="module")
def evolved(tmp_path_factory: pytest.TempPathFactory) -> RunResult:
    """A run of two generations; the playbook is an auto-tuner in it."""
    from scripted_judge import judging_here

    with judging_here():
        return evolve(
            load_task(SOURCE), out=tmp_path_factory.mktemp("run") / "r", target="cpu", generations=2, proposals=3,
            archive="none",
        )  # fmt: skip


def test_the_playbook_tunes_different_parents_and_repeats_nothing(evolved: RunResult) -> None:
    search = evolved.record.search
    assert search is not None and search.generations == 2
    sources = [candidate.source for candidate in evolved.record.candidates.values()]
    assert len(set(sources)) == len(sources) == len([each for each in search.proposals if not each.dropped])
    assert search.proposals[0].move == "first kernel" and search.proposals[1].move != search.proposals[2].move
    assert {each.order.operator for each in search.proposals if each.order.generation == 1} <= {"mutation", "crossover"}
    assert evolved.improved and evolved.speedup == 1.5


def test_the_folder_holds_the_record_and_a_report_with_the_tree(evolved: RunResult) -> None:
    record = RunRecord.model_validate_json((evolved.folder / "record.json").read_text(encoding="utf-8"))
    assert record == evolved.record
    assert json.loads((evolved.folder / "run.json").read_text(encoding="utf-8"))["kind"] == "evolve"
    page = (evolved.folder / "report.html").read_text(encoding="utf-8")
    assert "Which kernel came of which" in page and "Speed-up over generations" in page
    kin = lineage(record)
    assert record.search is not None and len(kin) == len(record.search.proposals)
    assert {each.level for each in kin if each.operator == "translation"} == {0}
    assert {each.level for each in kin if each.operator == "mutation"} == {1}, "each below its parent"
    rows = {row.name: row for row in yields(record, operator_of)}
    assert (rows["translation"].proposals, rows["translation"].kept, rows["translation"].fastest) == (3, 1, 1.5)


def test_another_command_does_not_go_on_with_it(evolved: RunResult, capsys: pytest.CaptureFixture[str]) -> None:
    options = Optimize(settings=Given(values={}), resume=evolved.folder)
    assert guarded(lambda: work("optimize", options), as_json=False) == 2
    assert "cutegen evolve --resume" in " ".join(capsys.readouterr().err.split())


def test_it_goes_on_with_more_generations(scripted: Scripted, tmp_path: Path) -> None:
    begun = asyncio.run(
        aevolve(load_task(SOURCE), out=tmp_path / "r", target="cpu", generations=1, proposals=1, archive="none")
    )
    again = resume(begun.folder, generations=2)
    assert again.record.search is not None and again.record.search.generations == 2
    assert [method for method, _ in scripted.asked].count("evaluate") == 2, "the first is not judged again"


@pytest.mark.parametrize("asked", [{"model": "manual"}, {"model": "playbook", "reviewer_model": "manual"}])
def test_a_person_cannot_propose_or_review(asked: dict[str, str], tmp_path: Path) -> None:
    task = tmp_path / "softsign.py"
    task.write_text(SOURCE, encoding="utf-8")
    options = Evolve(file=task, settings=Given(values=asked), out=tmp_path / "r")
    with pytest.raises(UserError, match="does not stop for answers"):
        work("evolve", options)
