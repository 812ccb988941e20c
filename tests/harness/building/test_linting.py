"""clang-tidy, where there is one: a script in its place says what it would."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.building import linting
from harness.isolation.tiers import resolve_tier

SCRIPT = """#!/bin/sh
test "$1" = kernel.cpp || exit 9
echo "kernel.cpp:3:5: warning: the sum is read before it is written [clang-analyzer-core.uninitialized.Assign]"
echo "kernel.cpp:2:3: note: declared here"
echo "cute/tensor.hpp:7:1: warning: not the kernel's"
case "$*" in *"clang-analyzer-core"*"-include"*) exit 1 ;; *) echo "kernel.cpp:1:1: warning: no checks" ;; esac
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setattr(linting, "find_spec", lambda _: None)
    monkeypatch.setattr(linting, "PROGRAM", "some-clang-tidy")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    linting.clang_tidy.cache_clear()
    yield tmp_path
    linting.clang_tidy.cache_clear()


def test_its_warnings_on_the_kernels_lines_are_taken(place: Path) -> None:
    (place / "some-clang-tidy").write_text(SCRIPT)
    (place / "some-clang-tidy").chmod(0o755)
    [found] = linting.lint("void run() {}\n", tier=resolve_tier("auto"))
    assert (found.line, found.severity) == (3, "warning") and "read before it is written" in found.message


def test_without_it_nothing_is_said(place: Path) -> None:
    assert linting.lint("void run() {}\n", tier="none") == ()
