"""PyTorch's own operators: what is lowered means what PyTorch computes. Ten entries a day, all with `make test-all`.

The databases take seconds to import, so that nobody does before a test runs.
"""

from __future__ import annotations

import datetime
import random

import pytest
import torch
from operators import LEFT_OUT, Entry, entries, outcome

DAILY, SHARDS, SAMPLES = 10, 60, 2
SEED = datetime.datetime.now(tz=datetime.UTC).date().toordinal()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """An entry of the day's sample each, or all of them in shards."""
    if "part" in metafunc.fixturenames:
        proves = metafunc.config.getoption("goldens") == "prove"
        parts = [f"{number} of {SHARDS}" for number in range(SHARDS)] if proves else [
            f"{number} of today" for number in range(DAILY)
        ]  # fmt: skip
        metafunc.parametrize("part", parts)


def chosen(part: str) -> dict[str, Entry]:
    """The entries that a part of the test is about."""
    found = {f"{name} at {dtype}": entry for dtype in (torch.float32, torch.bfloat16)
             for name, entry in entries(dtype).items()}  # fmt: skip
    number, names = int(part.split()[0]), sorted(found)
    if part.endswith(f"of {SHARDS}"):
        names = names[number::SHARDS]
    else:
        names = [random.Random(SEED).sample(names, DAILY)[number]]
    return {name: found[name] for name in names}


def test_an_entry_is_right_or_declined(part: str) -> None:
    wrong = {name: said for name, entry in chosen(part).items() if (said := outcome(entry, SAMPLES).wrong)}
    assert not wrong


def test_what_is_left_out_is_no_entry() -> None:
    assert not LEFT_OUT.keys() & entries(torch.float32).keys()
