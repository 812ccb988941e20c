"""What lies in files: a task to work on, and a drop-in to use. Quick to import: bad input is answered at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from graph.export.live_drop_in import load_drop_in, own_module, patched
from graph.export.live_module import is_module, module_source
from harness.nouns.errors import UserError
from harness.nouns.reading import cause, read_text
from harness.nouns.task import Direction
from harness.tasks.declaring import directed
from harness.tasks.robust_folder import folder_source, is_robust_folder
from nodes.state import TaskInput

DROP_IN, FAST_MODEL = "model_new.py", "model_fast.py"

Inputs = Sequence[Any] | Mapping[str, Any]
"""The forward's arguments in order, or by name."""


def load_task(source: Any, inputs: Inputs | None = None, *, direction: Direction | None = None) -> TaskInput:
    """A task from a file's path, a KernelBench-style source text, or an `nn.Module` with representative inputs.

    A text of several lines is a source, any other a path. What the file does is found out when a run begins. A
    robust-kbench folder is a task, too: `direction` says which of its files it is made of, and of any other task what
    its kernels compute. Raises `UserError`.
    """
    loaded = _loaded(source, inputs, direction)
    return loaded.model_copy(update={"source": directed(loaded.source, direction)})


def load(
    folder: str | Path,
    module: Any = None,
    inputs: Inputs | None = None,
    *,
    fallback: Literal["reference", "error"] = "reference",
) -> Any:
    """The drop-in in a run's folder, or where `save` or an export put it, as an `nn.Module` that is ready for calls.

    Without a `module` it is constructed as the task does, in evaluation mode, on the kernel's device; with one, that
    module gets the kernel for its forward and is returned. Calls that the kernel was not made for are computed by the
    reference, counted, and reported once a kind, or raise with `fallback="error"` (docs/drop-in.md). The folder of a
    whole model needs the `module`, and the `inputs` that it is called with, and returns it with its kernels.

    This runs the folder's Python code. Raises `UserError` where no drop-in lies there, or the module has other weights.
    """
    if fallback not in ("reference", "error"):
        raise UserError(f"fallback is {fallback!r}.", 'Say "reference" or "error".')
    path = Path(folder)
    file = path if path.is_file() else path / DROP_IN
    if file.is_file():
        return own_module(file, fallback) if module is None else patched(file, module, fallback)
    if (path / FAST_MODEL).is_file():
        return _accelerated(path / FAST_MODEL, module, inputs)
    what = f"There is no {DROP_IN} in {path}." if path.is_dir() else f"There is no folder {path}."
    raise UserError(what, "Name the folder of a run that found a kernel, or one that its result was saved to.")


def _accelerated(file: Path, module: Any, inputs: Inputs | None) -> Any:
    if module is None or inputs is None:
        raise UserError(
            f"{file.parent} holds the kernels of a whole model.", "Call load(FOLDER, module, inputs=(x, ...))."
        )
    args, kwargs = ((), inputs) if isinstance(inputs, Mapping) else (inputs, None)
    return load_drop_in(file).accelerate(module, args, kwargs)


def _loaded(source: Any, inputs: Inputs | None, direction: Direction | None) -> TaskInput:
    if is_module(source):
        if inputs is None:
            raise UserError("A module needs inputs to be judged on.", "Call load_task(module, inputs=(x, ...)).")
        name, text = module_source(source, inputs)
        return TaskInput(source=text, name=name)
    if inputs is not None:
        raise UserError("Inputs belong to a module; a task file has its own get_inputs().", "Leave them out.")
    if isinstance(source, str) and "\n" in source:
        return TaskInput(source=source)
    path = Path(source)
    if path.is_dir() and is_robust_folder(path):
        return TaskInput(source=folder_source(path, direction), name=path.resolve().name)
    return TaskInput(source=read_source(path, "Name a Python file with class Model."), name=path.stem)


# -- The text of a file that a person named, or a sentence that says why there is none --------------------------------


MOST_SOURCE_BYTES = 16 << 20
"""No file that a person or a model writes is larger."""


def read_source(path: Path, remedy: str) -> str:
    """The text of a file that somebody named. Raises `UserError`, with this remedy where it is no such file."""
    try:
        return read_text(path, MOST_SOURCE_BYTES)
    except FileNotFoundError as error:
        raise UserError(f"There is no file {path}.", remedy) from error
    except IsADirectoryError as error:
        raise UserError(f"{path} is a folder.", remedy) from error
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is no UTF-8 text: {error.reason}.", remedy) from error
    except OSError as error:
        raise UserError(f"{path} cannot be read: {cause(error)}.", "Check its rights.") from error
