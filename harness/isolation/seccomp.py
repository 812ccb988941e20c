"""The system calls that no kernel under test needs, refused by a classic BPF program written here by hand.

Numbers from the kernel's tables for x86_64 (arch/x86/entry/syscalls/syscall_64.tbl) and for aarch64
(include/uapi/asm-generic/unistd.h); from 424 on both use the same ones.
"""

from __future__ import annotations

import errno
import struct

_BOTH = {
    "pidfd_send_signal": 424, "io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427,
    "open_tree": 428, "move_mount": 429, "fsopen": 430, "fsconfig": 431, "fsmount": 432, "fspick": 433, "clone3": 435,
    "pidfd_getfd": 438, "process_madvise": 440, "mount_setattr": 442, "memfd_secret": 447, "process_mrelease": 448,
}  # fmt: skip
_X86_64 = {
    "shmget": 29, "socket": 41, "connect": 42, "clone": 56, "kill": 62, "semget": 64, "msgget": 68, "ptrace": 101,
    "syslog": 103, "rt_sigqueueinfo": 129, "setpriority": 141, "sched_setparam": 142, "sched_setscheduler": 144,
    "vhangup": 153, "pivot_root": 155, "adjtimex": 159, "chroot": 161, "acct": 163, "settimeofday": 164, "mount": 165,
    "umount2": 166, "swapon": 167, "swapoff": 168, "reboot": 169, "sethostname": 170, "setdomainname": 171,
    "iopl": 172, "ioperm": 173, "init_module": 175, "delete_module": 176, "quotactl": 179, "tkill": 200,
    "clock_settime": 227, "tgkill": 234, "mq_open": 240, "kexec_load": 246, "add_key": 248, "request_key": 249,
    "keyctl": 250, "ioprio_set": 251, "sched_setaffinity": 203, "migrate_pages": 256, "unshare": 272, "move_pages": 279,
    "rt_tgsigqueueinfo": 297, "perf_event_open": 298, "prlimit64": 302, "open_by_handle_at": 304,
    "clock_adjtime": 305, "setns": 308, "process_vm_readv": 310, "process_vm_writev": 311, "kcmp": 312,
    "finit_module": 313, "sched_setattr": 314, "kexec_file_load": 320, "bpf": 321, "userfaultfd": 323,
}  # fmt: skip
_AARCH64 = {
    "ioprio_set": 30, "umount2": 39, "mount": 40, "pivot_root": 41, "chroot": 51, "vhangup": 58, "quotactl": 60,
    "acct": 89, "unshare": 97, "kexec_load": 104, "init_module": 105, "delete_module": 106, "clock_settime": 112,
    "syslog": 116, "ptrace": 117, "sched_setparam": 118, "sched_setscheduler": 119, "kill": 129, "tkill": 130,
    "tgkill": 131, "rt_sigqueueinfo": 138, "setpriority": 140, "reboot": 142, "sethostname": 161,
    "setdomainname": 162, "settimeofday": 170, "adjtimex": 171, "mq_open": 180, "msgget": 186, "semget": 190,
    "shmget": 194, "socket": 198, "connect": 203, "add_key": 217, "request_key": 218, "keyctl": 219, "clone": 220,
    "swapon": 224, "swapoff": 225, "migrate_pages": 238, "move_pages": 239, "rt_tgsigqueueinfo": 240,
    "perf_event_open": 241, "prlimit64": 261, "open_by_handle_at": 265, "clock_adjtime": 266, "setns": 268,
    "process_vm_readv": 270, "process_vm_writev": 271, "kcmp": 272, "finit_module": 273, "sched_setattr": 274,
    "bpf": 280, "userfaultfd": 282, "kexec_file_load": 294, "sched_setaffinity": 122,
}  # fmt: skip
# What gives a process code that it did not have: mappings that may be executed, and other programs. A signal's handler
# is code that runs when the process is told to go on, before it is asked for anything. Another process would have to be
# looked for whenever this one is to stand still.
_CODE_X86_64 = {
    "mmap": 9, "mprotect": 10, "shmat": 30, "execve": 59, "personality": 135, "prctl": 157, "execveat": 322,
    "pkey_mprotect": 329, "rt_sigaction": 13, "clone": 56, "fork": 57, "vfork": 58,
}  # fmt: skip
_CODE_AARCH64 = {
    "personality": 92, "prctl": 167, "shmat": 196, "execve": 221, "mmap": 222, "mprotect": 226, "execveat": 281,
    "pkey_mprotect": 288, "rt_sigaction": 134, "clone": 220,
}  # fmt: skip
_CODE = {"x86_64": _CODE_X86_64, "aarch64": _CODE_AARCH64}
_MAPPING = ("mmap", "mprotect", "pkey_mprotect")
_FORKING = ("fork", "vfork")
_EXECUTABLE = 4  # PROT_EXEC
_THREAD = 0x10000  # CLONE_THREAD
_SET_DUMPABLE = 4  # PR_SET_DUMPABLE
_ARCHITECTURES = {"x86_64": (0xC000003E, _X86_64), "aarch64": (0xC00000B7, _AARCH64)}  # linux/audit.h

