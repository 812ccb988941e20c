"""A live `nn.Module` as a task: its exported program goes into the cache, and a short task file loads it.

torch is the caller's here: this file reaches for it only where the caller has imported it to make the module.
"""

from __future__ import annotations

import hashlib
import inspect
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from harness.building.store import exported_modules
from harness.errors import UserError

TEMPLATE = '''"""A live {name}, exported. Its program lies in the cache of the machine that exported it."""

import torch
from torch import nn

PROGRAM = {program!r}
INPUTS = {inputs!r}


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        program = torch.export.load(PROGRAM).module()
        # The same dictionaries, not copies: what replaces a parameter here replaces it in the program.
        for held in ("_parameters", "_buffers", "_modules"):
            self.__dict__[held] = getattr(program, held)
        self.__dict__["program"] = program

    def forward(self, {arguments}):
        return self.program({arguments})


def get_inputs():
    return list(torch.load(INPUTS, weights_only=True))


def get_init_inputs():
    return []
'''


def module_source(module: Any, inputs: Sequence[Any]) -> tuple[str, str]:
    """Name and task source of a module with representative inputs. Raises `UserError` where it cannot be exported."""
    torch = sys.modules["torch"]
    name = type(module).__name__
    given = tuple(inputs)
    store = exported_modules()
    with store.staging() as folder:
        try:
            torch.export.save(torch.export.export(module, given), folder / "program.pt2")
            torch.save(given, folder / "inputs.pt")
        except Exception as error:  # torch.export may raise anything; its first line is the answer
            first = (str(error).strip().splitlines() or [type(error).__name__])[0]
            raise UserError(
                f"{name} cannot be exported with these inputs: {first}",
                "Give a module that torch.export takes, with its forward's inputs in order, or a task file.",
            ) from error
        kept = store.publish(folder, _key(folder))
    arguments = ", ".join(_argument_names(module, len(given)))
    source = TEMPLATE.format(
        name=name, program=str(kept / "program.pt2"), inputs=str(kept / "inputs.pt"), arguments=arguments
    )
    return name.lower(), source


def is_module(value: Any) -> bool:
    """Whether this is an `nn.Module`; without torch in the process nothing is."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.nn.Module)


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
