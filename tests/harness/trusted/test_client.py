"""The warm parent: real processes, real ends."""

import os
import signal
import time
from pathlib import Path

import pytest

from harness.isolation.policy import Limits
from harness.isolation.tiers import resolve_tier
from harness.nouns.errors import MachineError, UserError
from harness.processes.trusted_child import ROOT, JobDiedError, WarmParent, warm_parent
from harness.trusted.jobs.server import show_gpus

FINE = """
import torch

class Model(torch.nn.Module):
    def forward(self, x):
        return x + 1

def get_inputs():
    return [torch.ones(2)]
"""


@pytest.fixture(scope="module")
def parent():
    warm = WarmParent()
    yield warm
    warm.close()


def describe(parent: WarmParent, source: str, folder: Path, wall_s: float = 60.0):
    payload = {"source": source, "name": "task"}
    return parent.run("describe", payload, tier=resolve_tier(), cwd=folder, limits=Limits(wall_s=wall_s))


def children(pid: int) -> set[int]:
    return {int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()}


def wait_until(condition, seconds: float = 10.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come to pass"
        time.sleep(0.01)


def test_jobs_are_answered_one_after_another(parent, tmp_path):
    names = [describe(parent, FINE, tmp_path)["name"] for _ in range(3)]
    assert names == ["task"] * 3
    wait_until(lambda: not children(parent._process.pid))


def test_a_large_heap_is_another_parents(tmp_path):
    """Malloc's settings are a process's from its start on, and those of its children."""
    usual, large = warm_parent(), warm_parent(large=True)
    assert warm_parent(large=True) is large is not usual is warm_parent()
    assert describe(large, FINE, tmp_path)["name"] == "task"
    found = [Path(f"/proc/{each._process.pid}/environ").read_text().split("\0") for each in (usual, large)]
    assert set(found[1]) - set(found[0]) == {"GLIBC_TUNABLES=glibc.malloc.hugetlb=1"}


def test_a_childs_error_is_raised_here(parent, tmp_path):
    with pytest.raises(UserError, match="there is no Model"):
        describe(parent, "", tmp_path)


def test_where_a_child_cannot_be_confined_the_machine_is_to_blame(parent, tmp_path):
    with pytest.raises(MachineError, match="cannot be confined"):
        describe(parent, FINE, tmp_path / "absent")


def test_a_child_that_dies_costs_its_job_only(parent, tmp_path):
    with pytest.raises(JobDiedError, match="killed by SIGKILL"):
        describe(parent, "import os, signal; os.kill(os.getpid(), signal.SIGKILL)", tmp_path)
    assert describe(parent, FINE, tmp_path)["name"] == "task"


def test_a_child_over_its_time_is_killed_with_all_it_started(parent, tmp_path):
    mark = tmp_path / "started"
    source = f"import os\nif os.fork() == 0: open({str(mark)!r}, 'w').write(str(os.getpid()))\nwhile True: pass"
    with pytest.raises(JobDiedError, match="over its time of 1 s"):
        describe(parent, source, tmp_path, wall_s=1.0)
    grandchild = int(mark.read_text())
    wait_until(lambda: not Path(f"/proc/{grandchild}").exists() or "Z" in _state(grandchild))
    wait_until(lambda: not children(parent._process.pid))


def _state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return "Z"


def test_nothing_of_our_environment_reaches_a_child(tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-planted-secret")
    warm = WarmParent()
    try:
        environment = Path(f"/proc/{warm._process.pid}/environ").read_bytes()
        assert b"sk-planted-secret" not in environment
        with pytest.raises(UserError, match="KeyError"):
            describe(warm, "import os; os.environ['OPENAI_API_KEY']", tmp_path)
    finally:
        warm.close()


def test_it_ends_with_its_owner(tmp_path):
    read, write = os.pipe()
    owner = os.fork()
    if owner == 0:
        warm = WarmParent()
        os.write(write, str(warm._process.pid).encode())
        signal.pause()
    warm_pid = int(os.read(read, 32))
    os.kill(owner, signal.SIGKILL)
    os.waitpid(owner, 0)
    wait_until(lambda: not Path(f"/proc/{warm_pid}").exists() or _state(warm_pid) == "Z", 120)  # it imports torch first


def test_packages_on_pythonpath_are_there_for_the_task_and_our_own_folder_is_not_opened_by_it(tmp_path, monkeypatch):
    (tmp_path / "packages").mkdir()
    (tmp_path / "packages" / "spam_for_tasks.py").write_text("EGGS = 3")
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path / 'packages'}:{ROOT}:{tmp_path / 'absent'}")
    warm = WarmParent()
    try:
        (tmp_path / "work").mkdir()
        source = FINE.replace("x + 1", "x + spam_for_tasks.EGGS").replace(
            "import torch", "import torch, spam_for_tasks"
        )
        described = describe(warm, source, tmp_path / "work")
        assert described["workloads"][0]["signature"]["outputs"][0]["shape"] == [2]
        read_own = FINE.replace("import torch", f"import torch\nopen({str(ROOT / 'pyproject.toml')!r})")
        with pytest.raises(UserError, match=r"Permission|No such file"):
            describe(warm, read_own, tmp_path / "work")
    finally:
        warm.close()


@pytest.mark.parametrize(
    ("devices", "gpus", "seen"),
    [(["/dev/nvidia1"], "GPU-b", "GPU-b"), (["/dev/nvidia1"], "", "0,1"), ([], "GPU-b", "")],
)
def test_a_job_sees_the_gpus_that_it_is_told_of(monkeypatch, devices, gpus, seen):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    show_gpus({"access": {"devices": devices}, "gpus": gpus})
    assert os.environ["CUDA_VISIBLE_DEVICES"] == seen
