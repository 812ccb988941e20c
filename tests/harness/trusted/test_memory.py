"""The judge's side of the shared memory."""

import mmap

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from harness.nouns.task import Signature, TensorSpec
from harness.trusted import memory as memory_module
from harness.trusted.host_device import HostDevice
from harness.trusted.memory import SharedMemory
from harness.wire.layout import GUARD, PAGE, span_bytes


def spec(name: str, shape: tuple[int, ...], strides: tuple[int, ...], dtype: str) -> TensorSpec:
    return TensorSpec(name=name, shape=shape, strides=strides, dtype=dtype)


@pytest.fixture
def memory() -> SharedMemory:
    return made()


def made() -> SharedMemory:
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


def test_what_lies_beside_inputs_is_neither_zero_nor_as_far_away_in_each_slot(memory):
    for slot, places in enumerate(memory.layout.places):
        x, w = places["x"], places["w"]
        between = memory.inputs.raw[x.offset + span_bytes(x.spec) : w.offset]
        assert between.eq(0xFF).all()
        assert w.offset - x.offset == PAGE * (1 + slot)
    assert memory.inputs.raw[w.offset + span_bytes(w.spec) :].eq(0xFF).all()
    assert memory.views[1]["w"].eq(0).all()


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


@pytest.fixture(scope="module")
def kept() -> SharedMemory:
    return made()


@given(st.sampled_from(["y", "i", "b", "h"]), st.integers(0, GUARD - 1), st.booleans(), st.integers(0, 1))
def test_a_byte_anywhere_in_a_guard_is_told_with_its_output_and_slot(kept, name, distance, before, slot):
    place = kept.layout.places[slot][name]
    end = place.offset + span_bytes(place.spec)
    for each in range(2):
        kept.poison(each)
    kept.written.raw[place.offset - 1 - distance if before else end + distance] = 0
    side = "before" if before else "after"
    assert kept.broken_guard(slot) == f"1 bytes just {side} the memory of {name} were overwritten"
    assert kept.broken_guard(1 - slot) == ""


@given(st.data(), st.integers(1, 3))
def test_a_digest_sees_a_change_of_any_element_however_it_is_cut(kept, data, words):
    name = data.draw(st.sampled_from(["x", "w"]))
    view = kept.views[1][name].view(-1)
    for each, start in (("x", 1.0), ("w", -3.0)):
        kept.views[1][each].view(-1).copy_(torch.arange(kept.views[1][each].numel()) + start)
    at = data.draw(st.integers(0, view.numel() - 1))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(memory_module, "_DIGESTED", words)
        before = kept.digest(1)
        view[at] = -view[at]
        assert kept.digest(1) != before
        view[at] = -view[at]
        assert kept.digest(1) == before
        other = data.draw(st.integers(0, view.numel() - 1))
        view[[at, other]] = view[[other, at]]
        assert (kept.digest(1) != before) == (at != other)


@pytest.mark.parametrize("slot", [0, 1])
def test_a_slot_is_poisoned_by_itself_and_otherwise_on_request(kept, slot):
    for each in range(2):
        for output in kept.outputs(each):
            output.zero_()
    kept.poison(slot, "other")
    y, i, b, h = kept.outputs(slot)
    assert (y == torch.finfo(torch.float32).max / 2).all()
    assert (h == torch.finfo(torch.bfloat16).max / 2).all()
    assert (i == torch.tensor(0xA4A4A4A4 - (1 << 32), dtype=torch.int32)).all()
    assert not b.any()
    assert all(not output.any() for output in kept.outputs(1 - slot))
    assert kept.broken_guard(slot) == ""
