"""What clang-tidy says of a kernel for this processor, where it is installed: paths on which something goes wrong."""

from __future__ import annotations

import shlex
import shutil
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from harness.building.gcc import KERNEL, parse_messages
from harness.building.ninja_file import LIMITS, PRELUDE, PRELUDE_NAME, Edge, run_edges
from harness.building.store import write_text
from harness.building.toolchain import Compiler, headers, host_compiler
from harness.isolation.scratch import left_behind, scratch_folder
from harness.nouns.build import Diagnostic
from harness.nouns.tier import Tier

PROGRAM = "clang-tidy"
# The analyzer follows paths: what is read before it is written, divisors that are 0, null. Of the rest those that name
# a fault; style is nobody's affair here.
_CHECKS = (
    "-*", "clang-analyzer-core.*", "clang-analyzer-cplusplus.*",
    "bugprone-infinite-loop", "bugprone-sizeof-expression", "bugprone-too-small-loop-variable",
    "bugprone-undefined-memory-manipulation", "bugprone-inc-dec-in-conditions",
)  # fmt: skip
_SOURCE, _SAID = "kernel.cpp", "tidy.txt"
_WHEEL = "clang_tidy"


@cache
def clang_tidy() -> Path | None:
    """The program itself: the wheel's, whose command is a script around it, or that of PATH."""
    found, spec = shutil.which(PROGRAM), find_spec(_WHEEL)
    if found is None:
        return None
    own = Path(spec.origin).parent / "data" / "bin" / PROGRAM if spec and spec.origin else None
    return own if own and own.is_file() else Path(found).resolve()


def lint(source: str, *, tier: Tier) -> tuple[Diagnostic, ...]:
    """Its warnings on the kernel's own lines; none without clang-tidy, or where clang cannot read the source."""
    program = clang_tidy()
    if program is None:
        return ()
    include = [word for folder in headers().include for word in ("-isystem", str(folder))]
    flags = ("-std=c++17", "-march=native", "-fopenmp", *include, "-include", PRELUDE_NAME)
    command = shlex.join([str(program), _SOURCE, "--quiet", f"--checks={','.join(_CHECKS)}", "--", *flags])
    edge = Edge("lint", ("sh", "-c", f"{command} > {_SAID} 2>/dev/null || true"), (_SOURCE,), _SAID)
    own = [folder for folder in (program.parent, program.parent.parent / "lib") if folder.is_dir()]
    compiler = Compiler(command=(str(program),), version="", roots=(*host_compiler().roots, *own))
    with scratch_folder() as folder:
        write_text(folder / _SOURCE, source)
        write_text(folder / PRELUDE_NAME, PRELUDE)
        run_edges([edge], folder, compiler=compiler, tier=tier, limits=LIMITS)
        said = left_behind(folder / _SAID)
    found = parse_messages(said, kernel_file=_SOURCE, source=source)
    return tuple(each for each in found if each.file == KERNEL and each.severity == "warning")
