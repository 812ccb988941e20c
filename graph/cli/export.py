"""`cutegen export`: a run's kernel in the form that another tool takes."""

from __future__ import annotations

import json
from contextlib import nullcontext

from graph.cli.errors import IMPROVED
from graph.cli.optimize import short
from graph.cli.options import Export
from graph.packages.form import export
from graph.runs.comparing import read_run
from graph.runs.progress import waiting


def run(options: Export) -> int:
    """Do the command; its exit code. Raises `UserError` where the form cannot hold the kernel."""
    backward = read_run(options.backward) if options.backward is not None else None
    built = options.form == "hf-kernels"
    with waiting("having PyTorch build it, a minute or more") if built else nullcontext():
        files = export(read_run(options.run), options.form, options.out, backward)
    if options.json:
        print(json.dumps({"form": options.form, "files": [str(file) for file in files]}))
        return IMPROVED
    headers = [file for file in files if file.suffix in (".hpp", ".h") and "include" in file.parts]
    for file in files:
        if file not in headers:
            print(short(file))
    if headers:
        print(f"and {len(headers)} of CuTe's headers")
    return IMPROVED
