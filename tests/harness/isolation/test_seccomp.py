"""The filter, run by a small interpreter of the kernel's instruction set, and its numbers against the kernel's own."""

from __future__ import annotations

import errno
import platform
import re
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.isolation import seccomp

ALLOW, KILL = 0x7FFF0000, 0x80000000
EPERM, ENOSYS = 0x00050000 | errno.EPERM, 0x00050000 | errno.ENOSYS
AUDIT = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
TABLES = {
    "x86_64": {**seccomp._BOTH, **seccomp._X86_64, **seccomp._CODE_X86_64},
    "aarch64": {**seccomp._BOTH, **seccomp._AARCH64, **seccomp._CODE_AARCH64},
}
HEADERS = {
    "x86_64": (Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h"), r"#define __NR_(\w+)\s+(\d+)"),
    "aarch64": (Path("/usr/include/asm-generic/unistd.h"), r"#define __NR(?:3264)?_(\w+)\s+(\d+)"),
}
NEWER = {"memfd_secret", "process_mrelease"}  # absent from the headers of older distributions

machines = st.sampled_from(sorted(AUDIT))


def decide(program: bytes, audit: int, number: int, *arguments: int) -> int:
    """What the kernel would return for this call."""
    facts = struct.pack("<IIQ6Q", number, audit, 0, *(*arguments, 0, 0, 0, 0, 0, 0)[:6])
    code = list(struct.iter_unpack("<HBBI", program))
    position = accumulator = 0
    while True:
        operation, if_true, if_false, operand = code[position]
        position += 1
        if operation == 0x06:
            return int(operand)
        if operation == 0x20:
            accumulator = struct.unpack_from("<I", facts, operand)[0]
            continue
        holds = {0x15: accumulator == operand, 0x35: accumulator >= operand, 0x45: bool(accumulator & operand)}
        position += if_true if holds[operation] else if_false


def calls(machine: str, *names: str) -> list[int]:
    return [TABLES[machine][name] for name in names]


@pytest.mark.parametrize("machine", sorted(HEADERS))
def test_numbers_are_the_kernels(machine: str) -> None:
    header, pattern = HEADERS[machine]
    if not header.exists():
        pytest.skip(f"no {header} to compare with")
    official = {name: int(number) for name, number in re.findall(pattern, header.read_text())}
    table = TABLES[machine]
    wrong = {name: number for name, number in table.items() if official.get(name) != number}
    assert set(wrong) <= NEWER - set(official)


@given(machine=machines, number=st.integers(0, 600), argument=st.integers(0, 2**64 - 1), profiling=st.booleans())
def test_what_is_not_named_is_allowed(machine: str, number: int, argument: int, profiling: bool) -> None:
    program = seccomp.filter_program(machine, profiling=profiling)
    if number not in TABLES[machine].values():
        assert decide(program, AUDIT[machine], number, argument) == ALLOW


@given(machine=machines, argument=st.integers(0, 2**64 - 1))
def test_what_is_dangerous_is_refused(machine: str, argument: int) -> None:
    program = seccomp.filter_program(machine)
    for number in calls(machine, "ptrace", "mount", "unshare", "bpf", "socket", "shmget", "process_vm_readv"):
        assert decide(program, AUDIT[machine], number, argument) == EPERM
    for number in calls(machine, "clone3", "io_uring_setup"):
        assert decide(program, AUDIT[machine], number, argument) == ENOSYS


NEVER = {
    "other processes": "ptrace process_vm_readv process_vm_writev kcmp pidfd_getfd process_madvise process_mrelease "
    "move_pages migrate_pages setpriority ioprio_set sched_setparam sched_setscheduler sched_setattr",
    "mounts and namespaces": "mount umount2 pivot_root chroot unshare setns open_tree move_mount fsopen fsconfig "
    "fsmount fspick mount_setattr open_by_handle_at",
    "the machine": "reboot swapon swapoff sethostname setdomainname settimeofday clock_settime clock_adjtime adjtimex "
    "acct quotactl syslog vhangup kexec_load kexec_file_load init_module finit_module delete_module",
    "the kernel's own machines": "bpf perf_event_open userfaultfd keyctl add_key request_key",
    "what outlives it or leads out": "shmget semget msgget mq_open memfd_secret socket connect",
}
PROFILER = {
    "ptrace",
    "process_vm_readv",
    "process_vm_writev",
    "perf_event_open",
    "socket",
    "connect",
    "shmget",
    "semget",
}


@pytest.mark.parametrize("machine", sorted(AUDIT))
@pytest.mark.parametrize("purpose", sorted(NEVER))
def test_each_call_that_reaches_out_is_refused_with_any_argument(machine: str, purpose: str) -> None:
    plain, gpu = (seccomp.filter_program(machine, devices=devices) for devices in (False, True))
    tool = seccomp.filter_program(machine, devices=True, profiling=True)
    for name in NEVER[purpose].split():
        (number,) = calls(machine, name)
        for argument in (0, 1, 2, 2**32 - 1):
            assert decide(plain, AUDIT[machine], number, argument) == EPERM, name
            local = name == "socket" and argument == 1
            assert decide(gpu, AUDIT[machine], number, argument) == (ALLOW if local else EPERM), name
            assert decide(tool, AUDIT[machine], number, argument) == (ALLOW if name in PROFILER else EPERM), name


@pytest.mark.parametrize("name", ["io_uring_setup", "io_uring_enter", "io_uring_register", "clone3"])
@pytest.mark.parametrize("options", [{}, {"devices": True}, {"devices": True, "profiling": True}, {"only_signal": 7}])
def test_what_could_not_be_inspected_does_not_exist(name: str, options: dict[str, bool]) -> None:
    for machine in sorted(AUDIT):
        assert decide(seccomp.filter_program(machine, **options), AUDIT[machine], *calls(machine, name)) == ENOSYS


def test_on_x86_the_calls_of_its_own_are_refused() -> None:
    for name in ("iopl", "ioperm"):
        assert decide(seccomp.filter_program("x86_64"), AUDIT["x86_64"], *calls("x86_64", name)) == EPERM


@given(machine=machines, namespace=st.sampled_from([1 << 7, 1 << 17, *(1 << bit for bit in range(25, 31))]))
def test_clone_makes_threads_but_no_namespaces(machine: str, namespace: int) -> None:
    program = seccomp.filter_program(machine)
    (clone,) = calls(machine, "clone")
    threads = 0x003D0F00  # what pthread_create asks for
    assert decide(program, AUDIT[machine], clone, threads) == ALLOW
    assert decide(program, AUDIT[machine], clone, threads | namespace) == EPERM


@given(machine=machines, pid=st.integers(1, 2**31 - 1))
def test_limits_and_cores_of_others_stay_theirs(machine: str, pid: int) -> None:
    program = seccomp.filter_program(machine)
    for number in calls(machine, "prlimit64", "sched_setaffinity"):
        assert decide(program, AUDIT[machine], number, 0) == ALLOW
        assert decide(program, AUDIT[machine], number, pid) == EPERM


@given(machine=machines, own=st.integers(2, 2**22), other=st.integers(1, 2**31 - 1))
def test_signals_without_scoping_stay_at_home(machine: str, own: int, other: int) -> None:
    program = seccomp.filter_program(machine, only_signal=own)
    for number in calls(machine, "kill", "tgkill"):
        assert decide(program, AUDIT[machine], number, own) == ALLOW
        assert decide(program, AUDIT[machine], number, 0) == ALLOW
        assert decide(program, AUDIT[machine], number, other) == (ALLOW if other == own else EPERM)
        assert decide(program, AUDIT[machine], number, 2**32 - 1) == EPERM  # -1: everybody
        assert decide(seccomp.filter_program(machine), AUDIT[machine], number, other) == ALLOW
    for number in calls(machine, "tkill", "rt_sigqueueinfo", "pidfd_send_signal"):
        assert decide(program, AUDIT[machine], number, own) == EPERM


@given(machine=machines, family=st.integers(0, 2**31 - 1))
def test_a_gpu_gets_local_sockets_that_lead_nowhere(machine: str, family: int) -> None:
    program = seccomp.filter_program(machine, devices=True)
    socket, connect = calls(machine, "socket", "connect")
    assert decide(program, AUDIT[machine], socket, 1) == ALLOW
    assert decide(program, AUDIT[machine], socket, family) == (ALLOW if family == 1 else EPERM)
    assert decide(program, AUDIT[machine], connect, family) == EPERM


@given(machine=machines)
def test_the_profiler_may_trace_and_talk(machine: str) -> None:
    program = seccomp.filter_program(machine, profiling=True)
    for number in calls(machine, "socket", "connect", "ptrace", "perf_event_open"):
        assert decide(program, AUDIT[machine], number) == ALLOW
    for number in calls(machine, "mount", "bpf", "unshare"):
        assert decide(program, AUDIT[machine], number) == EPERM


@given(number=st.integers(0, 600))
def test_other_call_tables_are_shut(number: int) -> None:
    program = seccomp.filter_program("x86_64")
    assert decide(program, 0x40000003, number) == KILL  # 32 bit
    assert decide(program, AUDIT["x86_64"], 0x40000000 | number) == EPERM  # x32


def test_an_unknown_architecture_is_an_error() -> None:
    assert platform.machine() in AUDIT
    with pytest.raises(OSError, match="riscv64"):
        seccomp.filter_program("riscv64")


@given(machine=machines, rights=st.integers(0, 2**32 - 1), sharing=st.integers(0, 2**32 - 1))
def test_a_sealed_process_maps_data_and_no_code(machine: str, rights: int, sharing: int) -> None:
    program = seccomp.sealing_program(machine)
    for number in calls(machine, "mmap", "mprotect", "pkey_mprotect"):
        assert decide(program, AUDIT[machine], number, 0, 4096, rights, sharing) == (EPERM if rights & 4 else ALLOW)


@pytest.mark.parametrize("machine", sorted(AUDIT))
def test_a_sealed_process_starts_no_program_and_hides_nothing(machine: str) -> None:
    program = seccomp.sealing_program(machine)
    for number in calls(machine, "execve", "execveat", "personality", "shmat", "rt_sigaction"):
        assert decide(program, AUDIT[machine], number) == EPERM
    (prctl,) = calls(machine, "prctl")
    assert [decide(program, AUDIT[machine], prctl, option) for option in (3, 4, 15)] == [ALLOW, EPERM, ALLOW]
    assert decide(program, AUDIT["aarch64" if machine == "x86_64" else "x86_64"], prctl) == KILL


@pytest.mark.parametrize("machine", sorted(AUDIT))
@given(others=st.integers(0, 2**32 - 1))
def test_a_sealed_process_starts_threads_and_no_process(machine: str, others: int) -> None:
    program, thread = seccomp.sealing_program(machine), 0x10000
    (clone,) = calls(machine, "clone")
    assert decide(program, AUDIT[machine], clone, others | thread) == ALLOW
    assert decide(program, AUDIT[machine], clone, others & ~thread) == EPERM
    if machine == "x86_64":
        assert [decide(program, AUDIT[machine], number) for number in (57, 58)] == [EPERM, EPERM]
