"""Every known way to fool a judge of kernels is refused, for its own reason."""

import pytest
from cheat_catalogue import Entry, entries

KERNELS = entries("kernels")


def each(found: tuple[Entry, ...]):
    """Those of one task beside each other: each process that judges some of them describes it once."""
    marks = {True: [pytest.mark.gpu], False: []}
    by_task = sorted(found, key=lambda entry: entry.task)
    return [pytest.param(entry, id=entry.path.name, marks=marks[entry.gpu]) for entry in by_task]


@pytest.mark.parametrize("entry", each(KERNELS))
def test_a_cheat_is_refused_for_its_own_reason(entry, judged):
    assert judged.status != "passed"
    assert judged.check in entry.checks, judged.message
    assert entry.says in judged.message
    assert judged.timing is None


@pytest.mark.parametrize("entry", each(entries("twins")))
def test_its_honest_twin_passes(entry, judged):
    assert judged.status == "passed", f"{judged.check}: {judged.message}"
    assert not judged.timing.task_defect


def test_there_are_enough_of_them():
    assert len(KERNELS) >= 40
    assert len(entries("twins")) >= 15
    assert {entry.row for entry in KERNELS} <= set(range(1, 92))
