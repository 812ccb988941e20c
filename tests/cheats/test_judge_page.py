"""The catalogue in docs/cheats.md: each row says what meets it, and has kernels or tests that exist."""

import re
from collections import Counter
from pathlib import Path

from cheat_catalogue import FOLDER, entries

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "cheats.md").read_text(encoding="utf-8")
ROWS = {
    int(cells[1]): cells
    for line in PAGE.splitlines()
    if len(cells := [cell.strip() for cell in line.split("|")]) == 6 and cells[1].isdigit()
}
CLASSES = (
    {49, 67}, {30, 66}, {50, 52}, {51}, {53}, {54, 57}, {81}, {80}, {58}, {56}, {65}, {59}, {60}, {31, 72, 73}, {74},
    {55}, {75}, {76}, {77}, {78}, {79}, {71}, {82}, {83}, {84}, {85}, {86}, {87}, {88},
    {89}, {90}, {91},
)  # fmt: skip
"""Rows that together are one thing which kernels take for granted."""
LATER = range(49, len(ROWS) + 1)
"""Rows with four honest twins each: those that came after the first list."""


def test_every_row_says_what_meets_it_and_every_kernel_has_a_row():
    assert set(ROWS) == set(range(1, len(ROWS) + 1))
    assert all(all(cells[2:4]) for cells in ROWS.values())
    assert {row for folder in ("kernels", "twins") for entry in entries(folder) for row in entry.rows} <= set(ROWS)


def test_a_row_without_kernels_says_why_and_tests_exist():
    rows = {entry.row for entry in entries("kernels")}
    for row, cells in ROWS.items():
        assert row in rows or "no kernel:" in cells[4], row
        for name in re.findall(r"`([^`]+)`", cells[4]):
            assert (ROOT / name).is_file(), (row, name)


def test_a_kernel_is_named_by_its_row():
    for entry in entries("kernels"):
        assert entry.path.name.startswith(f"{entry.row:02d}_") and entry.path.parent == FOLDER / "kernels"
        assert len(entry.rows) == 1


def test_every_class_has_three_cheats_and_an_honest_twin_for_each_row():
    twins = Counter(row for entry in entries("twins") for row in entry.rows)
    for rows in CLASSES:
        assert sum(entry.row in rows for entry in entries("kernels")) >= 3, rows
        assert rows <= set(twins), rows
    assert {row: twins[row] for row in LATER if twins[row] < 4} == {}
