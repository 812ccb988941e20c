"""A suite's rows and figures, its tables, and what the command's exit code says."""

from pathlib import Path

import pytest
from report_records import candidate, full_record, passed, softsign_task
from rich.console import Console
from suite_records import FACTS, TASK, row, suite_record, timing

from graph.cli.suite import default_jobs, exit_code
from graph.runs.progress import Quiet
from graph.runs.suite_record import Row, SuiteTask, figures, row_of, shapes_of, waiting
from graph.runs.tables import HEAD, STATUS, figures_sheet, page, rows_sheet
from graph.suites.folder import create_suite
from graph.suites.run import SuiteRun, SuiteTerminal, line
from harness.judging.roofline_bound import floor_ms
from harness.nouns.task import Program, ScalarSpec, TracedOp, Workload
from harness.nouns.verdict import Compiled, Interval
from nodes.settings import Settings
from nodes.state import Step, Usage


def test_a_cost_that_is_not_known_is_not_called_nothing() -> None:
    rows = (row(1, 2.0, usage=Usage(calls=2, unpriced_calls=1, dollars=1.0)), row(2, 2.0))
    found = figures(rows)
    assert (found.dollars, found.per_kernel, found.per_tenth) == (None, None, None)
    assert rows_sheet("", rows).rows[0][-2:] == ("?", "?")
    assert figures_sheet((("all", found),)).rows[0][-3:] == ("?", "?", "?")
    assert figures(()).per_kernel is None


def test_a_row_is_read_from_a_runs_record() -> None:
    beside = timing(1.5)
    record = full_record()
    mended = Step(depth=9, agent="sanitizer", move="not this one", candidate=record.steps[-1].candidate)
    record = record.model_copy(update={"steps": (mended, *record.steps)})
    found = row_of(TASK, record, FACTS, beside)
    assert (found.beside_compiled, found.seconds, found.usage) == (beside, record.seconds, record.usage)
    assert found.reason == record.stop_reason
    assert (found.id, found.name, found.status, found.op_class) == (30, "30_softsign", "improved", "elementwise")
    assert found.shapes == "16"
    assert found.move == "chunk size"
    assert found.kernels_judged == 6
    assert found.depth == max(step.depth for step in full_record().steps)
    assert row(1, None, floor_ms=1.0).floor_share is None
    assert found.floor_share == pytest.approx(128 / 1e8 / found.timing.candidate_ms)


def test_a_row_without_a_kernel_says_what_the_last_verdict_was() -> None:
    said = Step(depth=0, agent="tester", status="refused", message="Outputs were written before the call.")
    record = full_record().model_copy(update={"best": None, "steps": (said, Step(depth=1, agent="repairer"))})
    told = row_of(TASK, record, FACTS).reason
    assert told == f"{record.stop_reason} The last verdict was refused: Outputs were written before the call."


def test_of_the_arguments_only_tensors_have_a_shape_and_a_type() -> None:
    task = softsign_task()
    x = task.signature.inputs[0].model_copy(update={"dtype": "float16", "shape": (4, 4)})
    inputs = (ScalarSpec(name="scale", type="float", value=0.5), x)
    signature = task.signature.model_copy(update={"inputs": inputs, "outputs": (x,)})
    work = Workload(name="given", signature=signature, flops=15_000_000_000, bytes_moved=1)
    task = task.model_copy(update={"workloads": (work,)})
    assert shapes_of(task) == "4x4"
    verdict = passed(candidate("x", "playbook"), 1.0)
    assert floor_ms(task, FACTS.model_copy(update={"half_gflop_s": 6000.0}), verdict) == pytest.approx(2.5)


def test_nothing_wins_on_a_degenerate_task() -> None:
    full = full_record()
    assert full.best is not None
    flawed = timing(2.0).model_copy(update={"task_defect": "The output does not depend on the inputs."})
    verdict = full.best.verdict.model_copy(update={"timing": flawed})
    best = full.best.model_copy(update={"verdict": verdict})
    found = row_of(TASK, full.model_copy(update={"best": best}), FACTS)
    assert (found.status, found.ended) == ("degenerate", True)
    assert figures((found,)).fast == {"1": 0.0, "1.2": 0.0, "2": 0.0}
    assert "does not depend on the inputs. no gain" in page(suite_record(found))


@pytest.mark.parametrize(
    ("nbytes", "flops", "kernel_ms", "facts", "expected"),
    [
        (1_000_000_000, 0, 20.0, {}, 10.0),
        (100_000_000, 15_000_000_000, 20.0, {}, 15.0),
        (100_000_000, 15_000_000_000, 10.0, {}, 1.0),  # it needs fewer operations
        (100_000_000, 15_000_000_000, 10.0, {"tf32_gflop_s": 6000.0}, 7.5),  # three products for float32
        (100_000_000, 15_000_000_000, 10.0, {"tf32_gflop_s": 1500.0}, 1.0),  # no faster than the plain units
    ],
)
def test_the_floor_is_what_the_device_needs(
    nbytes: int, flops: int, kernel_ms: float, facts: dict[str, float], expected: float
) -> None:
    work = Workload(name="given", signature=softsign_task().signature, flops=flops, bytes_moved=nbytes)
    task = softsign_task().model_copy(update={"workloads": (work,)})
    verdict = passed(candidate("x", "playbook"), 20 / kernel_ms)
    assert floor_ms(task, FACTS.model_copy(update=facts), verdict) == pytest.approx(expected)


