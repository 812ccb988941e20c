"""torch.compile as a baseline: what a process needs for it, and the job that does its work before anybody is timed."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shlex
import shutil
import time
from importlib.metadata import version
from pathlib import Path

from harness.building.toolchain import host_compiler
from harness.isolation.policy import Access, Limits, Needs
from harness.isolation.scratch import scratch_folder
from harness.machine.system import cache_dir
from harness.nouns.errors import CutegenError
from harness.nouns.task import Task
from harness.nouns.tier import Tier
from harness.nouns.verdict import Precision
from harness.processes.trusted_child import JobDiedError, warm_parent
from harness.targets.target import Target
from harness.wire.job import CompileJob, CompileOrder

WALL_S = 600.0


def compile_order(digest: str) -> CompileOrder:
    """Each task, by its digest, has a cache of its own: what lies there is run, so no file may write another one's.

    Raises `MachineError` where there is no C++ compiler: Inductor starts one for GPUs, too.
    """
    compiler = host_compiler()
    cache = cache_dir() / "inductor" / digest
    cache.mkdir(parents=True, exist_ok=True)
    path = os.pathsep.join([str(Path(compiler.command[0]).parent), "/usr/local/bin", "/usr/bin", "/bin", "/usr/sbin"])
    environment = {"PATH": path, "CXX": shlex.join(compiler.command)}
    if c_compiler := _c_compiler(Path(compiler.command[0])):
        environment["CC"] = c_compiler
    return CompileOrder(cache=str(cache), environment=environment, roots=tuple(str(root) for root in compiler.roots))


def compile_once(target: Target, tier: Tier, precision: Precision, task: Task) -> float:
    """Have torch.compile do its work on each workload of the task, unless it was done before; the seconds it took.

    Like a build it takes no turn on the device. Whoever asks for the same waits. Where it fails nothing is lost: the
    judging process then compiles by itself, and says why it could not.
    """
    return sum(_compile_once(target, tier, precision, task.only(workload)) for workload in task.workloads)


def _compile_once(target: Target, tier: Tier, precision: Precision, task: Task) -> float:
    job = CompileJob(
        source=task.source,
        name=task.name,
        variant=task.workloads[0].variant,
        signature=task.signature,
        device=target.name,
        precision=precision,
        compile=compile_order(task.digest),
    )
    with _marker(job).open("a+b") as marker:
        fcntl.flock(marker, fcntl.LOCK_EX)
        if marker.tell():
            return 0.0
        began = time.monotonic()
        if _in_a_child(target, tier, job):
            marker.write(b"compiled\n")
    return time.monotonic() - began


def _marker(job: CompileJob) -> Path:
    """A file that says so when the work is done. It lies beside the cache, not in it: there foreign code may write,
    and what is opened there may be a link to anywhere."""
    told = job.model_dump(mode="json", include={"variant", "signature", "device", "precision"})
    key = json.dumps([told, version("torch"), job.compile.environment["CXX"]], sort_keys=True)
    return Path(f"{job.compile.cache}-{hashlib.sha256(key.encode()).hexdigest()[:16]}")


def _in_a_child(target: Target, tier: Tier, job: CompileJob) -> bool:
    """Whether all went well, by the word of a process in which the task's file ran."""
    try:
        with scratch_folder() as folder:
            answer = warm_parent().run(
                "compile",
                job,
                tier=tier,
                cwd=folder,
                limits=Limits(wall_s=WALL_S, memory_bytes=64 << 30, processes=512),
                needs=with_compilers(target.running(), job.compile),
            )
    except (CutegenError, JobDiedError):
        return False
    return answer.get("failure") == ""


def with_compilers(needs: Needs, order: CompileOrder | None) -> Needs:
    """What a process needs that also compiles."""
    return needs + Access(read=order.roots, write=(order.cache,)) if order else needs


def _c_compiler(cxx: Path) -> str | None:
    """The C compiler beside the C++ one, which the process may read; $CC where there is none."""
    return shutil.which(cxx.name.replace("g++", "gcc"), path=str(cxx.parent)) or os.environ.get("CC")
