"""A run's kernel in one of the forms, written to a folder."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal

from graph.export.drop_in import drop_in_files, judged_library
from graph.export.live_module import module_files
from graph.export.serving import served_by
from graph.export.training import training_files
from graph.packages.hf_kernels import hf_kernels_files
from graph.packages.kernelbench import kernelbench_files
from graph.packages.robust_kbench import robust_kbench_files
from graph.packages.source_package import Judged
from graph.packages.torch_extension import torch_extension_files
from graph.runs.folder import RunFolder, machine_error
from graph.runs.record import RunRecord
from harness.nouns.errors import UserError
from harness.nouns.task import TensorSpec

Form = Literal["folder", "kernelbench", "robust-kbench", "hf-kernels", "torch-extension"]
Files = Mapping[str, str | bytes]

_FORMS: dict[Form, Callable[[Judged, Judged | None], Files]] = {
    "kernelbench": kernelbench_files,
    "robust-kbench": robust_kbench_files,
    "hf-kernels": hf_kernels_files,
    "torch-extension": torch_extension_files,
}


def judged(record: RunRecord) -> Judged:
    """The run's task and its best kernel. Raises `UserError` where none passed."""
    if record.task is None or record.best is None:
        raise UserError(f"The run on {record.name} has no kernel: none passed.", "Export a run that found one.")
    return Judged(served_by(record.task, record.best.verdict), record.best.candidate)


def export(record: RunRecord, form: Form, out: Path | None, backward: RunRecord | None = None) -> tuple[Path, ...]:
    """Write the best kernel of a run in a form, and that of its backward beside it: the files.

    `out` is `exports/<task>-<form>` where it names none. Raises `UserError` where the form cannot hold the kernel, or
    `out` holds a run, and `MachineError`.
    """
    forward, back = judged(record), judged(backward) if backward is not None else None
    folder = out if out is not None else Path("exports", f"{_plain(record.name)}-{form}")
    if RunFolder(folder).manifest_file.exists():
        raise UserError(f"{folder} holds a run.", "Name another folder with --out.")
    if form == "folder" and back is None:
        return _folder(record, folder)
    for each in filter(None, (forward, back)):
        if each.task.signature.state:
            raise UserError(
                f"The forward of {each.task.name} writes {each.task.signature.state[0]}, whose new value only a "
                "drop-in's own folder writes back.",
                "Export it with --form folder, and without --backward.",
            )
        given = each.task.signature.arguments
        if pairs := [spec.name for spec in given if isinstance(spec, TensorSpec) and spec.pairs]:
            raise UserError(
                f"{pairs[0]} of {each.task.name} is complex, which only a drop-in's own folder hands to the kernel.",
                "Export it with --form folder, and without --backward.",
            )
    files = training_files(forward, back) if form == "folder" and back else _FORMS[form](forward, back)
    return _written(folder, files)


def _folder(record: RunRecord, folder: Path) -> tuple[Path, ...]:
    """The drop-in, with the library that was judged."""
    task, candidate = judged(record)
    assert record.best is not None
    library = judged_library(candidate, record.best.verdict.tier)
    target = RunFolder(folder)
    texts = {target.kernel.name: candidate.source} | drop_in_files(task, candidate, library)
    target.write_drop_in(texts, library)
    for file in module_files(task.source):
        target.take(file)
    return target.saved


def _written(folder: Path, files: Files) -> tuple[Path, ...]:
    found = []
    for name, content in files.items():
        file = folder / name
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content if isinstance(content, bytes) else content.encode())
        except OSError as error:
            raise machine_error(error, file, "write") from error
        found.append(file)
    return tuple(found)


def _plain(name: str) -> str:
    return re.sub(r"[^0-9A-Za-z_.-]+", "_", name).strip("._") or "kernel"
