"""The catalogue in docs/judge.md: each row has what meets it, and tests that exist."""

import re
from pathlib import Path

from cheat_catalogue import FOLDER, entries

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "judge.md").read_text(encoding="utf-8")
ROWS = {
    int(cells[1]): cells
    for line in PAGE.splitlines()
    if len(cells := [cell.strip() for cell in line.split("|")]) == 6 and cells[1].isdigit()
}
CLASSES = [
    ([*map(int, cells[2].split(","))], re.findall(r"`([^`]+)`", cells[3]))
    for line in PAGE.splitlines()
    if len(cells := line.split("|")) == 5 and re.fullmatch(r"[ 0-9,]+", cells[2]) and ".cpp`" in cells[3]
]


def files(row: int) -> set[str]:
    return set(re.findall(r"`([^`]+)`", ROWS[row][4]))


def test_every_entry_of_the_catalogue_has_a_row():
    assert set(ROWS) == set(range(1, len(ROWS) + 1))
    assert all(all(cells[2:5]) for cells in ROWS.values())


def test_every_row_names_files_that_exist_or_says_why_there_is_none():
    for row in ROWS:
        for name in files(row):
            assert (ROOT / name if "/" in name else FOLDER / "kernels" / name).is_file(), (row, name)
        assert files(row) or "no kernel:" in ROWS[row][4], row


def test_every_cheat_stands_in_its_row():
    for entry in entries("kernels"):
        assert entry.path.name in files(entry.row), entry.path.name
    named = {name for row in ROWS for name in files(row) if "/" not in name}
    assert named == {entry.path.name for entry in entries("kernels")}


def test_every_class_has_three_cheats_and_honest_twins():
    assert len(CLASSES) == 24
    rows = {entry.path.name: entry.row for entry in entries("twins")}
    for numbers, twins in CLASSES:
        assert sum(entry.row in numbers for entry in entries("kernels")) >= 3, numbers
        assert {rows[name] for name in twins} == {*numbers}, numbers
