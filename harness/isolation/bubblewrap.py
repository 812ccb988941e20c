"""The bubblewrap command line: a root folder that holds only what is named, no network, no foreign processes."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from harness.isolation.policy import CPU_FACTS, MACHINE_WIDE, SYSTEM_TREES, Access

_SHARED = ("--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try", "--new-session")


def bubblewrap_argv(program: str, launcher: list[str], access: Access) -> list[str]:
    """`program` run so that `launcher` sees only the system's folders, if not even less, itself and `access`.

    The user stays the same one, without capabilities. The launcher's own package is added, since it runs inside.
    """
    argv = [program, *_SHARED, "--cap-drop", "ALL"]
    for path in SYSTEM_TREES:
        argv += _system_tree(path, narrow=access.narrow)
    for path in access.system_files:
        argv += ["--ro-bind-try", path, path]
    argv += ["--dev", "/dev", "--proc", "/proc"]
    for path in MACHINE_WIDE if access.devices else ():  # bubblewrap leaves some of them open to root
        argv += ["--ro-bind-try", path, path]
    for path in ("/sys",) if access.devices else CPU_FACTS:
        argv += ["--ro-bind-try", path, path]
    for path in access.devices:
        argv += ["--dev-bind-try", path, path]
    package = Path(__file__).resolve().parent
    listed = [path for path in spellings(access.listed) if not path.startswith(_present(access))]
    binds = [
        (path, "--ro-bind-try")
        for path in spellings((*access.read, str(package), f"{package.parent}/__init__.py"))
        if not path.startswith(_present(access))
    ]
    binds = [(path, kind) for path, kind in binds if not path.startswith(tuple(f"{folder}/" for folder in listed))]
    binds += [(path, "--ro-bind") for path in listed]
    binds += [(path, "--bind") for path in spellings(access.write)]
    for path, kind in sorted(binds, key=lambda bind: bind[0].count("/")):  # an outer mount would hide an inner one
        argv += [kind, path, path]
    for folder in listed:
        argv += _left_out(folder, frozenset(access.read))
    # Both are memory: what is written there, outside of all that is mounted, no limit on files or processes would see.
    argv += ["--remount-ro", "/dev", "--remount-ro", "/"]
    return [*argv, "--", *launcher]


def _system_tree(path: str, *, narrow: bool) -> list[str]:
    """/bin and its like are links into /usr on most systems, folders on others, and some are absent."""
    if os.path.islink(path):  # noqa: PTH114
        return ["--symlink", os.readlink(path), path]  # noqa: PTH115
    return [] if narrow else ["--ro-bind-try", path, path]


def _present(access: Access) -> tuple[str, ...]:
    """The beginnings of paths that are there already; a link would be in the way of a mount."""
    trees = [path for path in SYSTEM_TREES if not access.narrow or os.path.islink(path)]  # noqa: PTH114
    return tuple(f"{tree}/" for tree in trees)


def _left_out(folder: str, readable: frozenset[str]) -> list[str]:
    """Cover what lies in a listed folder and may not be read: a mount for each of the others would take longer."""
    argv = []
    for entry in Path(folder).iterdir():
        if str(entry) not in readable:
            argv += ["--tmpfs", str(entry), "--remount-ro", str(entry)] if entry.is_dir() else [
                "--ro-bind", "/dev/null", str(entry),
            ]  # fmt: skip
    return argv


def spellings(paths: Iterable[str]) -> list[str]:
    """Each path as given, in its folder's own place, and with all its links resolved: inside, nothing else leads from
    one to the other."""
    return list(dict.fromkeys(spelling for path in map(Path, paths) for spelling in map(str, _places(path))))


def _places(path: Path) -> tuple[Path, Path, Path]:
    return path, path.parent.resolve() / path.name, path.resolve()
