"""A folder that untrusted code may write, and its removal whatever was done to it."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """A private folder in the system's place for such; at the end it is gone, with all that is in it."""
    folder = Path(tempfile.mkdtemp(prefix="cutegen-"))
    try:
        yield folder
    finally:
        remove_tree(folder)


def remove_tree(folder: Path) -> None:
    """Remove a folder that no process uses any more, however deep its folders are nested and whichever are shut.

    Inner folders are moved up to the top before they are emptied: what walks down a thousand levels, as `shutil.rmtree`
    does, runs out of stack, of descriptors, or of characters for a path.
    """
    names = (folder / f"removing-{number}" for number in count())
    while folders := _emptied(folder):
        for each in folders:
            for inner in _emptied(each):
                inner.rename(next(name for name in names if not name.exists()))
            each.rmdir()
    folder.rmdir()


def _emptied(folder: Path) -> list[Path]:
    """The folders in one that holds nothing else any more, each opened to its owner."""
    found = []
    for path in list(folder.iterdir()):
        if path.is_symlink() or not path.is_dir():
            path.unlink()
        else:
            path.chmod(0o700)
            found.append(path)
    return found


def left_behind(file: Path, most: int = 64 << 20) -> str:
    """The first `most` bytes of what a process left in its folder, as text; nothing where that is no plain file.

    No link is followed: whoever reads here is outside the cage, and a link may lead anywhere.
    """
    if file.is_symlink() or not file.is_file():
        return ""
    with file.open("rb") as opened:
        return opened.read(most).decode(errors="replace")
