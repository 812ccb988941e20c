"""What a run's checkpoints hold comes out as its record: every kernel, its last verdict, its profile, its end."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from run_samples import best, kernel, not_built, passed, profile, task, wrong

from graph.driving.loop import save
from graph.driving.session import Trajectory, save_kernel
from graph.runs.folder import create
from graph.runs.store import open_saver
from harness.nouns.errors import UserError
from nodes.settings import Settings
from nodes.state import Best, RunState, Step, Usage
from nodes.turn.node import validated

FIRST = kernel("first\n")
BAD, SLOW = (kernel(f"{name}\n", parent=FIRST) for name in ("bad", "slow"))
BEST = Best(candidate=FIRST, verdict=passed(FIRST, 2.0))
BEGUN: dict[str, Any] = {"source": "class Model: ...", "task": task(), "target": "cpu", "tier": "none"}


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Trajectory]:
    folder, manifest = create(tmp_path / "run", name="sample", source="class Model: ...", settings=Settings())
    with open_saver(folder.checkpoints) as saver:
        made = Trajectory(folder, manifest, saver)
        wrote(made, "intake", BEGUN)
        yield made


def wrote(session: Trajectory, node: str, update: dict[str, Any]) -> None:
    """As if this node had written that: checked as it would be, and checkpointed."""
    session.graph.update_state(session.config, validated(update, RunState, writer=node), as_node=node)


def step(agent: Any, **fields: Any) -> tuple[Step, ...]:
    return (Step(depth=0, agent=agent, **fields),)


def test_every_kernel_and_its_last_verdict_is_in_the_record(session: Trajectory) -> None:
    wrote(session, "generator", {"candidate": FIRST, "history": step("generator"), "usage": Usage(calls=2)})
    wrote(session, "tester", {"verdict": BEST.verdict, "best": BEST, "history": step("tester", improved=True)})
    wrote(session, "optimizer", {"candidate": BAD, "verdict": None, "usage": Usage(calls=1), "seconds": 2.5})
    wrote(session, "tester", {"verdict": not_built(BAD)})
    wrote(session, "tester", {"verdict": wrong(BAD)})
    record = session.record("interrupted")
    assert list(record.candidates) == [FIRST.digest, BAD.digest], "the oldest first"
    assert {digest: verdict.status for digest, verdict in record.verdicts.items()} == {
        FIRST.digest: "passed",
        BAD.digest: "wrong",
    }
    assert (record.outcome, record.stop_reason, record.best) == ("interrupted", "", BEST)
    assert (record.usage.calls, record.seconds) == (3, 2.5)
    assert [told.agent for told in record.steps] == ["generator", "tester"]
    assert record.id == session.manifest.id
    assert record.profiles == {}


def test_a_profile_is_the_best_kernels_or_that_of_the_latest_which_passed(session: Trajectory) -> None:
    wrote(session, "tester", {"candidate": FIRST, "verdict": BEST.verdict, "best": BEST})
    profiled = BEST.model_copy(update={"profile": profile(0.2)})
    wrote(session, "profiler", {"best": profiled, "profile": profile(0.2)})
    wrote(session, "optimizer", {"candidate": SLOW, "verdict": None, "profile": None})
    assert session.record(None).profiles == {FIRST.digest: profile(0.2)}
    wrote(session, "tester", {"verdict": passed(SLOW, 1.5)})
    wrote(session, "profiler", {"profile": profile(0.1)})  # advance="latest"
    wrote(session, "optimizer", {"candidate": BAD, "verdict": None, "profile": None})
    assert session.record(None).profiles == {FIRST.digest: profile(0.2), SLOW.digest: profile(0.1)}


@pytest.mark.parametrize(("low", "outcome"), [(1.01, "improved"), (1.0, "nothing_faster"), (0.9, "nothing_faster")])
def test_a_run_that_ended_has_improved_only_by_the_word_of_its_result(
    low: float, outcome: str, session: Trajectory
) -> None:
    held = best().model_copy(update={"verdict": passed(best().candidate, 1.5, low=low)})
    stop = {"name": "depth", "message": "Deep enough."}
    ended = RunState.model_validate({**BEGUN, "stop_reason": stop}).stop_reason
    wrote(session, "sanitizer", {"best": held, "stop_reason": ended})
    assert session.graph.get_state(session.config).next == ("reporter",)
    assert session.record("running").outcome == "running"
    assert session.record(None).outcome == "nothing_faster", "before the result is there nothing is claimed"
    assert session.advance((), None, None) is None
    record = session.record(None)
    assert (record.outcome, record.stop_reason) == (outcome, "Deep enough.")
    assert session.advance((), None, None) is None, "a run that has ended does nothing more"
    assert session.record(None) == record
    with pytest.raises(UserError, match="No question waits"):
        session.advance((), None, "an answer")


def test_a_kernel_that_was_withdrawn_does_not_stay_in_the_folder(session: Trajectory) -> None:
    save_kernel(session.folder, task(), BEST)
    assert session.folder.kernel.read_text(encoding="utf-8") == "first\n"
    assert session.folder.drop_in.exists()
    save_kernel(session.folder, None, best())  # no task, no drop-in: what was written stays
    assert session.folder.kernel.read_text(encoding="utf-8") == "first\n"
    save_kernel(session.folder, task(), None)
    assert not session.folder.kernel.exists()
    assert not session.folder.drop_in.exists()
    save_kernel(session.folder, task(), None)


def test_what_is_saved_is_what_was_best(session: Trajectory) -> None:
    wrote(session, "tester", {"candidate": FIRST, "verdict": BEST.verdict, "best": BEST})
    record = session.record("interrupted")
    save(session.folder, record)
    assert session.folder.kernel.read_text(encoding="utf-8") == FIRST.source
    assert type(record).model_validate_json(session.folder.record.read_bytes()) == record
    assert session.folder.report.exists()
