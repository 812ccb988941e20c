"""What the clock reads of the outputs, and what it concludes."""

from __future__ import annotations

import pytest
import torch

from harness.nouns.task import Signature, TensorSpec
from harness.nouns.verdict import Clocks, Conditions, Interval, Timing
from harness.trusted.host_device import HostDevice
from harness.trusted.link import CandidateFailedError
from harness.trusted.memory import SAMPLES, SharedMemory
from harness.trusted.timing.bursts import Watch


@pytest.fixture
def memory() -> SharedMemory:
    signature = Signature(
        inputs=(TensorSpec(name="x", shape=(5, 3), strides=(3, 1), dtype="float16"),),
        outputs=(
            TensorSpec(name="y", shape=(64,), strides=(1,), dtype="float32"),
            TensorSpec(name="i", shape=(9,), strides=(1,), dtype="int64"),
        ),
    )
    return SharedMemory(signature, 3, HostDevice(1 << 20))


def watch_burst(memory: SharedMemory, *, before_order: float, at_answer: float, later: float) -> Watch:
    """A burst in one process: what the outputs hold at its four moments, 0 for what nobody has written."""
    memory.poison(1)
    watch = Watch(memory, [1])
    for value, reached in ((before_order, watch.start), (at_answer, watch.stop), (later, lambda: None)):
        if value:
            memory.views[1]["y"].fill_(value)
            memory.views[1]["i"].fill_(int(value))
        reached()
    return watch


def test_an_answer_before_the_work_is_done_shows(memory):
    watch_burst(memory, before_order=0, at_answer=2, later=0).require_punctuality()
    with pytest.raises(CandidateFailedError, match=f"{SAMPLES} elements were still written"):
        watch_burst(memory, before_order=0, at_answer=0, later=2).require_punctuality()


def test_a_wrong_value_at_the_answer_that_is_put_right_later_shows(memory):
    with pytest.raises(CandidateFailedError, match=f"{SAMPLES} elements were still written"):
        watch_burst(memory, before_order=0, at_answer=7, later=2).require_punctuality()


def test_work_before_the_order_shows(memory):
    with pytest.raises(CandidateFailedError, match="before the call"):
        watch_burst(memory, before_order=2, at_answer=0, later=0).require_punctuality()


def test_what_stays_unwritten_is_not_the_clocks_business(memory):
    watch_burst(memory, before_order=0, at_answer=0, later=0).require_punctuality()


def test_a_sample_holds_whole_elements_of_the_slots_asked_for(memory):
    for slot in range(3):
        memory.views[slot]["y"].copy_(torch.arange(64) + 100.0 * slot)
        memory.views[slot]["i"].fill_(-1 - slot)
    held = memory.read(memory.sample([2, 0]))
    assert held.shape == (SAMPLES, 8)
    whole = held.view(torch.int64)[:, 0]
    of_i = whole < 0
    assert set(whole[of_i].tolist()) == {-1, -3}
    halves = held[~of_i].view(torch.float32)
    assert torch.equal(halves[:, 0], halves[:, 1])
    values = halves[:, 0]
    assert ((values < 64) | ((values >= 200) & (values < 264))).all()
    assert values.unique().numel() > 60


@pytest.mark.parametrize("change", ["one element", "two swapped"])
def test_a_digest_tells_any_change_of_the_inputs(memory, change):
    x = memory.views[1]["x"]
    x.copy_(torch.randn(5, 3))
    before = memory.digest(1)
    memory.views[0]["x"].fill_(1)
    memory.views[1]["y"].fill_(7)
    assert memory.digest(1) == before
    if change == "one element":
        x[2, 1] += 1
    else:
        x[0, 0], x[4, 2] = x[4, 2].item(), x[0, 0].item()
    assert memory.digest(1) != before


def test_clocks_that_moved_are_not_steady():
    low, high = (Conditions(sm_mhz=mhz, memory_mhz=3200, temperature_c=40) for mhz in (1900, 1980))
    assert Clocks(lowest=high, highest=high).steady
    assert not Clocks(lowest=low, highest=high).steady


def test_noise_is_said_and_a_quiet_timing_says_nothing():
    quiet = Timing(
        candidate_ms=1, baseline_ms=2, speedup=2, speedup_interval=Interval(low=1.9, high=2.1), rounds=20, threads=1,
        converged=True,
    )  # fmt: skip
    assert quiet.noise == ""
    low, high = (Conditions(sm_mhz=mhz, memory_mhz=3200, temperature_c=40) for mhz in (1700, 1980))
    loud = quiet.model_copy(update={"converged": False, "clocks": Clocks(lowest=low, highest=high)})
    assert "after 20 rounds the interval is still 5.0% to either side" in loud.noise
    assert "1700 to 1980 MHz" in loud.noise
