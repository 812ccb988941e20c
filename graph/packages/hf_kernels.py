"""A folder that the package `kernels` of Hugging Face loads: the built library, its operator, and a layer."""

from __future__ import annotations

import base64
import hashlib
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from graph.export.drop_in import environment, quotable
from graph.export.forms import forward_of
from graph.packages.native import require_one_workload
from graph.packages.plain_model import by_mode, found, numbers_of, require_forward
from graph.packages.source_package import Judged, SourcePackage, python_name, source_package
from harness.nouns.devices import on_gpu
from harness.nouns.errors import MachineError, UserError
from harness.nouns.task import Task

LAYER = "ModelNew"
_BUILD_S = 1800.0
_SHOWN = 3000  # characters of what a failed build said


def hf_kernels_files(forward: Judged, backward: Judged | None) -> dict[str, str | bytes]:
    """The folder's files by their paths, built with the PyTorch of this machine.

    Raises `UserError` for kernels that it cannot hold, `MachineError` where they cannot be built here.
    """
    require_forward(forward.task)
    require_one_workload(forward.task)
    task, name = forward.task, python_name(forward.task.name)
    layer = _layer(task)
    package = source_package(forward, backward)
    variant, built = _built(package)
    text = environment().get_template
    about = {
        "title": quotable(f"A kernel for the model of task {task.name}."),
        "digest": forward.candidate.digest,
        "author": quotable(forward.candidate.author),
    }
    operators = {each.direction: each.namespace for each in package.libraries}
    files: dict[str, str | bytes] = {
        "__init__.py": text("packages/hf_init.py.j2").render(about),
        "_ops.py": text("packages/hf_ops.py.j2").render(
            loading=package.loading, pair=package.pair, operators=operators
        ),
        "layers.py": text("packages/hf_layers.py.j2").render(layer, name=LAYER, has_backward=package.pair is not None),
        **built,
    }
    files["metadata.json"] = json.dumps(_metadata(name, package, files), indent=2) + "\n"
    return {f"build/{variant}/{path}": content for path, content in files.items()}


def _layer(task: Task) -> dict[str, Any]:
    forward = forward_of(task)
    if forward.made:
        raise UserError(
            f"{task.name} takes or returns objects of classes of its own, which a layer of this form cannot make.",
            "Export it with --form folder.",
        )
    return {
        "forward": forward,
        "numbers": numbers_of(task, forward.inputs),
        "parameters": [found(spec.name) for spec in task.signature.parameters],
        "by_mode": by_mode(task, perhaps=True),
    }


def _metadata(name: str, package: SourcePackage, files: dict[str, str | bytes]) -> dict[str, Any]:
    backend: dict[str, Any] = {"type": package.target}
    if on_gpu(package.target):
        number = package.architecture.removeprefix("sm_")
        digits = number.rstrip("a")
        backend["archs"] = [f"{digits[:-1]}.{digits[-1]}{number[len(digits) :]}"]
    contents = {path: text.encode() if isinstance(text, str) else text for path, text in files.items()}
    digests = {path: base64.b64encode(hashlib.sha256(each).digest()).decode() for path, each in contents.items()}
    return {
        "name": name.replace("_", "-"),
        "id": package.libraries[0].namespace,
        "version": 1,
        "license": "Apache-2.0",
        "python-depends": [],
        "backend": backend,
        "digest": {"algorithm": "sha256", "files": digests},
    }


def _built(package: SourcePackage) -> tuple[str, dict[str, bytes]]:
    """The variant's name, and each library; by a process of its own, since PyTorch is not imported here."""
    script = environment().get_template("packages/build.py.j2").render(package.build)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        for name, text in package.texts.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text, encoding="utf-8")
        try:
            done = subprocess.run(
                [sys.executable, "-c", script], cwd=folder, capture_output=True, text=True, timeout=_BUILD_S
            )
        except subprocess.TimeoutExpired as error:
            raise MachineError(
                f"PyTorch's build took longer than {_BUILD_S:.0f} s.", "Export it where fewer programs run."
            ) from error
        if done.returncode:
            said = (done.stdout + done.stderr)[-_SHOWN:]
            raise MachineError(
                f"PyTorch could not build the kernel here:\n{said}",
                "This form needs g++, or nvcc and a PyTorch with CUDA; --form torch-extension is built elsewhere.",
            )
        variant = done.stdout.strip().splitlines()[-1]
        built = {f"_{each.direction}.abi3.so": folder / f"_{each.direction}.so" for each in package.libraries}
        return variant, {name: file.read_bytes() for name, file in built.items()}
