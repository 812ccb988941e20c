"""What the pages name is in the tree: links, headings, files, settings, options and code; and their lines are short."""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
import typer

from graph.cli.main import app

ROOT = Path(__file__).resolve().parents[1]
PAGES = (ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md")))
LINKED = (*PAGES, ROOT / "examples/recorded/README.md")
PACKAGES = ("graph", "nodes", "tools", "knowledge", "harness")
WIDTH = 120
RECORDED = "<!-- Below this line the page is written by `python -m bench.agents_page`"
"""What follows are prompts as they were sent."""

FOREIGN = frozenset(
    {
        "normalized_shape",
        "_ZN3foo3barEPf",
        "system_header",
        "log_softmax_",
        "--gpus",
        "--use_fast_math",
        "func_forward.py",
        "score.py",
    }
)
"""Names of other projects' code and options that the tree itself does not spell."""
WRITTEN = frozenset({"model_new.py", "model_fast.py", "model.py", "kernel.cu", "setup.py"})
"""Files that runs write, and the user's own."""


def name(page: Path) -> str:
    """The page's path below the repository."""
    return page.relative_to(ROOT).as_posix()


def prose(page: Path) -> str:
    """The page without its code blocks."""
    return re.sub(r"^ *(`{3,}).*?^ *\1$", "", page.read_text(encoding="utf-8"), flags=re.S | re.M)


def anchors(page: Path) -> set[str]:
    """Of the page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", prose(page), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@cache
def tree() -> tuple[Path, ...]:
    """Every file of the project."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    if listed.returncode != 0:
        pytest.skip("not a git checkout")
    return tuple(ROOT / line for line in listed.stdout.splitlines() if (ROOT / line).is_file())


@cache
def words() -> frozenset[str]:
    """Every identifier in the tree's code and data, the pages left out."""
    code = (file for file in tree() if file.suffix not in (".md", ".png", ".pt2", ".svg") or PACKAGES[3] in file.parts)
    text = "\n".join(file.read_text(encoding="utf-8", errors="replace") for file in code if file != Path(__file__))
    return frozenset(re.findall(r"\w+", text)) | {part for file in tree() for part in re.split(r"[/.]", name(file))}


@cache
def options() -> frozenset[str]:
    """Every option of every command, and of the developers' tools in tests/bench."""
    commands = typer.main.get_command(app)
    assert isinstance(commands, typer.core.TyperGroup)
    made = (command.make_context(key, [], resilient_parsing=True).command for key, command in commands.commands.items())
    found = {
        option
        for command in made
        for parameter in command.params
        for option in (*parameter.opts, *parameter.secondary_opts)
    }
    bench = "".join(file.read_text(encoding="utf-8") for file in (ROOT / "tests" / "bench").glob("*.py"))
    tools = {f"--{parameter.replace('_', '-')}" for parameter in re.findall(r"^\s+(\w+): Annotated\[", bench, re.M)}
    return frozenset(found | tools | {"--help", "--version", "--install-completion"})


def spoken(page: Path) -> Iterator[str]:
    """What stands between backticks in a page's prose."""
    yield from (said.strip() for said in re.findall(r"`([^`\n]+)`", prose(page)))


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_lines_outside_of_tables_are_short(page: Path) -> None:
    own, _, _ = page.read_text(encoding="utf-8").partition(RECORDED)
    lines = enumerate(own.splitlines(), 1)
    long = [number for number, line in lines if len(line) > WIDTH and not line.startswith("| ")]
    assert not long, f"{name(page)}: lines longer than {WIDTH}: {long}"


@pytest.mark.parametrize("page", LINKED, ids=name)
def test_links_lead_to_files_and_headings(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
        if target.startswith("http"):
            continue
        path, _, heading = target.partition("#")
        file = page.parent / path if path else page
        assert file.exists(), f"{name(page)} links to {target}"
        assert not heading or heading in anchors(file), f"{name(page)} links to {target}: no such heading"


def test_every_page_is_linked_from_an_index() -> None:
    indexes = [page for page in PAGES if page.name == "README.md"]
    linked = {
        (page.parent / path).resolve() for page in indexes for path in re.findall(r"\]\(([^)#\s]+)\)", prose(page))
    }
    assert [name(page) for page in PAGES if page not in linked and page not in indexes] == []


def unknown(page: Path) -> Iterator[str]:
    """What a page names between backticks that is not in the tree."""
    names = {file.name for file in tree()}
    for said in spoken(page):
        if re.fullmatch(rf"(?:{'|'.join(PACKAGES)}|tests|docs|examples|deploy)/[\w./-]+", said):
            known = (ROOT / said).exists()
        elif re.fullmatch(r"\w+\.(?:py|cu|cpp|j2|toml)", said):
            known = said in names | WRITTEN | FOREIGN
        elif option := re.match(r"--[a-z][\w-]+", said):
            known = option[0] in options() | FOREIGN
        elif re.fullmatch(r"[\w.]+(?:\(\))?", said) and re.search(r"_|\.|[a-z][A-Z]", said):
            known = said in FOREIGN or {*re.findall(r"\w*[A-Za-z_]\w*", said)} <= words()
        else:
            known = True
        if not known:
            yield said


@pytest.mark.parametrize("page", [page for page in PAGES if page.name != "operators.md"], ids=name)  # PyTorch's names
def test_code_that_a_page_names_is_in_the_tree(page: Path) -> None:
    """Files, modules, settings, options, functions and classes between backticks."""
    assert [*unknown(page)] == [], name(page)


def docstrings(tree_of_file: ast.Module) -> Iterator[ast.Constant]:
    """Strings that stand alone: of modules, classes, functions and attributes."""
    for node in ast.walk(tree_of_file):
        for part in node.body if isinstance(getattr(node, "body", None), list) else ():
            if (
                isinstance(part, ast.Expr)
                and isinstance(part.value, ast.Constant)
                and isinstance(part.value.value, str)
            ):
                yield part.value


def test_code_that_docstrings_name_is_in_the_code() -> None:
    """A name between backticks that only docstrings know is one that was renamed."""
    parsed = {file: ast.parse(file.read_text(encoding="utf-8")) for file in tree() if file.suffix == ".py"}
    said = {file: [*docstrings(module)] for file, module in parsed.items()}
    prose = {id(constant) for constants in said.values() for constant in constants}
    code = {part for file in tree() for part in re.split(r"[/.]", name(file))}
    for module in parsed.values():
        for node in ast.walk(module):
            values = [getattr(node, field, None) for field in ("id", "attr", "name", "arg", "module")]
            values += [node.value] if isinstance(node, ast.Constant) and id(node) not in prose else []
            code.update(word for value in values if isinstance(value, str) for word in re.findall(r"\w+", value))
    for file in tree():
        if file.suffix in (".cu", ".cpp", ".j2", ".json", ".toml") or name(file).startswith("knowledge/guides/"):
            code.update(re.findall(r"\w+", file.read_text(encoding="utf-8", errors="replace")))
    unknown_names = [
        f"{name(file)}: {spelled}"
        for file, constants in said.items()
        if name(file).split("/")[0] in PACKAGES
        for constant in constants
        for spelled in re.findall(r"`([\w.]+)(?:\(\))?`", str(constant.value))
        if re.search(r"_|[a-z][A-Z]", spelled) and set(re.findall(r"[A-Za-z_]\w*", spelled)) - code - FOREIGN
    ]
    assert unknown_names == []


def sections() -> Iterator[tuple[str, str, set[str]]]:
    """The recipes of contributing.md: title, the worked example, the files of the table's first column."""
    for section in prose(ROOT / "docs" / "contributing.md").split("\n## ")[1:]:
        if example := re.search(r"^Worked example: `([^`]+)`", section, re.M):
            cells = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
            yield (
                section.partition("\n")[0],
                example[1],
                {said for cell in cells for said in re.findall(r"`([^`]+)`", cell)},
            )


@pytest.mark.parametrize(
    ("title", "example", "files"), [*sections()], ids=lambda each: each if isinstance(each, str) else ""
)
def test_a_recipes_files_are_those_of_its_example(title: str, example: str, files: set[str]) -> None:
    mention = re.compile(rf"\b{re.escape(example)}\b|{re.escape(example)}\.")
    mentioned = {
        name(file)
        for file in tree()
        if file.suffix in (".py", ".j2", ".json", ".cu", ".cpp", ".md")
        and (mention.search(name(file)) or mention.search(file.read_text(encoding="utf-8")))
    }
    assert all((ROOT / file).is_file() for file in files), title
    if title == "Add a target":
        return  # too many files compare its name: the page prints the command that lists them
    assert files - mentioned == set(), title
    assert {file for file in mentioned if file.split("/")[0] in PACKAGES} - files == set(), title


def test_every_recipe_that_a_contributor_needs_is_there() -> None:
    kinds = {title.removeprefix("Add a").removeprefix("n").strip() for title, _, _ in sections()}
    assert kinds >= {"operation", "pointwise operation", "agent", "stop condition", "command", "cheat", "target"}
