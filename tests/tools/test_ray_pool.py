"""Judges in Ray actors: each sees its own GPU, answers as one in this process does, and takes nothing with it."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
from judges_in_actors import Opens
from scripted_judge import ScriptedJudge
from softsign_script import FASTER, RIGHT, SOURCE

from harness.judging.device_lock import held_s
from harness.judging.protocol import JudgeOrder, KernelJudge
from harness.machine.gpu import Gpu
from harness.nouns.candidate import Candidate
from harness.nouns.errors import MachineError, UserError
from harness.nouns.events import Event
from harness.wire.stopping import Stop, StoppedError, stoppable
from harness.wire.telling import telling
from tools.pool import pool

# Not imported here: a cluster's addresses are settled as it is.
pytestmark = pytest.mark.skipif(find_spec("ray") is None, reason="the extra ray is not installed")

ORDER = JudgeOrder("cpu", isolation="none", precision="ieee")
GPUS = (Gpu("GPU-a", "NVIDIA H200", (9, 0), "580.1"), Gpu("GPU-b", "NVIDIA H200", (9, 0), "580.1"))
KERNEL = Candidate(source=RIGHT, target="cpu", author="generator:scripted")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("actors")


@pytest.fixture(scope="module")
def judges(folder: Path) -> Iterator[tuple[KernelJudge, ...]]:
    """One in each of two actors, of GPUs that are in name only."""
    try:
        yield tuple(opener(ORDER) for opener in pool(lambda: GPUS, Opens(folder), in_actors=True))
    finally:
        import ray

        ray.shutdown()


def evaluated(folder: Path) -> list[list[str]]:
    file = folder / "evaluated"
    return [line.split() for line in file.read_text().splitlines()] if file.exists() else []


def test_each_sees_its_own_gpu_and_answers_as_a_judge_here(judges: tuple[KernelJudge, ...], folder: Path) -> None:
    here = ScriptedJudge(ORDER)
    task = here.describe(SOURCE, name="softsign")
    heard: list[Event] = []
    before = held_s()
    for judge in judges:
        assert (judge.device, judge.tier) == (here.device, here.tier)
        assert judge.describe(SOURCE, name="softsign") == task
        with telling(heard.append):
            assert judge.evaluate(task, KERNEL, seed=3) == here.evaluate(task, KERNEL, seed=3)
    assert [line[0] for line in evaluated(folder)] == ["GPU-a", "GPU-b"]
    assert [event.kind for event in heard] == ["build_started"] * 2
    assert held_s() > before, "what an actor held its device for is counted here"
    with pytest.raises(UserError, match="Name a task file"):
        judges[0].describe(f"{SOURCE}\n# judge: no task", name="bad")
    with pytest.raises(ValueError, match="only a passed verdict"):
        wrong = here.evaluate(task, KERNEL.model_copy(update={"source": f"{RIGHT}// judge: wrong"}), seed=3)
        judges[1].profile(task, KERNEL, wrong)


def test_what_is_given_up_is_waited_for_no_more(judges: tuple[KernelJudge, ...]) -> None:
    stop = Stop()
    stop.ask()
    with pytest.raises(StoppedError), stoppable(stop):
        judges[0].facts()


def test_a_lost_actor_costs_what_it_was_doing_and_that_is_not_done_twice(
    judges: tuple[KernelJudge, ...], folder: Path
) -> None:
    task = ScriptedJudge(ORDER).describe(SOURCE, name="softsign")
    deadly = KERNEL.model_copy(update={"source": f"{FASTER}// DIE\n"})
    with pytest.raises(MachineError, match=r"The judge of GPU-a was lost during evaluate.*--resume"):
        judges[0].evaluate(task, deadly)
    assert [line[1] for line in evaluated(folder)].count(deadly.digest) == 1
    assert judges[1].evaluate(task, KERNEL).passed, "the other one knows nothing of it"
    assert judges[0].build(task, KERNEL).succeeded, "begun anew"
    assert judges[0].evaluate(task, KERNEL).passed
    assert evaluated(folder)[-1][0] == "GPU-a"


def test_a_cluster_of_its_own_is_reached_from_this_machine_alone(judges: tuple[KernelJudge, ...]) -> None:
    import ray

    assert len(judges) == 2
    [node] = ray.nodes()
    assert node["NodeManagerAddress"] == "127.0.0.1"
