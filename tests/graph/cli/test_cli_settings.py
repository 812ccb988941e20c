"""`--set NAME=VALUE` and `cutegen settings`: every setting is within the command line's reach, and none twice."""

import io
import json
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer
from command_line import cutegen, here, one_object, softsign
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from typer.testing import CliRunner

from graph.api.calls import make_settings, raised
from graph.cli.main import app
from graph.cli.settings import listed, names, require_same, settings_of, show_lines
from graph.offers import Given
from graph.runs.ablation import begin_ablation
from graph.runs.folder import create
from graph.runs.suite_record import SuiteTask
from graph.suites.folder import create_suite
from harness.nouns.errors import UserError
from nodes.settings import Gates, Settings
from nodes.state import TaskInput

OPTIONS = {"target": "cpu", "max_depth": 3}


def settings_with(options: dict[str, Any], more: Sequence[str]) -> Settings:
    return settings_of(Given(options, more=tuple(more)))


@cache
def options_of(command: str) -> dict[str, typer.core.TyperOption]:
    """A command's options, by the names that its function gets them under."""
    shown = typer.main.get_command(app)
    assert isinstance(shown, typer.core.TyperGroup)
    whole = shown.commands[command].make_context(command, [], resilient_parsing=True).command
    return {each.name: each for each in whole.params if each.name and isinstance(each, typer.core.TyperOption)}


def test_an_option_is_what_the_settings_say_of_it() -> None:
    """Name, default, bounds, choices and help of every option that is a setting, in every command."""
    shown = typer.main.get_command(app)
    assert isinstance(shown, typer.core.TyperGroup)
    own = {("ablate", "max_depth"): 14, ("bench", "target"): "cuda"}
    checked = set()
    for command in shown.commands:
        for name in set(options_of(command)) & set(Settings.model_fields) - {"sanitize"}:
            option, field = options_of(command)[name], Settings.model_fields[name]
            assert option.opts == [{"max_depth": "--depth"}.get(name, f"--{name.replace('_', '-')}")]
            assert option.default == own.get((command, name), field.default), (command, name)
            assert (option.help or "").replace("\\[", "[") == field.description
            checked.add(name)
    named = {"target", "model", "base_url", "max_depth", "isolation", "seed", "patience", "tolerance", "exemplar"}
    named |= {"generations", "proposals", "archive", "precision", "device", "direction", "max_describe_s"}
    assert checked == named
    for command, told in (
        ("prompts", "<none|representative|retrieved>"),
        ("suite", "[0<=x<=1000]"),
        ("optimize", "[x>=0]"),
    ):
        assert told in CliRunner(env={"COLUMNS": "200"}).invoke(app, [command, "--help"]).output


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--set", "max_tokens=many"), "--set max_tokens is not valid"),
        (("--seed", 2**63), "--seed is not valid: it should be less than"),
        (("--set", "max_depth=3"), "--set max_depth has an option of its own. It is --depth."),
        (("--model", "oracle"), '--model: There is no model "oracle".'),
        (("--set", "repairer_model=oracle"), '--set repairer_model: There is no model "oracle".'),
        (("--base-url", "nowhere"), '--base-url: The base URL "nowhere" is no web address.'),
        (
            ("--set", "fallback_model=openai:m@http://me:secret@host/v1"),
            "--set fallback_model: The base URL of host holds a user, a password or a query.",
        ),
    ],
)
def test_a_rejected_value_is_named_by_the_option_that_was_typed(
    arguments: tuple[object, ...], said: str, tmp_path: Path
) -> None:
    done = CliRunner().invoke(app, ["optimize", str(softsign(tmp_path)), *map(str, arguments)])
    assert done.exit_code == 2
    assert f"cutegen: {said}" in done.stderr


def test_from_python_it_is_named_by_the_word_that_was_given() -> None:
    for wrong in ({"depth": -1}, {"max_depth": -1}):
        with pytest.raises(UserError, match=rf"^{next(iter(wrong))} is not valid"):
            make_settings(wrong)
    with pytest.raises(UserError, match=r"^depth can only be raised"):
        raised(make_settings({"depth": 3}), {"depth": 2})


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
        ("run_dir=/tmp", "no setting run_dir"),
        ("profile_from_depth.gemm=-1", "profile_from_depth.gemm is not valid"),
        ("profile_from_depth=1", "no setting profile_from_depth"),
        ("max_tokens=many", "max_tokens is not valid"),
        ("max_tokens=" + "1" * 5000, "max_tokens is not valid"),
        ("max_wall_s=Infinity", "max_wall_s is not valid: it should be a finite number"),
        ("max_dollars=NaN", "max_dollars is not valid: it should be a finite number"),
        ("target_speedup=-Infinity", "target_speedup is not valid: it should be a finite number"),
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
    """In a pipe a line a setting, whole, whatever the width."""
    shown = cutegen("settings", COLUMNS="80")
    assert shown.returncode == 0, shown.stderr
    lines = [line.split(maxsplit=1) for line in shown.stdout.splitlines() if line.startswith("  ")]
    assert {name for name, *_ in lines} == {name for name, _, _ in names()}
    assert len(shown.stdout.splitlines()) == len(lines) + len([*Settings.groups()])
    assert all(rest.endswith(meaning) for (_, rest), (_, _, meaning) in zip(lines, names_by_group(), strict=True))
    assert "max_dollars" in one_object(here("settings", "--json").stdout)["properties"]


