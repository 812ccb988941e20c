"""What a forward does with its integers, seen while it runs."""

import pytest
import torch
from torch.nn import functional

from harness.checks.discrete import MANY
from harness.trusted.integer_uses import due, watch

INDEX, ROWS, TABLE = torch.tensor([2, 0, 3]), torch.randn(3, 5), torch.randn(6, 5)


@pytest.mark.parametrize(
    "run",
    [
        lambda: torch.zeros(6, 5).index_copy(0, INDEX, ROWS),
        lambda: torch.zeros(6, 5).scatter(0, INDEX[:, None].expand(3, 5), ROWS),
        lambda: torch.zeros(6, 5).index_put((INDEX,), ROWS),
        lambda: INDEX.argsort(),
        lambda: TABLE.max(dim=1),
        lambda: TABLE.topk(2),
    ],
)
def test_results_that_follow_from_the_order_of_equals_are_known(run):
    assert watch(run).ambiguous


@pytest.mark.parametrize(
    "run",
    [
        lambda: torch.zeros(6, 5).index_add(0, INDEX, ROWS),
        lambda: torch.zeros(6, 5).index_put((INDEX,), ROWS, accumulate=True),
        lambda: torch.zeros(6, 5).index_put((INDEX,), torch.tensor(1.0)),
        lambda: torch.zeros(6, 5).scatter(0, INDEX[:, None], 1.0),
        lambda: torch.zeros(6, 5).scatter_reduce(0, INDEX[:, None].expand(3, 5), ROWS, "sum"),
        lambda: TABLE[INDEX].max(),
        lambda: TABLE.masked_fill(TABLE > 0, 1.0),
    ],
)
def test_others_do_not(run):
    assert not watch(run).ambiguous


def test_values_that_an_operator_singles_out_are_known_of_the_tensor_that_it_reads():
    other = torch.tensor([1, 1, 1])

    def run():
        functional.nll_loss(torch.randn(3, 5), INDEX.view(3), ignore_index=4)
        functional.cross_entropy(torch.randn(3, 5), INDEX)
        functional.embedding(INDEX, TABLE, padding_idx=2)
        functional.embedding(other, TABLE)

    own = watch(run).own
    assert own[INDEX.untyped_storage().data_ptr()] == {4, -100, 2}
    assert other.untyped_storage().data_ptr() not in own


def test_a_forward_that_fails_tells_nothing():
    uses = watch(lambda: TABLE[torch.tensor([99])])
    assert (uses.ambiguous, dict(uses.own)) == (False, {})


@pytest.mark.parametrize(
    "run",
    [
        lambda: torch.zeros(6, 5).index_add(0, INDEX, ROWS),
        lambda: torch.zeros(6, 5).index_copy(0, INDEX, ROWS),
        lambda: torch.zeros(3, 6).gather(1, INDEX[:, None]),
        lambda: torch.zeros(5, 6)[:, INDEX],
        lambda: torch.nn.functional.embedding(INDEX, torch.zeros(6, 2)),
        lambda: torch.nn.functional.cross_entropy(torch.zeros(3, 6), INDEX),
    ],
)
def test_how_many_places_a_table_has_is_known_of_what_names_them(run):
    assert watch(run).extents == {INDEX.untyped_storage().data_ptr(): 6}


def test_what_is_multiplied_is_known_and_whether_numbers_decide_about_sizes():
    hashed, sized = watch(lambda: TABLE[INDEX * 7 % 3]), watch(lambda: torch.zeros(int(INDEX[0])))
    assert INDEX.untyped_storage().data_ptr() in hashed.computed and not hashed.steered
    assert sized.steered and not sized.computed


def test_whole_numbers_that_scale_others_are_not_computed_with_as_such():
    """Steps times frequencies: far ones are angles that float32 cannot tell apart."""
    assert not watch(lambda: torch.sin(INDEX * torch.rand(3))).computed


