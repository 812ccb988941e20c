"""The report in a run's folder."""

from __future__ import annotations

from graph.pages.report import render
from graph.runs.beside import found_beside
from graph.runs.folder import RunFolder
from graph.runs.record import RunRecord


def write_report(folder: RunFolder, record: RunRecord) -> None:
    """Draw it from the record and what lies beside it. Raises `MachineError`."""
    folder.write(folder.report, render(record, found_beside(folder, record)))
