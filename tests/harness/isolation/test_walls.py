"""What a process finds around it inside, seen from there: each wall by itself, whichever other one stands before it."""

from __future__ import annotations

import json
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from waiting import eventually, is_alive

from harness.isolation.bubblewrap import bubblewrap_argv
from harness.isolation.policy import MACHINE_WIDE, Access, Limits
from harness.isolation.process import Completed, IsolatedProcess, run_isolated
from harness.isolation.tiers import why_unavailable
from harness.isolation.tree import descendants
from harness.nouns.tier import Tier

GPU = Access(devices=("/dev/null",))
"""A device node opens what a GPU needs, sockets and thread names; the profiler opens more."""
TOOL = Access(devices=("/dev/null",), profiling=True)
NAMESPACES = ("pid", "net", "ipc", "uts", "mnt")
ABOUT_ITSELF = """
import json, os, sys
def may(path, flags):
    try:
        os.close(os.open(path, flags, 0o600))
    except OSError:
        return False
    return True
def listed(path):
    try:
        return sorted(os.listdir(path))
    except OSError:
        return None
asked = json.loads(sys.argv[1])
print(json.dumps({
    "status": dict(line.split(":", 1) for line in open("/proc/self/status").read().splitlines()),
    "limits": open("/proc/self/limits").read(),
    "namespaces": {name: os.readlink(f"/proc/self/ns/{name}") for name in asked["namespaces"]},
    "processes": [name for name in listed("/proc") if name.isdigit()],
    "readable": [path for path in asked["read"] if may(path, os.O_RDONLY)],
    "listable": [path for path in asked["list"] if listed(path) is not None],
    "writable": [path for path in asked["write"] if may(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)],
    "descriptors": sorted(int(name) for name in os.listdir("/proc/self/fd")),
    "session": os.getsid(0) == os.getpgid(0) == os.getpid(),
    "terminal": may("/dev/tty", os.O_RDWR),
}))
"""


def run(work: Path, tier: Tier, *argv: str, access: Access | None = None, limits: Limits | None = None) -> Completed:
    limits = limits or Limits(wall_s=30)
    return run_isolated(argv, cwd=work, access=access or Access(), limits=limits, environment={}, tier=tier)


def inside(work: Path, tier: Tier, access: Access | None = None, **asked: list[str]) -> dict[str, Any]:
    """What a Python process inside says of itself, and which of the paths it may read, list or write."""
    questions = {"read": [], "list": [], "write": [], "namespaces": NAMESPACES, **asked}
    completed = run(work, tier, sys.executable, "-I", "-S", "-c", ABOUT_ITSELF, json.dumps(questions), access=access)
    assert completed.exit_code == 0, completed
    answer: dict[str, Any] = json.loads(completed.stdout)
    return answer


@pytest.mark.parametrize("access", [Access(), GPU, TOOL], ids=["plain", "gpu", "tool"])
def test_no_capability_is_left_and_none_can_be_won(work: Path, tier: Tier, access: Access) -> None:
    status = inside(work, tier, access)["status"]
    for name in ("CapInh", "CapPrm", "CapEff", "CapAmb", *(("CapBnd",) if tier == "landlock" else ())):
        assert int(status[name], 16) == 0, name
    assert status["NoNewPrivs"].strip() == "1"
    assert status["Seccomp"].strip() == "2", "a filter stands before its system calls"


def test_signals_are_at_their_defaults(work: Path, any_tier: Tier) -> None:
    """Python ignores SIGPIPE and the launcher hears of its children; the command inherits neither."""
    found = run(work, any_tier, "/bin/grep", "-E", "SigBlk|SigIgn", "/proc/self/status").stdout.split()
    blocked, ignored = (int(each, 16) for each in found[1::2])
    assert blocked == 0
    assert [name for name in ("SIGPIPE", "SIGCHLD", "SIGTERM") if ignored >> (getattr(signal, name) - 1) & 1] == []
    piped = run(work, any_tier, "/bin/sh", "-c", "(yes; echo $? > ended) | head -n 1 > /dev/null")
    assert piped.exit_code == 0
    assert (work / "ended").read_text() == "141\n", "ended by the signal that nobody reads any more"


def test_nothing_is_open_but_the_three_streams_and_it_has_no_terminal(work: Path, any_tier: Tier) -> None:
    found = inside(work, any_tier)
    assert len(found["descriptors"]) == 4, "three, and the folder that is being listed"
    assert found["descriptors"][:3] == [0, 1, 2]
    assert found["session"]
    assert not found["terminal"]


def test_who_kills_its_whole_group_kills_itself_alone(work: Path, any_tier: Tier) -> None:
    """Its own group may be signalled: whoever reports its end must not be in it."""
    completed = run(work, any_tier, "/bin/sh", "-c", "echo before; kill -KILL 0; echo after")
    assert (completed.outcome, completed.signal, completed.stdout) == ("signalled", "SIGKILL", b"before\n")


