"""What each command takes that hands kernels to other tools."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import typer

from graph.cli.options import Given, Json, Offer

BenchSettings = Annotated[
    Given, Offer("target", "model", "base_url", "max_depth", "isolation", "patience", others=True, target="cuda")
]


@dataclass(frozen=True, kw_only=True)
class Bench:
    """Of `cutegen bench`."""

    benchmark: Annotated[Literal["kernelbench"], typer.Argument(help="Whose tasks and evaluator.")]
    level: Annotated[int, typer.Option(min=1, max=3, help="Of the benchmark.")] = 1
    ids: Annotated[str, typer.Option(help="Only these tasks, as 1-18,23.", show_default="all")] = ""
    tasks: Annotated[int | None, typer.Option(min=1, help="So many tasks, drawn.", show_default="all")] = None
    draw: Annotated[int, typer.Option(help="The seed of that draw.")] = 0
    kernelbench: Annotated[
        Path | None, typer.Option(help="A checkout of KernelBench.", show_default="$CUTEGEN_KERNELBENCH")
    ] = None
    suite: Annotated[
        Path | None, typer.Option(help="Score the suite in this folder, and run none.", show_default=False)
    ] = None
    backend: Annotated[
        Literal["cuda", "triton", "tilelang", "cute"],
        typer.Option(help="Of its evaluator; all but cuda load an export from a temporary file."),
    ] = "cuda"
    settings: BenchSettings
    jobs: Annotated[
        int | None, typer.Option(min=1, max=256, help="Runs side by side.", show_default="as cutegen suite")
    ] = None
    evaluators: Annotated[
        int, typer.Option(min=1, max=16, help="Evaluators side by side; one at a time has the GPU.")
    ] = 1
    minutes: Annotated[float | None, typer.Option(min=0.0, help="Then begin nothing more.", show_default=False)] = None
    out: Annotated[
        Path | None, typer.Option(help="Folder of the suite.", show_default="runs/kernelbench-level<n>-<time>")
    ] = None
    json: Json = False


@dataclass(frozen=True, kw_only=True)
class Export:
    """Of `cutegen export`."""

    run: Annotated[Path, typer.Argument(help="The folder of a run with a kernel.")]
    form: Annotated[
        Literal["folder", "kernelbench", "robust-kbench", "hf-kernels", "torch-extension"],
        typer.Option(help="What takes it: see docs/exports.md."),
    ] = "folder"
    backward: Annotated[
        Path | None,
        typer.Option(help="A run of the same module with --direction backward: its kernel goes in, too."),
    ] = None
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Folder of the export.", show_default="exports/<task>-<form>"),
    ] = None
    json: Json = False