def names_by_group() -> list[tuple[str, str, str]]:
    return [each for group in Settings.groups() for each in names(group)]


def test_in_a_terminal_a_line_is_cut_at_its_edge() -> None:
    text = io.StringIO()
    show_lines(listed(), Console(file=text, force_terminal=True, width=80, color_system=None))
    lines = text.getvalue().splitlines()
    assert len(lines) == len([*listed()])
    assert all(len(line) <= 80 for line in lines)


def test_one_setting_is_shown_in_full_and_others_are_searched_for() -> None:
    whole = here("settings", "max_depth").stdout
    for said in ("max_depth, of Budgets", "a whole number, at least 0, at most 1000", "12", "--depth VALUE", "  depth"):
        assert said in whole
    assert "--set profile_from_depth.gemm=VALUE" in here("settings", "profile_from_depth.gemm").stdout
    assert "when_needed, every" in here("settings", "diagnose").stdout
    found = here("settings", "--search", "SANITIZE").stdout
    assert "sanitize " in found and "max_dollars" not in found and "Budgets" not in found
    none = here("settings", "--search", "zeppelin")
    assert (none.exit_code, none.stdout) == (2, "") and "No setting says 'zeppelin'." in none.stderr
    wrong = here("settings", "max_dept")
    assert wrong.exit_code == 2
    assert "Did you mean max_depth?" in wrong.stderr


def test_a_run_takes_what_is_set(tmp_path: Path) -> None:
    done = here(
        "optimize", softsign(tmp_path), "--target", "cpu", "--set", "max_attempts=1", "--set", "sanitize=false",
        "--out", tmp_path / "run", "--json",
    )  # fmt: skip
    told = one_object(done.stdout)
    assert "1 kernels were tested" in told["stop_reason"], done.stderr
    assert json.loads((tmp_path / "run" / "run.json").read_text())["settings"]["sanitize"] is False


def test_each_agents_model_is_opened_before_there_is_a_folder(tmp_path: Path) -> None:
    options = ["--set", "repairer_model=opnai:x", "--out", str(tmp_path / "run")]
    done = CliRunner().invoke(app, ["optimize", str(softsign(tmp_path)), *options])
    assert done.exit_code == 2
    assert 'no model "opnai:x"' in done.stderr
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("command", ["suite", "ablate"])
def test_a_resumed_run_keeps_its_settings(command: str, tmp_path: Path) -> None:
    done = CliRunner().invoke(app, [command, "--resume", str(tmp_path), "--set", "max_dollars=9"])
    assert done.exit_code == 2
    assert "--set and --resume exclude each other" in done.stderr


def test_a_resumed_run_is_not_given_other_options_than_it_began_with(tmp_path: Path) -> None:
    """An option that is accepted and then left unread would be a lie; the same one again is none."""
    settings = make_settings({"target": "cpu", "depth": 3})
    create(tmp_path / "run", name="softsign", source="x = 1\n", settings=settings)
    begin_ablation(TaskInput(source="x = 1\n", name="softsign"), settings, (1,), tmp_path / "ablation")
    tasks = (SuiteTask(id=1, name="softsign", source="x = 1\n"),)
    create_suite(tmp_path / "suite", name="own", tasks=tasks, scale=1.0, settings=settings)
    for command, folder in (("ablate", "ablation"), ("suite", "suite")):
        done = CliRunner().invoke(app, [command, "--resume", str(tmp_path / folder), "--target", "cpu", "--depth", "5"])
        assert done.exit_code == 2, done.stderr
        assert "The run began with --depth=3, not 5." in done.stderr
    for options, said in (
        (("--target", "cuda", "--depth", "5"), "The run began with --target=cpu, not cuda."),
        (("--depth", "2"), "--depth can only be raised: the run had 3."),
        (("--set", "max_sweep=3"), "The run began with --set max_sweep=12, not 3."),
    ):
        done = CliRunner().invoke(app, ["optimize", "--resume", str(tmp_path / "run"), *options])
        assert done.exit_code == 2, done.stderr
        assert said in done.stderr
    given = Given({"target": "cpu", "max_depth": 3, "model": "manual"}, frozenset({"target", "max_depth"}))
    require_same(given, settings)


def test_budgets_can_be_raised_and_nothing_else() -> None:
    settings = make_settings({"depth": 3, "patience": 2})
    assert raised(settings, {}) == settings
    assert raised(settings, {"max_depth": 3, "model": settings.model}) == settings
    more = raised(settings, {"max_depth": 5, "max_dollars": 99.0, "patience": None})
    assert (more.max_depth, more.max_dollars, more.patience) == (5, 99.0, None)
    for wanted in ({"max_depth": 2}, {"patience": 1}, {"target_speedup": 2.0}, {"seed": 4}, {"colour": "red"}):
        with pytest.raises(UserError):
            raised(settings, wanted)


def test_a_reader_that_has_enough_ends_it_without_a_word() -> None:
    command = f"{sys.executable} -m graph.cli settings"
    done = subprocess.run(
        ["bash", "-c", f"{command} | head -1; exit ${{PIPESTATUS[0]}}"], capture_output=True, text=True
    )
    assert done.stdout.startswith("Models") and not done.stderr and done.returncode in (0, 141)