def test_what_stands_around_it_knows_no_secret_and_is_out_of_the_terminals_reach(
    work: Path, any_tier: Tier, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither bubblewrap nor the launcher inherits the caller's keys, and a Ctrl-C is the caller's alone."""
    monkeypatch.setenv("OPENAI_API_KEY", "the-secret")
    with IsolatedProcess(
        ["/bin/sh", "-c", "echo > started; exec sleep 300"],
        cwd=work, access=Access(), limits=Limits(), environment={}, tier=any_tier,
    ) as process:  # fmt: skip
        assert eventually((work / "started").exists)
        around = [process.pid, *descendants(process.pid)]
        assert len(around) >= 2
        for pid in around:
            assert os.getpgid(pid) != os.getpgid(0)
            assert os.getsid(pid) != os.getsid(0)
            with suppress(PermissionError):  # an ordinary user is not shown the launcher's
                assert b"the-secret" not in Path(f"/proc/{pid}/environ").read_bytes()


def test_every_limit_is_set_and_cannot_be_raised(work: Path, any_tier: Tier) -> None:
    limits = Limits(memory_bytes=1 << 30, reserved_bytes=1 << 20, file_bytes=1 << 21, open_files=77, processes=99)
    completed = run(work, any_tier, "/bin/cat", "/proc/self/limits", limits=limits)
    rows = {line[:26].strip(): line[26:].split()[:2] for line in completed.stdout.decode().splitlines()[1:]}
    assert rows["Max core file size"] == ["0", "0"]
    assert rows["Max data size"] == [str((1 << 30) + (1 << 20))] * 2
    assert rows["Max file size"] == [str(1 << 21)] * 2
    assert rows["Max open files"] == ["77", "77"]
    soft, hard = rows["Max processes"]
    assert soft == hard
    least = 99 + 3 * len(os.sched_getaffinity(0))  # threads count, and a pool has one for each processor
    assert int(soft) == least if os.getuid() == 0 else int(soft) >= least, "of an ordinary user all threads count"


@pytest.fixture
def bubblewrap() -> Tier:
    if reason := why_unavailable("bubblewrap"):
        pytest.skip(f"bubblewrap does not work here: {reason}")
    return "bubblewrap"


@pytest.mark.parametrize("access", [Access(), TOOL], ids=["plain", "tool"])
def test_bubblewrap_separates_what_the_kernel_can_separate(work: Path, bubblewrap: Tier, access: Access) -> None:
    found = inside(work, bubblewrap, access)
    ours = {name: str(Path(f"/proc/self/ns/{name}").readlink()) for name in NAMESPACES}
    assert {name for name in NAMESPACES if found["namespaces"][name] == ours[name]} == set()
    assert len(found["processes"]) <= 3, "bubblewrap's own, the launcher, and itself"


def test_the_profilers_network_is_its_own_where_root_starts_it(work: Path) -> None:
    if os.getuid() != 0 or why_unavailable("landlock"):
        pytest.skip("needs root and Landlock")
    ours = str(Path("/proc/self/ns/net").readlink())
    assert inside(work, "landlock", TOOL)["namespaces"]["net"] != ours
    assert inside(work, "landlock")["namespaces"]["net"] == ours, "without sockets nothing is to be separated"


BESIDE = ["/", "/dev", "/dev/shm", "/tmp", "/var/tmp", "/run", "/etc", "/usr", "/usr/lib", "/home", "/root", "/proc"]


@pytest.mark.parametrize("access", [Access(), GPU, TOOL], ids=["plain", "gpu", "tool"])
def test_only_its_own_folder_takes_files(work: Path, tier: Tier, access: Access) -> None:
    """Folders that lie in memory, too: what is written there no limit on files or processes would see."""
    beside = [f"{folder}/cutegen-attack" for folder in (*BESIDE, str(work.parent))]
    found = inside(work, tier, access, write=[*beside, f"{work}/own"])
    assert found["writable"] == [f"{work}/own"]
    assert not any(Path(path).exists() for path in beside)


SECRETS = [
    "/etc/shadow", "/etc/gshadow", "/etc/hosts", "/etc/resolv.conf", "/etc/hostname", "/etc/machine-id", "/etc/fstab",
    "/etc/ssl/openssl.cnf", "/sys/class", "/sys/kernel", "/sys/fs", "/sys/module", "/sys/block", "/root", "/home",
    "/var", "/run", "/boot", "/srv", "/mnt", "/opt",
]  # fmt: skip


def test_of_the_system_only_what_a_compiler_needs_is_shown(work: Path, tier: Tier) -> None:
    """/opt is shown where the interpreter lies there, and no path that leads to what was opened is hidden."""
    opened = [sys.prefix, sys.base_prefix, str(work), *(str(Path(path).resolve()) for path in (sys.prefix,))]
    hidden = [path for path in SECRETS if not any(each.startswith(f"{path}/") for each in opened)]
    needed = ["/usr", "/usr/bin", "/sys/devices/system/cpu", str(work)]
    found = inside(work, tier, read=[path for path in hidden if Path(path).is_file()], list=[*hidden, *needed])
    assert found["readable"] == []
    assert found["listable"] == [path for path in needed if Path(path).is_dir()]
    passwords = inside(work, tier, read=["/etc/passwd", "/etc/ld.so.cache"])["readable"]
    assert passwords == [path for path in ("/etc/passwd", "/etc/ld.so.cache") if Path(path).exists()]


def test_devices_are_those_that_hold_nothing(work: Path, tier: Tier) -> None:
    nodes = ["/dev/mem", "/dev/kmsg", "/dev/kvm", "/dev/fuse", "/dev/net/tun", "/dev/loop-control", "/dev/sda"]
    found = inside(work, tier, read=["/dev/null", "/dev/zero", "/dev/urandom", *nodes])
    assert found["readable"] == ["/dev/null", "/dev/zero", "/dev/urandom"]


@pytest.mark.parametrize("access", [GPU, TOOL], ids=["gpu", "tool"])
def test_the_machine_is_not_changed_through_proc(work: Path, tier: Tier, access: Access) -> None:
    """Root, even without capabilities, owns these files: what a GPU opens of /proc and /sys must not reach them."""
    if os.getuid() != 0:
        pytest.skip("only root could write them at all")
    settings = ["/proc/sys/kernel/core_pattern", "/proc/sys/vm/drop_caches", "/proc/sysrq-trigger"]
    settings += ["/proc/irq/default_smp_affinity", "/sys/kernel/mm/transparent_hugepage/enabled"]
    present = [path for path in settings if Path(path).exists()]
    assert inside(work, tier, access, write=present)["writable"] == []


def test_the_command_line_of_bubblewrap() -> None:
    """What its flags do is shown above where it works; that they are there is shown everywhere."""
    argv = bubblewrap_argv("bwrap", ["launcher"], Access(read=("/r",), write=("/w",)))
    for flag in ("--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts", "--new-session"):
        assert flag in argv
    triples = list(zip(argv, argv[1:], argv[2:], strict=False))
    assert ("--ro-bind-try", "/r", "/r") in triples
    assert ("--bind", "/w", "/w") in triples
    assert {path for flag, path, _ in triples if flag == "--bind"} == {"/w"}, "nothing else can be written"
    assert argv[-6:] == ["--remount-ro", "/dev", "--remount-ro", "/", "--", "launcher"]
    assert ("--cap-drop", "ALL") in {pair[:2] for pair in triples}
    assert not {"--dev-bind-try", "/sys", *MACHINE_WIDE} & set(argv)
    more = bubblewrap_argv("bwrap", ["launcher"], Access(devices=("/dev/nvidia0",)))
    triples = list(zip(more, more[1:], more[2:], strict=False))
    assert ("--dev-bind-try", "/dev/nvidia0", "/dev/nvidia0") in triples
    for path in ("/sys", *MACHINE_WIDE):
        assert ("--ro-bind-try", path, path) in triples
    assert more.index("--proc") < more.index("/proc/sys"), "the later mount hides the earlier one"


def test_inner_folders_are_mounted_after_outer_ones(work: Path, tier: Tier, tmp_path: Path) -> None:
    """A writable folder in a readable one, a readable one in a writable one: each keeps its own right."""
    outer, inner = tmp_path / "outer", tmp_path / "outer" / "inner"
    inner.mkdir(parents=True)
    (outer / "file").write_text("text")
    access = Access(read=(str(outer),), write=(str(inner),))
    shut = [f"{outer}/new", f"{outer}/file", "/etc/passwd", "/usr/bin/env", sys.executable]
    found = inside(work, tier, access, write=[f"{inner}/new", *shut], read=[f"{outer}/file"])
    assert (found["writable"], found["readable"]) == ([f"{inner}/new"], [f"{outer}/file"])


def test_the_command_does_not_outlive_what_it_was_started_by(work: Path, tier: Tier) -> None:
    """Should the machine run out of memory, the outermost process may be the one that the kernel kills."""
    with IsolatedProcess(
        ["/bin/sh", "-c", "echo > started; exec sleep 300"],
        cwd=work, access=Access(), limits=Limits(), environment={}, tier=tier,
    ) as process:  # fmt: skip
        assert eventually((work / "started").exists)
        below = descendants(process.pid)
        assert below
        os.kill(process.pid, signal.SIGKILL)
        completed = process.wait(20)
    assert completed.outcome == "setup_failed", "the machine's doing, and not the command's"
    assert "the launcher ended with -9 before it could report" in completed.note
    assert eventually(lambda: not any(map(is_alive, below)))
