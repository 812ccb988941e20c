"""`PYTHONPATH=.:tests/knowledge python -m operators_page`: writes a page of the docs.

Which of PyTorch's own operators and modules the compiler writes, and why not the others. It takes an hour or so:
every sample is traced, lowered and evaluated, one of each entry is written for both targets, and nothing is compiled.
With `--kept FILE` what was found is kept there, a line an entry, and asked no more by the next call.
"""

from __future__ import annotations

import json
import logging
import textwrap
import warnings
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Annotated

import torch
import typer
from operators import APART, LEFT_OUT, Outcome, entries, outcome

PAGE = Path(__file__).parents[2] / "docs" / "operators.md"
HEAD = """# PyTorch's operators

Written by `PYTHONPATH=.:tests/knowledge python -m operators_page --samples {most} --types {types}` (PyTorch
{version}): the entries of `op_db` and `module_db`, which PyTorch tests itself on, forward. A sample counts as right
when it is traced, its values mean what PyTorch computes, and, for the first of each entry, both targets have a first
kernel; no kernel ran for this page. An entry counts when all its samples are right. {samples} Every entry that this
page does not name is right there.
"""


def main(
    samples: Annotated[int, typer.Option(help="Samples of an entry, spread over all; 0 takes all.")] = 0,
    types: Annotated[str, typer.Option(help="Element types with commas.")] = "float32,bfloat16",
    kept: Annotated[Path | None, typer.Option(help="A file of what earlier calls found.")] = None,
    only: Annotated[str, typer.Option(help="Names with commas: print these, and write no page.")] = "",
) -> None:
    """Ask every entry, and write the page."""
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    before = _kept(kept)
    found: dict[str, dict[str, Outcome]] = {}
    for dtype in types.split(","):
        named = found.setdefault(dtype, {})
        for name, entry in entries(getattr(torch, dtype)).items():
            if only and name not in only.split(","):
                continue
            if (dtype, name) in before:
                named[name] = before[dtype, name]
                continue
            named[name] = outcome(entry, samples)
            typer.echo(f"{name} {named[name]}")
            if kept is not None:
                with kept.open("a", encoding="utf-8") as lines:
                    lines.write(json.dumps([dtype, name, *vars(named[name]).values()]) + "\n")
    if not only:
        PAGE.write_text(page(found, samples), encoding="utf-8")


def _kept(file: Path | None) -> dict[tuple[str, str], Outcome]:
    """By element type and name."""
    lines = file.read_text(encoding="utf-8").splitlines() if file is not None and file.exists() else []
    return {
        (dtype, name): Outcome(right, samples, Counter(others))
        for dtype, name, right, samples, others in map(json.loads, lines)
    }


def page(found: dict[str, dict[str, Outcome]], most: int) -> str:
    """The page's text."""
    asked = f"At most {most} of each entry's samples were taken." if most else "All samples were taken."
    lines = [_wrapped(HEAD.format(most=most, types=",".join(found), version=torch.__version__, samples=asked))]
    lines += ["| element type | entries | right on all samples | on some | on none |", "|---|---|---|---|---|"]
    for dtype, named in found.items():
        whole = sum(each.whole for each in named.values())
        none = sum(each.right == 0 for each in named.values())
        lines.append(f"| {dtype} | {len(named)} | {whole} | {len(named) - whole - none} | {none} |")
    failed: dict[tuple[str, str, str], list[str]] = {}
    for dtype, named in found.items():
        for name, each in named.items():
            if not each.whole:
                said = "; ".join(why.replace("|", "\\|") for why in sorted(each.others))
                failed.setdefault((name, f"{each.right} of {each.samples}", said), []).append(dtype)
    lines += ["", "## What is not right on all samples", "", "| entry | types | right | why not the others |",
              "|---|---|---|---|"]  # fmt: skip
    lines += [f"| `{name}` | {', '.join(failed[name, *rest])} | {' | '.join(rest)} |" for name, *rest in sorted(failed)]
    lines += ["", "## What was not asked", ""]
    named: dict[str, list[str]] = {}
    for name, why in LEFT_OUT.items():
        named.setdefault(why, []).append(f"`{name}`")
    for why, names in sorted(named.items()):
        lines.append(_wrapped(f"- {why}: {', '.join(names)}", subsequent_indent="  ").rstrip())
    lines.append(_wrapped(f"- names that begin with {', '.join(f'`{each}`' for each in APART)}", "  ").rstrip())
    return "\n".join(lines) + "\n"


def _wrapped(text: str, subsequent_indent: str = "") -> str:
    """Paragraphs in lines as the docs have them."""
    fill = partial(
        textwrap.fill, width=120, break_long_words=False, break_on_hyphens=False, subsequent_indent=subsequent_indent
    )
    return "\n\n".join(map(fill, text.strip().split("\n\n"))) + "\n"


if __name__ == "__main__":
    typer.run(main)
