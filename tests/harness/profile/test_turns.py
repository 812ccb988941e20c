"""How many instructions of a call are in which loop: turns are counted in a real build of the same machine code."""

from __future__ import annotations

import json

import pytest

from harness.building.compilation import compile_candidate, library_of
from harness.building.counted_build import COUNTER
from harness.building.cpu_build import CpuToolchain
from harness.building.toolchain import disassembler
from harness.isolation.tiers import resolve_tier
from harness.nouns.build import Build, Diagnostic
from harness.nouns.candidate import Candidate
from harness.nouns.profile import Loop, Profile
from harness.nouns.task import Signature, TensorSpec
from harness.profile.render import render, say_loops
from harness.profile.turns import MOST_LOOPS, counted_build, ranked, read_counts, with_turns
from nodes.turn.prompt_size import estimated_tokens

KERNEL = """\
#include <cmath>
#include <cstdint>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>
void run(tvm::ffi::TensorView x, tvm::ffi::TensorView y) {
  float const* a = static_cast<float const*>(x.data_ptr());
  float* b = static_cast<float*>(y.data_ptr());
#pragma omp parallel for
  for (int64_t i = 0; i < 300; ++i) {  // rows
    float state = 0;
#pragma GCC unroll 1
    for (int64_t j = 0; j < 70; ++j) {  // carried
      state = static_cast<float>(std::sqrt(static_cast<double>(state) + a[i * 70 + j]));
      b[i * 70 + j] = state;
    }
  }
  switch (static_cast<int>(b[0] * 5)) {  // a table of jumps
    case 0: b[1] += 1; break;
    case 1: b[2] += 2; break;
    case 2: b[3] *= 3; break;
    case 3: b[4] -= 4; break;
    case 4: b[5] = std::fabs(b[6]); break;
    case 5: b[6] /= 6; break;
    default: break;
  }
#pragma omp simd
  for (int64_t k = 0; k < 64000; ++k) b[k] = static_cast<float>(static_cast<double>(a[k]) * 1.1);  // vectors
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
"""
ROWS, CARRIED, VECTORS = (
    next(at for at, line in enumerate(KERNEL.splitlines(), 1) if line.endswith(f"// {name}"))
    for name in ("rows", "carried", "vectors")
)
BASE = Profile(
    target="cpu", device="AMD EPYC", time_ms=1, achieved_gb_s=1, peak_gb_s=10, achieved_gflop_s=1, peak_gflop_s=10,
    bound="memory", share_of_roof=0.1,
)  # fmt: skip


def signature() -> Signature:
    spec = TensorSpec(name="x", shape=(64000,), strides=(1,), dtype="float32")
    return Signature(inputs=(spec,), outputs=(spec.model_copy(update={"name": "y"}),))


@pytest.fixture(scope="module")
def plain() -> Build:
    candidate = Candidate(source=KERNEL, target="cpu", author="test")
    return compile_candidate(candidate, CpuToolchain(), tier=resolve_tier("auto"))


@pytest.mark.skipif(disassembler() is None, reason="there is no objdump")
def test_turns_are_those_that_the_machine_code_takes(plain: Build) -> None:
    tier = resolve_tier("auto")
    found = with_turns(BASE, counted_build(plain, tier=tier), signature(), tier=tier)
    assert found.uncounted == ""
    loops = {loop.line: loop for loop in found.loops}
    carried, vectors = loops[CARRIED], loops[VECTORS]
    assert carried.turns == 300 * 70, "all threads' together, whatever the vectors around"
    assert (carried.stores, carried.vector, carried.scalar, carried.conversions) == (1, 0, 2, 3)
    assert 64000 % vectors.turns == 0 and vectors.turns < 64000
    assert vectors.vector >= 1 and vectors.conversions >= 2 and vectors.stores >= 1 and vectors.loads >= 1
    assert sum(loop.share for loop in found.loops) == pytest.approx(1, abs=0.1)
    told = render(found)
    assert f"line {CARRIED}: 21,000 x {carried.instructions}: 2 scalar floats, 3 conversions" in told
    # the counting itself is in none of it: these are the instructions of the build that is timed
    (remark,) = [each for each in plain.remarks if each.line == CARRIED]
    assert f"in {carried.instructions} instructions a turn" in remark.message


def test_what_cannot_be_counted_says_why(plain: Build) -> None:
    tier = resolve_tier("auto")
    gone = Build(digest="0" * 32, seconds=0)
    assert with_turns(BASE, counted_build(gone, tier=tier), signature(), tier=tier).uncounted == (
        "its source does not lie here"
    )
    assert library_of(plain) is not None
    raising = KERNEL.replace("  float* b", "  if (a[0] < 2) TVM_FFI_THROW(ValueError) << 1;\n  float* b")
    failing = compile_candidate(Candidate(source=raising, target="cpu", author="test"), CpuToolchain(), tier=tier)
    failed = with_turns(BASE, counted_build(failing, tier=tier), signature(), tier=tier)
    assert failed.uncounted.startswith("the call failed") and "loops       not counted: the call" in render(failed)


@pytest.mark.parametrize(
    "answer",
    ["", "[]", "{}", '{"cutegen_count_7": -1}', '{"cutegen_count_7": "x"}', f'{{"cutegen_count_7": {1 << 70}}}'],
)
def test_an_answer_that_the_kernel_wrote_counts_for_nothing(answer: str) -> None:
    assert read_counts(answer, [f"{COUNTER}7"]) == {}
    assert read_counts(json.dumps({f"{COUNTER}7": 9}), [f"{COUNTER}7"]) == {7: 9}


def test_copies_count_together_and_the_largest_loops_are_told_in_few_tokens() -> None:
    def remark(line: int, label: int) -> Diagnostic:
        loop = Loop(
            line=line, caller=200 + line, instructions=400, vector=111, scalar=22, loads=33, stores=44, stack=55,
            shuffles=66, conversions=77, calls=8,
        )  # fmt: skip
        return Diagnostic(severity="note", file="kernel", line=line, column=label, message=loop.model_dump_json())

    remarks = [remark(100 + at // 2, at) for at in range(20)]
    loops = ranked(remarks, {at: 10_000_000 + at for at in range(20)})
    assert len(loops) == MOST_LOOPS and loops[0].turns == 20_000_000 + 18 + 19
    told = "\n".join(say_loops(BASE.model_copy(update={"loops": loops})))
    assert estimated_tokens(told) < 250, told
    assert ranked(remarks, {}) == ()
