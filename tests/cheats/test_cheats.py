"""Every known way to fool a judge of kernels is refused, for its own reason."""

import pytest
from cheat_catalogue import Entry, entries

KERNELS = entries("kernels")


def shown(found: tuple[Entry, ...]) -> set[Entry]:
    """Those that `make test` judges: all that the screen refuses, and of the others one for each row and one for each
    set of checks that catch them. `make test-all` judges all."""
    judged = [entry for entry in found if not entry.screened]
    by_row = {(entry.row, entry.gpu): entry for entry in judged}
    by_checks = {(frozenset(entry.checks), entry.gpu): entry for entry in judged}
    return {*by_row.values(), *by_checks.values(), *(entry for entry in found if entry.screened)}


def each(found: tuple[Entry, ...], often: set[Entry]):
    """Those of one task beside each other: each process that judges some of them describes it once."""
    by_task = sorted(found, key=lambda entry: entry.task)
    marks = {entry: [pytest.mark.gpu] * entry.gpu + [pytest.mark.slow] * (entry not in often) for entry in found}
    return [pytest.param(entry, id=entry.path.name, marks=marks[entry]) for entry in by_task]


@pytest.mark.parametrize("entry", each(KERNELS, shown(KERNELS)))
def test_a_cheat_is_refused_for_its_own_reason(entry, judged):
    assert judged.status != "passed"
    assert judged.check in entry.checks, judged.message
    assert entry.says in judged.message
    assert judged.timing is None


@pytest.mark.sampled(10)
@pytest.mark.parametrize("entry", each(entries("twins"), set(entries("twins"))))
def test_its_honest_twin_passes(entry, judged):
    assert judged.status == "passed", f"{judged.check}: {judged.message}"
    assert not judged.timing.task_defect


def test_each_row_is_judged_by_make_test():
    assert {entry.row for entry in shown(KERNELS)} == {entry.row for entry in KERNELS}


def test_there_are_enough_of_them():
    assert len(KERNELS) >= 40
    assert len(entries("twins")) >= 15
    assert {entry.row for entry in KERNELS} <= set(range(1, 96))