def test_labels_name_places_among_the_classes_of_a_ctc_loss():
    labels, lengths = torch.randint(1, 6, (3, 4)), torch.tensor([4, 2, 3])
    logs = torch.randn(9, 3, 6).log_softmax(-1)
    extents = watch(lambda: functional.ctc_loss(logs, labels, torch.full((3,), 9), lengths)).extents
    assert extents == {labels.untyped_storage().data_ptr(): 6}


@pytest.mark.parametrize(
    ("run", "found"),
    [
        (lambda edges: torch.bucketize(ROWS, edges), True),
        (lambda edges: torch.searchsorted(edges.expand(2, 3)[:1], ROWS[:1], right=True), True),
        (lambda edges: torch.bucketize(ROWS, edges.sort().values), False),
        (lambda edges: torch.searchsorted(edges, ROWS, sorter=edges.argsort()), False),
        (lambda edges: torch.bucketize(edges, torch.arange(3.0)), False),
    ],
)
def test_what_a_forward_takes_for_sorted_is_known(run, found):
    edges = torch.tensor([0.5, 1.0, 4.0])
    assert (edges.untyped_storage().data_ptr() in watch(lambda: run(edges)).ordered) == found


def test_numbers_that_a_tensor_is_compared_with_are_known_also_behind_a_sum():
    ages, steps, other = torch.tensor([3, 4]), torch.tensor(0), torch.tensor([1])

    def run():
        assert not (ages >= 18).any()
        assert not (ages + 1 == 65).any()
        _ = torch.where(torch.tensor(False), 0, steps + 1) == 2000
        _ = (steps % 300, other + 7, ages.float() > 9)

    uses = watch(run)
    at = [each.untyped_storage().data_ptr() for each in (ages, steps, other)]
    assert uses.compared[at[0]] == {17, 18, 65}
    assert uses.turns[at[1]] == {2000, 300}
    assert not uses.compared.get(at[2])


def test_a_counter_is_due_where_all_its_turns_have_come():
    assert due({2000, 300}) == 6000
    assert due(set()) == due({0, 1}) == due({(1 << 31) - 1, 1 << 31}) == MANY


ENDS = torch.tensor([1, 3, 6])


@pytest.mark.parametrize(
    ("run", "limits"),
    [
        (lambda: ENDS[1:] - ENDS[:-1], True),
        (lambda: functional.embedding_bag(torch.zeros(7, dtype=torch.long), TABLE, ENDS - 1), True),
        (lambda: [int(each) for each in ENDS], True),
        (lambda: torch.arange(6) < ENDS[:, None], False),
        (lambda: TABLE[:3] / ENDS.float()[:, None], False),
    ],
)
def test_what_may_have_to_ascend_is_what_is_read_beside_its_neighbour(run, limits):
    assert (ENDS.untyped_storage().data_ptr() in watch(run).limits) == limits


def test_a_difference_is_compared_and_a_logarithm_taken_of_what_they_follow_from():
    then, now = torch.tensor([3, 4]), torch.tensor([5, 6])

    def run():
        _ = (now - then).abs() > 7, now - then >= 9, torch.log(then.clamp_min(1).float() / 16)

    uses, at = watch(run), [each.untyped_storage().data_ptr() for each in (then, now)]
    assert uses.apart[at[1], at[0]] == {7, 8, 9}
    assert at[0] in uses.logged and at[1] not in uses.logged


@pytest.mark.parametrize(
    ("index", "values", "agrees"),
    [
        (torch.tensor([2, 0, 3]), ROWS, False),
        (torch.tensor([2, 0, 2]), ROWS, False),
        (torch.tensor([2, 0, 2]), torch.ones(3, 5), True),
    ],
)
def test_writes_agree_where_some_meet_and_are_the_same(index, values, agrees):
    uses = watch(lambda: torch.zeros(6, 5).scatter(0, index[:, None].expand(3, 5), values))
    assert uses.writes and uses.ambiguous and uses.agrees == agrees
