"""Pieces on several threads at a time."""

import torch

from harness.checks.threads import side_by_side


def test_results_come_in_the_order_of_the_pieces_whatever_their_number():
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        for count in (0, 1, 2, 7, 8, 9, 1000):
            with side_by_side(torch.empty(9), 4) as mapped:
                assert torch.get_num_threads() == 1
                assert [*mapped(lambda piece: piece * piece, iter(range(count)))] == [k * k for k in range(count)]
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(threads)
