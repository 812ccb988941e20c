"""The agents that speak to a model by themselves: what they ask with, what they take, and what they leave behind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage
from run_samples import attempt, best, kernel, not_built, passed, profile, run, wrong

from nodes.agents.generator import generator
from nodes.agents.optimizer import optimizer
from nodes.agents.repairer import diagnoser, repairer
from nodes.assessment import Diagnosis
from nodes.models.local import ScriptedModel
from nodes.request import Request
from nodes.settings import Gates, Settings
from nodes.state import FellBack, RunState, Variant
from nodes.turn.node import ModelCache, NodeContext, validated
from nodes.turn.prompts import parts_of
from nodes.usage import Bill
from tools.archive import Archive, Entry

LOOP = "#pragma omp parallel for\n"
FIRST = best(source="int first;\n")
BROKEN = kernel(f"{LOOP}one;\ntwo;\n", parent=FIRST.candidate)
WHY = Diagnosis(intent="adds", cause="line 3", evidence="the report", fix="one line", proof="it passes")
FAILING: dict[str, Any] = {
    "candidate": BROKEN, "verdict": wrong(BROKEN), "best": FIRST, "diagnosis": WHY, "move": "two", "depth": 4,
    "repairs": 1, "history": attempt("two", BROKEN, wrong(BROKEN)),
}  # fmt: skip
MENDED = '{"edits": [{"kind": "replace", "line": 3, "expected": "two;", "text": "2;"}]}'
SERIAL = '{"edits": [{"kind": "delete", "line": 1, "expected": "#pragma omp parallel for"}]}'
TAKEN_BACK = (
    '{"edits": [{"kind": "replace", "line": 1, "end_line": 3,'
    ' "expected": "#pragma omp parallel for\\none;\\ntwo;", "text": "int first;"}]}'
)


def asked(agent: Any, state: RunState, *answers: str, **settings: Any) -> tuple[dict[str, Any], list[Request]]:
    """What the agent writes into the state, and the requests that it made."""
    model = ScriptedModel(answers=list(answers))
    shop = NodeContext(settings=Settings(**settings), shelf=ModelCache(lambda spec, options: model))
    update = validated(agent(state, shop), RunState, writer="agent")
    assert update["usage"].calls == len(answers)
    assert update["history"][-1].usage == update["usage"]
    return update, list(model.requests)


def test_a_generator_is_shown_kernels_of_near_tasks_where_the_settings_ask_for_some(tmp_path: Path) -> None:
    there, place = kernel("int there;\n"), str(tmp_path / "archive.sqlite")
    archive = Archive.named(place)
    assert archive is not None
    told: dict[str, Any] = {"operator": "mutation", "move": "m", "parents": (), "dollars": 0.0, "seconds": 1.0}
    archive.put("other", run().task, "elsewhere", [Entry(candidate=there, verdict=passed(there, 2.0), **told)])
    answered = f"```cpp\n{LOOP}TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);\n```"
    for most in (0, 1):
        begun = {"candidate": None, "verdict": None, "best": None}
        _, [request] = asked(generator, run(**begun), answered, first_inspirations=most, archive=place)
        assert ("int there;" in parts_of(request).question) == bool(most)
        assert (request.search is None) == (most == 0)


def test_a_repair_is_the_failing_kernel_with_its_edits() -> None:
    update, [request] = asked(repairer, run(**FAILING), MENDED)
    assert (request.candidate, request.verdict, request.diagnosis) == (BROKEN, wrong(BROKEN), WHY)
    made = update["candidate"]
    assert made.source == f"{LOOP}one;\n2;\n"
    assert (made.target, made.author, made.parent) == ("cpu", "repairer:playbook", BROKEN.digest)
    assert update["repairs"] == 2
    [step] = update["history"]
    assert (step.depth, step.move, step.candidate, step.parent) == (4, "two", made.digest, BROKEN.digest)
    assert step.speedup == 2.0
    first, _ = asked(repairer, run(**{**FAILING, "best": None}), MENDED)
    assert (first["candidate"], first["history"][0].speedup) == (made, None)


def test_a_repair_that_throws_the_loops_away_is_sent_back() -> None:
    update, requests = asked(repairer, run(**FAILING), SERIAL, MENDED)
    assert len(requests) == 2
    assert update["candidate"].source == f"{LOOP}one;\n2;\n"
    insists, _ = asked(repairer, run(**FAILING), SERIAL, "CANNOT: the loop itself is the fault")
    assert (insists["gave_up"], insists["stop_reason"]) == (True, None), "a way out that does not end the run"
    serial = kernel("one;\ntwo;\n", parent=FIRST.candidate)
    known = run(**{**FAILING, "history": attempt("one", serial, passed(serial, 1.5))})
    update, _ = asked(repairer, known, SERIAL)
    assert update["candidate"].source == serial.source, "back to a kernel of this run is no loss"


@pytest.mark.parametrize(
    ("answer", "because"),
    [
        ("CANNOT: no line is to blame", "no line is to blame"),
        (TAKEN_BACK, "The repair takes the move back: the best kernel stands as it was."),
    ],
)
def test_a_repair_that_is_none_is_given_up_and_says_why(answer: str, because: str) -> None:
    state = run(**{**FAILING, "history": (*FAILING["history"], *attempt("", FIRST.candidate, FIRST.verdict))})
    update, _ = asked(repairer, state, answer)
    assert update["gave_up"]
    assert update["stop_reason"] is None, "there is a kernel to fall back to"
    assert "candidate" not in update
    [step] = update["history"]
    assert (step.depth, step.move, step.message, step.speedup) == (4, "two", because, 2.0)
    first = run(**{**FAILING, "best": None, "regenerations": 2})
    assert asked(repairer, first, "CANNOT: so")[0]["stop_reason"].name == "repairs_exhausted"


def test_who_was_sent_no_diagnosis_may_ask_for_one_instead_of_giving_up() -> None:
    state = run(**FAILING | {"verdict": not_built(BROKEN), "diagnosis": None})
    update, [request] = asked(repairer, state, "CANNOT: the error lies in a header")
    assert request.diagnosis is None
    assert set(update) == {"history", "usage"}, "nothing is given up"
    assert update["history"][0].message == "the error lies in a header"


def code(source: str, move: str = "tiles - they fit") -> str:
    return f"MOVE: {move}\n```cpp\n{source}```"


PASSED: dict[str, Any] = {**FAILING, "verdict": passed(BROKEN, 1.5), "gave_up": True, "profile": profile()}


def test_a_move_starts_from_the_best_kernel_and_clears_what_belonged_to_the_last() -> None:
    update, [request] = asked(optimizer, run(**PASSED), code("int tiles;\n"))
    assert (request.candidate, request.verdict, request.profile) == (FIRST.candidate, FIRST.verdict, None)
    assert request.max_sweep == 12
    made = update["candidate"]
    assert (made.source, made.author, made.parent) == ("int tiles;\n", "optimizer:playbook", FIRST.candidate.digest)
    [step] = update["history"]
    assert (step.depth, step.move, step.message, step.speedup) == (4, "tiles", "they fit", 2.0)
    assert (step.candidate, step.parent) == (made.digest, FIRST.candidate.digest)
    cleared = ("sweep", "verdict", "diagnosis", "profile", "repairs", "gave_up")
    assert [update[name] for name in cleared] == [None, None, None, None, 0, False]


def test_a_move_may_be_made_by_edits_and_those_that_do_not_fit_go_back() -> None:
    stale, fitting = (
        f"MOVE: tiles - they fit\n{MENDED.replace('two;', text).replace('3', '1')}"
        for text in ("int second;", "int first;")
    )
    update, requests = asked(optimizer, run(**PASSED), stale, fitting)
    assert len(requests) == 2
    assert (update["candidate"].source, update["move"]) == ("2;\n", "tiles")
    assert update["candidate"].parent == FIRST.candidate.digest


def test_the_latest_kernel_that_passed_may_be_the_start() -> None:
    gates = Gates(gemm=4, elementwise=4, reduction=4, other=4)
    _, [request] = asked(optimizer, run(**PASSED), "DONE: so", advance="latest", profile_from_depth=gates)
    assert (request.candidate, request.verdict, request.profile) == (BROKEN, PASSED["verdict"], profile())
    later = gates.model_copy(update={"elementwise": 5})
    _, [request] = asked(optimizer, run(**PASSED), "DONE: so", advance="latest", profile_from_depth=later)
    assert request.profile is None


def test_the_kernel_as_it_stands_is_no_move_but_its_values_may_be_tried() -> None:
    start = best(source="int a = 1;\n")
    state = run(**{**PASSED, "best": start})
    update, requests = asked(optimizer, state, code("\nint a = 1;\n\n"), code("int a = 1;  // sweep: 2\n"))
    assert len(requests) == 2
    assert update["candidate"].source == "int a = 1;\n"
    assert [values["a"] for values in update["sweep"].points()] == ["1", "2"]


def test_the_first_kernel_comes_from_the_task_alone() -> None:
    update, [request] = asked(generator, run(), "Plain loops.\n```cpp\nint first;\n```")
    assert (request.role, request.candidate, request.verdict, request.history) == ("generator", None, None, ())
    made = update["candidate"]
    assert (made.source, made.author, made.parent, made.target) == ("int first;\n", "generator:playbook", None, "cpu")
    assert (update["move"], update["regenerations"]) == ("first kernel", 0)
    [step] = update["history"]
    assert (step.depth, step.agent, step.move, step.candidate) == (0, "generator", "first kernel", made.digest)
    named, _ = asked(generator, run(), "MOVE: tiles - they fit\n```cpp\nint first;\n```")
    assert (named["move"], named["history"][0].message) == ("tiles", "they fit")


def test_a_new_start_is_shown_what_failed_and_forgets_it() -> None:
    failed = kernel("int bad;\n")
    state = run(
        candidate=failed, verdict=wrong(failed), diagnosis=WHY, repairs=3, gave_up=True, regenerations=1,
        history=attempt("", failed, wrong(failed)),
    )  # fmt: skip
    update, [request] = asked(generator, state, "```cpp\nint better;\n```")
    assert (request.candidate, request.verdict) == (failed, wrong(failed))
    assert (update["regenerations"], update["repairs"], update["gave_up"]) == (2, 0, False)
    assert (update["verdict"], update["diagnosis"], update["candidate"].parent) == (None, None, None)
    declined, _ = asked(generator, state, "CANNOT: it needs a sort")
    assert (declined["stop_reason"].name, declined["stop_reason"].message) == ("declined", "it needs a sort")
    assert declined["history"][0].message == "it needs a sort"
    assert "candidate" not in declined


def test_a_diagnosis_is_asked_for_the_failing_kernel_and_kept_for_the_repairer() -> None:
    update, [request] = asked(diagnoser, run(**{**FAILING, "diagnosis": None}), WHY.model_dump_json())
    assert (request.candidate, request.verdict, request.diagnosis) == (BROKEN, wrong(BROKEN), None)
    assert update["diagnosis"] == WHY
    assert "candidate" not in update and "repairs" not in update, "he edits nothing"
    [step] = update["history"]
    assert (step.depth, step.agent, step.move, step.message) == (4, "diagnoser", "two", "line 3")
    assert (step.candidate, step.parent, step.speedup) == (BROKEN.digest, BROKEN.parent, 2.0)


FAILED = kernel("int failed;\n", parent=FIRST.candidate)


@pytest.mark.parametrize(
    ("agent", "fields", "again", "other"),
    [
        (generator, {}, "```cpp\nint failed;\n```", "```cpp\nint other;\n```"),
        (optimizer, {"best": FIRST}, code("int failed;\n"), code("int other;\n")),
        (
            repairer,
            {**FAILING, "candidate": kernel("int bad;\n", parent=FIRST.candidate)},
            '{"edits": [{"kind": "replace", "line": 1, "expected": "int bad;", "text": "int failed;"}]}',
            '{"edits": [{"kind": "replace", "line": 1, "expected": "int bad;", "text": "int other;"}]}',
        ),
    ],
)
def test_a_kernel_that_failed_before_is_sent_back(agent: Any, fields: dict[str, Any], again: str, other: str) -> None:
    state = run(**fields | {"history": attempt("two", FAILED, wrong(FAILED))})
    update, requests = asked(agent, state, again, other)
    assert (len(requests), update["candidate"].source) == (2, "int other;\n")
    passed_since = run(**fields | {"history": (*state.history, *attempt("two", FAILED, passed(FAILED, 1.5)))})
    assert asked(agent, passed_since, again)[0]["candidate"].source == "int failed;\n"


ENDED: list[tuple[Any, dict[str, Any]]] = [
    (generator, {}),
    (diagnoser, FAILING),
    (repairer, FAILING),
    (optimizer, {**FAILING, "verdict": passed(BROKEN, 1.5)}),
]


@pytest.mark.parametrize(("agent", "fields"), ENDED)
def test_a_model_of_no_use_ends_the_run_and_costs_what_it_cost(agent: Any, fields: dict[str, Any]) -> None:
    update, _ = asked(agent, run(**fields), "Hm.", "Hm, hm.", max_reasks=1)
    assert (update["stop_reason"].name, update["usage"].calls) == ("model_unusable", 2)
    assert set(update) == {"history", "usage", "stop_reason"}, "nothing else changes"
    [step] = update["history"]
    assert (step.agent, step.depth) == (agent.__name__, fields.get("depth", 0))
    assert step.speedup == (2.0 if fields else None)
    assert step.message.startswith(
        f"The {agent.__name__}'s model gave 2 answers in a row that cannot be used; the last"
    )


def test_where_one_model_went_on_for_another_the_kernel_is_its_work() -> None:
    message = AIMessage("```cpp\nint first;\n```")
    because = FellBack(model="openai:m", answered_by="openai:small", because="It is down.")
    Bill(dollars=0.0, fell_back=because).attach(message)
    shop = NodeContext(
        settings=Settings(), shelf=ModelCache(lambda spec, options: ScriptedModel(answers=[message]))
    )  # fmt: skip
    update = generator(run(), shop)
    assert update["candidate"].author == "generator:openai:small"
    assert update["usage"].fell_back == (because,)


def test_where_nothing_is_left_the_run_ends() -> None:
    update, _ = asked(optimizer, run(**PASSED), "DONE: it is at the roof")
    assert (update["stop_reason"].name, update["stop_reason"].message) == ("no_moves_left", "it is at the roof")
    assert update["history"][0].message == "it is at the roof"
    assert "candidate" not in update


def test_what_a_model_says_of_the_end_steers_no_terminal() -> None:
    update, _ = asked(optimizer, run(**PASSED), "DONE: \x1b]0;owned\x07it is \x9b31mred")
    assert update["stop_reason"].message == update["history"][0].message == "\\x1b]0;owned\\x07it is \\x9b31mred"
    assert Variant(values={}, message="\x1b[2J").message == "\\x1b[2J"


@pytest.mark.parametrize("agent", [generator, diagnoser, repairer, optimizer])
def test_each_agent_is_told_its_tools_and_what_the_run_has_left(agent: Any) -> None:
    fields = {**FAILING, "verdict": passed(BROKEN, 1.5)} if agent is optimizer else FAILING
    state = run(**fields, seconds=90.0)
    _, [request] = asked(agent, state, "CANNOT: so", max_depth=9, max_wall_s=100, max_tool_calls=3, max_reasks=0)
    assert request.left is not None
    assert (request.left.depth, request.left.max_depth, request.left.seconds, request.left.calls) == (4, 9, 10.0, 3)
    assert request.left.tools[:2] == ("look_up", "compile_kernel")
    assert ("run_kernel" in request.left.tools) == (agent in (diagnoser, optimizer))
    assert request.compiled_with.endswith("C++17, CUTLASS 4.2.0")
    _, [without] = asked(agent, state, "CANNOT: so", max_tool_calls=0, max_reasks=0)
    assert without.left is not None and without.left.tools == ()


def test_an_agent_speaks_to_its_own_model_or_to_the_common_one() -> None:
    settings = Settings(model="openai:a", diagnoser_model="openai:b")
    named = {role: settings.model_for(role) for role in ("generator", "diagnoser", "repairer", "optimizer")}
    assert named == {**dict.fromkeys(named, "openai:a"), "diagnoser": "openai:b"}
