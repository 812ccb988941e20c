"""A few kernels of the corpus, always the same: the judge's trials take them, and what is wrong with one is told."""

from __future__ import annotations

from dataclasses import replace

import pytest
from brief_terms import brief

from bench.honest import measured
from bench.honest_corpus import corpus
from harness.isolation.tiers import resolve_tier
from harness.judging.local import LocalJudge
from harness.judging.terms import Terms
from harness.targets.cpu import CpuTarget

KERNELS = {kernel.name: kernel for kernel in corpus()}
SAMPLE = (
    "softmax: online in lanes", "layer norm: one scale and one shift a row", "best four: by partial sort",
    "counted: integers", "tied: a row at a time", "variances: Welford", "gates: numbers called open, exit and kill",
)  # fmt: skip


@pytest.fixture(scope="module")
def judge():
    return LocalJudge(CpuTarget(), brief(Terms(resolve_tier("auto"))))


def test_there_are_many_kernels_for_many_tasks():
    assert len(KERNELS) == len(corpus()) >= 150
    assert len({kernel.task for kernel in corpus()}) >= 120


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", SAMPLE)
def test_an_honest_kernel_is_right_in_each_trial(judge, name):
    margins = measured(judge, KERNELS[name], range(1, 3))
    assert (margins.refused, margins.wrong) == ("", [])
    assert not margins.ratios or max(margins.ratios) > 0


def test_what_is_wrong_is_told_by_trial(judge):
    kernel = KERNELS["tied: a row at a time"]
    wrong = replace(kernel, source=kernel.source.replace("v < 0 ? 0 : v", "v"))
    margins = measured(judge, wrong, range(1, 2))
    assert margins.wrong[0].startswith("given 1: ")
    assert "given 1: " in margins.line
    assert max(margins.ratios) > 100
    refused = measured(judge, replace(kernel, source="#include <thread>\n" + kernel.source), range(1, 2))
    assert "thread" in refused.refused
