"""A robust-kbench folder as one task file: its functions as they are, its settings as workloads at the end.

`config_forward.json` goes with `func_forward.py`, `config_backward.json` with `func_backward.py`. Either lists, for a
single run and for many, keyword arguments of the inputs and of the module, and some that both share and that come last.
Nothing of a folder is run here.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from harness.nouns.errors import UserError
from harness.nouns.frozen import LONGEST_NAME
from harness.nouns.reading import read_text
from harness.nouns.task import Direction
from harness.tasks.declaring import directed

MOST_BYTES = 1 << 20
"""No config or file of functions is larger."""
MOST_WORKLOADS = 256

Settings = dict[str, Any]
_TAKING = ("get_inputs", "__init__")
_SCALAR = (bool, int, float, str)
_TAIL = """

# Its settings ({config}) as workloads; what none of them changes is fixed.
import functools as _functools
import inspect as _inspect

WORKLOADS = {workloads}
LEAVES_OUT = {left_out}  # so far; and each workload that the module refuses, or that needs another entry
_FIXED = {fixed}


def _fixed_of(function):
    return {{name: value for name, value in _FIXED.items() if name in _inspect.signature(function).parameters}}


def get_init_inputs(**chosen):
    taken, inputs = (_inspect.signature(each).parameters for each in (Model, get_inputs))
    unknown = sorted(set(chosen) - set(taken) - set(inputs))
    if unknown:
        raise TypeError(f"neither Model nor get_inputs takes {{unknown[0]!r}}")
    settings = {{name: value for name, value in chosen.items() if name in taken}}
    bound = _inspect.signature(Model).bind(**_fixed_of(Model), **settings)
    bound.apply_defaults()
    if bound.kwargs:
        raise TypeError(f"Model takes {{sorted(bound.kwargs)[0]!r}} by keyword alone")
    return list(bound.args)


get_inputs = _functools.partial(get_inputs, **_fixed_of(get_inputs)) if _fixed_of(get_inputs) else get_inputs
"""


class _Config(BaseModel):
    """One config file. What else it holds is of no interest."""

    model_config = ConfigDict(extra="ignore")

    single_input_configs: list[Settings] = [{}]
    single_init_configs: list[Settings] = [{}]
    single_shared_configs: list[Settings] = [{}]
    multi_input_configs: list[Settings] = []
    multi_init_configs: list[Settings] = [{}]
    multi_shared_configs: list[Settings] = [{}]

    def products(self) -> Iterator[tuple[Settings, Settings, Settings]]:
        """Settings of inputs, module and both: those of a single run first."""
        yield from product(self.single_input_configs, self.single_init_configs, self.single_shared_configs)
        yield from product(self.multi_input_configs, self.multi_init_configs, self.multi_shared_configs)


def is_robust_folder(folder: Path, direction: Direction | None = None) -> bool:
    """Whether a folder holds a config of that direction, or of any."""
    sides = ("forward", "backward") if direction is None else (_side(direction),)
    return any((folder / f"config_{side}.json").is_file() for side in sides)


def _side(direction: Direction | None) -> str:
    """Which of a folder's files are meant."""
    return "forward" if direction in (None, "forward") else "backward"


def folder_source(folder: Path, direction: Direction | None) -> str:
    """The task file. Without a direction it is the forward's. Raises `UserError`.

    Where both directions are wanted the backward's settings are taken: they are those that training meets.
    """
    side = _side(direction)
    config, functions = folder / f"config_{side}.json", folder / f"func_{side}.py"
    source = _text(functions, side)
    settings = _settings(_config(config, side), config)
    known = _parameters(source)
    unknown = sorted({name for each in settings for name in each} - known) if known else []
    workloads, fixed = _workloads(settings, unknown, config)
    left_out = [f"the setting {name}: neither Model nor get_inputs takes it" for name in unknown]
    tail = _TAIL.format(config=config.name, workloads=_listed(workloads), fixed=repr(fixed), left_out=left_out)
    return directed(source.rstrip() + tail, direction if side == "backward" else None)


