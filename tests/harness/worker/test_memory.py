"""The judge's side of the shared memory."""

import mmap

import pytest
import torch

from harness.task import Signature, TensorSpec
from harness.worker.host_device import HostDevice
from harness.worker.memory import SharedMemory


def spec(name: str, shape: tuple[int, ...], strides: tuple[int, ...], dtype: str) -> TensorSpec:
    return TensorSpec(name=name, shape=shape, strides=strides, dtype=dtype)


@pytest.fixture
def memory() -> SharedMemory:
    signature = Signature(
        inputs=(spec("x", (3, 4), (4, 1), "float32"),),
        parameters=(spec("w", (5,), (1,), "float64"),),
        outputs=(
            spec("y", (4, 3), (1, 4), "float32"),
            spec("i", (6,), (1,), "int32"),
            spec("b", (2,), (1,), "bool"),
            spec("h", (3,), (1,), "bfloat16"),
        ),
    )
    return SharedMemory(signature, 2, HostDevice(1 << 20))


def test_views_have_the_signatures_form(memory):
    for slot in range(memory.slots):
        for place in memory.layout.places[slot].values():
            view = memory.views[slot][place.spec.name]
            assert (tuple(view.shape), view.stride()) == (place.spec.shape, place.spec.strides)


def test_slots_are_apart(memory):
    memory.views[0]["x"].fill_(1)
    memory.views[1]["x"].fill_(2)
    assert memory.views[0]["x"].eq(1).all()


def test_poison_reaches_every_element(memory):
    for output in memory.outputs(1):
        output.zero_()
    memory.poison(1)
    y, i, b, h = memory.outputs(1)
    assert y.isnan().all()
    assert h.isnan().all()
    assert (i == 0x5B5B5B5B).all()
    assert b.all()


def test_guards_see_an_overrun_on_either_side(memory):
    memory.poison(0)
    assert memory.broken_guard(0) == ""
    start = memory.layout.places[0]["i"].offset
    memory.written.raw[start + 24] = 0
    assert memory.broken_guard(0) == "1 bytes just after the memory of i were overwritten"
    memory.poison(0)
    memory.written.raw[start - 2 : start] = 7
    assert memory.broken_guard(0) == "2 bytes just before the memory of i were overwritten"


def test_inputs_cannot_be_mapped_writable_by_anyone_else(memory):
    with pytest.raises(PermissionError):
        mmap.mmap(memory.inputs.descriptor, 0)
    with mmap.mmap(memory.inputs.descriptor, 0, prot=mmap.PROT_READ) as mapped:
        memory.views[0]["x"].fill_(1)
        assert mapped[:4] == b"\x00\x00\x80\x3f"


def test_nobody_resizes_the_outputs(memory):
    import os

    for size in (0, 1 << 24):
        with pytest.raises(PermissionError):
            os.ftruncate(memory.written.descriptor, size)


def test_a_second_kernel_reads_the_same_inputs_and_writes_its_own_outputs(memory):
    other = memory.beside()
    memory.views[1]["x"].fill_(3)
    assert other.views[1]["x"].eq(3).all()
    memory.poison(1)
    other.views[1]["y"].fill_(1)
    assert memory.views[1]["y"].isnan().all()


def test_parameters_are_found_by_their_state_dict_names(memory):
    assert set(memory.parameters(0)) == {"w"}
    assert memory.parameters(0)["w"].dtype == torch.float64
