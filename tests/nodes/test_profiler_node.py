"""The history's line on a kernel that has been profiled."""

from __future__ import annotations

import pytest
from run_samples import best, profile, run

from harness.nouns.profile import Phase
from nodes.agents.optimizer import profiler
from nodes.models.local import ScriptedModel
from nodes.settings import Settings
from nodes.turn.node import ModelCache, NodeContext

PHASES = (Phase(share=0.7, loop=12, line=14), Phase(share=0.3, loop=20, line=20))


@pytest.mark.parametrize(
    ("phases", "held_up", "more"),
    [
        (PHASES, 0.0, "; 70% in the loop of line 12, mostly at line 14"),
        (PHASES, 0.6, ""),
        (PHASES[:1], 0.0, ""),
    ],
    ids=["quiet", "a busy machine", "one loop"],
)
def test_the_longest_of_several_phases_is_told_where_others_did_not_disturb(phases, held_up, more):
    known = profile(0.5).model_copy(update={"phases": phases, "held_up": held_up})
    context = NodeContext(Settings(), ModelCache(lambda spec, options: ScriptedModel()))
    update = profiler(run(best=best().model_copy(update={"profile": known})), context)
    [step] = update["history"]
    assert step.message == f"memory bound, at 50% of the roof{more}"
    assert update["profile"] == known, "one that is known is not taken again"
