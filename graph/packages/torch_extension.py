"""Sources and a build file for `pip install`: an extension that plain PyTorch builds, and `ModelNew` on it."""

from __future__ import annotations

from graph.export.drop_in import environment, quotable
from graph.packages.native import require_one_workload
from graph.packages.plain_model import plain_model, reference_text, require_forward
from graph.packages.source_package import Judged, python_name, source_package


def torch_extension_files(forward: Judged, backward: Judged | None) -> dict[str, str]:
    """The project's texts by their paths. Raises `UserError` for kernels that it cannot hold."""
    require_forward(forward.task)
    require_one_workload(forward.task)
    futures, reference = reference_text(forward.task)
    package, name = source_package(forward, backward), f"cutegen_{python_name(forward.task.name)}"
    text = environment().get_template
    about = {
        "title": quotable(f"A kernel for the model of task {forward.task.name}."),
        "digest": forward.candidate.digest,
        "author": quotable(forward.candidate.author),
    }
    module = text("packages/extension_init.py.j2").render(
        about,
        futures=futures,
        reference=reference,
        loading=package.loading,
        model=plain_model(forward.task, pair=package.pair),
    )
    return {
        "pyproject.toml": text("packages/pyproject.toml.j2").render(about, name=name),
        "setup.py": text("packages/setup.py.j2").render(package.build, name=name),
        "MANIFEST.in": "recursive-include csrc *\nrecursive-include include *\n",
        f"{name}/__init__.py": module,
        **package.texts,
    }
