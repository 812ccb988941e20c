"""PyTorch's own tests of Dynamo, with what torch.compile's backend does to a graph in each of them.

    python tests/bench/backend_on_dynamo.py pytorch/test/dynamo test_modules.py test_repros.py

Every backend that those tests name, and those that count graphs, end in `aot_eager`: once as it is, once behind
`with_kernels`, which traces each graph and puts it together anew as if a kernel had a place in it. A test that passes
the first time alone counts as wrong. What PyTorch's files need beside pytest must be installed.
"""

from __future__ import annotations

import argparse
import atexit
import json
import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from collections import Counter
from pathlib import Path
from typing import Any

VARIABLE = "CUTEGEN_DYNAMO_TESTS"
ROOT = Path(__file__).parents[2]
GRAPHS = "graphs: "
ENDED_WELL = ("passed", "skipped")
NAMED = ("eager", "aot_eager", "inductor")
COUNTING = ("CompileCounter", "CompileCounterWithBackend", "EagerAndRecordGraphs", "AotEagerAndRecordGraphs")


def pytest_configure() -> None:
    """As a plugin of pytest: every backend of the tests becomes `aot_eager`, or `with_kernels` and `aot_eager`."""
    import torch
    from torch._dynamo import testing
    from torch._dynamo.backends import registry
    from torch._dynamo.backends.debugging import aot_eager

    from bench.backend_on_modules import Through

    last: Any = Through() if os.environ[VARIABLE] == "ours" else aot_eager
    for name in NAMED:
        registry.lookup_backend(name)
        registry._COMPILER_FNS[name] = last
    inductor: Any = torch._TorchCompileInductorWrapper
    inductor.__call__ = lambda _, gm, inputs: last(gm, inputs)
    for name in COUNTING:
        _let_count(getattr(testing, name), last)
    if last is not aot_eager:
        atexit.register(lambda: print(f"{GRAPHS}{json.dumps(last.seen)}"))


def _let_count(kind: Any, last: Any) -> None:
    counts = kind.__call__

    def called(self: Any, gm: Any, inputs: Any) -> Any:
        counts(self, gm, inputs)
        return last(gm, inputs)

    kind.__call__ = called


def outcomes(folder: Path, file: str, which: str, seconds: float) -> tuple[dict[str, str], dict[str, int]]:
    """How each test of a file ended: `passed`, `skipped`, or the first line of its failure; and its graphs, counted."""
    with tempfile.TemporaryDirectory() as scratch:
        report = Path(scratch) / "report.xml"
        path = os.pathsep.join(filter(None, (str(ROOT), str(ROOT / "tests"), os.environ.get("PYTHONPATH"))))
        command = [
            sys.executable, "-m", "pytest", "-q", "-p", "bench.backend_on_dynamo", "-p", "no:cacheprovider",
            f"--timeout={seconds:g}", f"--junitxml={report}", "-W", "ignore", file,
        ]  # fmt: skip
        said = subprocess.run(
            command, cwd=folder, env=os.environ | {VARIABLE: which, "PYTHONPATH": path}, capture_output=True, text=True
        )
        if not report.exists():
            sys.exit(f"pytest has no report of {file}: {said.stdout[-400:]}{said.stderr[-400:]}")
        cases = ElementTree.parse(report).iter("testcase")
        graphs = [line.removeprefix(GRAPHS) for line in said.stdout.splitlines() if line.startswith(GRAPHS)]
        return (
            {f"{case.get('classname')}.{case.get('name')}": _outcome(case) for case in cases},
            json.loads(graphs[-1]) if graphs else {},
        )


def _outcome(case: ElementTree.Element) -> str:
    for failed in (*case.iter("failure"), *case.iter("error")):
        return (failed.get("message") or "failed").splitlines()[0]
    return "skipped" if case.find("skipped") is not None else "passed"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("files", nargs="+")
    parser.add_argument("--seconds", type=float, default=300.0, help="of each test, at most")
    asked = parser.parse_args()
    bad = 0
    for file in asked.files:
        (alone, _), (ours, graphs) = (outcomes(asked.folder, file, which, asked.seconds) for which in ("alone", "ours"))
        wrong = {name: said for name, said in ours.items() if said not in ENDED_WELL and alone[name] == "passed"}
        bad += len(wrong)
        counts = Counter(said if said in ENDED_WELL else "failed" for said in alone.values())
        passed = sum(said == "passed" for said in ours.values())
        print(
            f"{file}: aot_eager alone {dict(counts)}; with the backend {passed} passed, {len(wrong)} wrong", flush=True
        )
        lines = [
            *(f"{name}: {said[:240]}" for name, said in wrong.items()),
            *(f"{n} {what}" for what, n in graphs.items()),
        ]
        print("".join(f"  {line}\n" for line in lines), end="", flush=True)
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
