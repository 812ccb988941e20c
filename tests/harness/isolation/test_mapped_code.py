"""What code a process has mapped, as its owner sees it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from waiting import eventually

from harness.isolation.mapped_code import Code, foreign_code
from harness.isolation.policy import Access, Limits
from harness.isolation.process import IsolatedProcess, run_isolated
from harness.nouns.tier import Tier
from harness.processes.candidate_process import Narrow, narrowed

READY = "open('ready', 'w').close(); import time; time.sleep(60)"
SPEAKS = "import ctypes, mmap, sys"
MAKES = f"{SPEAKS}; held = mmap.mmap(-1, 8192, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_EXEC)"


@pytest.fixture
def narrow(work: Path) -> Narrow:
    """What a runner of some library in the working folder may reach."""
    return narrowed(work / "kernel.so", Access(), {}, sealed=False)


def started(work: Path, tier: Tier, narrow: Narrow, script: str, code: Code | None = None) -> IsolatedProcess:
    return IsolatedProcess(
        [sys.executable, "-I", "-S", "-c", f"{script}; {READY}"],
        cwd=work, access=narrow.access, limits=Limits(), environment={}, tier=tier, code=code or narrow.code,
    )  # fmt: skip


def test_an_interpreter_runs_in_the_least_there_is(work: Path, any_tier: Tier, narrow: Narrow) -> None:
    with started(work, any_tier, narrow, f"{SPEAKS}; ctypes.CDLL('libgomp.so.1')") as process:
        assert eventually(lambda: (work / "ready").exists() or not process.running)
        assert process.foreign_code() == ""
        assert process.running


def test_no_package_and_no_library_of_the_system_is_in_reach(work: Path, tier: Tier, narrow: Narrow) -> None:
    import numpy

    paths = [numpy.__file__, "/bin/sh", "/usr/bin/env", *map(str, Path("/usr/lib").glob("*/libcrypto.so*"))]
    script = f"""
import wave
for path in {paths!r}:
    try:
        open(path).close()
        print(path)
    except OSError:
        pass
"""
    done = run_isolated(
        [sys.executable, "-I", "-S", "-c", script],
        cwd=work, access=narrow.access, limits=Limits(), environment={}, tier=tier,
    )  # fmt: skip
    assert (done.exit_code, done.stdout) == (0, b""), done


@pytest.mark.parametrize("others", [False, True])
def test_code_of_others_ends_a_process(work: Path, any_tier: Tier, narrow: Narrow, others: bool) -> None:
    """Made while running, or of a library that is not on the list."""
    short = Code(frozenset(name for name in narrow.code.files if "gomp" not in name), narrow.code.folders)
    script = f"{SPEAKS}; ctypes.CDLL('libgomp.so.1')" if others else MAKES
    with started(work, any_tier, narrow, script, short) as process:
        assert eventually(lambda: not process.running)
        done = process.wait(1)
    assert done.outcome == "foreign_code"
    assert ("libgomp" if others else "8192 bytes of code that it made") in done.note


def test_what_is_not_sealed_is_said(work: Path, any_tier: Tier, narrow: Narrow) -> None:
    sealed = Code(narrow.code.files, narrow.code.folders, sealed=True)
    with started(work, any_tier, narrow, SPEAKS, sealed) as process:
        assert eventually(lambda: (work / "ready").exists())
        assert process.foreign_code() == "a thread that can still map code"


def test_code_that_an_interpreter_makes_by_itself_is_allowed() -> None:
    """The numbers of this process: all its files, and what it makes of itself."""
    lines = [line.split(None, 5) for line in Path("/proc/self/maps").read_text().splitlines()]
    files = frozenset(line[5] for line in lines if "x" in line[1] and len(line) == 6)
    assert foreign_code(os.getpid(), Code(files, made_bytes=1 << 30)) == ""
    assert "code of /" in foreign_code(os.getpid(), Code(frozenset()))


def test_code_that_can_be_written_is_said_of_a_sealed_process(work: Path, any_tier: Tier, narrow: Narrow) -> None:
    both = "held = mmap.mmap(-1, 4096, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)"
    sealed = Code(narrow.code.files, narrow.code.folders, made_bytes=4096, sealed=True)
    with started(work, any_tier, narrow, f"{SPEAKS}; {both}", sealed) as process:
        assert eventually(lambda: (work / "ready").exists())
        assert process.foreign_code() == "code that it can write"
