"""What sanitizers write, read without running one: each kind of defect, logs cut short or forged, stand-in programs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.building.compilation import LIBRARIES
from harness.building.toolchain import find_tool
from harness.isolation.policy import Needs
from harness.isolation.process import Completed
from harness.nouns.build import Build, Diagnostic
from harness.nouns.sanitizer_run import MAX_FINDINGS, Finding, SanitizerRun, first_finding
from harness.nouns.task import ScalarSpec, Signature, TensorSpec
from harness.sanitize import device, host

SPEC = TensorSpec(name="x", shape=(40,), strides=(1,), dtype="float32")
SIGNATURE = Signature(
    inputs=(SPEC, ScalarSpec(name="scale", type="float", value=0.5)),
    parameters=(SPEC.model_copy(update={"name": "w", "dtype": "float64"}),),
    outputs=(SPEC.model_copy(update={"name": "y"}),),
)
LOG = """\
========= COMPUTE-SANITIZER
========= Invalid __global__ read of size 16 bytes
=========     at first(float *)+0x240 in kernel.cu:{line}
=========     by thread ({thread},0,0) in block (0,0,0)
=========     Access to 0x7fc934802204 is misaligned
=========     Saved host backtrace up to driver entry point at kernel launch time
=========         Host Frame: run in kernel.cu:99
=========
========= ERROR SUMMARY: 1 error
"""


def ended(outcome: str = "exited", code: int | None = 0, stderr: str = "") -> Completed:
    return Completed(outcome, code, None, b"", stderr.encode(), 1.0, 0, 0, "")


def address(kind: str, *details: str, line: int = 12) -> str:
    """AddressSanitizer's report of one defect."""
    frames = f"    #0 0x7f01 in operator new ../../libsanitizer/asan.cpp:95\n    #1 0x7f02 in run kernel.cpp:{line}\n"
    head = f"==7==ERROR: AddressSanitizer: {kind} on address 0x602 at pc 0x7f bp 0x7f sp 0x7f\n"
    return head + "\n".join(details[:1]) + "\n" + frames + "\n".join(details[1:]) + "\nSUMMARY: AddressSanitizer\n"


# -- on the processor --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("report", "message"),
    [
        (
            address("heap-buffer-overflow", "READ of size 4 at 0x602 thread T0",
                    "0x602 is located 0 bytes after 160-byte region"),
            "heap-buffer-overflow: line 12 reads 4 bytes beyond the end of x or y (160 bytes).",
        ),
        (
            address("heap-buffer-overflow", "WRITE of size 32 at 0x602 thread T1",
                    "0x602 is located 8 bytes to the right of 320-byte region [0x1,0x2)"),
            "heap-buffer-overflow: line 12 writes 32 bytes, 8 bytes beyond the end of w (320 bytes).",
        ),
        (
            address("heap-buffer-overflow", "READ of size 4 at 0x602 thread T0",
                    "0x602 is located 4 bytes to the left of 64-byte region [0x1,0x2)"),
            "heap-buffer-overflow: line 12 reads 4 bytes, 4 bytes before the start of an allocation (64 bytes).",
        ),
        (
            address("heap-use-after-free", "READ of size 8 at 0x602 thread T0",
                    "0x602 is located 16 bytes inside of 400-byte region [0x1,0x2)"),
            "heap-use-after-free: line 12 reads 8 bytes, 16 bytes inside an allocation (400 bytes).",
        ),
        (address("attempting double-free"), "double-free: line 12 frees memory once more."),
        (address("attempting free"), "free: line 12 frees memory that was not allocated this way."),
        (address("stack-overflow"), "stack-overflow: line 12."),
        (address("SEGV"), "SEGV: line 12 reaches an address that is not mapped."),
        (address("BUS"), "BUS: line 12 reaches an address that is not mapped."),
        (address("BUS", "Hint: this fault was caused by a dereference of a high value address (see below)"),
         "BUS: line 12 reaches an address that is not mapped."),
        (
            address("SEGV", "Hint: this fault was caused by a dereference of a high value address (see below)"),
            "SEGV: line 12 accesses a whole vector at an address that is no multiple of its size, or an address that "
            "cannot be.",
        ),
        (address("stack-buffer-overflow", "WRITE of size 4 at 0x7f thread T0").replace("kernel.cpp", "other.cpp"),
         "stack-buffer-overflow: the kernel writes 4 bytes."),
    ],
)  # fmt: skip
def test_each_defect_of_memory_is_one_sentence(report: str, message: str) -> None:
    run = host.judge_run(ended(code=1, stderr=report), SIGNATURE)
    assert run.status == "found"
    assert run.findings[0].message == f"AddressSanitizer: {message}"
    assert run.findings[0].line == (None if "the kernel" in message else 12)


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("kernel.cpp:7:3: runtime error: division by zero\n", 7, "line 7: division by zero."),
        ("/tmp/x/kernel.cpp:7:3: runtime error: shift exponent 40 is too large\n", 7, "line 7: shift exponent 40"),
        ("/a.h:7:3: runtime error: overflow\n    #0 0x1 in f a.h:7\n    #1 0x2 in run kernel.cpp:31\n", 31, "line 31"),
    ],
)  # fmt: skip
def test_undefined_behaviour_is_placed_in_the_kernel(text: str, line: int, words: str) -> None:
    finding = first_finding((host.judge_run(ended(code=1, stderr=text), SIGNATURE),))
    assert finding is not None
    assert (finding.kind, finding.line) == ("undefined behaviour", line)
    assert words in finding.message