def _text(file: Path, side: str) -> str:
    try:
        return read_text(file, MOST_BYTES)
    except FileNotFoundError as error:
        raise UserError(
            f"There is no {file.name} in {file.parent}.",
            f"A folder's {side} task is config_{side}.json and func_{side}.py; --direction chooses the other one.",
        ) from error
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{file} cannot be read: {error}.", "It is a text file of a robust-kbench task.") from error


def _config(file: Path, side: str) -> _Config:
    try:
        return _Config.model_validate(json.loads(_text(file, side)))
    except ValueError as error:
        problem = error.errors()[0] if isinstance(error, ValidationError) else None
        where = f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}" if problem else str(error)
        raise UserError(f"{file} is no config: {where}.", "It is JSON with lists of keyword arguments.") from error


def _parameters(source: str) -> set[str]:
    """Names that `get_inputs` and `Model.__init__` take, read off the text; empty where that does not show them."""
    try:
        body = ast.parse(source).body
    except SyntaxError:
        return set()
    models = [node for node in body if isinstance(node, ast.ClassDef) and node.name == "Model"]
    functions = [node for part in (body, *(model.body for model in models)) for node in part]
    wanted = [node.args for node in functions if isinstance(node, ast.FunctionDef) and node.name in _TAKING]
    if not models or any(each.kwarg for each in wanted):
        return set()
    return {argument.arg for each in wanted for argument in (*each.posonlyargs, *each.args, *each.kwonlyargs)}


def _settings(config: _Config, file: Path) -> list[Settings]:
    """The different settings that the product gives. Raises `UserError` where they contradict each other."""
    found: list[Settings] = []
    for inputs, init, shared in config.products():
        for name in inputs.keys() & init.keys() - shared.keys():
            if inputs[name] != init[name]:
                raise UserError(
                    f"{file}: its settings disagree: {name} is {inputs[name]!r} for the inputs and {init[name]!r} "
                    "for the module.",
                    "Give it once, among the shared ones, or under two names.",
                )
        merged = {**inputs, **init, **shared}
        if merged not in found and (merged or not found):
            found.append(merged)
    if not found:
        raise UserError(f"{file} holds no settings.", "It needs single_input_configs with at least one in it.")
    if len(found) > MOST_WORKLOADS:
        raise UserError(f"{file} asks for {len(found)} workloads.", f"A task has {MOST_WORKLOADS} at most.")
    return found


def _workloads(settings: list[Settings], unknown: list[str], file: Path) -> tuple[list[Settings], Settings]:
    """The different settings, each with a name, and those that are fixed because no workload can hold them."""
    found: list[Settings] = []
    for each in settings:
        known = {name: value for name, value in each.items() if name not in unknown}
        if known not in found:
            found.append(known)
    fixed = _fixed(found, file)
    return _named([{name: each[name] for name in each if name not in fixed} for each in found]), fixed


def _fixed(found: list[Settings], file: Path) -> Settings:
    """Settings that are no numbers and no texts. Raises `UserError` where they differ from workload to workload."""
    plain = {name: value for each in found for name, value in each.items() if not isinstance(value, _SCALAR)}
    for name, value in plain.items():
        if any(name not in each or each[name] != value for each in found):
            raise UserError(
                f"{file}: {name} differs between its settings and is {value!r} in one.",
                "What differs is a number, a text or a truth value.",
            )
    return plain


def _named(found: list[Settings]) -> list[Settings]:
    """Each by what tells it from the others."""
    keys = [key for key in dict.fromkeys(key for each in found for key in each) if _differs(found, key)]
    named: list[Settings] = []
    for position, each in enumerate(found):
        label = " ".join(f"{key}={each[key]}" for key in keys if key in each)
        short = label if 0 < len(label) <= LONGEST_NAME else f"workload {position}"
        named.append({"name": short, **each} if len(found) > 1 else each)
    return [each for each in named if each]


def _differs(found: list[Settings], key: str) -> bool:
    return any(each.get(key) != found[0].get(key) or (key in each) != (key in found[0]) for each in found)


def _listed(workloads: list[Settings]) -> str:
    """As Python, a line each; None for the plain one alone."""
    if not workloads:
        return "None"
    return "[\n" + "".join(f"    {each!r},\n" for each in workloads) + "]"
