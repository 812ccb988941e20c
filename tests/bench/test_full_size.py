"""Checkers of first kernels: whoever hangs or dies keeps nobody else from the clock."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Callable
from threading import Lock

import pytest
import torch

from bench import full_size
from bench.full_size import Checker, Prepared


def checked(kernel: Prepared, compiled: bool, wait: Callable[[], object]) -> str:
    wait()
    if kernel.name == "hangs":
        time.sleep(60)
    if kernel.name == "dies":
        os._exit(3)
    return "1.00x"


def test_a_checker_that_hangs_or_dies_on_the_clock_gives_it_back(monkeypatch: pytest.MonkeyPatch) -> None:
    # Forked, so that the checkers have the stand-ins.
    monkeypatch.setattr(full_size.multiprocessing, "Process", multiprocessing.get_context("fork").Process)
    monkeypatch.setattr(full_size, "checked", checked)
    monkeypatch.setattr(full_size, "CHECKED_WITHIN_S", 2.0)
    monkeypatch.setattr(torch, "zeros", lambda *_, **__: None)
    clock = Lock()
    first, second = Checker(compiled=False, clock=clock), Checker(compiled=False, clock=clock)
    try:
        assert "took longer than 2 s" in first.line(Prepared("hangs", ""))
        assert second.line(Prepared("right", "")) == "right 1.00x"
        assert first.line(Prepared("dies", "")) == "dies ended its process, exit code 3"
        assert second.line(Prepared("right", "")) == "right 1.00x"
        assert first.line(Prepared("begun anew", "")) == "begun anew 1.00x"
    finally:
        for checker in (first, second):
            checker.process.kill()
