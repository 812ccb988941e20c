"""Calls like earlier ones, straight to an entry: what is taken, what is left to those that look closer."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from torch._C._dynamo import guards

from graph.export.runtime import straight as straight_module
from graph.export.runtime.pages import HUGE_PAGE, LARGE
from graph.export.runtime.specs import Number, Tensor, Workload
from graph.export.runtime.straight import Straight, make_straight, runner

CPU = torch.device("cpu")
X = Tensor("x", (4, 16), (16, 1), torch.float32)
TURNED = Tensor("turned", (16, 4), (1, 16), torch.float64)


def copied(*values: Any) -> None:
    """An entry: every output is the first value times the last number, if there is one."""
    given, outputs = values[0], [each for each in values[1:] if isinstance(each, torch.Tensor)]
    factor = next((each for each in values if isinstance(each, float)), 1.0)
    for each in outputs:
        each.copy_((given if each.shape == given.shape else given.T) * factor)


def made(workload: Workload, *values: Any) -> Straight:
    straight = make_straight(values, workload, runner(workload, copied, CPU))
    assert straight is not None
    return straight


def test_one_output_is_a_tensor_and_several_are_a_tuple_laid_out_as_asked() -> None:
    x = torch.randn(4, 16)
    assert torch.equal(made(Workload((X,), (X,)), x)((x,)), x)
    one, turned = made(Workload((X,), (X, TURNED)), x)((x,))
    assert torch.equal(one, x)
    assert (turned.dtype, turned.stride()) == (torch.float64, (1, 16))
    assert torch.equal(turned, x.double().T)


def test_outputs_are_made_as_the_mode_asks() -> None:
    with torch.inference_mode():
        x = torch.randn(4, 16)
        assert made(Workload((X,), (X,)), x)((x,)).is_inference()


def test_other_shapes_types_modes_and_places_are_left() -> None:
    x = torch.randn(4, 16)
    straight = made(Workload((X,), (X,)), x)
    others = [x[:3], x.double(), x.T.contiguous().T, torch.randn(65)[1:].view(4, 16), torch._neg_view(x), x.to("meta")]
    assert [straight((each,)) for each in others] == [None] * len(others)
    with torch.autocast("cpu"):
        assert straight((x,)) is None


def test_numbers_are_asked_for_in_every_call() -> None:
    x = torch.randn(4, 16)
    fixed = made(Workload((X, Number("n", (2.0, 3.0))), (X,)), x, 2.0)
    assert torch.equal(fixed((x, 3.0)), x * 3)
    assert fixed((x, 4.0)) is None
    assert fixed((x, torch.tensor(2.0))) is None
    assert fixed((x[:3], 2.0)) is None
    anyone = made(Workload((X, None), (X,)), x, 2.0)
    assert torch.equal(anyone((x, 5.0)), x * 5)
    assert anyone((x, "5")) is None


def test_its_own_device_is_the_current_one_while_a_kernel_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    current, seen = [0], []

    @contextmanager
    def on(index: int) -> Iterator[None]:
        current.append(index)
        yield
        current.pop()

    def allocated(*layout: Any) -> torch.Tensor:
        seen.append(("output", current[-1]))
        return torch.empty_strided(*layout[:2], dtype=layout[2])

    def entry(*values: torch.Tensor) -> None:
        seen.append(("call", current[-1]))
        copied(*values)

    monkeypatch.setattr(torch.cuda, "device", on)
    monkeypatch.setattr(straight_module, "_current_device", lambda: current[-1])
    monkeypatch.setattr(guards, "_empty_strided_cuda", allocated, raising=False)
    x = torch.randn(4, 16)
    for index in (1, 0):
        run = runner(Workload((X,), (X,)), entry, torch.device("cuda", index))
        assert torch.equal(run((x,)), x)
        assert (seen[-2:], current) == ([("output", index), ("call", index)], [0])


def asked_for_huge_pages(address: int) -> bool:
    """Whether the mapping that an address lies in was advised to have them ("hg" among its flags)."""
    inside = False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        first, *rest = line.split()
        if "-" in first:
            low, high = (int(end, 16) for end in first.split("-"))
            inside = low <= address < high
        elif inside and first == "VmFlags:":
            return "hg" in rest
    raise AssertionError("the address is not mapped")


@pytest.mark.skipif(not Path("/sys/kernel/mm/transparent_hugepage").exists(), reason="this system has none")
def test_large_results_lie_in_huge_pages_from_their_first_whole_one_on() -> None:
    large = Tensor("x", (33, LARGE // 16 - 1), (LARGE // 16 + 1, 1), torch.float32)
    x = torch.empty_strided(*large[1:3]).fill_(3.0)
    result = made(Workload((large,), (large,)), x)((x,))
    first = -(-result.data_ptr() // HUGE_PAGE) * HUGE_PAGE
    last = result.data_ptr() + large.nbytes - HUGE_PAGE
    assert asked_for_huge_pages(first) and asked_for_huge_pages(last // HUGE_PAGE * HUGE_PAGE)
    assert not asked_for_huge_pages(x.data_ptr() + HUGE_PAGE), "only its own memory"
    assert result.stride() == large.strides and torch.equal(result, x)


def test_small_results_are_nobodys_business(monkeypatch: pytest.MonkeyPatch) -> None:
    advised: list[int] = []

    def noted(allocate: Any) -> Any:
        return lambda *layout: advised.append(allocate(*layout).nbytes) or allocate(*layout)

    monkeypatch.setattr(straight_module, "in_huge_pages", noted)
    for count in (LARGE // 4 - 1, LARGE // 4):
        each = Tensor("x", (count,), (1,), torch.float32)
        x = torch.zeros(count)
        made(Workload((each,), (each, each)), x)((x,))
    assert advised == [LARGE, LARGE]
