"""One timing for several workloads: geometric means, and an interval that is narrower than any single one."""

import math

import pytest

from harness.judging.outcome import combined
from harness.nouns.samples import Samples
from harness.nouns.verdict import Busy, Clocks, Compiled, Conditions, HeadToHead, Interval, Timing


def timing(
    speedup: float, *, spread: float = 1.1, ms: float = 2.0, head_to_head: HeadToHead | None = None, defect: str = ""
) -> Timing:
    return Timing(
        candidate_ms=ms, baseline_ms=ms * speedup, speedup=speedup, head_to_head=head_to_head, task_defect=defect,
        speedup_interval=Interval(low=speedup / spread, high=speedup * spread), rounds=int(10 * speedup), threads=2,
        converged=speedup > 1,
    )  # fmt: skip


def test_one_is_itself():
    assert combined([timing(3.0)]) == timing(3.0)


def test_several_are_their_geometric_mean():
    both = combined([timing(1.0), timing(4.0)])
    assert both.speedup == pytest.approx(2.0)
    assert both.baseline_ms / both.candidate_ms == pytest.approx(2.0)
    assert both.rounds == 10
    assert not both.converged
    assert math.log(both.speedup_interval.high / 2) == pytest.approx(math.log(1.1) / math.sqrt(2))
    assert math.log(2 / both.speedup_interval.low) == pytest.approx(math.log(1.1) / math.sqrt(2))


def test_their_order_does_not_matter():
    interval = Interval(low=1.5, high=3.0)
    head_to_heads = [
        HeadToHead(incumbent="r", incumbent_ms=ms, speedup=ms, interval=interval, rounds=8) for ms in (2.0, 8.0)
    ]
    timings = [timing(4.0, ms=1.0, head_to_head=head_to_heads[0]), timing(1.0, ms=9.0, head_to_head=head_to_heads[1])]
    one_way, other_way = combined(timings), combined(timings[::-1])
    assert one_way == other_way
    assert one_way.candidate_ms == pytest.approx(3.0)
    assert one_way.head_to_head.incumbent_ms == pytest.approx(4.0)
    assert (one_way.rounds, one_way.converged) == (10, False)


def test_a_loss_on_one_workload_can_outweigh_a_win_on_another():
    assert not combined([timing(0.5), timing(1.9)]).wins
    assert combined([timing(0.9), timing(1.9)]).wins


def test_a_duel_stands_where_all_have_one():
    head_to_head = HeadToHead(
        incumbent="r", incumbent_ms=1.0, speedup=2.0, interval=Interval(low=1.5, high=3.0), rounds=8
    )
    assert combined([timing(1.0, head_to_head=head_to_head), timing(1.0)]).head_to_head is None
    both = combined(
        [
            timing(1.0, head_to_head=head_to_head),
            timing(1.0, head_to_head=head_to_head.model_copy(update={"speedup": 8.0})),
        ]
    ).head_to_head
    assert both.speedup == pytest.approx(4.0)
    assert both.interval.low < 4.0 < both.interval.high


def test_clocks_that_moved_on_one_workload_are_said():
    high = Conditions(sm_mhz=1980, memory_mhz=3200, temperature_c=40)
    steady = timing(1.0).model_copy(update={"clocks": Clocks(lowest=high, highest=high)})
    low = high.model_copy(update={"sm_mhz": 1200})
    moved = timing(1.0).model_copy(update={"clocks": Clocks(lowest=low, highest=high)})
    assert combined([steady, steady]).clocks == steady.clocks
    for several in ([steady, moved], [moved, steady], [timing(1.0), moved]):
        assert "1200 to 1980 MHz" in combined(several).noise


def test_rounds_of_one_workload_are_not_told_as_those_of_all():
    one = timing(2.0).model_copy(update={"samples": Samples(candidate_ms=(1.0,), baseline_ms=(2.0,))})
    assert combined([one]).samples == one.samples
    assert combined([one, one]).samples is None
    with pytest.raises(ValueError, match="both sides"):
        Samples(candidate_ms=(1.0,), baseline_ms=())


def test_a_busy_hour_of_one_workload_is_said():
    quiet = Busy(stolen=0.0, others=0, threads=2, processors=2, spread=0.0)
    busy = quiet.model_copy(update={"others": 3})
    for several in ([quiet, busy], [busy, quiet], [None, busy]):
        assert "3 other threads" in combined([timing(1.0).model_copy(update={"busy": each}) for each in several]).noise


def test_one_defect_is_a_defect():
    assert combined([timing(2.0), timing(2.0, defect="constant")]).task_defect == "constant"


def test_a_compiled_baseline_stands_where_all_have_one():
    baseline = Compiled(ms=1.0, speedup=2.0, interval=Interval(low=1.5, high=3.0))
    with_it = timing(1.0).model_copy(update={"compiled": baseline})
    assert combined([with_it, timing(1.0)]).compiled is None
    both = combined([with_it, with_it]).compiled
    assert both.speedup == pytest.approx(2.0)
    assert both.ms == pytest.approx(1.0)
    failed = timing(1.0).model_copy(update={"compiled_failure": "no compiler"})
    assert combined([with_it, failed]).compiled_failure == "no compiler"