@pytest.mark.parametrize(
    ("done", "status", "words"),
    [
        (ended(), "clean", ""),
        (ended(stderr="warning: something"), "clean", ""),
        (ended(code=1), "skipped", "it ended early (exited: exit code 1)"),
        (ended(code=3, stderr="no such thing"), "skipped", "the call failed: no such thing"),
        (ended("timed_out", None), "skipped", "it did not end within 1 s"),
        (ended("out_of_memory", None), "skipped", "it ended early (out_of_memory"),
        (ended("signalled", None), "skipped", "it ended early (signalled"),
        (ended(code=1, stderr="/usr/a.h:7:3: runtime error: overflow\n"), "skipped", "exit code 1"),
    ],
)
def test_only_a_run_to_its_end_without_a_report_is_clean(done: Completed, status: str, words: str) -> None:
    run = host.judge_run(done, SIGNATURE)
    assert run.status == status
    assert words in run.note


def test_a_library_that_did_not_compile_is_skipped_with_its_first_message() -> None:
    broken = Build(
        diagnostics=(Diagnostic(severity="error", file="kernel", line=3, message="'x' was not declared"),), seconds=0
    )
    for run in (
        host.sanitize_on_host(broken, SIGNATURE, tier="none"),
        *device.sanitize_on_device(broken, SIGNATURE, Needs(), tier="none"),
    ):
        assert run.status == "skipped"
        assert re.search("'x' was not declared|was not found", run.note)


@given(st.text(max_size=400))
def test_any_report_is_read_without_a_fault(text: str) -> None:
    for said in (text, f"ERROR: AddressSanitizer: {text}", f"kernel.cpp:1:1: runtime error: {text}"):
        assert host.judge_run(ended(code=1, stderr=said), SIGNATURE).status in ("found", "skipped")


# -- on a GPU ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def compute_sanitizer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A stand-in that runs this shell script in the tool's folder; what it is called with lies in `$TOOL` and `$*`."""

    def install(script: str) -> None:
        program = tmp_path / "compute-sanitizer"
        program.write_text(f'#!/bin/sh\nTOOL="$2"\n{script}\n')
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
        monkeypatch.setenv("CUTEGEN_CACHE", str(tmp_path / "cache"))
        find_tool.cache_clear()

    yield install
    find_tool.cache_clear()


def watched(tmp_path: Path, source: str = "") -> tuple[SanitizerRun, ...]:
    build = Build(digest="0" * 32, seconds=0)
    folder = LIBRARIES.entry("0" * 32)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "kernel.cu").write_text(source)
    return device.sanitize_on_device(build, SIGNATURE, Needs(), tier="none", limit_s=20)


def test_each_of_the_four_tools_runs_once_in_a_folder_of_its_own(tmp_path: Path, compute_sanitizer) -> None:
    compute_sanitizer(
        f'echo "$TOOL $* in $(pwd)" >> {tmp_path}/calls; echo "========= ERROR SUMMARY: 0 errors" > log.txt'
    )
    runs = watched(tmp_path)
    assert [(run.tool, run.status) for run in runs] == [(name, "clean") for name in device.TOOLS]
    calls = {line.split()[0]: line for line in (tmp_path / "calls").read_text().splitlines()}
    assert sorted(calls) == sorted(device.TOOLS)
    assert len({line.rsplit(" in ", 1)[1] for line in calls.values()}) == 4
    for name, line in calls.items():
        assert f"--tool {name} --report-api-errors no --log-file log.txt" in line
        assert ("--padding 512" in line) == (name == "memcheck")
        assert "tool_runner.py" in line


