"""Kernels that attack from inside the judge's own runner, past the screen, in each tier: all of them fail, and nothing
of them is left: no process, no file, no secret. `test_hostile_kernels_of_a_user.py` runs this as an ordinary user."""

from __future__ import annotations

import socket
import subprocess
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

import pytest
import torch
from brief_terms import brief
from hostile_kernels import ATTACKS, LEFTOVER, NOTHING, OUTSIDE, SECRET, TASK, World, at_load, calls, including, taking

import harness.judging.evaluation
import harness.processes.runner_process
from harness.building.compilation import library_of
from harness.isolation.tiers import resolve_tier, why_unavailable
from harness.judging.local import LocalJudge
from harness.judging.terms import Terms
from harness.nouns.candidate import Candidate
from harness.targets.cpu import CpuTarget
from harness.tasks.describing import describe_task

MIB = 1 << 20
BLAS = Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"


class Unscreened(LocalJudge):
    """The screen would refuse all of these."""

    def screen(self, task, candidate):
        return None

    def screen_build(self, build):
        return None

    def screen_data(self, candidate, build):
        return None


@pytest.fixture(scope="module")
def task():
    return describe_task(TASK, name="task", tier=resolve_tier("auto"))


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """What an attack may want to reach; it is all still there, and untouched, when the last one is over."""
    folder = tmp_path_factory.mktemp("world")
    key = folder / "id_ed25519"
    key.write_text(f"{SECRET}\n")
    with ExitStack() as held:
        tcp = held.enter_context(socket.create_server(("127.0.0.1", 0)))
        abstract, path = f"{LEFTOVER}-{tcp.getsockname()[1]}", folder / "service"
        for name in (f"\0{abstract}", str(path)):
            held.enter_context(listening := socket.socket(socket.AF_UNIX))
            listening.bind(name)
            listening.listen()
        victim = held.enter_context(subprocess.Popen(["sleep", "600"]))
        held.callback(victim.kill)
        port = tcp.getsockname()[1]
        yield World(
            key=key, home=Path.home(), victim=victim.pid, port=port, abstract=abstract, path=path, computes=BLAS
        )
        assert victim.poll() is None
        assert key.read_text() == f"{SECRET}\n"


@pytest.fixture(scope="module", params=["bubblewrap", "landlock"])
def judge(request):
    if reason := why_unavailable(request.param):
        pytest.skip(f"{request.param} does not work here: {reason}")
    return Unscreened(CpuTarget(), brief(Terms(request.param)))


