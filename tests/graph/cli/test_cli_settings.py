"""`--set NAME=VALUE` and `cutegen settings`: every setting is within the command line's reach, and none twice."""

import json
from pathlib import Path

import pytest
from command_line import cutegen, one_object, softsign
from hypothesis import given
from hypothesis import strategies as st

from graph.api import make_settings, raised
from graph.cli.settings import names, same_with_resume, settings_with
from graph.runs.folder import create
from graph.suites.ablation import begin_ablation
from graph.suites.folder import create_suite
from graph.suites.tasks import SuiteTask
from harness.nouns.errors import UserError
from nodes.settings import Gates, Settings
from nodes.state import TaskInput

OPTIONS = {"target": "cpu", "max_depth": 3}


def test_what_is_set_stands_beside_the_options() -> None:
    settings = settings_with(OPTIONS, ["max_dollars=2.5", "precision=tf32", "profile_from_depth.gemm=4", "patience=2"])
    assert (settings.target, settings.max_depth, settings.max_dollars) == ("cpu", 3, 2.5)
    assert (settings.precision, settings.patience) == ("tf32", 2)
    assert settings.profile_from_depth == Gates(gemm=4)


@given(st.integers(1, 10**9), st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=20))
def test_numbers_and_texts_keep_their_kind(tokens: int, model: str) -> None:
    settings = settings_with({}, [f"max_tokens={tokens}", f"optimizer_model={json.dumps(model)}"])
    assert (settings.max_tokens, settings.optimizer_model) == (tokens, model)
    assert settings_with({}, ["generator_model=openai:a=b"]).generator_model == "openai:a=b"


@pytest.mark.parametrize(
    ("item", "told"),
    [
        ("max_dollars", "gives no value"),
        ("max_dolars=3", "Did you mean max_dollars"),
        ("colour=red", "no setting colour"),
        ("max_depth=3", "an option of its own"),
        ("run_dir=/tmp", "no setting run_dir"),
        ("profile_from_depth.gemm=-1", "profile_from_depth.gemm is not valid"),
        ("profile_from_depth=1", "no setting profile_from_depth"),
        ("max_tokens=many", "max_tokens is not valid"),
        ("max_tokens=" + "1" * 5000, "max_tokens is not valid"),
        ("max_wall_s=Infinity", "max_wall_s is not valid: Input should be a finite number"),
        ("max_dollars=NaN", "max_dollars is not valid: Input should be a finite number"),
        ("target_speedup=-Infinity", "target_speedup is not valid: Input should be a finite number"),
        ("seed.of=1", "no setting seed.of"),
    ],
)
def test_what_cannot_be_set_is_the_users_error(item: str, told: str) -> None:
    with pytest.raises(UserError, match=told):
        settings_with(OPTIONS, [item])


def test_every_setting_is_listed_with_its_default_and_can_be_set_to_it() -> None:
    listed = {name: default for name, default, meaning in names() if meaning}
    assert set(Settings.model_fields) - {"run_dir", "profile_from_depth"} <= set(listed)
    assert {f"profile_from_depth.{name}" for name in Gates.model_fields} <= set(listed)
    assert settings_with({}, [f"{name}={default}" for name, default in listed.items() if default]) == Settings()


def test_the_list_over_a_real_process() -> None:
    shown = cutegen("settings")
    assert shown.returncode == 0, shown.stderr
    assert all(name in shown.stdout for name, _, _ in names())
    assert "max_dollars" in one_object(cutegen("settings", "--json").stdout)["properties"]


def test_a_run_takes_what_is_set(tmp_path: Path) -> None:
    done = cutegen(
        "optimize", softsign(tmp_path), "--target", "cpu", "--set", "max_attempts=1", "--set", "sanitize=false",
        "--out", tmp_path / "run", "--json",
    )  # fmt: skip
    told = one_object(done.stdout)
    assert "1 kernels were tested" in told["stop_reason"], done.stderr
    assert json.loads((tmp_path / "run" / "run.json").read_text())["settings"]["sanitize"] is False


def test_each_agents_model_is_opened_before_there_is_a_folder(tmp_path: Path) -> None:
    done = cutegen("optimize", softsign(tmp_path), "--set", "repairer_model=opnai:x", "--out", tmp_path / "run")
    assert done.returncode == 2
    assert 'no model "opnai:x"' in done.stderr
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("command", ["suite", "ablate"])
def test_a_resumed_run_keeps_its_settings(command: str, tmp_path: Path) -> None:
    done = cutegen(command, "--resume", tmp_path, "--set", "max_dollars=9")
    assert done.returncode == 2
    assert "--set and --resume exclude each other" in done.stderr


def test_a_resumed_run_is_not_given_other_options_than_it_began_with(tmp_path: Path) -> None:
    """An option that is accepted and then left unread would be a lie; the same one again is none."""
    settings = make_settings({"target": "cpu", "depth": 3})
    create(tmp_path / "run", name="softsign", source="x = 1\n", settings=settings)
    begin_ablation(TaskInput(source="x = 1\n", name="softsign"), settings, (1,), tmp_path / "ablation")
    tasks = (SuiteTask(id=1, name="softsign", source="x = 1\n"),)
    create_suite(tmp_path / "suite", name="own", tasks=tasks, scale=1.0, settings=settings)
    for command, folder in (("ablate", "ablation"), ("suite", "suite")):
        done = cutegen(command, "--resume", tmp_path / folder, "--target", "cpu", "--depth", 5)
        assert done.returncode == 2, done.stderr
        assert "The run began with max_depth=3, not 5." in done.stderr
    for options, said in (
        (("--target", "cuda", "--depth", 5), "The run began with target=cpu, not cuda."),
        (("--depth", 2), "max_depth can only be raised: the run had 3."),
        (("--set", "max_sweep=3"), "The run began with max_sweep=12, not 3."),
    ):
        done = cutegen("optimize", "--resume", tmp_path / "run", *options)
        assert done.returncode == 2, done.stderr
        assert said in done.stderr
    same_with_resume({"target": "cpu", "max_depth": 3, "model": "manual"}, {"target", "max_depth"}, settings)


def test_budgets_can_be_raised_and_nothing_else() -> None:
    settings = make_settings({"depth": 3, "patience": 2})
    assert raised(settings, {}) == settings
    assert raised(settings, {"max_depth": 3, "model": settings.model}) == settings
    more = raised(settings, {"max_depth": 5, "max_dollars": 99.0, "patience": None})
    assert (more.max_depth, more.max_dollars, more.patience) == (5, 99.0, None)
    for wanted in ({"max_depth": 2}, {"patience": 1}, {"target_speedup": 2.0}, {"seed": 4}, {"colour": "red"}):
        with pytest.raises(UserError):
            raised(settings, wanted)
