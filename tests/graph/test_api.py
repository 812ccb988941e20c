"""cutegen from Python: load, optimize, read the result; sync, async, from a live module."""

import asyncio
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from brief_judge import brief_here
from chat_server import chat_endpoint
from command_line import REPOSITORY, SOFTSIGN, events, softsign, wait_until
from scripted_judge import ScriptedJudge, judging_here
from softsign_script import KERNEL, written

from graph.api.calls import RunResult, aoptimize, load, load_task, make_settings, optimize, resume
from graph.runs.folder import RunFolder
from graph.runs.record import RunRecord
from graph.verify import verify
from harness.judging.protocol import JudgeOrder
from harness.nouns.errors import UserError
from nodes.state import TaskInput

IMPORTED_FROM = (REPOSITORY, REPOSITORY / "tests" / "support")
MODULE = """
import json, os, sys, warnings
import torch
from torch import nn
from brief_judge import brief_here
from graph.api.calls import load_task, optimize
from harness.building.store import exported_modules

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.rand(1024))

    def forward(self, x):
        return torch.relu(x) * self.scale

net = Net()
task = load_task(net, inputs={"x": torch.randn(64, 1024)})
with brief_here():
    result = optimize(task, depth=0, target="cpu", out=sys.argv[1], sanitize=False)
os.environ["CUTEGEN_EXPORTED"] = str(exported_modules().root)
namespace = {}
exec(task.source, namespace)
again = namespace["Model"]()
torch.manual_seed(0)
x = namespace["get_inputs"]()["x"]
expected = net(x)
patched = result.module(net.eval())
with torch.no_grad(), warnings.catch_warnings(action="error"):
    kernel_is_right = all(torch.allclose(each(x=x), expected, atol=1e-6) for each in (patched, result.module()))
print(json.dumps({
    "status": result.verdict.status if result.verdict else result.record.stop_reason,
    "parameters": [each.name for each in result.record.task.signature.parameters],
    "state": list(again.state_dict()),
    "same": torch.equal(again(x), expected),
    "right as a module": kernel_is_right and patched is net,
    "defect": result.verdict.timing.task_defect,
    "on the given ones": [each.seed for each in result.verdict.correctness.trials if each.distribution == "given"][0],
}))
"""


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> RunResult:
    """One short run, shared by the tests that only read it."""
    folder = tmp_path_factory.mktemp("api")
    with brief_here():
        return optimize(softsign(folder), depth=0, target="cpu", out=folder / "run", seed=3, sanitize=False)


def test_a_result_is_read_by_its_attributes(result: RunResult) -> None:
    assert result.verdict is not None
    assert result.verdict.status == "passed"
    assert result.verdict.seed == 3
    assert result.verdict.timing is not None
    assert result.speedup == result.verdict.timing.headline.speedup
    assert result.improved == result.verdict.timing.wins
    assert result.kernel is not None
    assert "TVM_FFI_DLL_EXPORT_TYPED_FUNC" in result.kernel
    assert f"{result.speedup:.2f}x" in repr(result)


def test_saving_copies_the_drop_in_and_its_proof(result: RunResult, tmp_path: Path) -> None:
    saved = result.save(tmp_path / "made" / "here")
    drop_in = {"kernel.cu", "kernel.so", "model_new.py", "cutegen_runtime"}
    assert {file.name for file in saved.iterdir()} == drop_in | {"record.json", "report.html"}
    assert (saved / "kernel.cu").read_text(encoding="utf-8") == result.kernel
    record = RunRecord.model_validate_json((saved / "record.json").read_bytes())
    assert record == result.record
    assert json.loads((saved / "record.json").read_text(encoding="utf-8"))["schema_version"] == 2


