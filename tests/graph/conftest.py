"""What tests of the graph's own ways share: a judge that answers at once, and one that takes little time."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from brief_judge import brief_here
from scripted_judge import Scripted, judging_here


@pytest.fixture
def scripted() -> Iterator[Scripted]:
    """Runs of this process are judged as markers in the kernels say: for tests of what is made of verdicts."""
    with judging_here() as opened:
        yield opened


@pytest.fixture
def brief() -> Iterator[None]:
    """Runs of this process are judged for real, with little time over timing."""
    with brief_here():
        yield
