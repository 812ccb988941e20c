"""Drop-ins in folders, with their libraries, as a run leaves them."""

from __future__ import annotations

import importlib.util
import itertools
import shutil
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from graph.export.drop_in import drop_in_files
from harness.building.compilation import compile_candidate, library_of
from harness.building.cpu_build import CpuToolchain
from harness.isolation.tiers import resolve_tier
from harness.nouns.candidate import Candidate, TargetName
from harness.nouns.task import Task, Workload

_LOADED = itertools.count()


@cache
def described(source: str) -> Task:
    """The task as the judge describes it. torch is needed for that, so it is imported here and not above."""
    from harness.trusted.facts.describing import describe

    return Task.model_validate(describe(source, "a task"))


def candidate(source: str, target: TargetName = "cpu") -> Candidate:
    return Candidate(source=source, target=target, author="generator:a person")


def exported(folder: Path, source: str, kernel: str, *, built: bool = True, serving: Sequence[Workload] = ()) -> Path:
    """A folder with the drop-in, the reference's file, and, where the kernel is `built`, the judge's library."""
    folder.mkdir(exist_ok=True, parents=True)
    library = None
    if built:
        library = library_of(compile_candidate(candidate(kernel), CpuToolchain(), tier=resolve_tier("auto")))
        assert library is not None
        shutil.copy(library, folder)
    (folder / "kernel.cu").write_text(kernel)
    (folder / "reference.py").write_text(source)
    for name, text in drop_in_files(described(source).serving(serving), candidate(kernel), library).items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    return folder


def beside_eager(drop_in: Any) -> tuple[Any, Any]:
    """A drop-in as it comes and its reference, with the same parameters; its fallbacks are counted from here on."""
    model, eager = drop_in.ModelNew().eval(), drop_in.reference.Model().eval()
    model.load_state_dict(eager.state_dict())
    drop_in.KERNEL.fallbacks.clear()
    return model, eager


def loaded(folder: Path) -> Any:
    """The drop-in of a folder as a module of this process, which can be pickled."""
    name = f"drop_in_{next(_LOADED)}"
    spec = importlib.util.spec_from_file_location(name, folder / "model_new.py")
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
