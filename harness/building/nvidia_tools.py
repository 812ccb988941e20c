"""Where Nsight Compute and compute-sanitizer are, and what must be readable for them to run."""

from __future__ import annotations

import os
import shutil
from functools import cache
from pathlib import Path

from harness.building.toolchain import cuda_compiler
from harness.nouns.errors import MachineError

_INSTALLED = (Path("/opt/nvidia"), Path("/usr/local"))


@cache
def find_tool(name: str) -> Path | None:
    """The program of that name ("ncu", "compute-sanitizer"): on PATH, else beside nvcc, else as installed.

    What lies on PATH may be a script beside a folder that holds the program itself: then that is the answer.
    """
    on_path = shutil.which(name)
    if on_path:
        itself = Path(on_path).resolve().parent.parent / name / name
        return itself if itself.is_file() else Path(on_path)
    toolkit = _toolkit()
    beside = [toolkit / name] if toolkit else []
    newest = sorted(Path("/opt/nvidia").glob(f"nsight-compute/*/{name}"), reverse=True)
    return next((path for path in (*beside, *newest) if os.access(path, os.X_OK)), None)


def tool_folders(program: Path) -> tuple[str, ...]:
    """What the tool reads of its own: the installers' folders and, where it lies elsewhere, its folder's parent."""
    own = program.resolve().parent.parent
    return tuple(str(path) for path in (*_INSTALLED, own) if path.is_dir())


def _toolkit() -> Path | None:
    try:
        return Path(cuda_compiler().command[0]).resolve().parent
    except MachineError:
        return None
