"""The kernels in these folders, with what their own first lines say of them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class Entry:
    """One kernel. `checks` are the checks that may catch it, none for an honest twin; `says` is in their message.

    A cheat has one row, a twin those of all cheats that it looks like.
    """

    path: Path
    rows: tuple[int, ...]
    task: str
    checks: tuple[str, ...]
    says: str
    gpu: bool

    @property
    def row(self) -> int:
        """The first of its rows."""
        return self.rows[0]

    @property
    def keeps(self) -> bool:
        """Whether it may keep what it likes from call to call, to meet the checks behind that refusal."""
        return bool(self.checks) and "screen:static_data" not in self.checks

    @property
    def screened(self) -> bool:
        """Whether the screen refuses its source, so that nothing is built."""
        return any(check.startswith("screen:") and check != "screen:import" for check in self.checks)


@cache
def entries(folder: str) -> tuple[Entry, ...]:
    """All of "kernels" or of "twins", by their names."""
    files = sorted(file for file in (FOLDER / folder).iterdir() if file.suffix in (".cpp", ".cu", ".py"))
    return tuple(_read(file) for file in files)


def task_source(name: str) -> str:
    """A task file's text."""
    return (FOLDER / "tasks" / f"{name}.py").read_text(encoding="utf-8")


def _read(file: Path) -> Entry:
    mark = "# " if file.suffix == ".py" else "// "
    lines = file.read_text(encoding="utf-8").splitlines()
    said = [line.removeprefix(mark) for line in lines[: next(k for k, line in enumerate(lines) if mark not in line)]]
    facts = {name: value for name, found, value in (line.partition(": ") for line in said[1:]) if found}
    if ("caught by" in facts) == ("passes" in said):
        raise ValueError(f"{file.name} must say either what catches it or that it passes")
    return Entry(
        path=file,
        rows=tuple(int(row) for row in facts["row"].split(", ")),
        task=facts["task"],
        checks=tuple(facts.get("caught by", "").split("|")) if "caught by" in facts else (),
        says=facts.get("says", ""),
        gpu="gpu" in said,
    )
