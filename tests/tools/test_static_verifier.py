"""What a kernel shows before it runs: warnings that name a fault, claims that the machine code does not keep."""

from __future__ import annotations

import pytest
from scripted_judge import ScriptedJudge, softsign_task

from harness.building.toolchain import read_opcodes
from harness.judging.protocol import JudgeOrder
from harness.nouns.build import Build, Diagnostic, Resources
from harness.nouns.candidate import Candidate
from harness.nouns.sanitizer_run import SanitizerRun
from tools.opinions import Opinion, brier, score_of
from tools.static_verifier import CANNOT_RUN, CLEAN, FOUND, WARNED, sanitizer_opinion, static_opinion, unmet_claims

TASK = softsign_task("torch.rand(64, 256)", "softsign")
JUDGE = ScriptedJudge(JudgeOrder("cpu"))
PLAIN = Candidate(source="void run();", target="cpu", author="one")


def build(*warnings: str, remarks: tuple[str, ...] = (), file: str = "kernel") -> Build:
    return Build(
        digest="0" * 32,
        seconds=1.0,
        diagnostics=tuple(Diagnostic(severity="warning", file=file, line=3, message=text) for text in warnings),
        remarks=tuple(Diagnostic(severity="note", file="kernel", line=4, message=text) for text in remarks),
        resources=(Resources(kernel="k", registers=255, shared_bytes=0, spill_bytes=16),) if remarks else (),
    )


def test_clang_tidy_is_asked_of_a_processors_kernel_where_that_is_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    said = Diagnostic(severity="warning", file="kernel", line=3, message="read before it is written")
    monkeypatch.setattr("tools.static_verifier.lint", lambda source, tier: (said,))
    on_gpu = PLAIN.model_copy(update={"target": "cuda"})
    asked = [(PLAIN, True), (PLAIN, False), (on_gpu, True)]
    found = [static_opinion(JUDGE, TASK, each, build=build(), tidy=tidy) for each, tidy in asked]
    assert [each.right for each in found] == [WARNED, CLEAN, CLEAN]
    assert found[0].reasons == ("kernel:3: warning: read before it is written",)


@pytest.mark.parametrize(
    ("warned", "right"),
    [
        ("'sum' may be used uninitialized", WARNED),
        ("array subscript 8 is outside array bounds of 'float [8]'", WARNED),
        ('variable "sum" is used before its value is set', WARNED),
        ("unused variable 'n'", CLEAN),
    ],
)
def test_a_warning_that_names_a_fault_counts(warned: str, right: float) -> None:
    assert static_opinion(JUDGE, TASK, PLAIN, build=build(warned)).right == right
    assert static_opinion(JUDGE, TASK, PLAIN, build=build(warned, file="cute/tensor.hpp")).right == CLEAN


@pytest.mark.parametrize("says", ["refused a file is opened", "build_failed no such name"])
def test_what_cannot_run_is_certain(says: str) -> None:
    opinion = static_opinion(JUDGE, TASK, PLAIN.model_copy(update={"source": f"int a;  // judge: {says}"}))
    assert opinion.right == CANNOT_RUN and says.split(" ", 1)[1] in opinion.reasons[0]


def test_a_fault_under_a_sanitizer_and_a_call_that_fails_count(monkeypatch: pytest.MonkeyPatch) -> None:
    found = sanitizer_opinion(JUDGE, TASK, PLAIN.model_copy(update={"source": "int a;  // judge: finding race: k"}))
    assert (found.right, found.reasons) == (FOUND, ("race: k",))
    for note, right in (("the call failed: x: other shape", FOUND), ("it did not end within 10 s", CLEAN)):
        run = SanitizerRun(tool="address", status="skipped", note=note)
        monkeypatch.setattr(JUDGE, "sanitize", lambda *_, run=run: (run,))
        assert sanitizer_opinion(JUDGE, TASK, PLAIN).right == right


def test_a_claim_of_vectors_is_held_against_the_loops() -> None:
    scalar, wide = "loop in scalar code: 3 float operations", "loop in 512-bit vectors of 16 floats: 3 FMAs"
    [told] = static_opinion(JUDGE, TASK, PLAIN, "SIMD over columns", build(remarks=(scalar,))).unmet[:1]
    assert told == f"no loop computes with vectors: {scalar}"
    assert not list(unmet_claims("SIMD over columns", build(remarks=(scalar, wide)), "cpu"))
    assert not list(unmet_claims("larger tiles", build(remarks=(scalar,)), "cpu"))
    assert (
        "k spills 16 bytes at 255 registers a thread"
        in static_opinion(JUDGE, TASK, PLAIN, "", build(remarks=(wide,))).unmet
    )


LISTING = """
        /*0000*/                   LDC R1, c[0x0][0x28] ;
        /*0070*/              @!P0 LDG.E.128 R4, desc[UR6][R2.64] ;
        /*0090*/             @!UP1 UTMALDG.2D [UR8], [UR4] ;
        /*10b0*/                   HGMMA.64x128x8.F32.TF32 R24, gdesc[UR8], !UPT ;
"""


@pytest.mark.parametrize(
    ("move", "missing"),
    [
        ("wgmma with TMA", []),
        ("128-bit loads of A", []),
        ("mma on the tensor cores", []),
        ("cp.async in three stages", []),  # a TMA load is an asynchronous copy, too
        ("float4 stores", []),
    ],
)
def test_claims_on_a_gpu_are_found_in_its_instructions(
    move: str, missing: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    held = read_opcodes(LISTING)
    assert held == {"LDC", "LDG.E.128", "UTMALDG.2D", "HGMMA.64x128x8.F32.TF32"}
    monkeypatch.setattr("tools.static_verifier.library_of", lambda _: "library")
    monkeypatch.setattr("tools.static_verifier.opcodes", lambda _: held)
    assert list(unmet_claims(move, build(), "cuda")) == missing
    monkeypatch.setattr("tools.static_verifier.opcodes", lambda _: frozenset({"LDC", "FFMA"}))
    assert list(unmet_claims(move, build(), "cuda")) != []
    monkeypatch.setattr("tools.static_verifier.opcodes", lambda _: frozenset())
    assert list(unmet_claims(move, build(), "cuda")) == [], "nobody could look"


def test_evidence_is_not_outvoted_and_models_are_averaged() -> None:
    def said(**right: float) -> list[Opinion]:
        return [Opinion.model_validate({"verifier": name, "right": each}) for name, each in right.items()]

    assert score_of([]) == 1.0
    assert score_of(said(static=0.7, sanitizers=0.02)) == 0.02
    assert score_of(said(memory=0.0, compile=1.0, numerics=0.5)) == 0.5
    assert score_of(said(sanitizers=0.5, memory=0.2)) == pytest.approx(0.1)
    assert brier([(1.0, True), (0.5, False)]) == 0.125
