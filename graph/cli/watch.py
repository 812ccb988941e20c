"""`cutegen watch`: the page of a run, a model or a suite that grows while it goes on, in whichever process."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from rich.console import Console
from rich.text import Text

from graph.cli.errors import IMPROVED
from graph.cli.options import Watch
from graph.live.server import View, Watching
from graph.live.views import ModelView, RunView, SuiteView
from graph.runs.folder import RUNS, RunFolder
from harness.nouns.errors import MachineError, UserError
from harness.nouns.reading import cause


def run(options: Watch) -> int:
    """Do the command; its exit code."""
    view = look_at(options.folder or newest())
    try:
        server = Watching(view, options.port)
    except OSError as error:
        raise MachineError(
            f"Port {options.port} cannot be had: {cause(error)}.", "Name another one, or none."
        ) from error
    with server:
        told = f"{view.name}: {server.url} (Ctrl-C ends the page, not the run)"
        Console().print(Text(told), soft_wrap=True)
        with suppress(KeyboardInterrupt):
            server.serve_forever(poll_interval=0.2)
    return IMPROVED


def look_at(folder: Path) -> View:
    """The suite, model or run in a folder, or of that name under `runs/`. Raises `UserError`."""
    path = folder if folder.exists() else RUNS / folder
    if (path / "suite.json").exists():
        return SuiteView(path)
    if (path / "model.json").exists():
        return ModelView(path)
    return RunView(RunFolder(path.absolute()))


def newest() -> Path:
    """The run, model or suite under `runs/` that was begun last. Raises `UserError` where there is none."""
    begun = [file for name in ("run.json", "model.json", "suite.json") for file in RUNS.glob(f"*/{name}")]
    if not begun:
        raise UserError("There is no run in runs/.", "Name the folder of a run, a model or a suite.")
    return max(begun, key=lambda file: file.stat().st_mtime_ns).parent
