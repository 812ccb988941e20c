"""An evolution's ways, by scripted proposers before a scripted judge."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from evolution_script import Cut, Evolved, answer, kernel, name_of
from run_samples import passed
from scripted_judge import softsign_task

from graph.runs.progress import Quiet
from harness.nouns.candidate import Candidate
from harness.nouns.errors import MachineError, UserError
from nodes.request import Request
from nodes.state import Step
from tools.archive import Archive, Entry

SOFTSIGN = softsign_task("torch.rand(64, 256)", "softsign")


def rising(request: Request) -> str:
    """Each generation is faster than the one before, and each turn than the one beside it."""
    assert request.search is not None and request.left is not None
    return answer(name_of(request), f"passed {request.left.depth + request.search.turn / 10:g}x")


def test_generations_of_proposals_end_with_the_fastest_kernel(tmp_path: Path) -> None:
    evolved = Evolved(tmp_path, rising, generations=3, proposals=3, parents=2)
    end = evolved.go()
    assert end.stop_reason is not None and end.stop_reason.name == "generations"
    operators = [each.order.operator for each in end.pool]
    assert operators == ["translation"] * 3 + ["mutation"] * 6, "the first kernels come of the module alone"
    assert [each.order.number for each in end.pool] == list(range(9))
    assert end.best is not None and end.best.candidate.source.count("g3m") == 1
    assert end.result is not None and end.result.best is not None and end.result.attempts == 9
    second = [each.order.parents for each in end.pool if each.order.generation == 1]
    fastest, next_one = end.pool[2].digest, end.pool[1].digest
    assert second == [(fastest,), (next_one,), (fastest,)], "parents take turns, the fastest first"
    told = [request for request in evolved.models["one"].requests if request.left and request.left.depth == 2]
    assert told[0].search is not None and len(told[0].search.best) == 2, "the others of the best are shown beside it"


def test_the_same_source_and_the_same_machine_code_are_judged_once(tmp_path: Path) -> None:
    def alike(request: Request) -> str:
        assert request.search is not None
        return [
            answer("first", "code same"),
            answer("first", "code same"),
            answer("other", "code same"),
            answer("third", "passed 2x"),
        ][request.search.turn]

    evolved = Evolved(tmp_path, alike, generations=1)
    end = evolved.go()
    assert [bool(each.dropped) for each in end.pool] == [False, True, True, False]
    assert "the same source" in end.pool[1].dropped and "the same machine code" in end.pool[2].dropped
    assert evolved.judged() == [end.pool[0].digest, end.pool[3].digest]
    assert [each for each in evolved.judges.asked if each[0] == "build"] != [], "built, and compared, before any ran"


def test_who_declines_costs_one_proposal_and_all_who_do_end_the_run(tmp_path: Path) -> None:
    def silent(request: Request) -> str:
        assert request.left is not None
        return rising(request) if request.left.depth == 1 else "CANNOT: nothing is left"

    end = Evolved(tmp_path, silent, proposals=2).go()
    assert end.stop_reason is not None and end.stop_reason.name == "no_moves_left"
    assert "nothing is left" in end.stop_reason.message
    assert end.result is not None and end.result.improved


def test_budgets_end_it_between_two_kernels(tmp_path: Path) -> None:
    evolved = Evolved(tmp_path, rising, max_attempts=3, proposals=4)
    end = evolved.go()
    assert end.stop_reason is not None and end.stop_reason.name == "attempts"
    assert len(evolved.judged()) == 3 and end.attempts == 3
    assert [each.waits for each in end.pool] == [False, False, False, True]


def test_a_run_that_ended_goes_on_with_more_generations(tmp_path: Path) -> None:
    evolved = Evolved(tmp_path, rising, generations=1, proposals=2)
    evolved.go()
    evolved.settings = evolved.settings.model_copy(update={"generations": 2})
    end = evolved.go(anew=True)
    assert [each.order.generation for each in end.pool] == [0, 0, 1, 1]
    assert len(evolved.judged()) == 4, "nothing is judged twice"


@pytest.mark.parametrize("after", [1, 3, 5])
def test_a_run_that_dies_anywhere_comes_to_the_same_end(after: int, tmp_path: Path) -> None:
    """Among the proposals, behind them, between two verdicts: what was answered and judged is so only once."""
    (tmp_path / "whole").mkdir()
    whole = Evolved(tmp_path / "whole", rising, generations=1, proposals=3)
    cut = Evolved(tmp_path, rising, generations=1, proposals=3)
    with pytest.raises(MachineError):
        cut.go(Cut(after))
    assert [(each.order, each.digest) for each in cut.go().pool] == [
        (each.order, each.digest) for each in whole.go().pool
    ]
    assert cut.judged() == whole.judged() and len(cut.judged()) == 3, "each once"
    assert cut.models["one"].calls() == 3


def test_what_one_run_found_is_shown_to_the_next_which_judges_for_itself(tmp_path: Path) -> None:
    archive = str(tmp_path / "archive.sqlite")
    (tmp_path / "second").mkdir()
    first = Evolved(tmp_path, rising, generations=1, proposals=2, archive=archive)
    fastest = first.go().best
    second = Evolved(tmp_path / "second", rising, generations=1, proposals=1, archive=archive, thread="two")
    told = [step.message for step in second.go().history if step.agent == "archivist"]
    search = second.models["one"].requests[0].search
    assert fastest is not None and search is not None
    assert [each.source for each in search.inspiration] == [fastest.candidate.source]
    assert "softsign" in search.inspiration[0].about and len(told) == 1
    assert len(second.judged()) == 1, "what comes from the archive is no proposal by itself"


def test_of_a_kernel_from_another_device_that_is_said(tmp_path: Path) -> None:
    file = str(tmp_path / "archive.sqlite")
    archive, there = Archive.named(file), Candidate(source=kernel("there", "passed 9x"), target="cpu", author="x")
    assert archive is not None
    told: dict[str, Any] = {"operator": "mutation", "move": "m", "parents": (), "dollars": 0.0, "seconds": 1.0}
    archive.put("other", SOFTSIGN, "a larger machine", [Entry(candidate=there, verdict=passed(there, 9.0), **told)])
    evolved = Evolved(tmp_path, rising, generations=1, proposals=1, archive=file)
    [step] = [step for step in evolved.go().history if step.agent == "archivist"]
    assert "Some were judged on a larger machine, and not on" in step.message
    search = evolved.models["one"].requests[0].search
    assert search is not None and "on a larger machine, which is another device" in search.inspiration[0].about


def test_an_archive_that_is_locked_costs_the_run_nothing(tmp_path: Path) -> None:
    file = tmp_path / "archive.sqlite"
    evolved = Evolved(tmp_path, rising, generations=2, proposals=1, archive=str(file))
    archive = Archive.named(str(file))
    assert archive is not None
    archive.put("other", SOFTSIGN, "here", [])
    with mock.patch("tools.archive.WAIT_S", 0.01), closing(sqlite3.connect(file, isolation_level=None)) as other:

        class Freeing(Quiet):
            """Takes the archive when the run has begun, and gives it back when that was said."""

            def stepped(self, step: Step) -> None:
                if step.agent == "proposer" and step.depth == 0:
                    other.execute("BEGIN EXCLUSIVE")
                elif step.agent == "archivist":
                    other.execute("COMMIT")

        end = evolved.go(Freeing())
    [told] = [step.message for step in end.history if step.agent == "archivist"]
    assert "locked by another program" in told
    with closing(sqlite3.connect(file)) as found:
        assert found.execute("SELECT count(*) FROM kernels").fetchone() == (2,), "written with the next generation's"


class Between(Quiet):
    """Does something to a file when the second generation is proposed."""

    def __init__(self, act: Callable[[], object]) -> None:
        self.act = act

    def stepped(self, step: Step) -> None:
        if step.agent == "proposer" and step.depth == 1:
            self.act()


def test_an_archive_that_goes_away_is_made_again_with_all_that_was_in_it(tmp_path: Path) -> None:
    file = tmp_path / "shared" / "archive.sqlite"
    evolved = Evolved(tmp_path, rising, generations=2, proposals=2, archive=str(file))
    evolved.go(Between(lambda: shutil.rmtree(file.parent, ignore_errors=True)))
    with closing(sqlite3.connect(file)) as found:
        assert found.execute("SELECT count(*) FROM kernels").fetchone() == (4,)


def with_schema(file: Path, version: int) -> None:
    with closing(sqlite3.connect(file)) as other:
        other.execute(f"PRAGMA user_version = {version}")


def test_an_archive_that_becomes_another_version_s_costs_the_run_nothing(tmp_path: Path) -> None:
    file = tmp_path / "archive.sqlite"
    evolved = Evolved(tmp_path, rising, generations=2, proposals=1, archive=str(file))
    end = evolved.go(Between(lambda: with_schema(file, 99)))
    [told] = [step.message for step in end.history if step.agent == "archivist"]
    assert "is of schema 99" in told and end.attempts == 2
    with closing(sqlite3.connect(file)) as found:
        assert found.execute("SELECT count(*) FROM kernels").fetchone() == (1,), "left as it was"


def test_with_an_archive_of_another_version_no_run_is_begun(tmp_path: Path) -> None:
    file = tmp_path / "archive.sqlite"
    with_schema(file, 99)
    evolved = Evolved(tmp_path, rising, generations=1, proposals=1, archive=str(file))
    with pytest.raises(UserError, match="is of schema 99"):
        evolved.go()
    assert evolved.judged() == [] and evolved.models == {}
