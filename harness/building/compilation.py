"""The way every build goes, whatever the target: look it up, else compile in a private folder, then publish."""

from __future__ import annotations

import hashlib
import json
import shutil
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from harness.building.gcc import failed_build
from harness.building.load_time import load_time_code, static_data
from harness.building.ninja_file import LIMITS, Edge, run_edges
from harness.building.store import Store, fingerprint, write_text
from harness.building.toolchain import Compiler, headers
from harness.isolation.policy import Limits
from harness.nouns import build
from harness.nouns.build import Build, Diagnostic, Resources, StaticData
from harness.nouns.candidate import Candidate
from harness.nouns.events import BuildEnded, BuildStarted
from harness.nouns.frozen import Frozen
from harness.nouns.tier import Tier
from harness.wire.telling import tell

LIBRARY = "kernel.so"
OBJECT = "kernel.o"
LIBRARIES = Store("builds")
_MESSAGES = "messages.json"


class Messages(Frozen):
    """What the compiler said of one source. Kept beside the library, so that a cached build says the same."""

    diagnostics: tuple[Diagnostic, ...] = ()
    remarks: tuple[Diagnostic, ...] = ()
    resources: tuple[Resources, ...] = ()
    load_time: tuple[str, ...] = ()
    static_data: tuple[StaticData, ...] = ()
    machine_code: str = ""


class Toolchain(ABC):
    """One target's way to compile `source_name` to `LIBRARY` in a folder of its own."""

    source_name: str

    @property
    @abstractmethod
    def compiler(self) -> Compiler:
        """The compiler, looked up. Raises `MachineError` where there is none."""

    @property
    @abstractmethod
    def identity(self) -> tuple[str, ...]:
        """Everything beside compiler, headers and source that a library depends on: flags, architecture."""

    @abstractmethod
    def prepare(self, folder: Path, tier: Tier) -> tuple[Path, ...]:
        """Put beside the source what it needs; returns the trees outside `folder` that the compiler must read."""

    @abstractmethod
    def edges(self) -> Sequence[Edge]:
        """The commands, run inside the folder."""

    @abstractmethod
    def read_messages(self, output: str, folder: Path, source: str) -> Messages:
        """What the compiler printed or left in the folder, structured."""

    def load_time(self, folder: Path) -> tuple[str, ...]:
        """What of the kernel would run when its library is loaded, as the compiled object tells."""
        return load_time_code(folder / OBJECT)

    def static_data(self, folder: Path) -> tuple[StaticData, ...]:
        """What of the kernel outlives its calls and can be written, as the compiled object tells."""
        return static_data(folder / OBJECT)

    def key(self, *parts: str) -> str:
        """The digest of all that a result depends on."""
        return self.digest(*self.identity, *parts)

    def digest(self, *parts: str) -> str:
        """Of compiler, headers and these parts."""
        found = headers()
        described = [*self.compiler.command, self.compiler.version, *found.versions, *parts]
        return hashlib.sha256(json.dumps(described).encode()).hexdigest()[:32]


def compile_candidate(candidate: Candidate, toolchain: Toolchain, *, tier: Tier, limits: Limits = LIMITS) -> Build:
    """Compile in isolation, or take the library from the cache. Raises `MachineError` where the machine is at fault.

    A compiler that meets the limits is a failed build: the source asked for too much.
    """
    tell(BuildStarted(candidate=candidate.digest, target=candidate.target))
    made = _compiled(candidate, toolchain, tier, limits)
    tell(BuildEnded(candidate=candidate.digest, succeeded=made.succeeded, known=made.cached, seconds=made.seconds))
    return made


def _compiled(candidate: Candidate, toolchain: Toolchain, tier: Tier, limits: Limits) -> Build:
    started = time.monotonic()
    key = _key(candidate, toolchain, tier)
    entry = LIBRARIES.entry(key)
    if (entry / LIBRARY).is_file():
        return _load(entry, time.monotonic() - started, cached=True)
    with LIBRARIES.staging() as folder:
        write_text(folder / toolchain.source_name, candidate.source)
        failure = _compile(candidate.source, toolchain, folder, tier, limits)
        if failure is not None:
            return failure.model_copy(update={"seconds": time.monotonic() - started})
        entry = LIBRARIES.publish(folder, key)
    return _load(entry, time.monotonic() - started, cached=False)


def built_before(candidate: Candidate, toolchain: Toolchain, *, tier: Tier) -> Path | None:
    """The candidate's library where this machine has compiled it so; nothing is compiled. Raises `MachineError`."""
    library = LIBRARIES.entry(_key(candidate, toolchain, tier)) / LIBRARY
    return library if library.is_file() else None


def _key(candidate: Candidate, toolchain: Toolchain, tier: Tier) -> str:
    # Without walls a source can copy private files into its library: whoever asks for walls must not be handed that.
    return toolchain.key(candidate.source, _parsers(), "open" if tier == "none" else "walled")


def library_of(build: Build) -> Path | None:
    """Where the library of a build lies on the machine that built it; None for one that failed."""
    return LIBRARIES.entry(build.digest) / LIBRARY if build.digest else None


def _compile(source: str, toolchain: Toolchain, folder: Path, tier: Tier, limits: Limits) -> Build | None:
    """The failed build, or None where `folder` now holds a library and the messages, and nothing else."""
    read = toolchain.prepare(folder, tier)
    completed = run_edges(toolchain.edges(), folder, compiler=toolchain.compiler, tier=tier, read=read, limits=limits)
    output = (completed.stdout + completed.stderr).decode(errors="replace")
    messages = toolchain.read_messages(output, folder, source)
    if completed.exit_code != 0 or not (folder / LIBRARY).is_file():
        return failed_build(completed, messages.diagnostics, output)
    found = {
        "load_time": toolchain.load_time(folder),
        "static_data": toolchain.static_data(folder),
        "machine_code": fingerprint(folder / LIBRARY),
    }
    _keep_only(folder, {LIBRARY, toolchain.source_name})
    kept = tuple(diagnostic for diagnostic in messages.diagnostics if diagnostic.severity != "error")
    write_text(folder / _MESSAGES, messages.model_copy(update={"diagnostics": kept, **found}).model_dump_json())
    return None


@cache
def _parsers() -> str:
    """A digest of this package's text and of the messages' own: they are kept as parsed, for the same parser alone."""
    modules = [*sorted(Path(__file__).parent.glob("*.py")), Path(build.__file__)]
    return hashlib.sha256(b"".join(module.read_bytes() for module in modules)).hexdigest()


def _keep_only(folder: Path, names: set[str]) -> None:
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        elif path.name not in names:
            path.unlink()


def _load(entry: Path, seconds: float, *, cached: bool) -> Build:
    messages = Messages.model_validate_json((entry / _MESSAGES).read_text(encoding="utf-8"))
    return Build(
        digest=entry.name,
        diagnostics=messages.diagnostics,
        remarks=messages.remarks,
        resources=messages.resources,
        load_time=messages.load_time,
        static_data=messages.static_data,
        machine_code=messages.machine_code,
        seconds=seconds,
        cached=cached,
    )
