"""The repository as a whole: what its files promise of each other."""

import ast
import importlib.util
import json
import re
import subprocess
import sys
import tomllib
from importlib import import_module, metadata
from pathlib import Path

import pytest
from scheduling import NEVER_AGAIN, WAITS_ON_CLOCKS, begun_at

ROOT = Path(__file__).parents[1]
PACKAGES = ("graph", "nodes", "tools", "knowledge", "harness")
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


def tracked() -> list[Path]:
    """The files that belong to the project: those git knows or would add."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    if listed.returncode != 0:
        pytest.skip("not a git checkout")
    return [ROOT / name for name in listed.stdout.splitlines() if (ROOT / name).is_file()]


def source_files() -> list[Path]:
    return [file for package in PACKAGES for file in (ROOT / package).rglob("*.py")]


@pytest.mark.parametrize("package", PACKAGES)
def test_our_packages_are_the_ones_that_are_imported(package: str) -> None:
    spec = importlib.util.find_spec(package)
    assert spec is not None
    assert spec.origin == str(ROOT / package / "__init__.py"), "another distribution's package of that name wins"


def test_the_architectures_picture_draws_every_room_and_nothing_else() -> None:
    picture = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8").split("```")[1]
    drawn = set(re.findall(r"(\w+)/", picture))
    rooms = {file.parent.name for package in PACKAGES for file in (ROOT / package).rglob("__init__.py")}
    folders = {folder.name for file in tracked() for folder in file.relative_to(ROOT).parents}
    assert rooms <= drawn <= folders


def test_version_changelog_and_distribution_agree() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    newest = re.search(r"^## (\S+)", changelog, flags=re.MULTILINE)
    assert newest is not None
    assert newest[1] == project["version"] == metadata.version("cutegen")


def test_langgraph_json_names_graphs_that_exist() -> None:
    served = json.loads((ROOT / "langgraph.json").read_text(encoding="utf-8"))
    assert all(graph["description"] for graph in served["graphs"].values())
    paths = {name: graph["path"] for name, graph in served["graphs"].items()}
    assert paths == {
        "cutegen": "graph.workflow:graph",
        "model": "graph.model.workflow:graph",
        "evolve": "graph.evolution.workflow:graph",
    }
    for name in paths.values():
        module, attribute = name.split(":")
        graph = getattr(import_module(module), attribute)
        assert graph.checkpointer is None, "the server brings its own"


def test_commands_in_the_readme_exist() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    from graph.cli.main import app

    commands = {command.name for command in app.registered_commands}
    assert set(re.findall(r"bin/cutegen ([a-z]+)", readme)) <= commands
    for target in re.findall(r"^make ([a-z-]+)", readme, flags=re.MULTILINE):
        assert re.search(rf"^{target}:", makefile, flags=re.MULTILINE)


def test_no_file_names_a_machines_folder() -> None:
    """Somebody's home or mount point in a file is a mistake everywhere else."""
    pattern = re.compile(r"(?<![\w./<{-])/(?:work|root|home/(?!somebody)\w+|Users/\w+|mnt)/\w")
    own = Path(__file__)
    found = []
    for file in tracked():
        if file == own or file.suffix in (".pt2", ".png"):
            continue
        text = file.read_text(encoding="utf-8", errors="replace")
        found += [f"{file.relative_to(ROOT)}: {match[0]}" for match in pattern.finditer(text)]
    assert found == []


def test_torch_is_imported_in_child_processes_only() -> None:
    """Imported anywhere else it would end up in the graph's process; these folders are the children's.

    The suites' task files and the drop-ins' runtime are data there.
    """
    children = [ROOT / "harness" / room for room in ("trusted", "candidate", "checks")]
    children += [ROOT / "knowledge" / "suites", ROOT / "graph" / "export" / "runtime"]
    for file in source_files():
        if any(folder in file.parents for folder in children):
            continue
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not [name for name in names if name.split(".")[0] == "torch"], file


def test_the_whole_graph_loads_without_torch() -> None:
    code = "import sys, graph.workflow, graph.api.calls, graph.cli.verify, graph.cli.doctor; "
    done = subprocess.run(
        [sys.executable, "-c", code + "print('torch' in sys.modules)"], cwd=ROOT, capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    assert done.stdout.strip() == "False"


def test_no_module_imports_its_own_packages_init() -> None:
    for file in source_files():
        package = file.relative_to(ROOT).parent.as_posix().replace("/", ".")
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.level == 0 and node.module == package:
                names = {alias.name for alias in node.names}
                assert all((file.parent / f"{name}.py").exists() for name in names), f"{file} imports {package}"


def test_files_stay_readable() -> None:
    long = {
        str(file.relative_to(ROOT)): lines
        for file in source_files()
        if (lines := len(file.read_text(encoding="utf-8").splitlines())) > 500
    }
    assert long == {}


def test_packaged_files_are_declared() -> None:
    """A template that is not package data is missing from an installed cutegen."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    patterns = project["tool"]["setuptools"]["package-data"]["*"]
    for file in (file for file in tracked() if file.relative_to(ROOT).parts[0] in PACKAGES):
        assert file.suffix == ".py" or any(file.match(pattern) for pattern in patterns), file


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_examples_are_tasks_and_are_benchmarked(file: Path) -> None:
    from bench.run import WANTED

    tree = ast.parse(file.read_text(encoding="utf-8"))
    defined = {node.name for node in tree.body if isinstance(node, ast.ClassDef | ast.FunctionDef)}
    assert {"Model", "get_inputs", "get_init_inputs"} <= defined
    assert ast.get_docstring(tree)
    assert file.stem in WANTED


def test_no_two_test_files_have_one_name() -> None:
    """pytest imports them by their names: of two alike, in whatever folders, only one is run."""
    names = [file.name for file in (ROOT / "tests").rglob("test_*.py")]
    assert sorted(set(names)) == sorted(names)


def test_no_test_that_judges_is_run_again() -> None:
    files = {file.stem: file for file in (ROOT / "tests").rglob("test_*.py")}
    again = [files[name] for name in WAITS_ON_CLOCKS]
    assert not [file for file in again for folder in NEVER_AGAIN if file.is_relative_to(ROOT / "tests" / folder)]
    assert all((ROOT / "tests" / folder).is_dir() for folder in NEVER_AGAIN)
    assert "--reruns" not in (ROOT / "Makefile").read_text(encoding="utf-8")


def test_what_waits_on_a_clock_has_two_tries_and_nothing_else_has(request: pytest.FixtureRequest) -> None:
    assert request.node.get_closest_marker("flaky") is None
    found = [item for item in request.session.items if item.path.stem in WAITS_ON_CLOCKS]
    assert all(item.get_closest_marker("flaky").kwargs == {"reruns": 1} for item in found)


def test_each_worker_collects_every_file_and_begins_elsewhere() -> None:
    files = [Path(f"test_{name}.py") for name in "abcdefg"]
    orders = [begun_at(files, worker, 3) for worker in range(4)]
    assert all(sorted(order) == files for order in orders)
    assert len({order[0] for order in orders[:3]}) == 3
