"""The bubblewrap command line: a root folder that holds only what is named, no network, no foreign processes."""

from __future__ import annotations

import os
from pathlib import Path

from harness.isolation.policy import CPU_FACTS, MACHINE_WIDE, SYSTEM_FILES, SYSTEM_TREES, Access

_SHARED = ("--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try", "--new-session")


def bubblewrap_argv(program: str, launcher: list[str], access: Access) -> list[str]:
    """`program` run so that `launcher` sees only the system's folders, itself and `access`.

    The user stays the same one, without capabilities. The launcher's own package is added, since it runs inside.
    """
    argv = [program, *_SHARED, "--cap-drop", "ALL"]
    for path in SYSTEM_TREES:
        argv += _system_tree(path)
    for path in SYSTEM_FILES:
        argv += ["--ro-bind-try", path, path]
    argv += ["--dev", "/dev", "--proc", "/proc"]
    for path in MACHINE_WIDE if access.devices else ():  # bubblewrap leaves some of them open to root
        argv += ["--ro-bind-try", path, path]
    for path in ("/sys",) if access.devices else CPU_FACTS:
        argv += ["--ro-bind-try", path, path]
    for path in access.devices:
        argv += ["--dev-bind-try", path, path]
    package = Path(__file__).resolve().parent
    binds = [
        (path, "--ro-bind-try")
        for path in _spellings((*access.read, str(package), f"{package.parent}/__init__.py"))
        if not path.startswith(tuple(f"{tree}/" for tree in SYSTEM_TREES))  # there already, and links are in the way
    ]
    binds += [(path, "--bind") for path in _spellings(access.write)]
    for path, kind in sorted(binds, key=lambda bind: bind[0].count("/")):  # an outer mount would hide an inner one
        argv += [kind, path, path]
    # Both are memory: what is written there, outside of all that is mounted, no limit on files or processes would see.
    argv += ["--remount-ro", "/dev", "--remount-ro", "/"]
    return [*argv, "--", *launcher]


def _system_tree(path: str) -> list[str]:
    """/bin and its like are links into /usr on most systems, folders on others, and some are absent."""
    if os.path.islink(path):  # noqa: PTH114
        return ["--symlink", os.readlink(path), path]  # noqa: PTH115
    return ["--ro-bind-try", path, path]


def _spellings(paths: tuple[str, ...]) -> list[str]:
    """Each path as given and with its links resolved: inside, nothing else leads from one to the other."""
    return list(dict.fromkeys(spelling for path in paths for spelling in (path, str(Path(path).resolve()))))
