"""A run's folder: what lies in it, how it is made, found again, and written to without half-written files."""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import shutil
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from graph.export.live_module import module_files, restore_files
from graph.runs.record import RunRecord
from graph.runs.trust import remember, require_trust
from harness.nouns.errors import MachineError, UserError
from harness.nouns.frozen import Frozen, Label
from harness.nouns.reading import cause, read_bounded
from harness.nouns.verdict import Timing, Verdict
from nodes.models.replay import Exchange
from nodes.settings import Settings
from nodes.state import Best
from tools.archive import settled

RUNS = Path("runs")
MOST_MANIFEST_BYTES = 64 << 20


Kind = Literal["optimize", "evolve"]
"""The command that begins a run, and goes on with it."""


class Manifest(Frozen):
    """What a run was asked to do: enough to begin it, and to go on with it after a kill."""

    schema_version: Literal[2] = 2
    id: str
    kind: Kind = "optimize"
    name: Label
    source: str
    settings: Settings
    created: datetime


def machine_error(error: OSError, path: Path, doing: str) -> MachineError:
    """Name the file, the cause and the remedy of a failed file operation."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        remedy = "Free some room on the disk, or name a folder on another one with --out."
    else:
        remedy = "Name a folder that you may write to with --out."
    return MachineError(f"Could not {doing} {path}: {cause(error)}.", remedy)


def replace_file(file: Path, text: str) -> None:
    """Write a file whole: a reader sees the old text or the new one. Raises `MachineError`."""
    scratch = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        scratch.write_text(text, encoding="utf-8")
        scratch.replace(file)
    except OSError as error:
        scratch.unlink(missing_ok=True)
        raise machine_error(error, file, "write") from error


@contextmanager
def claimed(file: Path) -> Iterator[None]:
    """Hold a folder for this process by a file in it. Raises `UserError` where another one works there."""
    with file.open("rb") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise UserError(
                f"Another process is working in {file.parent}.", "Wait for it, or stop it, and resume then."
            ) from error
        yield


class RunFolder:
    """The artifacts of one run lie directly in `path`. Writing replaces a file at once or leaves the old one."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.manifest_file = path / "run.json"
        self.kernel = path / "kernel.cu"
        self.drop_in = path / "model_new.py"
        self.library = path / "kernel.so"
        self.runtime = path / "cutegen_runtime"  # what the drop-in imports
        self.module = (path / "program.pt2", path / "inputs.pt")  # of a live module, which the drop-in loads
        self.report = path / "report.html"
        self.record = path / "record.json"
        self.conversation = path / "conversation.jsonl"
        self.compiled = path / "compiled.json"  # the verdict beside torch.compile
        self.question = path / "question.md"
        self.log = path / "log.jsonl"
        self.checkpoints = path / "checkpoints.sqlite"

    @property
    def _all_artifacts(self) -> tuple[Path, ...]:
        files = (self.kernel, self.drop_in, self.report, self.record, self.question, self.conversation, self.log)
        return (*files, self.compiled, self.library, *self.module, self.checkpoints)

    @property
    def _runtime_files(self) -> tuple[Path, ...]:
        return tuple(sorted(self.runtime.glob("*.py")))

    @property
    def saved(self) -> tuple[Path, ...]:
        """Of the files that exist by now, those that a kernel's user has a use for."""
        proof = (self.kernel, self.library, self.drop_in, *self.module, self.record, self.report)
        return tuple(file for file in (*proof, *self._runtime_files) if file.exists())

    @property
    def artifacts(self) -> tuple[Path, ...]:
        """The files that exist by now."""
        return tuple(file for file in self._all_artifacts if file.exists())

    def take(self, file: Path) -> None:
        """Copy a file into the folder, unless one of its size and age lies there. Raises `MachineError`."""
        kept = self.path / file.name
        scratch = kept.with_name(f".{kept.name}.{os.getpid()}")
        try:
            if not kept.exists() or _stamp(kept) != _stamp(file):
                shutil.copy2(file, scratch)
                scratch.replace(kept)
        except OSError as error:
            scratch.unlink(missing_ok=True)
            raise machine_error(error, kept, "write") from error

    def write(self, file: Path, text: str) -> None:
        """Put `text` into one of the folder's files. Raises `MachineError`."""
        replace_file(file, text)

    def write_drop_in(self, texts: Mapping[str, str], library: Path | None) -> None:
        """Put a drop-in's texts, by their names, and its library into the folder. Raises `MachineError`."""
        try:
            self.runtime.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise machine_error(error, self.runtime, "create") from error
        if library is None:
            self.library.unlink(missing_ok=True)
        else:
            self.take(library)
        for name, text in texts.items():
            self.write(self.path / name, text)

    def manifest(self) -> Manifest:
        """What the run was asked to do. Raises `UserError` where that cannot be read."""
        return self.read_manifest()[0]

    def read_manifest(self) -> tuple[Manifest, bytes]:
        """The manifest, and the bytes that say so. Raises `UserError`."""
        try:
            written = read_bounded(self.manifest_file, MOST_MANIFEST_BYTES)
            return Manifest.model_validate_json(written), written
        except OSError as error:
            raise UserError(
                f"{self.path} holds no run: {self.manifest_file.name} cannot be read.",
                "Name the folder that an earlier run printed.",
            ) from error
        except ValidationError as error:
            first = error.errors()[0]
            raise UserError(
                f"{self.manifest_file} is not a run of this version of cutegen ({_said(first)}).",
                "Start a new run, or use the version that began this one.",
            ) from error

    def rewrite(self, manifest: Manifest, settings: Settings) -> Manifest:
        """The manifest with other settings, which the folder holds from now on.

        Raises `MachineError`, and `UserError` where another process works in the folder.
        """
        if settings == manifest.settings:
            return manifest
        changed = manifest.model_copy(update={"settings": settings})
        text = changed.model_dump_json(indent=2)
        with self.claimed():
            remember(text.encode())
            self.write(self.manifest_file, text)
        return changed

    def require_plain(self) -> None:
        """Raises `UserError` where something else than a file lies in a file's place.

        What a run appends to and replaces must not lie elsewhere; a pipe would be waited for without end.
        """
        if self.runtime.is_symlink():
            raise UserError(f"{self.runtime} is a link.", "A run that cutegen wrote holds a folder there.")
        for name in (self.manifest_file, *self._all_artifacts, *self._runtime_files):
            for file in (name, *self.path.glob(f".{name.name}.*"), *self.path.glob(f"{name.name}-*")):
                with suppress(FileNotFoundError):
                    if not stat.S_ISREG(file.lstat().st_mode):
                        raise UserError(
                            f"{file} is no plain file.", "A run that cutegen wrote holds plain files alone."
                        )

    def discard(self) -> None:
        """Remove what a run left, and the folder itself unless it holds something else."""
        for file in (
            *self.artifacts,
            *self._runtime_files,
            self.manifest_file,
            *self.path.glob(f"{self.checkpoints.name}-*"),
        ):
            file.unlink(missing_ok=True)
        for folder in (self.runtime, self.path):
            with suppress(OSError):
                folder.rmdir()

    @contextmanager
    def claimed(self) -> Iterator[None]:
        """Hold the folder for this process. Raises `UserError` where another one works in it."""
        with claimed(self.manifest_file):
            yield