def test_one_tools_finding_leaves_the_others_their_word(tmp_path: Path, compute_sanitizer) -> None:
    (tmp_path / "found").write_text(LOG.format(line=5, thread=0))
    compute_sanitizer(
        f"case $TOOL in memcheck) cp {tmp_path}/found log.txt; exit 3;; initcheck) exit 9;; "
        'esac; echo "========= ERROR SUMMARY: 0 errors" > log.txt'
    )
    runs = {run.tool: run for run in watched(tmp_path, "cp.async.bulk.tensor")}
    assert {name: run.status for name, run in runs.items()} == {
        "memcheck": "found", "racecheck": "clean", "initcheck": "skipped", "synccheck": "clean",
    }  # fmt: skip
    assert runs["racecheck"].unwatched == device.UNWATCHED
    assert runs["synccheck"].unwatched == ""
    assert runs["initcheck"].note == "it ended early (exited: exit code 9)"
    first = first_finding(tuple(runs.values()))
    assert first is not None
    assert first.message == (
        "memcheck: Invalid __global__ read of 16 bytes, line 5, by thread (0,0,0) in block (0,0,0), Access is "
        "misaligned."
    )


def test_the_same_defect_of_many_threads_is_one_and_a_few_are_kept() -> None:
    many = "".join(LOG.format(line=line, thread=thread) for thread in range(4) for line in (9, 3, 7, 5, 8, 6, 4))
    found = list(device.parse_log("memcheck", many))
    assert [finding.line for finding in found] == [3, 4, 5, 6, 7, 8, 9]
    assert all("thread (0,0,0)" in finding.message for finding in found), "the first thread that was told of"
    run = device.judge_run("memcheck", ended(code=3), many)
    assert [finding.line for finding in run.findings] == [3, 4, 5, 6, 7]
    assert len(run.findings) == MAX_FINDINGS
    other = LOG.replace("Invalid", "Misaligned").format(line=3, thread=0)
    assert len(list(device.parse_log("memcheck", many + other))) == 8, "another kind in the same line"


def test_a_host_frame_is_no_place_in_the_kernel() -> None:
    """The line that launched it says nothing of where it went wrong."""
    without = "\n".join(line for line in LOG.format(line=5, thread=0).splitlines() if "at first" not in line)
    (finding,) = device.parse_log("memcheck", without)
    assert finding.line is None
    assert "line" not in finding.message


@pytest.mark.parametrize("cut", range(0, len(LOG), 23))
def test_a_log_that_was_cut_off_is_never_clean(cut: int) -> None:
    """A tool that was killed has said nothing yet, and what it had found counts all the same."""
    text = LOG.format(line=5, thread=0)[:cut]
    run = device.judge_run("memcheck", ended(code=0), text)
    assert run.status != "clean"
    assert (run.status == "found") == ("Invalid _" in text)


@pytest.mark.parametrize(
    ("done", "log", "status"),
    [
        (ended(), "========= ERROR SUMMARY: 0 errors\n", "clean"),
        (ended(), "========= RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)\n", "clean"),
        (ended(code=1), "========= ERROR SUMMARY: 0 errors\n", "skipped"),
        (ended("signalled", None), "========= ERROR SUMMARY: 0 errors\n", "skipped"),
        (ended(), "========= COMPUTE-SANITIZER\n", "skipped"),
        (ended(), "========= Program hit cudaErrorInvalidValue\n========= ERROR SUMMARY: 1 error\n", "clean"),
        (ended(), "========= Fault happened\n", "found"),
        (ended(), "Invalid __global__ read, as the kernel printed\n========= ERROR SUMMARY: 0 errors\n", "clean"),
    ],
)  # fmt: skip
def test_the_last_line_and_the_exit_code_decide(done: Completed, log: str, status: str) -> None:
    assert device.judge_run("racecheck", done, log).status == status


@given(st.lists(st.one_of(st.text(max_size=40), st.sampled_from(LOG.splitlines())), max_size=20))
def test_any_log_is_read_without_a_fault(lines: list[str]) -> None:
    text = "\n".join(lines)
    for finding in device.parse_log("memcheck", text):
        assert finding.message.startswith(f"memcheck: {finding.kind}")
    assert device.judge_run("memcheck", ended(), text).status in ("clean", "found", "skipped")


def test_the_first_finding_of_all_is_the_one_that_counts() -> None:
    clean = SanitizerRun(tool="a", status="clean")
    one, two = (Finding(kind="k", message=message) for message in ("one", "two"))
    found = SanitizerRun(tool="b", status="found", findings=(one, two))
    assert first_finding((clean, found, found.model_copy(update={"findings": (two,)}))) == one
    assert first_finding((clean,)) is first_finding(()) is None
    with pytest.raises(ValueError, match="at most 5"):
        SanitizerRun(tool="b", status="found", findings=(one,) * 6)
    with pytest.raises(ValueError, match="findings belong"):
        SanitizerRun(tool="b", status="clean", findings=(one,))
    with pytest.raises(ValueError, match="note says why"):
        SanitizerRun(tool="b", status="clean", note="why")