@pytest.fixture
def verdict_on(judge, task, tmp_path, monkeypatch):
    """The verdict on a library; afterwards no process and no file of it is left, and the verdict tells no secret."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(harness.judging.evaluation, "SLOT_BUDGET_BYTES", 16 * MIB)
    monkeypatch.setattr(harness.processes.runner_process, "SCRATCH_BYTES", 84 * MIB)
    monkeypatch.setattr(harness.processes.runner_process, "DISK_BYTES", 20 * MIB)
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    libraries = []

    def verdict(source, attack="crash"):
        workload = task.workloads[ATTACKS.index(attack)]
        candidate = Candidate(source=source, target="cpu", author="test")
        found = judge.evaluate(task.only(workload), candidate, seed=3)
        assert SECRET not in found.model_dump_json()
        if library := library_of(found.build):
            libraries.append(library)
        return found

    yield verdict
    for library in libraries:
        assert eventually(lambda of=library: not users(of)), users(library)
        assert {path.name for path in library.parent.iterdir()} == BUILT
    places = (Path("/tmp"), Path("/var/tmp"), Path("/dev/shm"), Path.home(), Path.cwd())
    assert not [place for place in places if (place / LEFTOVER).exists()]
    assert not list(tmp_path.iterdir())


BUILT = {"kernel.cpp", "kernel.so", "messages.json"}


def users(library):
    """Processes that have the library mapped: the runner and whatever it forked, under any name."""
    found = []
    for process in Path("/proc").iterdir():
        try:
            if process.name.isdigit() and str(library) in (process / "maps").read_text():
                found.append(process.name)
        except OSError:
            continue  # it has just ended, or is not ours
    return found


def eventually(fact, within_s=5.0):
    deadline = time.monotonic() + within_s
    while not fact() and time.monotonic() < deadline:
        time.sleep(0.05)
    return fact()


def test_nothing_outside_is_reached(verdict_on, world):
    verdict = verdict_on(calls(world), "outside")
    assert (verdict.status, verdict.check) == ("wrong", "correctness"), verdict.message
    achieved = int(verdict.correctness.trials[-1].outputs[0].first_bad.got - NOTHING)
    assert [name for bit, name in enumerate(OUTSIDE) if achieved >> bit & 1] == []


ENDINGS = {
    "crash": [("crashed", "signal", "SIGSEGV")],
    "hang": [("timed_out", "hang", "No answer")],
    "memory in a file": [("crashed", "memory", "bytes of memory")],
    "disk": [("crashed", "exit", f"more than {20 * MIB} bytes in its folder")],
    "output flood": [("crashed", "exit", "bytes on one stream")],
    "forged result": [("wrong", "correctness", "never written")],
    "forged answer": [("refused", "protocol", "")],
    "exit": [("crashed", "exit", "code 0")],
    "closes descriptors": [("crashed", "process", ""), ("crashed", "exit", ""), ("crashed", "signal", "")],
}  # fmt: skip


@pytest.mark.parametrize("attack", ENDINGS)
def test_an_attack_costs_its_verdict_and_no_more(verdict_on, world, attack):
    verdict = verdict_on(calls(world), attack)
    assert any(
        (verdict.status, verdict.check) == (status, check) and words in verdict.message
        for status, check, words in ENDINGS[attack]
    ), (verdict.status, verdict.check, verdict.message)


@pytest.mark.parametrize("attack", ["fills descriptors", "nested folders"])
def test_what_disturbs_nobody_is_cleared_away(verdict_on, world, attack):
    """A right result, whatever was left behind on the way: the fixture looks for that."""
    verdict = verdict_on(calls(world), attack)
    assert verdict.status in ("passed", "crashed"), verdict.message


def test_an_exit_at_load_time_is_no_pass(verdict_on):
    verdict = verdict_on(at_load("exit at load"))
    assert (verdict.status, verdict.check) == ("crashed", "exit"), verdict.message
    assert "code 0" in verdict.message


@pytest.mark.parametrize(
    ("attack", "said"),
    [
        ("makes code at load", "4096 bytes of code"),
        ("leaves a process at load", "a thread that can still map code"),
        ("leaves a daemon at load", "a thread that can still map code"),
    ],
)
def test_code_from_before_the_seal_is_seen_from_outside(verdict_on, attack, said):
    verdict = verdict_on(at_load(attack))
    assert (verdict.status, verdict.check) == ("refused", "code"), verdict.message
    assert said in verdict.message
    assert verdict.timing is None


@pytest.mark.parametrize(
    ("attack", "endings"),
    [
        # The watcher sees too many, or the memory of all of them; or the system lets an ordinary user have no more.
        ("fork bomb at load", {("crashed", "exit"), ("crashed", "memory"), ("refused", "code")}),
        ("memory in forks at load", {("crashed", "memory")}),
    ],
)
def test_processes_from_before_the_seal_are_counted_and_weighed(verdict_on, attack, endings):
    verdict = verdict_on(at_load(attack))
    assert (verdict.status, verdict.check) in endings, verdict.message


def test_closed_descriptors_cost_the_verdict_and_no_more(verdict_on):
    verdict = verdict_on(at_load("closes descriptors at load"))
    assert (verdict.status, verdict.check) in {("crashed", "process"), ("crashed", "exit"), ("crashed", "signal")}


def test_filled_descriptors_disturb_nobody(verdict_on):
    verdict = verdict_on(at_load("fills descriptors at load"))
    assert verdict.status == "passed", verdict.message


def test_a_patched_clock_saves_no_time(verdict_on):
    verdict = verdict_on(at_load("stops the clock"))
    assert verdict.status == "passed", verdict.message
    assert verdict.timing.candidate_ms >= 1


@pytest.mark.parametrize("steals", [including, taking])
def test_a_compiler_reads_no_key(verdict_on, world, steals):
    verdict = verdict_on(steals(world.key))
    assert verdict.status == "build_failed"
    assert "id_ed25519" in verdict.message
