"""Why g++ left loops alone, out of what it writes of them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.building.loop_remarks import missed_loops


def missed(reason, *, loop="k.cpp:3", place="k.cpp:3"):
    text = f"{loop}:1: missed: couldn't vectorize loop\n{place}:5: missed: not vectorized: {reason}\n"
    return missed_loops(text, kernel_file="k.cpp")


@pytest.mark.parametrize(
    "reason", ["no vectype for stmt: _24 = *_23;", "unknown: _24 = *_23;", "control flow in loop."]
)
def test_no_name_of_a_temporary_reaches_the_reader(reason):
    ((line, said),) = missed(reason).items()
    assert line == 3 and said and "_2" not in said


def test_a_reason_on_another_line_names_it():
    assert missed("control flow in loop.", place="k.cpp:7")[3].endswith("straight-line code (line 7)")


def test_a_loop_in_a_header_is_placed_by_its_body_or_left_out():
    assert list(missed("control flow in loop.", loop="/h.hpp:9")) == [3]
    assert missed("control flow in loop.", loop="/h.hpp:9", place="/h.hpp:9") == {}


def test_that_a_loop_holds_others_is_no_reason():
    assert missed("multiple nested loops.") == {}


def test_of_a_loop_that_was_tried_more_than_once_the_first_reason_stands():
    line = "k.cpp:3:1: missed: couldn't vectorize loop\nk.cpp:3:5: missed: not vectorized: "
    text = f"{line}control flow in loop.\n{line}statement clobbers memory: _1\n"
    assert missed_loops(text, kernel_file="k.cpp")[3].startswith("a branch, a break")


@given(st.text())
def test_any_text_is_read_without_a_fault(text):
    assert missed_loops(text, kernel_file="k.cpp") == {}
