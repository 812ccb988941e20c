"""Each accepted move taken back by itself at the end, in both graphs; the judge is scripted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from evolution_script import Evolved
from report_records import full_record
from scripted_judge import Scripted
from softsign_script import KERNEL, SOURCE, written

from graph.pages.report import Worth, render, worths
from graph.workflow import build_graph
from nodes.agents.ablator import INSEPARABLE
from nodes.models.local import ScriptedModel
from nodes.request import Request
from nodes.settings import Settings
from nodes.state import Best, RunState

# The judge believes the last marker of a source: what is written at its end decides, whatever stands at its begin.
FIRST = f"// a\n// b\n{KERNEL}// c\n// d\n"
EARLY = FIRST.replace("// a", "// a  // judge: passed 2x")
LATE = EARLY.replace("// d", "// d  // judge: passed 3x")
BROKEN = LATE.replace("// c", "// judge: wrong")
MENDED = BROKEN.replace("// judge: wrong", "// C")


def run(sources: list[str], **settings: Any) -> RunState:
    moves = [written(source, f"move {number}") for number, source in enumerate(sources, 1)]
    model = ScriptedModel(answers={"generator": [written(FIRST)], "optimizer": [*moves, "DONE: enough"]})
    graph = build_graph(lambda spec, _: model, Scripted()).compile()
    given: Any = {"source": SOURCE, "name": "softsign"}
    chosen = Settings(**{"ablate_moves": True, "max_tool_calls": 0, **settings})
    return RunState.model_validate(graph.invoke(given, context=chosen))


def told(state: Any) -> list[tuple[str, float | None, str]]:
    """Of each ablation the move, how fast the rest was beside the whole, and what was said."""
    taken = [step for step in state.history if step.agent == "ablator"]
    return [(step.move, step.head_to_head and round(step.head_to_head.speedup, 3), step.message) for step in taken]


def worth(state: RunState) -> list[Worth]:
    assert state.best is not None
    candidate = state.best.candidate.model_copy(update={"author": "x"})
    best = Best(candidate=candidate, verdict=state.best.verdict)
    record = full_record().model_copy(update={"steps": state.history, "best": best})
    page = render(record)
    assert all(each.move in page and each.now in page for each in worths(record)) and "is worth" in page
    return worths(record)


def test_what_a_move_brought_may_be_another_s_by_the_end() -> None:
    state = run([EARLY, LATE])
    assert told(state) == [("move 1", 1.0, ""), ("move 2", 0.667, "")]
    assert state.attempts == 3 and state.result is not None and state.result.best == state.best, "no candidates"
    [early, late] = worth(state)
    assert (early.then, early.now) == ("1.33x (1.32 to 1.35)", "1.00x (0.99 to 1.01)")
    assert (late.then, late.now) == ("1.50x (1.48 to 1.52)", "1.50x (1.49 to 1.52)")


def test_a_move_under_later_ones_and_one_that_is_needed_are_said_so() -> None:
    last = LATE.replace("// a  ", "// A  ").replace("3x", "6x")
    state = run([EARLY, LATE.replace("// b", "// B"), last])
    assert told(state)[0] == ("move 1", None, INSEPARABLE)
    broken = [each.model_copy(update={"message": "error: inf"}) for each in state.history if each.agent == "ablator"]
    assert [each.why for each in worth(state.model_copy(update={"history": tuple(broken)}))] == ["error: inf"] * 3


def test_without_being_asked_or_time_nothing_is_taken_back() -> None:
    assert told(run([EARLY], ablate_moves=False)) == []
    assert told(run([EARLY], max_device_s=1e-9)) == []
    assert len(told(run([EARLY, LATE], max_attempts=2))) == 1, (
        "it is no attempt: one move was tested, and is taken back"
    )


def test_an_evolution_takes_back_the_line_of_its_best_kernel(tmp_path: Path) -> None:
    by_order = {
        (1, 0): FIRST,
        (1, 1): FIRST.replace("// a", "// other  // judge: passed 1x"),
        (2, 0): BROKEN,
        (2, 1): EARLY,
        (3, 0): MENDED,
        (3, 1): EARLY.replace("2x", "2.5x"),
    }

    def author(request: Request) -> str:
        assert request.left is not None and request.search is not None
        depth, operator = request.left.depth, request.search.operator
        return written(by_order[depth, 0 if operator == "refinement" else number(request)], f"{operator} of {depth}")

    def number(request: Request) -> int:
        """Of the two orders of a generation: the mutation beside a refinement is the second one."""
        assert request.left is not None and request.search is not None
        return request.search.turn if request.left.depth < 3 else 1

    operators = ("mutation", "refinement")
    run = Evolved(tmp_path, author, generations=3, proposals=2, operators=operators, ablate_moves=True, parents=1)
    end = run.go()
    assert end.best is not None and end.best.candidate.source == MENDED
    [(move, _, _)] = told(end)
    assert move == "mutation of 2", "what was mended belongs to the move that broke it"
    assert end.result is not None and end.attempts == 6
