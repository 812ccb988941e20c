"""AddressSanitizer and UndefinedBehaviorSanitizer over a kernel for the processor."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

from harness.building.compilation import library_of
from harness.building.sanitized_build import SanitizedCpuToolchain
from harness.building.toolchain import host_compiler
from harness.isolation.policy import Limits
from harness.isolation.process import Completed
from harness.isolation.scratch import scratch_folder
from harness.machine.system import ask
from harness.nouns.build import Build
from harness.nouns.sanitizer_run import Finding, SanitizerRun
from harness.nouns.task import Signature, TensorSpec
from harness.nouns.tier import Tier
from harness.processes.tool_runner import Tool, argument_bytes, run_alone, unwritten, why_unfinished
from harness.wire.layout import span_bytes

TOOL = "address, undefined"
LIMIT_S = 10.0
"""It takes a second where a kernel takes milliseconds; whoever wants to time another one waits for it."""
_ASK_S = 20.0
_SCRATCH_BYTES = 8 << 30
_SHADOW_BYTES = 1 << 45
"""AddressSanitizer reserves an eighth of all addresses, and touches as much as the kernel uses of them."""
_KERNEL = SanitizedCpuToolchain.source_name

_ADDRESS = re.compile(r"ERROR: AddressSanitizer: (?:attempting )?(?P<kind>[\w-]+)")
_ACCESS = re.compile(r"^(?P<how>READ|WRITE) of size (?P<bytes>\d+)", re.MULTILINE)
_REGION = re.compile(
    r"located (?P<gap>\d+) bytes (?P<where>to the right of|to the left of|inside of|after|before) "
    r"(?P<size>\d+)-byte region"
)
_OTHERWISE = {
    "SEGV": " reaches an address that is not mapped",
    "BUS": " reaches an address that is not mapped",
    "double-free": " frees memory once more",
    "free": " frees memory that was not allocated this way",
}
"""What a line does where the report names neither a read nor a write."""
_NO_ADDRESS = re.compile(r"SEGV on unknown address \(|caused by a dereference of a high value address")
_REFUSED = " accesses a whole vector at an address that is no multiple of its size, or an address that cannot be"
"""The processor raises one fault for both, and tells no address."""
_FRAME = re.compile(rf"#\d+ 0x[0-9a-f]+ .*?{re.escape(_KERNEL)}:(?P<line>\d+)")
_UNDEFINED = re.compile(r"^(?P<place>\S+):(?P<line>\d+):\d+: runtime error: (?P<text>.*)$", re.MULTILINE)
_WHERE = {
    "to the right of": "beyond the end of",
    "after": "beyond the end of",
    "to the left of": "before the start of",
    "before": "before the start of",
    "inside of": "inside",
}


def sanitize_on_host(
    build: Build, signature: Signature, *, tier: Tier, values: Path | None = None, limit_s: float = LIMIT_S
) -> SanitizerRun:
    """Call a library of `SanitizedCpuToolchain` once, with `values` (see `Tool`) or, where there are none, with numbers
    by a rule. Raises `MachineError` where the machine failed."""
    preload = _runtime()
    if not preload:
        return _skipped("g++ has no AddressSanitizer here; Debian and Ubuntu: apt install libasan8 libubsan1", 0.0)
    library = library_of(build)
    if library is None:
        return _skipped(f"it did not compile with the sanitizers: {build.diagnostics[0].message}", 0.0)
    tool = Tool(
        limits=Limits(
            wall_s=limit_s,
            memory_bytes=3 * argument_bytes(signature) + _SCRATCH_BYTES,
            reserved_bytes=_SHADOW_BYTES,
        ),
        environment={
            "LD_PRELOAD": os.pathsep.join(map(str, preload)),
            # Python leaks by design. The 2 keeps tvm-ffi from taking the signal for a handler of its own.
            "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1:handle_segv=2:handle_sigbus=2:handle_sigfpe=2",
            "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1:handle_segv=0",
        },
        values=values,
    )
    with scratch_folder() as folder:
        done = run_alone(library, signature, tool, device="cpu", tier=tier, folder=folder)
    return judge_run(done, signature)


def judge_run(done: Completed, signature: Signature) -> SanitizerRun:
    """What a finished run says; the sanitizers report on stderr."""
    findings = tuple(parse_reports(done.stderr.decode(errors="replace"), _sizes(signature)))
    ended = done.outcome != "timed_out"
    if findings:
        return SanitizerRun(tool=TOOL, status="found", findings=findings[:1], seconds=done.wall_s, ended=ended)
    if done.outcome == "exited" and done.exit_code == 0:
        return SanitizerRun(tool=TOOL, status="clean", seconds=done.wall_s)
    return _skipped(why_unfinished(done), done.wall_s, ended=ended)


def parse_reports(text: str, arguments: Mapping[int, str]) -> Iterator[Finding]:
    """The defects in the sanitizers' reports. `arguments` are the names of those with so many bytes."""
    line = _FRAME.search(text)
    number = int(line["line"]) if line else None
    place = f"line {number}" if number else "the kernel"
    if found := _ADDRESS.search(text):
        kind = found["kind"]
        what = f"{place}{_access(kind, text)}{_region(text, arguments)}"
        yield Finding(kind=kind, line=number, message=f"AddressSanitizer: {kind}: {what}.")
    for undefined in _UNDEFINED.finditer(text):
        own = Path(undefined["place"]).name == _KERNEL
        here = int(undefined["line"]) if own else number
        if here is not None:  # else neither the kernel's line nor called from one: a library's own affair
            yield Finding(
                kind="undefined behaviour",
                line=here,
                message=f"UndefinedBehaviorSanitizer: line {here}: {undefined['text']}.",
            )
    yield from unwritten(text)


def _access(kind: str, text: str) -> str:
    access = _ACCESS.search(text)
    if access is None:
        return _REFUSED if kind == "SEGV" and _NO_ADDRESS.search(text) else _OTHERWISE.get(kind, "")
    return f" {'reads' if access['how'] == 'READ' else 'writes'} {access['bytes']} bytes"


def _region(text: str, arguments: Mapping[int, str]) -> str:
    region = _REGION.search(text)
    if region is None:
        return ""
    size = int(region["size"])
    name = arguments.get(size, "an allocation")
    gap = "" if region["gap"] == "0" else f", {region['gap']} bytes"
    return f"{gap} {_WHERE[region['where']]} {name} ({size} bytes)"


def _sizes(signature: Signature) -> dict[int, str]:
    names: dict[int, list[str]] = {}
    for spec in signature.arguments:
        if isinstance(spec, TensorSpec):
            names.setdefault(span_bytes(spec), []).append(spec.name)
    return {size: " or ".join(found) for size, found in names.items()}


@cache
def _runtime() -> tuple[Path, ...]:
    """The libraries that have to be in the process before anything else; empty where g++ has no sanitizers.

    The C++ library is among them because AddressSanitizer looks its throw function up once, at the start.
    """
    found = tuple(_library(name) for name in ("libasan.so", "libubsan.so", "libstdc++.so.6"))
    return tuple(path for path in found if path) if all(found) else ()


def _library(name: str) -> Path | None:
    command = [*host_compiler().command, f"-print-file-name={name}"]
    answer = Path(ask(command, timeout_s=_ASK_S).stdout.strip())
    return answer.resolve() if answer.is_absolute() and answer.exists() else None


def _skipped(why: str, seconds: float, *, ended: bool = True) -> SanitizerRun:
    return SanitizerRun(tool=TOOL, status="skipped", note=why, seconds=seconds, ended=ended)
