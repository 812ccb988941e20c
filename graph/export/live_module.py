"""A live `nn.Module` as a task: its exported program goes into the cache, and a short task file loads it.

torch is the caller's here: this file reaches for it only where the caller has imported it to make the module.
"""

from __future__ import annotations

import hashlib
import importlib
import inspect
import json
import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from harness.building.store import exported_modules
from harness.nouns.errors import UserError

PROGRAM, INPUTS = "program.pt2", "inputs.pt"
_TEMPLATES = Path(__file__).parent / "templates"


def module_source(module: Any, inputs: Sequence[Any] | Mapping[str, Any]) -> tuple[str, str]:
    """Name and task source of a module with representative inputs, in order or by name.

    Raises `UserError` where it cannot be exported.
    """
    torch = sys.modules["torch"]
    name = type(module).__name__
    given = dict(inputs) if isinstance(inputs, Mapping) else tuple(inputs)
    store = exported_modules()
    with store.staging() as folder:
        try:
            torch.export.save(_exported(module, given), folder / PROGRAM)
            torch.save(torch.utils._pytree.tree_map_only(torch.Tensor, _on_host, given), folder / INPUTS)
        except Exception as error:  # torch.export may raise anything; its first line is the answer
            first = (str(error).strip().splitlines() or [type(error).__name__])[0]
            raise UserError(
                f"{name} cannot be exported with these inputs: {first}",
                "Give a module that torch.export takes, with its forward's inputs in order or by name, or a task file.",
            ) from error
        kept = store.publish(folder, _key(folder))
    names = list(given) if isinstance(given, dict) else _argument_names(module, len(given))
    passed = [f"{each}={each}" for each in names] if isinstance(given, dict) else names
    texts = {"parameters": ", ".join(names), "arguments": ", ".join(passed)}
    return name.lower(), _task_file(name=name, key=kept.name, **texts)


def cut_source(staged: Path, *, name: str, inputs: int) -> str:
    """The task source of a program and so many inputs, `x0` on, that lie in a staged folder: it goes into the cache."""
    kept = exported_modules().publish(staged, _key(staged))
    names = ", ".join(f"x{k}" for k in range(inputs))
    return _task_file(name=name, key=kept.name, parameters=names, arguments=names)


def module_key(source: str) -> str | None:
    """The name in the cache of what a live module's task file loads; None for any other file."""
    found = re.search(r'^EXPORTED = "([0-9a-f]{32})"$', source, re.MULTILINE)
    return found[1] if found else None


def module_files(source: str) -> tuple[Path, ...]:
    """The files in this machine's cache that a live module's task file needs beside it; none for any other file."""
    key = module_key(source)
    folder = exported_modules().entry(key) if key else None
    return tuple(file for file in (folder / PROGRAM, folder / INPUTS) if file.is_file()) if folder else ()


def restore_files(source: str, beside: Path) -> None:
    """Put what a live module's task file needs into this machine's cache, from a folder that came from elsewhere.

    Only what has the digest that the task file names.
    """
    key = module_key(source)
    store = exported_modules()
    if key is None or module_files(source) or not all((beside / name).is_file() for name in (PROGRAM, INPUTS)):
        return
    with store.staging() as staged:
        for name in (PROGRAM, INPUTS):
            shutil.copyfile(beside / name, staged / name)
        if _key(staged) == key:
            store.publish(staged, key)


def is_module(value: Any) -> bool:
    """Whether this is an `nn.Module`; without torch in the process nothing is."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.nn.Module)


def _exported(module: Any, given: tuple[Any, ...] | dict[str, Any]) -> Any:
    """The module's program, as it computes in evaluation mode and on the processor."""
    torch = sys.modules["torch"]
    training = [each for each in module.modules() if each.training]
    module.eval()
    try:
        args, named = ((), given) if isinstance(given, dict) else (given, None)
        program = torch.export.export(module, args, named)
    finally:
        for each in training:
            each.training = True
    return importlib.import_module("torch.export.passes").move_to_device_pass(program, "cpu")


def _on_host(tensor: Any) -> Any:
    return tensor.detach().cpu()


def _task_file(**values: str) -> str:
    """The task file's text: all that it needs beside torch are the two files of this `key`."""
    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES), undefined=StrictUndefined, keep_trailing_newline=True, autoescape=False
    )
    environment.filters.update(literal=json.dumps)
    return environment.get_template("live_module.py.j2").render(**values, program=PROGRAM, inputs=INPUTS)


def _key(folder: Path) -> str:
    digest = hashlib.sha256()
    for file in sorted(folder.iterdir()):
        digest.update(file.read_bytes())
    return digest.hexdigest()[:32]


def _argument_names(module: Any, count: int) -> list[str]:
    """The forward's own parameter names where they suffice, so that the kernel's arguments are called the same."""
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    named = [name for name, each in inspect.signature(module.forward).parameters.items() if each.kind in kinds]
    return named[:count] if len(named) >= count else [f"x{i}" for i in range(count)]
