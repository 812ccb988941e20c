"""The ending of a run where there is nothing to watch, or nobody to repair; the rest the graph's tests tell."""

from __future__ import annotations

import pytest
from run_samples import best, kernel, passed, run, wrong

from harness.nouns.sanitizer_run import Finding, SanitizerRun
from nodes.agents.repairer import diagnoser, repairer
from nodes.agents.sanitizer import sanitizer
from nodes.assessment import Diagnosis
from nodes.models.local import ScriptedModel
from nodes.settings import Settings
from nodes.state import Stop
from nodes.turn.node import ModelCache, NodeContext
from tools.wording import say_sanitizers

FOUND = SanitizerRun(
    tool="memcheck", status="found", findings=(Finding(kind="read", message="line 3 reads x", line=3),)
)
SKIPPED = SanitizerRun(tool="racecheck", status="skipped", note="it did not end within 30 s")
CLEAN = SanitizerRun(tool="initcheck", status="clean")


K = kernel("faulty\n")
WHY = Diagnosis(intent="adds", cause="line 3", evidence="the report", fix="one line", proof="it passes")
STOP = Stop(name="depth", message="Deep enough.")


def shop(*answers, **settings):
    model = ScriptedModel(answers=list(answers))
    return NodeContext(settings=Settings(**settings), shelf=ModelCache(lambda spec, options: model))


@pytest.mark.parametrize(("state", "settings"), [(run(), {}), (run(best=best()), {"sanitize": False})])
def test_without_a_kernel_or_the_wish_nothing_changes(state, settings):
    assert sanitizer(state, shop(**settings)) == {"final_repair": False}


def test_a_finding_withdraws_a_pass_and_only_that():
    passed = best().verdict
    refused = passed.sanitized((CLEAN, FOUND))
    assert (refused.status, refused.check, refused.message) == ("refused", "sanitizer", "line 3 reads x")
    assert refused.timing is None and refused.sanitizers == (CLEAN, FOUND)
    kept = passed.sanitized((CLEAN, SKIPPED))
    assert kept.passed and kept.timing == passed.timing and kept.sanitizers == (CLEAN, SKIPPED)


def final_repair(**fields):
    """A run at its end, whose final kernel has failed the sanitizer."""
    refused = passed(K, 1.5).sanitized((FOUND,))
    return run(candidate=K, verdict=refused, best=best(), final_repair=True, stop_reason=STOP, **fields)


@pytest.mark.parametrize("agent", [diagnoser, repairer])
def test_a_model_that_is_of_no_use_gives_the_repair_up_and_changes_nothing_about_why_the_run_ended(agent):
    update = agent(final_repair(), shop("Nice weather.", max_reasks=0))
    assert update["gave_up"]
    assert "stop_reason" not in update
    assert "cannot be used" in update["history"][0].message


def test_a_repairer_that_declines_gives_the_repair_up_for_the_same_reason_as_before():
    update = repairer(final_repair(diagnosis=WHY), shop("CANNOT: it has to be so"))
    assert (update["gave_up"], update["stop_reason"]) == (True, STOP)
    assert repairer(run(candidate=K, verdict=wrong(K), diagnosis=WHY), shop("CANNOT: so", max_regenerations=0))[
        "stop_reason"
    ].name == ("repairs_exhausted")


def test_what_ran_is_said_in_a_line_each():
    assert say_sanitizers((CLEAN, FOUND, SKIPPED)).splitlines() == [
        "initcheck: clean after 0.0 s",
        "memcheck: line 3 reads x",
        "racecheck: not checked: it did not end within 30 s",
    ]