_ABSENT = ("io_uring_setup", "io_uring_enter", "io_uring_register", "clone3")
"""Answered "no such call", so that the C library falls back to the older one, which can be inspected."""
_ARGUMENT_CHECKED = ("clone", "prlimit64", "sched_setaffinity")
_SIGNALLING = ("kill", "tgkill")
_SIGNALLING_OTHERWISE = ("tkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo", "pidfd_send_signal")
_PROFILING = (
    "socket", "connect", "ptrace", "process_vm_readv", "process_vm_writev", "perf_event_open", "shmget", "semget",
)  # fmt: skip
"""What Nsight Compute uses beside the GPU. `connect` stays shut otherwise: Landlock guards no socket with a path."""
_UNIX = 1  # AF_UNIX

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06  # linux/bpf_common.h
_ALLOW, _KILL, _REFUSE = 0x7FFF0000, 0x80000000, 0x00050000  # linux/seccomp.h
_CALL_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16  # offsets in struct seccomp_data
_X32 = 0x40000000
_NEW_NAMESPACES = 0x7E020000 | 0x80  # CLONE_NEW*: mount, cgroup, uts, ipc, user, pid, net, time

_Instruction = tuple[int, int, int, int]


def filter_program(
    machine: str, *, devices: bool = False, profiling: bool = False, only_signal: int | None = None
) -> bytes:
    """The program for `machine` ("x86_64"), 8 bytes an instruction.

    `devices`: cuInit fails (304) where it cannot make a local socket; it need not connect it. `profiling`: what
    Nsight Compute asks for. `only_signal`: the one process, beside its own group, that may be signalled.
    OSError on an architecture whose system calls are not known here.
    """
    known = _ARCHITECTURES.get(machine)
    if known is None:
        raise OSError(errno.ENOSYS, f"no system call filter for {machine}")
    audit_number, table = known
    numbers = {**_BOTH, **table}
    code = _prologue(audit_number)
    spared = set(_PROFILING) if profiling else {"socket"} if devices else set()
    special = {*_ABSENT, *_ARGUMENT_CHECKED, *_SIGNALLING, *_SIGNALLING_OTHERWISE, *spared}
    for name, number in numbers.items():
        if name not in special:
            code += _refuse(number, errno.EPERM)
    for name in _ABSENT:
        code += _refuse(numbers[name], errno.ENOSYS)
    if devices and not profiling:
        code += _refuse_argument(numbers["socket"], (_EQUAL, 1, 0, _UNIX))
    code += _refuse_argument(numbers["clone"], (_ANY_BIT, 0, 1, _NEW_NAMESPACES))
    for name in ("prlimit64", "sched_setaffinity"):  # others' limits, and their cores: the judge's baseline needs both
        code += _refuse_argument(numbers[name], (_EQUAL, 1, 0, 0))
    if only_signal is not None:
        code += _signal_rules(numbers, only_signal)
    code.append((_RETURN, 0, 0, _ALLOW))
    return b"".join(struct.pack("<HBBI", *instruction) for instruction in code)


def sealing_program(machine: str) -> bytes:
    """A second program, for a process that has all the code it will ever run: none is mapped, made or started any more,
    and none is called by a signal that was not before. It starts threads, and no process.

    Nor may it hide its mappings, or have what is readable count as executable. OSError as `filter_program`'s.
    """
    known, numbers = _ARCHITECTURES.get(machine), _CODE.get(machine)
    if known is None or numbers is None:
        raise OSError(errno.ENOSYS, f"no system call filter for {machine}")
    code = _prologue(known[0])
    for name in ("execve", "execveat", "personality", "shmat", "rt_sigaction", *(set(_FORKING) & set(numbers))):
        code += _refuse(numbers[name], errno.EPERM)
    code += _refuse_argument(numbers["clone"], (_ANY_BIT, 1, 0, _THREAD))
    for name in _MAPPING:
        code += _refuse_argument(numbers[name], (_ANY_BIT, 0, 1, _EXECUTABLE), position=2)
    code += _refuse_argument(numbers["prctl"], (_EQUAL, 0, 1, _SET_DUMPABLE))
    code.append((_RETURN, 0, 0, _ALLOW))
    return b"".join(struct.pack("<HBBI", *instruction) for instruction in code)


def _prologue(audit_number: int) -> list[_Instruction]:
    """Kill on a foreign architecture's calls (32 bit), refuse x32's, and load the call's number."""
    return [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_EQUAL, 1, 0, audit_number),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, _CALL_NUMBER),
        (_AT_LEAST, 0, 1, _X32),
        (_RETURN, 0, 0, _REFUSE | errno.EPERM),
    ]


def _refuse(number: int, error: int) -> list[_Instruction]:
    return [(_EQUAL, 0, 1, number), (_RETURN, 0, 0, _REFUSE | error)]


def _refuse_argument(number: int, test: _Instruction, position: int = 0) -> list[_Instruction]:
    """Refuse call `number` unless `test` on the low half of its argument `position` skips the next instruction."""
    return [
        (_EQUAL, 0, 4, number),
        (_LOAD, 0, 0, _ARGUMENTS + 8 * position),
        test,
        (_RETURN, 0, 0, _REFUSE | errno.EPERM),
        (_RETURN, 0, 0, _ALLOW),
    ]


def _signal_rules(numbers: dict[str, int], only: int) -> list[_Instruction]:
    code: list[_Instruction] = []
    for name in _SIGNALLING_OTHERWISE:
        code += _refuse(numbers[name], errno.EPERM)
    for name in _SIGNALLING:
        code += [
            (_EQUAL, 0, 5, numbers[name]),
            (_LOAD, 0, 0, _ARGUMENTS),
            (_EQUAL, 2, 0, only),
            (_EQUAL, 1, 0, 0),
            (_RETURN, 0, 0, _REFUSE | errno.EPERM),
            (_RETURN, 0, 0, _ALLOW),
        ]
    return code