def _stamp(file: Path) -> tuple[int, int]:
    found = file.stat()
    return found.st_size, found.st_mtime_ns


def new_id(now: datetime) -> str:
    """An id that sorts by time: 20260131-235959-1a2b."""
    return f"{now:%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"


def create(
    out: Path | None, *, name: str, source: str, settings: Settings, kind: Kind = "optimize"
) -> tuple[RunFolder, Manifest]:
    """Make a run's folder, `runs/<name>-<id>` where `out` names none, with its manifest.

    Raises `UserError` where `out` already holds a run and `MachineError` where the folder cannot be written.
    """
    now = datetime.now(UTC)
    run_id = new_id(now)
    path = out if out is not None else RUNS / f"{name}-{run_id}"
    folder = RunFolder(path.absolute())
    _refuse_occupied(folder)
    settings = settings.model_copy(update={"run_dir": str(folder.path), "archive": settled(settings.archive)})
    manifest = Manifest(id=run_id, kind=kind, name=name, source=source, settings=settings, created=now)
    try:
        folder.path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise machine_error(error, folder.path, "create the run folder") from error
    text = manifest.model_dump_json(indent=2)
    remember(text.encode())
    folder.write(folder.manifest_file, text)
    for file in module_files(source):
        folder.take(file)
    return folder, manifest


