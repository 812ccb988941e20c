"""`PYTHONPATH=.:tests/knowledge python -m operators_page`: writes a page of the docs.

Which of PyTorch's own operators and modules the compiler writes, and why not the others. It takes an hour or so:
every sample is traced, lowered and evaluated, one of each entry is written for both targets, and nothing is compiled.
"""

from __future__ import annotations

import logging
import warnings
from collections import Counter
from pathlib import Path
from typing import Annotated

import torch
import typer
from operators import LEFT_OUT, Outcome, entries, outcome

PAGE = Path(__file__).parents[2] / "docs" / "operators.md"
HEAD = """# PyTorch's operators

Written by `PYTHONPATH=.:tests/knowledge python -m operators_page --samples {most}` (PyTorch {version}): the
entries of `op_db` and `module_db`, which PyTorch tests itself on, forward. A sample counts as right when it is traced,
its values mean what PyTorch computes, and, for the first of each entry, both targets have a first kernel; no kernel ran
for this page. An entry counts when all its samples are right. {samples}

Left out: {left}.
"""


def main(
    samples: Annotated[int, typer.Option(help="Samples of an entry, spread over all; 0 takes all.")] = 0,
    only: Annotated[str, typer.Option(help="Names with commas: print these, and write no page.")] = "",
) -> None:
    """Ask every entry, and write the page."""
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    found: dict[str, dict[str, Outcome]] = {}
    for dtype in (torch.float32, torch.bfloat16):
        named = found.setdefault(str(dtype).removeprefix("torch."), {})
        for name, entry in entries(dtype).items():
            if only and name not in only.split(","):
                continue
            named[name] = outcome(entry, samples)
            typer.echo(f"{name} {named[name]}")
    if not only:
        PAGE.write_text(page(found, samples), encoding="utf-8")


def page(found: dict[str, dict[str, Outcome]], most: int) -> str:
    """The page's text."""
    asked = f"Of each entry {most} samples at most were taken." if most else "All samples were taken."
    counts = Counter(LEFT_OUT.values())
    left = ", ".join(f"{why} ({count})" for why, count in sorted(counts.items()))
    lines = [HEAD.format(most=most, version=torch.__version__, samples=asked, left=left)]
    lines += ["| element type | entries | right on all samples | on some | on none |", "|---|---|---|---|---|"]
    for dtype, named in found.items():
        whole = sum(each.whole for each in named.values())
        none = sum(each.right == 0 for each in named.values())
        lines.append(f"| {dtype} | {len(named)} | {whole} | {len(named) - whole - none} | {none} |")
    for dtype, named in found.items():
        lines += ["", f"## What is not right on all samples: {dtype}", "", "| entry | right | why not the others |",
                  "|---|---|---|"]  # fmt: skip
        for name, each in sorted(named.items()):
            if not each.whole:
                said = "; ".join(why.replace("|", "\\|") for why in sorted(each.others))
                lines.append(f"| `{name}` | {each.right} of {each.samples} | {said} |")
    lines += ["", "## What is right on all samples", ""]
    right = sorted(set[str]().union(*(named for named in found.values())))
    lines.append(", ".join(f"`{name}`" for name in right if all(named[name].whole for named in found.values()
                                                               if name in named)) + ".")  # fmt: skip
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    typer.run(main)
