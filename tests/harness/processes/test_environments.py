"""What the processes of both sides of a clock are started with."""

from __future__ import annotations

from harness.processes import trusted_child
from harness.processes.candidate_process import environment


def test_idle_openmp_threads_spin_as_long_on_one_side_as_on_the_other(tmp_path):
    eager, candidate = trusted_child._environment(), environment({}, tmp_path)
    assert {name: candidate[name] for name in candidate if name.startswith("GOMP")} == trusted_child.SPINS
    assert {name: eager[name] for name in eager if name.startswith("GOMP")} == trusted_child.SPINS
