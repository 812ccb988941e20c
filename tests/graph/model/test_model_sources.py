"""Models as people have them: what becomes a source, and what is refused in one sentence."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest

from graph.model.sources import load_model
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