def test_a_results_module_runs_at_once(result: RunResult, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the judged library: there is no compiler, and its cache stays empty."""
    import torch

    monkeypatch.setenv("CXX", "no-such-compiler")
    monkeypatch.setenv("CUTEGEN_CACHE", str(tmp_path))
    model, x = result.module(), torch.randn(64, 1024)
    with torch.no_grad():
        torch.testing.assert_close(model(x), x / (1.0 + x.abs()))
        with pytest.warns(UserWarning, match="The reference computes this call"):
            assert torch.equal(model(x[:3]), x[:3] / (1.0 + x[:3].abs()))
    with pytest.raises(UserError, match="fallback is 'maybe'"):
        result.module(fallback="maybe")  # type: ignore[arg-type]
    assert not list(tmp_path.iterdir())


def test_a_folder_is_loaded_as_a_module_or_into_one(result: RunResult, tmp_path: Path) -> None:
    import torch

    class Softsign(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x / (1.0 + torch.abs(x))

    saved, own, x = result.save(tmp_path / "saved"), Softsign().eval(), torch.randn(64, 1024)
    for model in (load(result.folder), load(saved), load(saved / "model_new.py"), load(saved, own)):
        with torch.no_grad():
            torch.testing.assert_close(model(x), x / (1.0 + x.abs()))
    assert load(saved, own) is own
    with torch.no_grad(), pytest.raises(ValueError, match="shape"):
        load(saved, fallback="error")(x[:3])


def test_a_folder_without_a_drop_in_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"There is no folder .*nowhere"):
        load(tmp_path / "nowhere")
    with pytest.raises(UserError, match=r"There is no model_new.py in"):
        load(tmp_path)
    (tmp_path / "model_fast.py").write_text("def accelerate(module, args, kwargs): return module, args, kwargs\n")
    assert load(tmp_path, "net", ("x",)) == ("net", ("x",), None)
    assert load(tmp_path, "net", {"x": 1}) == ("net", (), {"x": 1})
    with pytest.raises(UserError, match=r"whole model. Call load\(FOLDER, module, inputs="):
        load(tmp_path)


def test_resuming_a_finished_run_only_reads_it(result: RunResult) -> None:
    before = len(events(result.folder))
    again = resume(result.folder)
    assert again.record.steps == result.record.steps
    assert len(events(result.folder)) == before + 1


@pytest.mark.usefixtures("scripted")
def test_a_result_goes_deeper_from_its_best(result: RunResult, tmp_path: Path) -> None:
    """In a copy: the folder is shared. The command line does the same with --resume."""
    folder = shutil.copytree(result.folder, tmp_path / "run")
    same = resume(folder, trust=True)
    deeper = RunResult(RunFolder(folder), same.record).deeper(1)
    assert len(deeper.record.steps) > len(same.record.steps)
    assert [step.agent for step in deeper.record.steps].count("generator") == 1
    assert deeper.record.settings["max_depth"] == 1
    assert deeper.record.seconds > same.record.seconds
    written = RunFolder(folder).manifest()
    assert written.settings.max_depth == 1
    with pytest.raises(UserError, match="can only be raised"):
        deeper.deeper(0)


def test_tasks_come_from_files_and_texts(tmp_path: Path) -> None:
    file = softsign(tmp_path)
    source = file.read_text(encoding="utf-8")
    assert load_task(file) == load_task(str(file)) == TaskInput(source=source, name="softsign")
    assert load_task(source) == TaskInput(source=source, name="task")
    with pytest.raises(UserError, match="There is no file"):
        load_task(tmp_path / "absent.py")
    with pytest.raises(UserError, match="Inputs belong to a module"):
        load_task(file, inputs=(1,))


def test_a_kernels_file_that_is_missing_is_not_taken_for_the_tasks(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="There is no file") as caught:
        verify(tmp_path / "absent.cu", softsign(tmp_path))
    assert "Name a kernel" in caught.value.remedy


def test_wrong_settings_are_named() -> None:
    with pytest.raises(UserError, match="depth is not valid"):
        make_settings({"depth": -1})
    with pytest.raises(UserError, match="colour"):
        make_settings({"colour": "red"})


@pytest.mark.parametrize("address", ["https://user:hidden@example.com/v1", "https://example.com/v1?key=hidden"])
@pytest.mark.parametrize("setting", ["base_url", "model", "fallback_model", "optimizer_model", "diagnoser_model"])
def test_a_key_in_an_address_is_refused_before_anything_is_written(setting: str, address: str, tmp_path: Path) -> None:
    """Also where nobody would ever open the address: the settings of a run are written into its folder."""
    value = address if setting == "base_url" else f"openai:m@{address}"
    with pytest.raises(UserError, match=r"example\.com holds") as caught:
        optimize(TaskInput(source="x"), out=tmp_path / "run", **{"target": "cpu", setting: value})
    assert "hidden" not in str(caught.value)
    assert not (tmp_path / "run").exists()
    make_settings({setting: value.replace("user:hidden@", "").replace("?key=hidden", "")})


def test_a_live_module_is_optimized_under_its_own_names(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", MODULE, str(tmp_path / "run")], cwd=REPOSITORY, capture_output=True, text=True,
        timeout=240, check=False, env=os.environ | {"PYTHONPATH": os.pathsep.join(map(str, IMPORTED_FROM))},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == {
        "status": "passed", "parameters": ["scale"], "state": ["scale"], "same": True,
        "right as a module": True,
        "defect": "", "on the given ones": 0,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("shapes", "said"),
    [((), "A module needs inputs"), (((3, 5),), "Linear cannot be exported with these inputs")],
)
def test_a_module_needs_inputs_that_fit_it(shapes: tuple[tuple[int, ...], ...], said: str) -> None:
    import torch

    with pytest.raises(UserError, match=said):
        load_task(torch.nn.Linear(4, 4), tuple(map(torch.randn, shapes)) or None)


@pytest.mark.usefixtures("scripted")
def test_async_is_the_same_and_leaves_the_loop_free(tmp_path: Path) -> None:
    """While the model's answer is waited for, the loop turns; it ends that wait itself."""

    async def both() -> RunResult:
        with chat_endpoint("answer", answer=written(KERNEL)) as endpoint:
            endpoint.delay_s = 60.0
            settings = {"depth": 0, "target": "cpu", "sanitize": False, "base_url": endpoint.base_url}
            work = asyncio.create_task(
                aoptimize(softsign(tmp_path), out=tmp_path / "run", model="openai:m", **settings)
            )
            while not endpoint.reached.is_set() and not work.done():
                await asyncio.sleep(0.01)
            assert not work.done()
            endpoint.released.set()
            return await work

    result = asyncio.run(both())
    assert result.record.best is not None
    assert result.kernel == KERNEL


def test_a_cancelled_run_ends_at_its_step_and_resumes(tmp_path: Path) -> None:
    run = tmp_path / "run"

    async def cancelled() -> None:
        work = asyncio.create_task(aoptimize(SOFTSIGN.format(one=1.0), depth=1, target="cpu", out=run))
        began = asyncio.to_thread(wait_until, lambda: bool(events(run)), "the first step")
        await began
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work

    asyncio.run(cancelled())
    record = RunRecord.model_validate_json((run / "record.json").read_bytes())
    assert record.outcome == "interrupted"
    with judging_here():
        assert resume(run).record.best is not None


@pytest.mark.usefixtures("scripted")
def test_the_lines_of_the_readme_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    readme = (REPOSITORY / "README.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```python\n(.*?)```", readme, flags=re.DOTALL)
    (tmp_path / "examples").mkdir()
    shutil.copy(REPOSITORY / "examples" / "softsign.py", tmp_path / "examples")
    monkeypatch.chdir(tmp_path)
    exec(compile(block, "README.md", "exec"), {})
    assert (tmp_path / "softsign" / "model_new.py").exists()


def test_a_python_file_is_judged_by_the_judge_that_was_given(tmp_path: Path) -> None:
    file, opened = tmp_path / "new.py", []
    file.write_text("class ModelNew: ...\n", encoding="utf-8")

    def open_module_judge(order: JudgeOrder) -> ScriptedJudge:
        opened.append(order.target)
        return ScriptedJudge(order)

    verdict = verify(file, softsign(tmp_path), target="cpu", open_module_judge=open_module_judge)
    assert (verdict.passed, opened) == (True, ["cpu"])
    for asked in ({"caller": True}, {"sanitize": True}):
        with pytest.raises(UserError, match=r"ModelNew|foreign module"):
            verify(file, softsign(tmp_path), open_module_judge=open_module_judge, **asked)
    assert opened == ["cpu"]


def test_both_doors_open_to_the_same() -> None:
    """`graph.api` was the only one once."""
    import cutegen

    from graph import api

    assert api.__all__ == cutegen.__all__ and all(getattr(api, name) is getattr(cutegen, name) for name in api.__all__)
