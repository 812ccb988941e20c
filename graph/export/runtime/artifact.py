"""What Inductor made of a model, as a file beside `model_fast.py`: a process that finds it there compiles nothing anew.

It holds for one build of torch on one kind of device; others do not find it.
"""

from __future__ import annotations

import hashlib
import logging
import os
from functools import cache
from pathlib import Path
from typing import Any

import torch

from .archive import device_name
from .library import refused

_LOG = logging.getLogger("cutegen")


def artifact_file(folder: Path, module: torch.nn.Module) -> Path:
    """Where it lies in a model's folder for this torch and the device of the module's tensors."""
    tensors = [*module.parameters(), *module.buffers()]
    device = next((each.device for each in tensors), torch.device("cpu"))
    build = (torch.__version__, torch.version.git_version, torch.version.cuda, device_name(device.type, device.index))
    return folder / f"inductor-{hashlib.sha256(repr(build).encode()).hexdigest()[:16]}.bin"


def save_artifact(file: Path) -> None:
    """Write what Inductor has made in this process. Raises `RuntimeError` where that is nothing, and `OSError`."""
    made = torch.compiler.save_cache_artifacts()
    if made is None:
        raise RuntimeError("nothing has been compiled in this process: call the model first")
    scratch = file.with_name(f".{file.name}.{os.getpid()}")
    scratch.write_bytes(made[0])
    scratch.replace(file)


@cache
def load_artifact(file: Path) -> bool:
    """Put into Inductor's caches what lies there, once; a file that others can write to, or a damaged one, is none."""
    try:
        if not file.is_file():
            return False
        if why := refused(file.parent) or refused(file):
            raise RuntimeError(why)
        if torch.compiler.load_cache_artifacts(file.read_bytes()) is None:
            raise RuntimeError("it is no artifact, or not all of one")
        return True
    except Exception as error:  # noqa: BLE001 (a file of any contents: the model is compiled then)
        first: Any = (str(error).strip().splitlines() or [""])[0]
        _LOG.warning("%s is not used, and the model is compiled anew: %s: %s", file, type(error).__name__, first)
        return False
