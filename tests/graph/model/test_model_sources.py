"""Models as people have them: what becomes a source, and what is refused in one sentence."""

from __future__ import annotations

import importlib.util
import json
import sys
import types
from pathlib import Path
from typing import Any

import pytest
import torch

from graph.model.sources import load_model, rendered
from harness.nouns.errors import UserError


def test_a_file_is_its_own_source(tmp_path: Path) -> None:
    file = tmp_path / "net.py"
    file.write_text("class Model: ...\n")
    given = load_model(str(file))
    assert (given.source, given.name, given.reads) == ("class Model: ...\n", "net", ())


def test_a_function_of_a_script_reads_its_folder_alone(tmp_path: Path) -> None:
    file = tmp_path / "train.py"
    file.write_text("def make(): ...\n")
    given = load_model(f"{file}:make")
    assert given.name == "train-make"
    assert given.reads == (str(tmp_path),)
    compile(given.source, "made", "exec")
    file.write_text("def make(): 1\n")
    assert load_model(f"{file}:make").source != given.source, "a changed script is another model"


@pytest.mark.parametrize("given", ["3", "(torch.nn.ReLU(),)", "(1, 2)", "torch.ones(2)"])
def test_a_function_that_returns_something_else_is_told_what_it_has_to(
    given: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setitem(sys.modules, "script", types.ModuleType("script"))
    file = tmp_path / "train.py"
    file.write_text(f"import torch\nright = lambda: (torch.nn.ReLU(), torch.ones(2))\nwrong = lambda: {given}\n")
    made: dict[str, Any] = {}
    exec(load_model(f"{file}:right").source, made)
    assert isinstance(made["Model"](), torch.nn.ReLU)
    exec(load_model(f"{file}:wrong").source, made)
    with pytest.raises(ValueError, match="wrong has to return a module and its inputs"):
        made["Model"]()


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("none.py", None, "There is no file"),
        ("bad.json", "{", "is no JSON"),
        ("list.json", "[1]", "holds no configuration"),
    ],
)
def test_what_is_no_model_is_told_in_a_sentence(tmp_path: Path, name: str, text: str | None, said: str) -> None:
    if text is not None:
        (tmp_path / name).write_text(text)
    with pytest.raises(UserError, match=said):
        load_model(str(tmp_path / name))


def test_inputs_go_with_a_module_alone(tmp_path: Path) -> None:
    file = tmp_path / "net.py"
    file.write_text("class Model: ...\n")
    with pytest.raises(UserError, match="Inputs belong to a module"):
        load_model(str(file), inputs=(1,))
    with pytest.raises(UserError, match="go with a config"):
        load_model(str(file), batch=2)


@pytest.mark.skipif(importlib.util.find_spec("transformers") is not None, reason="transformers is installed")
def test_a_configuration_asks_for_transformers(tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    file.write_text(json.dumps({"model_type": "gpt2"}))
    with pytest.raises(UserError, match="needs transformers"):
        load_model(str(file))


class Config:
    """Of transformers' stand-in: what it is made of, with the defaults of all configurations."""

    architectures, is_encoder_decoder = None, False

    def __init__(self, **values: Any) -> None:
        vars(self).update(values)


class Fake(torch.nn.Module):
    """Returns what it was called with."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.main_input_name = vars(config).get("takes", "input_ids")

    def forward(self, **given: Any) -> Any:
        return (given,)


@pytest.mark.parametrize(
    ("values", "taken", "shape"),
    [
        ({"vocab_size": 9}, {"input_ids"}, (2, 5)),
        ({"text_config": Config(vocab_size=9)}, {"input_ids"}, (2, 5)),
        ({"vocab_size": 9, "is_encoder_decoder": True}, {"input_ids", "decoder_input_ids"}, (2, 5)),
        ({"image_size": 8, "takes": "pixel_values"}, {"pixel_values"}, (2, 3, 8, 8)),
        ({"image_size": [4, 8], "num_channels": 1, "takes": "pixel_values"}, {"pixel_values"}, (2, 1, 4, 8)),
    ],
    ids=["tokens", "text within", "encoder and decoder", "pixels", "another picture"],
)
def test_a_configured_model_is_given_what_it_takes(
    values: dict[str, Any], taken: set[str], shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    space = configured(values, monkeypatch)
    (given,) = space["get_inputs"]()
    found = space["Model"]()(given)
    assert found.keys() == taken | {"return_dict"}
    assert all(found[name].shape == shape for name in taken)
    assert given.is_floating_point() or given.max() < 9


def test_of_a_model_that_takes_neither_words_nor_pixels_its_input_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="Fake takes input_features"):
        configured({"takes": "input_features"}, monkeypatch)["Model"]()


def configured(values: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The task file of a configuration as a namespace, run with a stand-in for transformers."""
    made = types.SimpleNamespace(from_config=Fake)
    config = types.SimpleNamespace(for_model=lambda _, **__: Config(**values))
    fake = types.SimpleNamespace(AutoConfig=config, AutoModel=made, AutoModelForCausalLM=made)
    monkeypatch.setitem(sys.modules, "transformers", fake)
    space: dict[str, Any] = {}
    exec(rendered("configured.py.j2", config=json.dumps({"model_type": "fake"}), batch=2, tokens=5), space)
    return space