def _refuse_occupied(folder: RunFolder) -> None:
    if folder.path.is_file():
        raise UserError(f"{folder.path} is a file, not a folder.", "Name another folder with --out.")
    if folder.manifest_file.exists():
        raise UserError(
            f"{folder.path} already holds a run.",
            f"Go on with it by --resume {folder.path}, or name another folder with --out.",
        )
    taken = folder.artifacts
    if taken:
        raise UserError(f"{taken[0]} would be overwritten.", "Name another folder with --out.")


def reopen(run: Path, *, trust: bool = False, kind: Kind | None = None) -> tuple[RunFolder, Manifest]:
    """Find an earlier run by its folder, or by its name under `runs/`. With `trust` its settings count as this user's.

    Raises `UserError`, also where settings of a folder from elsewhere could do harm, and where the run is of another
    `kind` than was asked for.
    """
    path = run if run.exists() else RUNS / run
    if not path.is_dir():
        raise UserError(f"There is no run {run}.", "Name the folder that an earlier run printed.")
    folder = RunFolder(path.absolute())
    folder.require_plain()
    manifest, written = folder.read_manifest()
    if kind not in (None, manifest.kind):
        raise UserError(
            f"{folder.path} holds a run of another command.", f"Go on with: cutegen {manifest.kind} --resume {run}."
        )
    if trust:
        remember(written)
    else:
        way = (
            f"Begin a new run; or, where you trust who made it, cutegen {manifest.kind} --resume {folder.path} --trust."
        )
        require_trust(written, manifest.settings, folder.manifest_file, way)
    restore_files(manifest.source, folder.path)
    # The folder may have been moved since: what the agents write goes where it lies now.
    settings = manifest.settings.model_copy(update={"run_dir": str(folder.path)})
    return folder, manifest.model_copy(update={"settings": settings})


def _said(error: ErrorDetails) -> str:
    """Where a file is wrong, and what about it."""
    return f"{'.'.join(map(str, error['loc'])) or 'JSON'}: {error['msg']}"


# -- What a run's folder holds beside its record and tells its reader more: what was said, and torch.compile's time ---


MOST_BYTES = 64 << 20


class Beside(Frozen):
    """`exchanges` with the models in the order of their numbers; `compiled` is the best kernel's later timing."""

    exchanges: tuple[Exchange, ...] = ()
    compiled: Timing | None = None


def found_beside(folder: RunFolder, record: RunRecord) -> Beside:
    """What lies there. What is missing, too large, or cannot be read is left out: the record stands by itself."""
    return Beside(exchanges=_exchanges(folder), compiled=compared(folder, record.best))


def compared(folder: RunFolder, best: Best | None) -> Timing | None:
    """The best kernel's timing beside torch.compile; None where there is none (yet), or it is an earlier kernel's."""
    try:
        verdict = Verdict.model_validate_json(read_bounded(folder.compiled))
    except (OSError, ValidationError):
        return None
    return verdict.timing if best and verdict.candidate == best.candidate.digest else None


def _exchanges(folder: RunFolder) -> tuple[Exchange, ...]:
    """One for each number: a run that was killed in an exchange has written it twice."""
    try:
        lines = read_bounded(folder.conversation, MOST_BYTES).splitlines()
    except OSError:
        return ()
    found: dict[int, Exchange] = {}
    for line in lines:
        try:
            exchange = Exchange.model_validate_json(line)
        except ValidationError:  # the half line that a kill left
            continue
        found[exchange.index] = exchange
    return tuple(found[index] for index in sorted(found))
