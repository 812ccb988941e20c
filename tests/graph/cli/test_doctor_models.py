"""What the doctor says of a run's models: who uses them, where they are, which variable holds a key; never the key."""

from __future__ import annotations

import json
from typing import Any

import pytest
from command_line import REPOSITORY
from typer.testing import CliRunner

from graph.cli.doctor import ENDPOINT, blocking, check_models
from graph.cli.main import app
from harness.targets.prerequisites import Prerequisite
from nodes.settings import Settings

SECRET = "sk-very-secret"
RECORDING = REPOSITORY / "examples" / "recorded" / "rms_norm" / "conversation.jsonl"


@pytest.fixture(autouse=True)
def no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENROUTER_API_KEY", "EXAMPLE_API_KEY"):
        monkeypatch.delenv(name, raising=False)


def check(**settings: Any) -> dict[str, Prerequisite]:
    return {found.name: found for found in check_models(Settings.model_validate(settings))}


def test_a_run_without_language_models_needs_nothing_and_is_told_what_one_would_need() -> None:
    found = check()
    assert list(found) == ["model of all agents", ENDPOINT]
    assert found["model of all agents"].detail.startswith("playbook: rules")
    assert found[ENDPOINT].status == "missing"
    assert "OPENAI_API_KEY" in found[ENDPOINT].remedy
    assert blocking(tuple(found.values())) == ()


def test_each_model_is_named_with_who_speaks_to_it_and_where_its_key_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    monkeypatch.setenv("OPENROUTER_API_KEY", SECRET)
    found = check(
        model="openai:gpt-5",
        repairer_model="openai:small@http://localhost:8000/v1",
        optimizer_model="openai:some/model@https://openrouter.ai/api/v1",
        fallback_model="openai:spare@https://api.example.org/v1",
    )
    assert [each.status for each in found.values()] == ["found", "found", "found", "missing"]
    said = {name: each.detail for name, each in found.items()}
    assert said["model of generator, diagnoser"] == (
        "openai:gpt-5: https://api.openai.com/v1, its key is in OPENAI_API_KEY"
    )
    assert said["model of repairer"].endswith("http://localhost:8000/v1, no key is set, and such a server seldom asks")
    assert said["model of optimizer"].endswith("https://openrouter.ai/api/v1, its key is in OPENROUTER_API_KEY")
    assert "api.example.org needs a key" in said["model of fall-back"]
    assert found["model of fall-back"].remedy.startswith("Put it into the environment variable EXAMPLE_API_KEY")
    assert [each.name for each in blocking(tuple(found.values()))] == ["model of fall-back"]
    assert SECRET not in str(found)


def test_no_password_of_an_address_is_shown() -> None:
    for url in ("https://user:hunter2@models.example/v1", "ftp://user:hunter2@models.example"):
        for settings in ({"model": "openai:m", "base_url": url}, {"model": f"openai:m@{url}"}, {"base_url": url}):
            found = check(**settings)
            assert "missing" in {each.status for each in found.values()}
            assert "hunter2" not in str(found)


@pytest.mark.parametrize(
    ("settings", "status", "said"),
    [
        ({"model": "manual"}, "found", "cutegen answer"),
        ({"model": f"replay:{RECORDING}"}, "found", "can be read"),
        ({"model": "replay:nowhere.jsonl"}, "missing", "cannot be read"),
        ({"model": "gpt-5"}, "missing", 'There is no model "gpt-5"'),
        ({"model": "openai:m", "base_url": "localhost:8000"}, "missing", "is no web address"),
    ],
)
def test_what_is_no_endpoint(settings: dict[str, Any], status: str, said: str) -> None:
    found = check(**settings)["model of all agents"]
    assert found.status == status
    assert said in found.detail


def test_a_fall_back_that_cannot_go_on_is_said() -> None:
    found = check(model="openai:m", base_url="http://localhost:1/v1", fallback_model="manual")
    assert found["model of fall-back"].status == "missing"
    assert "cannot go on for another model" in found["model of fall-back"].detail


def test_a_named_model_that_is_not_there_ends_the_command_with_the_machines_code() -> None:
    done = CliRunner().invoke(app, ["doctor", "--model", "replay:nowhere.jsonl"])
    assert done.exit_code == 3
    flat = " ".join(done.stdout.split())
    assert "model of all agents missing" in flat
    assert "nowhere.jsonl cannot be read" in flat
    assert "(needed for the model of all agents)" in flat
    told = json.loads(CliRunner().invoke(app, ["doctor", "--json"]).stdout)["prerequisites"]
    assert {each["status"] for each in told} <= {"found", "limited", "missing"}
    assert all(set(each) == {"name", "status", "detail", "remedy", "needed_for"} for each in told)


def test_the_command_takes_a_runs_models_and_asks_nobody() -> None:
    options = ["--model", "openai:m", "--base-url", "http://localhost:1/v1", "--set", "optimizer_model=openai:far"]
    done = CliRunner().invoke(app, ["doctor", *options, "--json"])
    named = {each["name"]: each for each in json.loads(done.stdout)["prerequisites"]}
    assert named["model of generator, diagnoser, repairer"]["status"] == "found"  # nothing listens there
    assert named["model of optimizer"]["status"] == "found"  # at the base URL, too
    wrong = CliRunner().invoke(app, ["doctor", "--set", "optimizer_modl=x"])
    assert wrong.exit_code == 2
