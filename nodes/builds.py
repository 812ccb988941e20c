"""Builds side by side, as many as there are cores, whichever of this process's runs asks for them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor, wait
from contextvars import copy_context
from functools import cache
from typing import TypeVar

Given = TypeVar("Given")
Made = TypeVar("Made")


def side_by_side(build: Callable[[Given], Made], wanted: Iterable[Given]) -> list[Made]:
    """What `build` makes of each, in their order; returns when all are done. Raises the first exception of a build."""
    building = [_builders().submit(copy_context().run, build, each) for each in wanted]
    wait(building)  # also of those beside one that failed, or a run that is cancelled would leave a process
    return [each.result() for each in building]


@cache
def _builders() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(len(os.sched_getaffinity(0)), thread_name_prefix="build")
