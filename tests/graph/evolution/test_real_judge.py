"""Two proposers of different strength before the real judge on cpu: killed, resumed, and of use to a second task."""

from __future__ import annotations

from pathlib import Path

import pytest
from evolution_script import Cut, Evolved, name_of
from own_turns import own_turns
from softsign_script import FASTER, SLOWER, WRONG, written

from harness.nouns.errors import MachineError
from nodes.request import Request
from tools.judges import open_judge


def strong(request: Request) -> str:
    return written(named(FASTER, request), move="vectors")


def weak(request: Request) -> str:
    """Wrong first, then slow."""
    assert request.left is not None
    return written(named(WRONG if request.left.depth == 1 else SLOWER, request), move="again and again")


def named(source: str, request: Request) -> str:
    """The kernel under a name of its own: another source, and the same machine code as others of its kind."""
    return source.replace("const int64_t count", f"// {name_of(request)}\n    const int64_t count")


def test_two_proposers_killed_and_resumed_serve_a_second_task(tmp_path: Path) -> None:
    archive = str(tmp_path / "archive.sqlite")
    proposers = ({"model": "strong", "temperature": 0.5}, {"model": "weak"})
    evolved = Evolved(
        tmp_path, {"strong": strong, "weak": weak}, proposers=proposers, generations=2, proposals=2, archive=archive,
        target="cpu", sanitize=False, seed=1, max_tool_calls=0, judge=open_judge,
    )  # fmt: skip
    with own_turns():
        with pytest.raises(MachineError):
            evolved.go(Cut(3))  # behind the first verdict
        first = [each.verdict for each in evolved.state.pool]
        end = evolved.go()
    assert [each.verdict for each in end.pool][:1] == first[:1] and first[0] is not None, "that verdict was kept"
    assert [each.verdict and each.verdict.status for each in end.pool] == ["passed", "wrong", None, "passed"]
    assert "the same machine code" in end.pool[2].dropped, "a comment makes no kernel"
    assert end.best is not None and "simd" in end.best.candidate.source, "the strong one's"
    (tmp_path / "second").mkdir()
    second = Evolved(tmp_path / "second", strong, generations=1, proposals=1, archive=archive, thread="two")
    second.go()
    search = second.models["one"].requests[0].search
    assert search is not None and [each.source for each in search.inspiration] == [end.best.candidate.source]
