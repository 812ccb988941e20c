"""A model as people have it, as the text of a task file: a file, a function of a script, a configuration, a module."""

from __future__ import annotations

import hashlib
import importlib.util
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from graph.export import live_module
from graph.loading import read_source
from graph.model.state import ModelInput
from harness.nouns.errors import UserError

_TEMPLATES = (Path(__file__).parent / "templates", Path(live_module.__file__).parent / "templates")
_REMEDY = "Name a Python file with class Model, FILE:FUNCTION of a script, or a Hugging Face config.json."
BATCH, TOKENS = 1, 128
"""Of the token ids that a model made from a configuration is given, unless others are asked for."""


def load_model(
    source: Any,
    inputs: Sequence[Any] | Mapping[str, Any] | None = None,
    *,
    batch: int | None = None,
    tokens: int | None = None,
) -> ModelInput:
    """What the model graph starts from. Raises `UserError`.

    `source` is a file's path ("model.py", "script.py:function", "config.json"), a configuration as a dict, or an
    `nn.Module` with representative inputs. `batch` and `tokens` go with a configuration.
    """
    if live_module.is_module(source):
        if inputs is None:
            raise UserError("A module needs inputs to be run on.", "Call accelerate(module, inputs=(x, ...)).")
        name, text = live_module.module_source(source, inputs)
        return ModelInput(source=text, name=name)
    if inputs is not None:
        raise UserError("Inputs belong to a module; a file has its own.", "Leave them out.")
    if isinstance(source, Mapping):
        return _configured(source, str(source.get("model_type", "model")), batch or BATCH, tokens or TOKENS)
    file, _, function = str(source).rpartition(":")
    path = Path(source) if Path(source).exists() or not file else Path(file)
    text = read_source(path, _REMEDY)
    if path.suffix == ".json":
        return _configured(_configuration(path, text), path.stem, batch or BATCH, tokens or TOKENS)
    if (batch, tokens) != (None, None):
        raise UserError("--batch and --tokens go with a config.json; a Python file has its own inputs.")
    return _script(path, function, text) if path != Path(source) else ModelInput(source=text, name=path.stem)


def _script(path: Path, function: str, text: str) -> ModelInput:
    """A function without arguments that returns a module and its inputs."""
    folder = str(path.absolute().parent)
    made = rendered(
        "script.py.j2",
        file=str(path.absolute()),
        folder=folder,
        function=function,
        digest=hashlib.sha256(text.encode()).hexdigest(),
    )
    return ModelInput(source=made, name=f"{path.stem}-{function}", reads=(folder,))


def _configured(values: Mapping[str, Any], name: str, batch: int, tokens: int) -> ModelInput:
    if importlib.util.find_spec("transformers") is None:
        raise UserError("A Hugging Face model needs transformers.", "Install it: pip install 'cutegen[transformers]'.")
    if not isinstance(values.get("model_type"), str):
        raise UserError("The configuration names no model_type.", "Give the config.json of a Hugging Face model.")
    try:
        text = json.dumps(dict(values))
    except (TypeError, ValueError) as error:
        raise UserError(f"The configuration cannot be written down: {error}.", "Give plain JSON.") from error
    return ModelInput(source=rendered("configured.py.j2", config=text, batch=batch, tokens=tokens), name=name)


def _configuration(path: Path, text: str) -> Mapping[str, Any]:
    try:
        values = json.loads(text)
    except ValueError as error:
        raise UserError(f"{path} is no JSON: {error}.", _REMEDY) from error
    if not isinstance(values, dict):
        raise UserError(f"{path} holds no configuration.", _REMEDY)
    return values


def rendered(template: str, **values: Any) -> str:
    """A template of this folder, filled in."""
    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES), undefined=StrictUndefined, keep_trailing_newline=True, autoescape=False
    )
    environment.filters.update(literal=json.dumps)
    return environment.get_template(template).render(**values)
