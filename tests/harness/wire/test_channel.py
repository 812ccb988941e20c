"""Frames over a socket."""

import socket
import struct
import threading
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.wire import channel

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(st.lists(st.dictionaries(st.text(), JSON, max_size=5), max_size=5))
def test_frames_arrive_whole_and_in_order(messages):
    left, right = socket.socketpair()
    with left, right:
        writer = threading.Thread(target=lambda: [channel.send(left, message) for message in messages])
        writer.start()
        assert [channel.receive(right) for _ in messages] == messages
        writer.join()


def test_a_large_frame_arrives():
    left, right = socket.socketpair()
    with left, right:
        message = {"text": "x" * (3 << 20)}
        writer = threading.Thread(target=channel.send, args=(left, message))
        writer.start()
        assert channel.receive(right) == message
        writer.join()


@pytest.mark.parametrize("sent", [b"", b"\x05", b"\x05\x00\x00\x00ab"])
def test_an_end_in_the_middle_is_an_error(sent):
    left, right = socket.socketpair()
    with right:
        left.sendall(sent)
        left.close()
        with pytest.raises(channel.ChannelClosedError):
            channel.receive(right)


@pytest.mark.parametrize("body", [b"[1, 2]", b"3", b"{", b"\xff", b"[" * 100_000])
def test_a_frame_holds_an_object(body):
    left, right = socket.socketpair()
    with left, right:
        left.sendall(struct.pack("<I", len(body)) + body)
        with pytest.raises(channel.ChannelClosedError):
            channel.receive(right)


def test_a_length_beyond_reason_is_refused_before_it_is_read():
    left, right = socket.socketpair()
    with left, right:
        left.sendall(struct.pack("<I", channel.MAX_FRAME + 1))
        with pytest.raises(channel.ChannelClosedError, match="over the limit"):
            channel.receive(right)


def test_silence_times_out():
    left, right = socket.socketpair()
    with left, right:
        right.settimeout(0.01)
        with pytest.raises(TimeoutError):
            channel.receive(right)


def test_waiting_awake_ends_with_a_frame_with_the_end_of_the_other_side_and_with_its_limit():
    ours, theirs = socket.socketpair()
    with ours:
        began = time.thread_time()
        channel.await_frame(ours, 0.05)
        assert time.thread_time() - began >= 0.05
        channel.send(theirs, {"a": 1})
        began = time.thread_time()
        channel.await_frame(ours, 60)
        assert channel.receive(ours) == {"a": 1}
        theirs.close()
        channel.await_frame(ours, 60)
        assert time.thread_time() - began < 30
