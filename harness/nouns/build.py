"""What compiling a candidate gave: a library, or diagnostics."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import StringConstraints, model_validator

from harness.nouns.frozen import Frozen, SanitizedText

Digest = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{32}$")]
"""The name of a store's entry: it is part of a path, so it holds nothing else."""


class Diagnostic(Frozen):
    """One message of the compiler. `file` is "kernel" for the candidate itself, else a header's short name."""

    severity: Literal["error", "warning", "note"]
    file: SanitizedText
    line: int
    column: int = 0
    message: SanitizedText


class Resources(Frozen):
    """What the GPU compiler reported for one kernel: registers a thread, bytes of static shared memory, bytes that
    spilled registers store and load, and bytes of its stack frame, where they and its local arrays lie."""

    kernel: str
    registers: int
    shared_bytes: int
    spill_bytes: int
    stack_bytes: int = 0


class StaticData(Frozen):
    """A variable of a kernel's that outlives its calls and can be written.

    `within` is the namespace or function that its linker's name begins with. `guarded`: what fills it runs once, and
    other threads wait for that. `per_thread`: each thread has one of its own.
    """

    name: str
    within: str = ""
    guarded: bool = False
    per_thread: bool = False


class Build(Frozen):
    """Outcome of one compilation: a `digest` where it succeeded, else at least one error among `diagnostics`.

    The library lies under that digest of all that it was made from in the store of the machine that built it; another
    machine makes its own of the same candidate.
    `remarks` tell by line what the compiler made of the candidate's loops: vectors, multiply-adds, spills, calls left.
    `load_time` names what of the candidate's own would run when the library is loaded, `static_data` what outlives a
    call and can be written. `machine_code` is the same for
    two libraries that run the same instructions on the same constants; empty where nobody has looked.
    """

    digest: Digest | None = None
    diagnostics: tuple[Diagnostic, ...] = ()
    remarks: tuple[Diagnostic, ...] = ()
    resources: tuple[Resources, ...] = ()
    load_time: tuple[str, ...] = ()
    static_data: tuple[StaticData, ...] = ()
    machine_code: str = ""
    seconds: float
    cached: bool = False

    @property
    def succeeded(self) -> bool:
        """Whether there is a library to run."""
        return self.digest is not None

    @model_validator(mode="after")
    def _library_or_errors(self) -> Self:
        errors = any(diagnostic.severity == "error" for diagnostic in self.diagnostics)
        if self.succeeded == errors:
            raise ValueError("a build has either a digest or at least one error")
        return self
