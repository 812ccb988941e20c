"""docs/suites.md, from the measurements in docs/suites.json (a processor) and docs/suites-cuda.json (a GPU).

`python -m bench.results_page` writes the page anew; `--gpu FILE` first takes what `make gpu-check` has left.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer
from pydantic import ValidationError

from bench.gpu_model import GpuResult
from bench.model import BenchResult
from bench.tables import measured_on_a_processor, telling
from graph.pages.ablation_page import figure
from graph.runs.ablation import Ablation
from graph.runs.suite_record import Row, SuiteRecord, figures
from graph.runs.tables import HEAD, figures_sheet, markdown, preamble, rows_sheet
from harness.nouns.errors import UserError

DOCS = Path(__file__).parents[2] / "docs"
PROCESSOR, GPU, PAGE = DOCS / "suites.json", DOCS / "suites-cuda.json", DOCS / "suites.md"

MATMULS, ACTIVATIONS = range(1, 19), range(19, 33)
PUBLISHED = frozenset({*range(1, 9), 10, 12, 14, 15, *ACTIVATIONS})
"""The ids in CuTeGen's published table: a geometric mean of 1.08 over eager, on an RTX 4090."""
ASKED: dict[int, float] = {
    **dict.fromkeys((1, 2, 3, *range(6, 12), 13, 16, 17, 18), 1.30), 14: 4.0, 15: 4.0, 4: 1.15, 5: 0.99, 12: 1.40,
    **dict.fromkeys((19, 20, 21, 22, 26, 27, 28, 31, 32), 0.99), 23: 1.30, 24: 1.30, 25: 2.40, 29: 1.09, 30: 3.40,
}  # fmt: skip
"""The speed-up over eager that each task of level1 is to reach on an H200."""


LEFT_OUT = ("status", "eager ms", "by other clocks", "run s")
"""Columns of a suite that the page does without; where there is no speed-up, the status takes its place."""
VERDICT_S = 12.0


def page(processor: BenchResult, gpu: GpuResult | None) -> str:
    """The whole page."""
    parts = [
        "# Level 1, and the examples",
        "Written by `python -m bench.results_page` from `suites.json` and `suites-cuda.json`. The playbook wrote every "
        "kernel. Losses are listed like wins.",
    ]
    if gpu is not None:
        parts += measured_on_a_gpu(gpu)
    return "\n\n".join(_wrapped(part) for part in (*parts, *measured_on_a_processor(processor))) + "\n"


def _wrapped(part: str) -> str:
    """Prose at 120 characters a line; tables and code stay as they are."""
    if part.startswith("```"):
        return part
    lines = (line if line.startswith(("|", "#")) else _filled(line) for line in part.splitlines())
    return "\n".join(lines)


