"""The tools by which agents reach the judge: compile a kernel, run it, time it, profile it, watch it for errors.

Each takes the kernel's source or edits of the present one, says in words what came out, and hands the typed noun over
as the artifact.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool, StructuredTool, ToolException
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from harness.judging.protocol import KernelJudge
from harness.nouns.build import Build
from harness.nouns.candidate import Candidate
from harness.nouns.events import Judged
from harness.nouns.profile import Profile
from harness.nouns.sanitizer_run import SanitizerRun
from harness.nouns.task import Task
from harness.nouns.verdict import Verdict
from harness.profile.render import render
from harness.wire.telling import tell
from tools.patch import Patch, PatchError
from tools.wording import say_against, say_build, say_sanitizers, say_verdict


class KernelSource(BaseModel):
    """A kernel to build or to run."""

    model_config = ConfigDict(extra="forbid")

    source: str = Field(description="The whole source file, or the JSON object of edits of the kernel that you see.")


_DESCRIPTIONS = {
    "compile_kernel": "Compile a kernel; says what the compiler says.",
    "run_kernel": "Check a kernel against the reference, then time it.",
    "time_kernel": "After a brief check, time a kernel against the present one in the same rounds.",
    "profile_kernel": "What limits the speed of a kernel that is right.",
    "sanitize_kernel": "Watch every access of a kernel, right or wrong, for memory errors and races; also of a variant "
    "of it that only copies, to tell a wrong address from a wrong value.",
}


class KernelTools:
    """Tools for one task and one judge. What was built or judged before is remembered by the source's digest.

    `seed` fixes the inputs that kernels are run on. `known` are verdicts of an earlier step: profiling needs one.
    `incumbent` is a kernel that passed, which a new one is timed against, beside the reference. `present` is the kernel
    that edits are of, where one is at hand.
    """

    def __init__(
        self,
        task: Task,
        judge: KernelJudge,
        *,
        seed: int | None = None,
        known: tuple[Verdict, ...] = (),
        incumbent: Candidate | None = None,
        present: Candidate | None = None,
    ) -> None:
        self._task = task
        self._judge = judge
        self._seed = seed
        self._incumbent, self._present = incumbent, present
        self._builds = {verdict.candidate: verdict.build for verdict in known if verdict.build is not None}
        self._verdicts = {verdict.candidate: verdict for verdict in known}
        self.compile_kernel = _tool("compile_kernel", self.compile)
        self.run_kernel = _tool("run_kernel", self.run)
        self.time_kernel = _tool("time_kernel", self.time)
        self.profile_kernel = _tool("profile_kernel", self.profile)
        self.sanitize_kernel = _tool("sanitize_kernel", self.sanitize)

    def compile(self, source: str) -> tuple[str, Build]:
        """Build the kernel in isolation."""
        build = self._build(self._candidate(source))
        return say_build(build), build

    def run(self, source: str) -> tuple[str, Verdict]:
        """Build where that is still to do, then judge."""
        verdict = self._judged(source)
        return say_verdict(verdict, self._judge.device.target), verdict

    def time(self, source: str) -> tuple[str, Verdict]:
        """Judge, and say how it did against the incumbent alone."""
        verdict = self._judged(source)
        if verdict.timing is None:
            return say_verdict(verdict, self._judge.device.target), verdict
        return say_against(verdict.timing, self._judge.device.target), verdict

    def profile(self, source: str) -> tuple[str, Profile]:
        """Profile the kernel. Raises `ToolException` where it does not pass, for then there is nothing to profile."""
        candidate = self._candidate(source)
        verdict = self._verdicts.get(candidate.digest) or self._judged(source)
        if not verdict.passed:
            words = say_verdict(verdict, self._judge.device.target)
            raise ToolException(f"Only a kernel that passes can be profiled. {words}")
        profile = self._judge.profile(self._task, candidate, verdict)
        return render(profile), profile

    def built(self, source: str) -> Build | None:
        """The kernel's build, which is at hand from then on; None where the screen refuses the source."""
        candidate = self._candidate(source)
        return None if self._judge.screen(self._task, candidate) else self._build(candidate)

    def sanitize(self, source: str) -> tuple[str, tuple[SanitizerRun, ...]]:
        """Watch the kernel, right or wrong, by the target's sanitizers. `ToolException` where the screen refuses it."""
        candidate = self._candidate(source)
        if refusal := self._judge.screen(self._task, candidate):
            raise ToolException(f"The kernel is not run: {refusal}")
        runs = self._judge.sanitize(self._task, candidate)
        return say_sanitizers(runs), runs

    def _candidate(self, source: str) -> Candidate:
        """The kernel; of edits what they make of the present one. Raises `ToolException` where they do not fit it."""
        if self._present is not None and source.lstrip().startswith("{"):  # which begins no C++
            source = _edited(self._present.source, source)
        return Candidate(source=source, target=self._judge.device.target, author="tool")

    def _build(self, candidate: Candidate) -> Build:
        if candidate.digest not in self._builds:
            self._builds[candidate.digest] = self._judge.build(self._task, candidate)
        return self._builds[candidate.digest]

    def _judged(self, source: str) -> Verdict:
        candidate = self._candidate(source)
        known = self._builds.get(candidate.digest)  # else the judge builds, after its screen
        verdict = self._judge.evaluate(self._task, candidate, known, seed=self._seed, incumbent=self._incumbent)
        self._verdicts[candidate.digest] = verdict
        tell(Judged.of(verdict))
        return verdict


def call_tool(tool: BaseTool, source: str) -> Any:
    """Call a tool the way a model would, so that it shows as a tool call in traces, and return its artifact."""
    call = {"type": "tool_call", "id": tool.name, "name": tool.name, "args": {"source": source}}
    answer = tool.invoke(call)
    if not isinstance(answer, ToolMessage):
        raise TypeError(f"{tool.name} answered a tool call with {type(answer).__name__}")
    return answer.artifact


def _edited(source: str, edits: str) -> str:
    try:
        return Patch.model_validate_json(edits).apply(source)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise ToolException(f"These edits cannot be read: {where or 'JSON'}: {first['msg']}.") from error
    except PatchError as error:
        raise ToolException(str(error)) from error


def _tool(name: str, function: Callable[..., Any] | None = None) -> BaseTool:
    return StructuredTool(
        func=function,
        name=name,
        description=_DESCRIPTIONS[name],
        args_schema=KernelSource,
        response_format="content_and_artifact",
    )


KERNEL_TOOLS: tuple[BaseTool, ...] = tuple(map(_tool, _DESCRIPTIONS))
"""What each tool is called and takes, without a judge behind it."""
