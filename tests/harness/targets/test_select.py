"""Names and targets."""

from __future__ import annotations

import pytest

from harness.machine.gpu import find_gpu
from harness.nouns.errors import MachineError
from harness.targets.select import resolve_target


@pytest.mark.parametrize("name", ["cpu", "cuda"])
def test_a_name_gives_its_target_and_the_same_one_each_time(name):
    assert resolve_target(name).name == name
    assert resolve_target(name) is resolve_target(name)


@pytest.mark.skipif(find_gpu() is not None, reason="a GPU answers here")
def test_auto_is_the_cpu_where_no_gpu_answers():
    assert resolve_target("auto") is resolve_target("cpu")


def test_the_cpu_is_always_there():
    resolve_target("cpu").require_device()


def test_a_machines_processors_are_one_device():
    with pytest.raises(MachineError, match="There is no device 1 of target cpu"):
        resolve_target("cpu", 1)
    assert resolve_target("cuda", 1).device.ordinal == 1
    assert resolve_target("cuda", 1) is resolve_target("cuda", 1) is not resolve_target("cuda")
