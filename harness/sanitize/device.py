"""compute-sanitizer over a kernel for an NVIDIA GPU: memcheck, racecheck, initcheck and synccheck."""

from __future__ import annotations

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from itertools import groupby
from pathlib import Path

from harness.building.compilation import library_of
from harness.building.cuda_build import CudaToolchain
from harness.building.toolchain import find_tool, tool_folders
from harness.isolation.policy import Access, Limits, Needs
from harness.isolation.process import Completed
from harness.isolation.scratch import left_behind, scratch_folder
from harness.nouns.build import Build
from harness.nouns.sanitizer_run import MAX_FINDINGS, Finding, SanitizerRun
from harness.nouns.task import Signature
from harness.nouns.tier import Tier
from harness.processes.tool_runner import Tool, argument_bytes, run_alone, unwritten, why_unfinished

TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")
LIMIT_S = 10.0
"""A tool. It slows a kernel ten to a thousand times; whoever wants to time another one waits for it. Those that are
watched at sizes of `shrinking` end within 5 s where the machine has nothing else to do."""
_PROGRAM = "compute-sanitizer"
_LOG = "log.txt"
_WRITES = "memcheck"
"""Under this tool outputs are looked through for what was never written. initcheck would take their filling for it."""
_HOST_BYTES = 32 << 30
_AT_ONCE_BYTES = 8 << 30
"""Tasks up to this size are watched by all four tools at once, each with the arguments of its own; larger ones too,
where eight times as much fits the card: initcheck keeps a shadow of all memory, and other kernels are watched beside
this one."""
_PADDING = "512"
"""Bytes kept free after each allocation, so that one byte too far does not lie in the next one."""

_HANDED_OVER = re.compile(r"mbarrier|Barrier::|cp\.async\.bulk|_BULK_|_TMA_|wgmma|GMMA")
UNWATCHED = "it does not follow what barriers in shared memory hand over between threads and bulk copies or wgmma"
"""Measured on an H200 (2025.3.1): racecheck calls a kernel clean whose producer overwrites tiles before wgmma has read
them; synccheck notices the missing wait."""

_OPENING = re.compile(r"^=+ (?! )(?P<text>.*)$")
_DEFECT = re.compile(r"Invalid |Misaligned |Uninitialized |Race |Barrier error|Address |Fault ")
"""How a message of the kernel's begins; others are the tool's own, or of calls to the runtime."""
_PLACE = re.compile(rf"\b(?:at|in) .*?{re.escape(CudaToolchain.source_name)}:(?P<line>\d+)")
_ADDRESS = re.compile(r"(?: at| to)? 0x[0-9a-f]+")
_WORTH_TELLING = re.compile(r"^(by thread|Access |and is |and (?:Read|Write) access)")


