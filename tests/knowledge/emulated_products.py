"""Products for Hopper where no GPU is: rendered for the emulator, proved against torch, and broken on purpose."""

from __future__ import annotations

import faulthandler
import os
from collections.abc import Mapping
from dataclasses import dataclass
from signal import SIGABRT, SIGBUS, SIGFPE, SIGSEGV

import torch
from cuda_gemm_cases import H200, RECIPE, on_gpu
from emulated_hopper import emulated_hopper
from gemm_cases import Case, trace_fx
from goldens import Golden
from traced import Compiler, assert_close, call

from knowledge.compiler.plan import Plan
from knowledge.compiler.problem import Problem

FEW = H200.model_copy(update={"multiprocessors": 4})
"""So that blocks have several tiles each."""
REFUTED = 3
CRASHES = {-SIGABRT, -SIGBUS, -SIGFPE, -SIGSEGV}
Cases = Mapping[str, tuple[Case, dict[str, int | str]]]
Broken = Mapping[str, tuple[str, str, str]]
"""A line of the exemplars, what stands there instead, and the case that shows it."""


@dataclass(frozen=True)
class Emulated:
    """The rendered cases, and what is broken of them."""

    cases: Cases
    broken: Broken
    problems: Mapping[str, Problem]
    sources: Mapping[str, str]
    broken_sources: Mapping[str, str]

    @classmethod
    def of(cls, cases: Cases, broken: Broken) -> Emulated:
        """Renders all of them."""
        problems = {name: on_gpu(trace_fx(*case), device=FEW) for name, (case, _) in cases.items()}
        sources = {
            name: emulated_hopper(RECIPE.render(problems[name], Plan("gemm", knobs)))
            for name, (_, knobs) in cases.items()
        }
        assert [name for name, (line, _, case) in broken.items() if line not in sources[case]] == []
        changed = {name: sources[case].replace(line, instead) for name, (line, instead, case) in broken.items()}
        return cls(cases, broken, problems, sources, changed)

    def prove(self, name: str, golden: Golden, compiler: Compiler) -> None:
        """That a case is as right as torch, unless its text is held as golden."""
        if golden.holds([self.sources[name]], *compiler.flags):
            return
        compiler.build_all(list(self.sources.values()))
        self._compare(name, self.sources[name], compiler, name)

    def refute(self, name: str, golden: Golden, compiler: Compiler) -> None:
        """That what is broken is wrong, fails, or ends its process, which is one of its own."""
        if golden.holds([self.broken_sources[name]], *compiler.flags):
            return
        compiler.build_all(list(self.broken_sources.values()))
        if (child := os.fork()) == 0:
            faulthandler.disable()
            torch.set_num_threads(1)  # the parent's threads are not here
            try:
                self._compare(self.broken[name][2], self.broken_sources[name], compiler, name)
            except (AssertionError, RuntimeError):
                os._exit(REFUTED)
            finally:
                os._exit(0)
        ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        assert ended == REFUTED or ended in CRASHES, f"{name}: {ended}"

    def _compare(self, case: str, source: str, compiler: Compiler, said: str) -> None:
        (function, inputs), _ = self.cases[case]
        got = call(compiler.build(source), self.problems[case], inputs)[0]
        assert_close(got, function(*inputs), function(*(each.double() for each in inputs)), said)
