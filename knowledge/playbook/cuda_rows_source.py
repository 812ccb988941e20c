"""The source of a row kernel for GPUs: its text in the sections of the exemplar `softmax.cu`."""

from __future__ import annotations

from knowledge.exemplars.source import load
from knowledge.playbook import cuda_pointwise_frame as frame
from knowledge.playbook import source_text
from knowledge.playbook.cuda_rows_knobs import Knobs
from knowledge.playbook.cuda_rows_online import OnlineRowText
from knowledge.playbook.cuda_rows_split import SplitRowText
from knowledge.playbook.cuda_rows_text import CudaRowText
from knowledge.playbook.lowering import Lowered
from knowledge.playbook.problem import Problem
from knowledge.playbook.recipe import Plan
from knowledge.playbook.row_program import RowProgram


def render(problem: Problem, plan: Plan, lowered: Lowered, program: RowProgram) -> str:
    """The whole source file."""
    text = text_of(problem, plan, program)
    kernel = text.kernel()
    functions = "\n".join(text.functions_text())
    body = [frame.stream(problem, text.names), *text.launch()]
    return load("softmax").with_sections(
        header=frame.header(_comment(problem, lowered, text), plan),
        knobs="\n".join(_knobs(text)),
        arithmetic=(frame.device_helpers("\n".join([functions, *kernel])) + "\n" + functions).strip("\n"),
        kernel="\n".join(kernel),
        entry=frame.entry(problem, text.names, body),
    )


def text_of(problem: Problem, plan: Plan, program: RowProgram) -> CudaRowText:
    """The kernel's text in the form that the plan's knobs ask for."""
    knobs = Knobs.of(plan)
    kind = SplitRowText if knobs.split > 1 else OnlineRowText if knobs.online else CudaRowText
    return kind(problem, plan, program)


def _knobs(text: CudaRowText) -> list[str]:
    cuda = text.cuda
    items = "elements of a row in a thread's registers" if cuda.keep else "packs in flight a thread"
    lines = [
        f"constexpr int kGroup = {cuda.group};  // threads of a block that share a row",
        f"constexpr int kRows = {cuda.rows};  // rows side by side in a block",
        "constexpr int kThreads = kGroup * kRows;",
        f"constexpr bool kAcross = {str(cuda.across).lower()};  // threads side by side take rows, not columns",
        f"constexpr int kCluster = {cuda.cluster};  // blocks that share a row and their shared memory",
        f"constexpr int kShares = {cuda.cluster * cuda.split};  // blocks that share a row",
        f"constexpr int kItems = {cuda.items};  // {items}",
        f"[[maybe_unused]] constexpr int kVector = {text.vector};  // elements a pack",
        f"[[maybe_unused]] constexpr bool kOnce = {str(cuda.once).lower()};  // its data leaves the caches first",
        f"using Index = {'int64_t' if text.wide else 'int'};",
    ]
    if cuda.each > 1:
        lines.append(f"constexpr int kEach = {cuda.each};  // rows that a thread takes at once")
    if cuda.staged:
        lines.append(f"constexpr int kChain = {cuda.chain};  // rows that a cluster takes in turn")
        lines.append(f"constexpr int kParts = {cuda.parts};  // parts of a row that are refilled one by one")
        lines.append(f"constexpr int kStaged = {text.staged_bytes};  // bytes of shared memory: the next row's share")
    return lines


def _comment(problem: Problem, lowered: Lowered, text: CudaRowText) -> list[str]:
    cuda = text.cuda
    passes = 1 if cuda.keep else text.program.sweeps
    return [
        f"Along rows: {source_text.summary(lowered)}.",
        f"  {text.count} rows of {text.columns}, read from memory {passes} time{'s' if passes > 1 else ''}",
        f"  tile: {cuda.rows} rows, {cuda.cluster} blocks of {cuda.group} threads on each",
        f"  shared memory: {text.staged_bytes if cuda.staged else 0} bytes for the next row, and the partial results",
        f"  bytes moved at least: {source_text.bytes_moved(problem)}; operations: "
        f"{source_text.row_operations(text.program)}",
    ]