def sanitize_on_device(
    build: Build,
    signature: Signature,
    needs: Needs,
    *,
    tier: Tier,
    values: Path | None = None,
    memory_bytes: int = 0,
    limit_s: float = LIMIT_S,
) -> tuple[SanitizerRun, ...]:
    """One run a tool, each calling a library with line information once. Raises `MachineError`.

    `values` are the arguments' own (see `Tool`), `memory_bytes` is the card's memory, where it is known.
    """
    program = find_tool(_PROGRAM)
    if program is None:
        why = "compute-sanitizer was not found; it comes with the CUDA toolkit"
        return (SanitizerRun(tool=_PROGRAM, status="skipped", note=why),)
    library = library_of(build)
    if library is None:
        why = f"it did not compile with line information: {build.diagnostics[0].message}"
        return (SanitizerRun(tool=_PROGRAM, status="skipped", note=why),)
    at_once = len(TOOLS) * argument_bytes(signature) <= max(_AT_ONCE_BYTES, memory_bytes // 8)

    def run(name: str) -> SanitizerRun:
        tool = _tool(name, program, needs, values, limit_s)
        with scratch_folder() as folder:
            done = run_alone(library, signature, tool, device="cuda", tier=tier, folder=folder)
            run = judge_run(name, done, left_behind(folder / _LOG))
        return with_unwatched(run, library.parent / CudaToolchain.source_name)

    with ThreadPoolExecutor(len(TOOLS) if at_once else 1) as pool:
        running = [pool.submit(copy_context().run, run, name) for name in TOOLS]
        return tuple(each.result() for each in running)


def _tool(name: str, program: Path, needs: Needs, values: Path | None, limit_s: float) -> Tool:
    padding = ("--padding", _PADDING) if name == "memcheck" else ()
    return Tool(
        command=(str(program), "--tool", name, "--report-api-errors", "no", "--log-file", _LOG, *padding),
        access=needs.access + Access(read=tool_folders(program), profiling=True),
        limits=Limits(wall_s=limit_s, memory_bytes=_HOST_BYTES, file_bytes=1 << 30),
        environment=needs.environment,
        values=values,
        spoilt=name == _WRITES,
    )


def with_unwatched(run: SanitizerRun, source: Path) -> SanitizerRun:
    """A clean run of racecheck says what of this source it cannot see."""
    blind = run.tool == "racecheck" and run.status == "clean" and source.is_file()
    if not blind or not _HANDED_OVER.search(source.read_text(encoding="utf-8")):
        return run
    return run.model_copy(update={"unwatched": UNWATCHED})


def judge_run(name: str, done: Completed, log: str) -> SanitizerRun:
    """What a finished run and its log say. Without the summary line at its end the tool has not come to a result."""
    left = unwritten(done.stderr.decode(errors="replace"))
    findings = (*parse_log(name, log), *left)[:MAX_FINDINGS]
    ended = done.outcome != "timed_out"
    if findings:
        return SanitizerRun(tool=name, status="found", findings=findings, seconds=done.wall_s, ended=ended)
    if done.outcome == "exited" and done.exit_code == 0 and "SUMMARY" in log:
        return SanitizerRun(tool=name, status="clean", seconds=done.wall_s)
    return SanitizerRun(tool=name, status="skipped", note=_why(done, log), seconds=done.wall_s, ended=ended)


def _why(done: Completed, log: str) -> str:
    said = [line.lstrip("= ") for line in log.splitlines() if "Error:" in line]
    return said[0] if said else why_unfinished(done)


def parse_log(name: str, text: str) -> Iterator[Finding]:
    """The defects that a log tells, those that differ in more than the thread. One by one, in the order found."""
    blocks = (_finding(name, block) for block in _blocks(text))
    found = sorted((each for each in blocks if each), key=lambda each: (each.line or 0, each.kind))
    for _, same in groupby(found, key=lambda each: (each.line, each.kind)):
        yield next(same)


def _blocks(text: str) -> Iterator[list[str]]:
    """Each message with its details: a line that begins at the margin, and the indented ones below it."""
    block: list[str] = []
    for line in text.splitlines():
        if opening := _OPENING.match(line):
            if block:
                yield block
            block = [opening["text"].strip()]
        elif block:
            block.append(line.lstrip("= ").strip())
    if block:
        yield block


def _finding(name: str, block: list[str]) -> Finding | None:
    kind = block[0].removeprefix("Error: ")
    if not _DEFECT.match(kind):
        return None
    place = next((match for line in block if "Frame:" not in line and (match := _PLACE.search(line))), None)
    line = int(place["line"]) if place else None
    kind = re.split(r" at | of size ", kind)[0].rstrip(".")
    size = re.search(r"of size (\d+) bytes", block[0])
    details = [
        _ADDRESS.sub("", _PLACE.sub(r"in line \g<line>", text).split(" [")[0]) for text in block[1:] if _tells(text)
    ]
    where = f", line {line}" if line else ""
    extent = f" of {size[1]} bytes" if size else ""
    message = f"{name}: {', '.join([f'{kind}{extent}{where}', *details])}."
    return Finding(kind=kind, message=message, line=line)


def _tells(text: str) -> bool:
    return bool(_WORTH_TELLING.match(text))
