"""Routing over states of every kind: where each outcome leads, and the edges that the graph draws."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from run_samples import attempt, best, kernel, not_built, passed, profile, run, task, wrong

from graph import routing
from graph.runs.ablation import one_gate
from graph.workflow import ROUTES, graph, targets
from harness.nouns.candidate import Candidate
from harness.nouns.verdict import Verdict
from nodes.agents.optimizer import base, shown_profile
from nodes.assessment import Diagnosis
from nodes.history import failed_builds, gate_open
from nodes.settings import Gates, Settings
from nodes.state import RunState, Stop, Usage
from nodes.stops import after_giving_up, after_test, may_mend, out_of_repairs
from tools.sweep import read_sweep

DRAWN = {
    ("__start__", "intake"),
    ("intake", "generator"),
    ("intake", "optimizer"),
    ("intake", "profiler"),
    ("intake", "sanitizer"),
    ("generator", "tester"),
    ("generator", "sanitizer"),
    ("tester", "approver"),
    ("approver", "generator"),
    ("approver", "optimizer"),
    ("approver", "profiler"),
    ("approver", "reviewer"),
    ("approver", "sanitizer"),
    ("tester", "diagnoser"),
    ("tester", "repairer"),
    ("tester", "generator"),
    ("tester", "profiler"),
    ("tester", "optimizer"),
    ("tester", "sanitizer"),
    ("diagnoser", "repairer"),
    ("diagnoser", "sanitizer"),
    ("repairer", "tester"),
    ("repairer", "diagnoser"),
    ("repairer", "generator"),
    ("repairer", "optimizer"),
    ("repairer", "sanitizer"),
    *((before, "reviewer") for before in ("intake", "tester", "repairer", "profiler")),
    ("reviewer", "optimizer"),
    ("reviewer", "sanitizer"),
    ("profiler", "optimizer"),
    ("profiler", "sanitizer"),
    ("optimizer", "tester"),
    ("optimizer", "sweeper"),
    ("sweeper", "tester"),
    ("sweeper", "sanitizer"),
    ("optimizer", "sanitizer"),
    ("sanitizer", "diagnoser"),
    ("sanitizer", "reporter"),
    ("sanitizer", "ablator"),
    ("ablator", "ablator"),
    ("ablator", "reporter"),
    ("reporter", "__end__"),
}

SPEAKERS = ("generator", "diagnoser", "repairer", "optimizer", "reviewer")
TURNS = {
    (f"{agent}:{source}", f"{agent}:{target}")
    for agent in SPEAKERS
    for source, target in [
        ("__start__", "speak"),
        *[(node, way) for node in ("speak", "tools") for way in ("speak", "tools", "__end__")],
    ]
}
DRAWN_WITHIN = TURNS | {
    (f"{source}:__end__" if source in SPEAKERS else source, f"{target}:__start__" if target in SPEAKERS else target)
    for source, target in DRAWN
}

ENDING = ("sanitizer", "ablator")
STOP = Stop(name="tokens", message="Enough.")
K = kernel("present\n")
VAIN = attempt("threads", K, passed(K, 0.9))
TWICE_UNBUILT = (attempt("", K, not_built(K))[1],) * 2


def verdicts(candidate: Candidate) -> st.SearchStrategy[Verdict]:
    return st.sampled_from([passed(candidate, 1.5), wrong(candidate), not_built(candidate)])


settings_of_any_kind = st.builds(
    Settings,
    max_depth=st.integers(0, 8),
    max_repairs=st.integers(0, 4),
    max_regenerations=st.integers(0, 3),
    advance=st.sampled_from(["best", "latest"]),
    diagnose=st.sampled_from(["when_needed", "every"]),
    profile_from_depth=st.builds(
        Gates, elementwise=st.integers(0, 5), gemm=st.integers(0, 12), when_stuck=st.sampled_from([None, 1, 2])
    ),
)


@st.composite
def states(draw: st.DrawFn) -> RunState:
    """A state as the tester may leave it: a pass always leaves a best kernel."""
    verdict = draw(verdicts(K))
    has_best = verdict.passed or draw(st.booleans())
    kept = draw(st.sampled_from([best(), best().model_copy(update={"profile": profile()})]))
    tests = () if verdict.passed else draw(st.sampled_from([(), TWICE_UNBUILT[:1], TWICE_UNBUILT]))
    return run(
        task=task(draw(st.sampled_from(["elementwise", "gemm", "reduction", "other"]))),
        candidate=K,
        verdict=verdict,
        best=kept if has_best else None,
        depth=draw(st.integers(0, 9)) if has_best else 0,
        repairs=0 if verdict.passed else draw(st.integers(0, 5)),
        regenerations=draw(st.integers(0, 4)),
        gave_up=not verdict.passed and draw(st.booleans()),
        profile=draw(st.sampled_from([None, profile()])),
        history=(*draw(st.sampled_from([(), VAIN, (*VAIN, *VAIN)])), *tests),
    )


def opened(state: RunState, settings: Settings) -> bool:
    """Whether depth, or moves in vain, have opened the gate."""
    gates = settings.profile_from_depth
    assert state.task is not None
    deep = state.depth >= gates.depth(state.task.op_class)
    moves = sum(step.agent == "optimizer" for step in state.history)
    return deep or (gates.when_stuck is not None and moves >= gates.when_stuck)


def to_be_mended(state: RunState, settings: Settings) -> str:
    """A build that fails for the first time needs no diagnosis, where the settings say so."""
    assert state.verdict is not None
    plain = settings.diagnose == "when_needed" and state.verdict.status == "build_failed"
    return "repairer" if plain and state.history[-2:] != TWICE_UNBUILT else "diagnoser"


def after_the_test(state: RunState, settings: Settings) -> RunState:
    """The state with the stop reason that the tester would write."""
    return state.model_copy(update={"stop_reason": after_test(state, settings)})


def test_every_edge_of_the_design_is_drawn_and_no_other() -> None:
    drawn = graph.get_graph()
    assert {(edge.source, edge.target) for edge in drawn.edges} == DRAWN
    assert all(node.metadata for name, node in drawn.nodes.items() if not name.startswith("__"))


def test_each_agent_that_speaks_is_drawn_as_a_graph_of_its_own() -> None:
    drawn = graph.get_graph(xray=1)
    assert {(edge.source, edge.target) for edge in drawn.edges} == DRAWN_WITHIN
    assert {name for name, _ in graph.get_subgraphs()} == set(SPEAKERS)


def test_each_route_names_nodes_of_the_graph() -> None:
    nodes = set(graph.get_graph().nodes)
    for route in ROUTES.values():
        assert set(targets(route)) <= nodes


@given(states(), settings_of_any_kind)
def test_a_test_leads_where_its_outcome_says(state: RunState, settings: Settings) -> None:
    state = after_the_test(state, settings)
    way = routing.after_tester(state, settings)
    assert state.verdict is not None
    if state.stop_reason:
        assert way == "sanitizer"
    elif not state.verdict.passed:
        exhausted = out_of_repairs(state, settings)
        mended = to_be_mended(state, settings)
        assert way == (mended if not exhausted else "optimizer" if state.best else "generator")
    else:
        assert way == ("profiler" if opened(state, settings) else "optimizer")


@given(states(), settings_of_any_kind)
def test_a_failure_is_never_optimized_and_without_a_best_never_reaches_the_optimizer(
    state: RunState, settings: Settings
) -> None:
    state = after_the_test(state, settings)
    way = routing.after_tester(state, settings)
    if way in ("optimizer", "profiler"):
        assert state.best is not None
        assert base(state, settings).verdict.passed
    if way == "generator":
        assert state.best is None
        assert state.regenerations < settings.max_regenerations


@given(states(), settings_of_any_kind)
def test_the_optimizer_sees_a_profile_only_past_the_gate_and_only_of_its_own_kernel(
    state: RunState, settings: Settings
) -> None:
    if state.best is None:
        return
    start = base(state, settings)
    shown = shown_profile(state, start, settings)
    assert shown == (start.profile if opened(state, settings) else None)


@given(states(), settings_of_any_kind)
def test_a_stop_reason_leads_to_the_sanitizer_from_everywhere(state: RunState, settings: Settings) -> None:
    stopped = state.model_copy(update={"stop_reason": STOP})
    assert {route(stopped, settings) for name, route in ROUTES.items() if name not in ENDING} == {"sanitizer"}
    assert routing.after_sanitizer(stopped, settings) == "reporter"


@given(states(), settings_of_any_kind, st.booleans())
def test_the_repair_of_a_final_kernel_ends_at_the_sanitizer(state: RunState, settings: Settings, spent: bool) -> None:
    """However it goes: the run is at its end, and neither a move nor a new start comes after it."""
    attempts = settings.max_attempts if spent else 0
    final_repair = state.model_copy(update={"final_repair": True, "stop_reason": STOP, "attempts": attempts})
    assert final_repair.verdict is not None
    assert routing.after_sanitizer(final_repair, settings) == "diagnoser"
    assert routing.after_diagnoser(final_repair, settings) == ("sanitizer" if final_repair.gave_up else "repairer")
    assert routing.after_repairer(final_repair, settings) == ("sanitizer" if final_repair.gave_up else "diagnoser")
    repaired = final_repair.model_copy(update={"candidate": kernel("mended\n")})
    assert routing.after_repairer(repaired, settings) == ("sanitizer" if final_repair.gave_up else "tester")
    more = not (final_repair.verdict.passed or spent or out_of_repairs(final_repair, settings))
    assert routing.after_tester(final_repair, settings) == (
        to_be_mended(final_repair, settings) if more else "sanitizer"
    )
    assert after_test(final_repair, settings) == after_giving_up(final_repair, settings) == STOP


@given(states(), settings_of_any_kind)
def test_a_finding_is_repaired_within_the_repairs_of_one_kernel_and_the_budgets(
    state: RunState, settings: Settings
) -> None:
    first = state.model_copy(update={"final_repair": False})
    assert may_mend(first, settings) == (settings.max_repairs > 0)
    again = state.model_copy(update={"final_repair": True})
    assert may_mend(again, settings) == (state.repairs < settings.max_repairs)
    for spent in ({"attempts": settings.max_attempts}, {"usage": Usage(dollars=settings.max_dollars)}):
        assert not may_mend(first.model_copy(update=spent), settings)


@given(states(), settings_of_any_kind)
def test_giving_up_goes_where_the_last_repair_would_have_gone(state: RunState, settings: Settings) -> None:
    assert state.verdict is not None
    if state.verdict.passed:
        return
    given_up = after_the_test(state.model_copy(update={"gave_up": True}), settings)
    assert routing.after_repairer(given_up, settings) == routing.after_tester(given_up, settings)


def test_a_repairer_who_sees_no_repair_without_a_diagnosis_is_sent_one() -> None:
    unbuilt = run(candidate=K, verdict=not_built(K), best=best())
    assert routing.after_repairer(unbuilt, Settings()) == "diagnoser"
    diagnosed = {"diagnosis": Diagnosis(intent="a", cause="b", evidence="c", fix="d", proof="e")}
    for known in (diagnosed, {"candidate": kernel("mended\n")}):
        assert routing.after_repairer(unbuilt.model_copy(update=known), Settings()) == "tester"


def test_builds_that_failed_are_counted_back_to_where_the_kernel_was_written() -> None:
    unbuilt = attempt("tiles", K, not_built(K))
    assert [failed_builds(history) for history in ((), VAIN, unbuilt, (*unbuilt, unbuilt[1]))] == [0, 0, 1, 2]
    assert failed_builds((*unbuilt, *unbuilt)) == 1, "another move's"
    assert failed_builds((*unbuilt, VAIN[1], unbuilt[1])) == 1, "it compiled in between"


@given(states(), settings_of_any_kind)
def test_a_reviewer_stands_before_every_move_and_changes_no_other_way(state: RunState, settings: Settings) -> None:
    reviewed = settings.model_copy(update={"reviewer_model": "manual"})
    for route in (routing.after_intake, routing.after_tester, routing.after_repairer, routing.after_profiler):
        way = route(state, settings)
        assert route(state, reviewed) == ("reviewer" if way == "optimizer" else way)
    assert routing.after_reviewer(state, settings) == "optimizer"


def test_the_way_without_a_stop() -> None:
    settings = Settings()
    plain: dict[str, Any] = {"candidate": K, "best": best()}
    assert routing.after_generator(run(**plain), settings) == "tester"
    assert routing.after_diagnoser(run(**plain), settings) == "repairer"
    assert routing.after_repairer(run(**plain), settings) == "tester"
    assert routing.after_profiler(run(**plain), settings) == "optimizer"
    assert routing.after_optimizer(run(**plain), settings) == "tester"
    assert (
        routing.after_optimizer(run(**plain, sweep=read_sweep("int a = 1;  // sweep: 2", 2)[1]), settings) == "sweeper"
    )
    assert routing.after_sweeper(run(**plain), settings) == "tester"


def test_advance_from_the_best_or_from_the_latest_that_passed() -> None:
    state = run(candidate=K, verdict=passed(K, 1.5), best=best(), profile=profile())
    assert base(state, Settings()).candidate == best().candidate
    latest = base(state, Settings(advance="latest"))
    assert (latest.candidate, latest.profile) == (K, profile())
    failed = state.model_copy(update={"verdict": wrong(K)})
    assert base(failed, Settings(advance="latest")).candidate == best().candidate


def test_as_many_moves_in_vain_as_the_gate_waits_for_open_it_and_fewer_do_not() -> None:
    for moves, expected in ((VAIN, False), ((*VAIN, *VAIN), True)):
        state = run(task=task("gemm"), candidate=K, verdict=passed(K, 1.5), best=best(), depth=0, history=moves)
        assert gate_open(state, Settings()) == expected


def test_the_gates_of_the_op_classes() -> None:
    gates = Settings().profile_from_depth
    assert [gates.depth(op_class) for op_class in ("gemm", "elementwise", "reduction", "other")] == [11, 1, 4, 4]
    assert gates.when_stuck == 2
    assert one_gate(3).when_stuck is None, "an ablation compares depths"
