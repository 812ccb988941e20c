"""What a child writes: all of it is read, so that it never blocks, and the first bytes are kept."""

from __future__ import annotations

import fcntl
import os
import select
import subprocess
import sys
import termios
import time

_CHUNK = 1 << 16
_DRAIN_WITHIN_S = 1.0
"""After the tree's end both pipes are at their end too; only a process that left the tree could hold one open."""


class Output:
    """The two streams of `process`, the first `kept_bytes` of each; ready also when `process` ends."""

    def __init__(self, process: subprocess.Popen[bytes], kept_bytes: int) -> None:
        if process.stdout is None or process.stderr is None:
            raise ValueError("both streams must be pipes")
        self._streams = {process.stdout.fileno(): process.stdout, process.stderr.fileno(): process.stderr}
        self._buffers = {descriptor: bytearray() for descriptor in self._streams}
        self._written = dict.fromkeys(self._streams, 0)
        self._kept_bytes = kept_bytes
        self._ended = os.pidfd_open(process.pid)
        self._poll = select.poll()
        for descriptor in (*self._streams, self._ended):
            self._poll.register(descriptor, select.POLLIN)

    @property
    def kept(self) -> tuple[bytes, bytes]:
        """The first bytes of stdout and of stderr."""
        first, second = self._buffers.values()
        return bytes(first), bytes(second)

    @property
    def largest(self) -> int:
        """Bytes written to the stream that got more of them, kept or not."""
        return max(self._written.values())

    @property
    def waiting(self) -> bool:
        """Whether something was written that nobody has read yet."""
        return any(_unread(descriptor) for descriptor in tuple(self._streams))

    def read_on(self, timeout_s: float) -> bool:
        """Read what there is, waiting `timeout_s` for something; whether the process has ended."""
        ended = False
        for descriptor, _ in self._poll.poll(timeout_s * 1000):
            if descriptor == self._ended:
                ended = True
            else:
                self._read(descriptor)
        return ended

    def read_rest(self) -> None:
        """Read to the end of both streams."""
        self._poll.unregister(self._ended)
        deadline = time.monotonic() + _DRAIN_WITHIN_S
        while self._streams and time.monotonic() < deadline:
            for descriptor, _ in self._poll.poll(_DRAIN_WITHIN_S * 1000):
                self._read(descriptor)

    def close(self) -> None:
        """Give the descriptors back."""
        for descriptor in tuple(self._streams):
            self._drop(descriptor)
        os.close(self._ended)

    def _read(self, descriptor: int) -> None:
        chunk = os.read(descriptor, _CHUNK)
        if not chunk:
            self._drop(descriptor)
            return
        buffer = self._buffers[descriptor]
        buffer += chunk[: max(self._kept_bytes - len(buffer), 0)]
        self._written[descriptor] += len(chunk)

    def _drop(self, descriptor: int) -> None:
        self._poll.unregister(descriptor)
        self._streams.pop(descriptor).close()


def _unread(descriptor: int) -> int:
    """How many bytes lie in a pipe; none where it has just been closed."""
    try:
        return int.from_bytes(fcntl.ioctl(descriptor, termios.FIONREAD, bytes(4)), sys.byteorder)
    except OSError:
        return 0