def _filled(line: str) -> str:
    indent = "  " if line.startswith("- ") else ""
    return textwrap.fill(line, 120, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def _command(line: str) -> str:
    """A command as a shell takes it over several lines."""
    pieces = textwrap.wrap(line, 112, break_long_words=False, break_on_hyphens=False)
    return " \\\n  ".join(pieces)


def measured_on_a_gpu(result: GpuResult) -> list[str]:
    """The GPU's part, as paragraphs."""
    commands = "\n".join(map(_command, result.commands))
    parts = ["## On a GPU", f"Driver {result.driver}. Commands:", f"```\n{commands}\n```"]
    if result.notes:
        parts.append("\n".join(f"- {note}" for note in result.notes))
    if result.suite is not None:
        parts += _suite(result.suite)
    for ablation in result.ablations:
        parts += _ablation(ablation)
    if result.profiles:
        parts.append("### What limits three of these kernels")
        parts.append("Each kernel's figures, and the findings that an optimizer reads, are in `suites-cuda.json`.")
    for profile in result.profiles:
        parts += [
            f"{profile.task}, {profile.speedup:.2f}x, last move: {profile.move}",
            f"```\n{_figures(profile.text)}\n```",
        ]
    if result.phases is not None:
        rows = [(name, f"{seconds:.2f}") for name, seconds in result.phases.items()]
        parts += ["### From a CuTe GEMM's source to its verdict (medians)", markdown(("phase", "seconds"), rows)]
        whole = result.phases["in all"]
        parts.append(f"At most {VERDICT_S:g} s are asked: {'met' if whole <= VERDICT_S else 'missed'}.")
    if result.tests is not None:
        tests = result.tests
        unfinished = "" if tests.complete else " The others were not reached."
        parts.append(f"GPU tests: {tests.passed} passed, {tests.failed} failed, {tests.skipped} skipped.{unfinished}")
    if result.problems:
        parts += ["Not measured:", "\n".join(f"- {problem}" for problem in result.problems)]
    return parts


def _suite(record: SuiteRecord) -> list[str]:
    sheet = rows_sheet("", record.rows)
    asked = [_asked(row) for row in record.rows]
    shown = [place for place, name in enumerate(HEAD) if name not in LEFT_OUT]
    status, speedup = HEAD.index("status"), HEAD.index("speed-up")
    rows = [
        (*(cells[place] or (cells[status] if place == speedup else "") for place in shown), wanted)
        for cells, wanted in zip(sheet.rows, asked, strict=True)
    ]
    sums = figures_sheet(
        [
            ("all", record.figures),
            ("1-18, products", figures(_chosen(record.rows, MATMULS))),
            ("19-32, activations", figures(_chosen(record.rows, ACTIVATIONS))),
            ("the 26 of the published table", figures(_chosen(record.rows, PUBLISHED))),
        ]
    )
    return [
        f"### {record.name}",
        preamble(record),
        *telling((*(HEAD[place] for place in shown), "asked"), rows),
        *telling(sums.head, [*sums.rows]),
        "Published for those 26 on an RTX 4090, with a language model: a geometric mean of 1.08x.",
    ]


def _figures(profile: str) -> str:
    """A profile's roofs, without each kernel's figures and the numbered findings."""
    return re.split(r"^(?:kernel |1\. )", profile, maxsplit=1, flags=re.M)[0].rstrip()


def _asked(row: Row) -> str:
    wanted = ASKED.get(row.id)
    if wanted is None:
        return ""
    reached = row.timing is not None and not row.timing.task_defect and row.timing.headline.speedup >= wanted
    return f"{wanted:.2f}x {'met' if reached else 'missed'}"


def _chosen(rows: Iterable[Row], ids: Iterable[int]) -> list[Row]:
    wanted = set(ids)
    return [row for row in rows if row.id in wanted]


def _ablation(ablation: Ablation) -> list[str]:
    lines = []
    for schedule in ablation.schedules:
        best = schedule.best
        reached = f"{best.speedup:.2f}x" if best else "no kernel"
        move = best.move if best else ""
        lines.append((str(schedule.profile_from), reached, move, str(schedule.depth), str(schedule.profiles)))
    head = ("profile from depth", "best", "last move kept", "depth", "profiles read")
    return [
        f"### {ablation.task}: when the optimizer sees a profile",
        f"![Speed-up over the steps of both schedules]({picture(ablation).name})",
        markdown(head, lines),
    ]


def picture(ablation: Ablation) -> Path:
    """The figure's file."""
    return DOCS / f"ablation-{ablation.task}.svg"


def stored() -> tuple[BenchResult, GpuResult | None]:
    """What the documents hold."""
    processor = BenchResult.model_validate_json(PROCESSOR.read_bytes())
    return processor, GpuResult.model_validate_json(GPU.read_bytes()) if GPU.exists() else None


def write_page() -> None:
    """Write the page and the figures from what is stored."""
    processor, gpu = stored()
    for ablation in gpu.ablations if gpu else ():
        picture(ablation).write_text(f"{figure(ablation)}\n", encoding="utf-8")
    PAGE.write_text(page(processor, gpu), encoding="utf-8")


def main(gpu: Annotated[Path | None, typer.Option(help="A gpu-check.json to take in.")] = None) -> None:
    """Write docs/suites.md."""
    if gpu is not None:
        try:
            found = GpuResult.model_validate_json(gpu.read_bytes())
        except (OSError, ValidationError) as error:
            raise UserError(f"{gpu} is no result of gpu-check: {error}.", "Run make gpu-check.") from error
        GPU.write_text(found.model_dump_json(indent=1) + "\n", encoding="utf-8")
    write_page()


if __name__ == "__main__":
    typer.run(main)
