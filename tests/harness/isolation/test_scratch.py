"""What untrusted code leaves in its folder goes away, and is read without being followed."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from harness.isolation.scratch import left_behind, remove_tree, scratch_folder


def nest(folder: Path, levels: int) -> None:
    """Folders in folders, deeper than any path can say."""
    deepest = os.open(folder, os.O_DIRECTORY)
    for _ in range(levels):
        os.mkdir("nested", dir_fd=deepest)
        below = os.open("nested", os.O_DIRECTORY, dir_fd=deepest)
        os.close(os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=below))
        os.close(deepest)
        deepest = below
    os.close(deepest)


def test_folders_nested_beyond_all_paths_are_removed(tmp_path: Path) -> None:
    folder = tmp_path / "scratch"
    folder.mkdir()
    (folder / "removing-1").mkdir()  # a name that the removal uses itself
    nest(folder, 1200)
    remove_tree(folder)
    assert not folder.exists()


def test_shut_folders_and_links_are_removed_and_nothing_beyond_them(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").touch()
    folder = tmp_path / "scratch"
    (folder / "shut" / "inner").mkdir(parents=True)
    (folder / "link").symlink_to(outside)
    (folder / "shut" / "link").symlink_to(outside / "kept")
    os.mkfifo(folder / "shut" / "pipe")
    for shut in (folder / "shut" / "inner", folder / "shut", folder):
        shut.chmod(0)
    folder.chmod(0o700)
    remove_tree(folder)
    assert not folder.exists()
    assert (outside / "kept").exists()


def test_a_scratch_folder_lasts_as_long_as_its_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.raises(KeyError), scratch_folder() as folder:
        assert folder.parent == tmp_path
        (folder / "left").mkdir()
        raise KeyError
    assert not list(tmp_path.iterdir())


def test_what_was_left_behind_is_read_from_plain_files_alone(tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text("the-secret")
    (tmp_path / "link").symlink_to(key)
    os.mkfifo(tmp_path / "pipe")
    assert left_behind(key) == "the-secret"
    assert left_behind(key, most=3) == "the"
    assert left_behind(tmp_path / "link") == left_behind(tmp_path / "pipe") == left_behind(tmp_path / "none") == ""