def test_the_floor_knows_precision_and_type() -> None:
    work = Workload(name="given", signature=softsign_task().signature, flops=15_000_000_000, bytes_moved=1)
    task = softsign_task().model_copy(update={"workloads": (work,)})
    facts = FACTS.model_copy(update={"tf32_gflop_s": 3000.0, "half_gflop_s": 6000.0})
    verdict = passed(candidate("x", "playbook"), 1.0)
    assert floor_ms(task, facts, verdict) == pytest.approx(15.0)
    assert floor_ms(task, facts, verdict.model_copy(update={"precision": "tf32"})) == pytest.approx(5.0)
    by_default = verdict.model_copy(update={"precision": "default"})
    assert floor_ms(task, facts, by_default) == pytest.approx(15.0)
    op = TracedOp(target="aten.conv2d.default", results=())
    convolves = task.model_copy(update={"program": Program(tracer="export", ops=(op,), outputs=())})
    assert floor_ms(convolves, facts, by_default) == pytest.approx(5.0)
    assert floor_ms(convolves, facts, verdict) == pytest.approx(15.0)
    x = softsign_task().signature.inputs[0].model_copy(update={"dtype": "bfloat16"})
    half = work.model_copy(update={"signature": work.signature.model_copy(update={"inputs": (x,), "outputs": (x,)})})
    assert floor_ms(task.model_copy(update={"workloads": (half,)}), facts, verdict) == pytest.approx(2.5)
    packed = (x, x.model_copy(update={"name": "packed", "dtype": "int8"}))
    quantized = half.model_copy(update={"signature": half.signature.model_copy(update={"inputs": packed})})
    assert floor_ms(task.model_copy(update={"workloads": (quantized,)}), facts, verdict) == pytest.approx(2.5)


def test_what_torch_compile_reaches_stands_beside() -> None:
    compiled = Compiled(ms=12.0, speedup=1.2, interval=Interval(low=1.1, high=1.3))
    beside = timing(2.0).model_copy(update={"compiled": compiled})
    failed = timing(2.0).model_copy(update={"compiled_failure": "torch.compile failed."})
    plain = row(4, 2.0, beside_compiled=timing(2.0))
    rows = (row(1, 2.0, beside_compiled=beside), row(2, 2.0, beside_compiled=failed), row(3, 2.0), plain)
    at = HEAD.index("over compile")
    assert [cells[at] for cells in rows_sheet("", rows).rows] == ["1.20x (1.10 to 1.30)", "none", "", ""]


def test_exit_codes() -> None:
    failed = row(1, None, status="machine_failed")
    assert exit_code(suite_record(row(1, 2.0), row(2, None))) == 0
    assert exit_code(suite_record(row(1, 0.9), row(2, None))) == 1
    assert exit_code(suite_record(failed)) == 3
    assert exit_code(suite_record(row(1, 2.0), row(2, None, status="defect"))) == 70
    assert exit_code(suite_record(failed, row(2, 0.9))) == 1
    assert exit_code(suite_record(row(1, 2.0), waiting(TASK), outcome="interrupted")) == 130


class Listener:
    """Keeps the rows it is told of."""

    def __init__(self) -> None:
        self.rows: list[Row] = []

    def began(self, task: SuiteTask) -> Quiet:
        return Quiet()

    def ended(self, row: Row) -> None:
        self.rows.append(row)


def test_what_was_verified_before_a_failure_still_counts(tmp_path: Path) -> None:
    settings = Settings(target="cpu")
    folder, manifest = create_suite(tmp_path / "out", name="mine", tasks=(TASK,), scale=1.0, settings=settings)
    run = tmp_path / "out" / TASK.name
    run.mkdir()
    (run / "run.json").write_text("{}", encoding="utf-8")  # it cannot be gone on with
    interrupted = full_record().model_copy(update={"outcome": "interrupted"})
    (run / "record.json").write_text(interrupted.model_dump_json(), encoding="utf-8")
    listener = Listener()
    found = SuiteRun(folder, manifest, FACTS, listener, jobs=4).run()
    assert found.outcome == "finished", "a failure is an end, though a resumed suite tries it again"
    assert found.rows[0].status == "not_a_task"
    assert "not a run of this version" in found.rows[0].reason
    assert found.figures.right == 1
    assert listener.rows == list(found.rows)
    assert folder.record() == found


def test_tasks_share_a_gpu_machine_and_not_a_processor() -> None:
    assert default_jobs("cpu") == 1
    assert 1 <= default_jobs("cuda") <= 8


def test_the_terminal_follows_runs_side_by_side() -> None:
    console = Console(width=160, record=True, force_terminal=True)
    with SuiteTerminal(console, total=2, done=0) as terminal:
        first = terminal.began(TASK)
        terminal.began(TASK.model_copy(update={"id": 31, "name": "31_elu"}))
        first.started("tester")
        first.stepped(Step(depth=2, agent="tester", status="passed", speedup=1.5))
        console.print(terminal._now())
        terminal.ended(row(30, 1.5, depth=2))
    text = console.export_text()
    assert "30_softsign  depth 2  best 1.50x" in text
    assert "compiling and judging" in text
    assert "31_elu       depth 0  best -" in text
    assert "[ 1/2]  task30" in text


def test_a_line_says_why_there_is_no_kernel() -> None:
    text = str(line(row(7, None, reason="The playbook\ncannot write " + "x" * 200), 3, 32))
    assert text.startswith(f"[ 3/32]  {'task7':<26}  {STATUS['no_kernel']:<10}  The playbook cannot write xxx")
    assert text.endswith("...")
