"""A run's folder: made once, found again, claimed by one process, and honest about a disk that fails."""

import os
import sys
from pathlib import Path

import pytest
from command_line import SOFTSIGN

from graph.driving.loop import drive
from graph.runs.folder import Manifest, RunFolder, create, machine_error, reopen
from graph.runs.machine import cutegen_version, this_machine
from graph.runs.progress import Quiet
from graph.runs.store import checkpoint_types, open_saver
from harness.nouns.errors import MachineError, UserError
from harness.nouns.task import Task
from nodes.settings import Settings

SOURCE = SOFTSIGN.format(one=1.0)


def new(out: Path | None) -> tuple[RunFolder, Manifest]:
    return create(out, name="softsign", source=SOURCE, settings=Settings(seed=5))


def test_a_run_is_found_again_with_its_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    folder, manifest = new(None)
    assert folder.path == tmp_path / "runs" / f"softsign-{manifest.id}"
    assert manifest.settings.run_dir == str(folder.path)
    for name in (folder.path, Path("runs") / folder.path.name, Path(folder.path.name)):
        assert reopen(name)[1] == manifest
    moved = tmp_path / "elsewhere"
    folder.path.rename(moved)
    assert reopen(moved)[1].settings == manifest.settings.model_copy(update={"run_dir": str(moved)})


def test_two_runs_in_the_same_second_have_different_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert len({new(None)[0].path for _ in range(5)}) == 5


def test_an_occupied_folder_is_refused(tmp_path: Path) -> None:
    folder, _ = new(tmp_path / "run")
    with pytest.raises(UserError, match=f"--resume {folder.path}"):
        new(tmp_path / "run")
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "kernel.cu").write_text("precious", encoding="utf-8")
    with pytest.raises(UserError, match="would be overwritten"):
        new(mine)
    assert (mine / "kernel.cu").read_text(encoding="utf-8") == "precious"
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(UserError, match="is a file"):
        new(file)


def test_a_folder_of_other_things_may_be_used(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").touch()
    folder, _ = new(tmp_path)
    folder.discard()
    assert [file.name for file in tmp_path.iterdir()] == ["notes.txt"]


def test_damaged_runs_are_explained(tmp_path: Path) -> None:
    folder, _ = new(tmp_path / "run")
    with pytest.raises(UserError, match="There is no run"):
        reopen(tmp_path / "absent")
    folder.manifest_file.write_text('{"schema_version": 99}', encoding="utf-8")
    with pytest.raises(UserError, match="not a run of this version"):
        reopen(folder.path)


def test_writing_replaces_at_once_and_leaves_no_scratch(tmp_path: Path) -> None:
    folder, _ = new(tmp_path / "run")
    folder.write(folder.kernel, "one")
    folder.write(folder.kernel, "two")
    assert folder.kernel.read_text(encoding="utf-8") == "two"
    assert folder.artifacts == (folder.kernel,)
    assert sorted(file.name for file in folder.path.iterdir()) == ["kernel.cu", "run.json"]


@pytest.mark.parametrize("place", ["/dev/null/run", "/proc/cutegen/run"])
def test_a_folder_that_cannot_be_made(place: str) -> None:
    with pytest.raises(MachineError, match="--out") as raised:
        new(Path(place))
    assert place in raised.value.problem


def test_a_full_disk_is_the_machines_failure(tmp_path: Path) -> None:
    folder, manifest = new(tmp_path / "run")
    folder.log.symlink_to("/dev/full")
    with pytest.raises(MachineError, match="no space left") as raised:
        drive(folder, manifest, Quiet())
    assert "Free some room" in raised.value.remedy
    assert str(folder.log) in raised.value.problem


def test_a_failed_write_keeps_the_old_file(tmp_path: Path) -> None:
    folder, _ = new(tmp_path / "run")
    folder.write(folder.kernel, "good")
    (folder.path / f".kernel.cu.{os.getpid()}").symlink_to("/dev/full")
    with pytest.raises(MachineError, match="no space left"):
        folder.write(folder.kernel, "x" * 100_000)
    assert folder.kernel.read_text(encoding="utf-8") == "good"


def test_one_process_at_a_time(tmp_path: Path) -> None:
    folder, _ = new(tmp_path / "run")
    with folder.claimed(), pytest.raises(UserError, match="Another process"), folder.claimed():
        pass
    with folder.claimed():
        pass


def test_checkpoint_files_that_cannot_be_used(tmp_path: Path) -> None:
    with pytest.raises(MachineError, match="unable to open"), open_saver(tmp_path / "absent" / "x.sqlite"):
        pass
    garbage = tmp_path / "checkpoints.sqlite"
    garbage.write_bytes(b"no database at all" * 100)
    with pytest.raises(UserError, match="damaged"), open_saver(garbage) as saver:
        saver.setup()
    full = tmp_path / "full.sqlite"
    with pytest.raises(MachineError, match="full"), open_saver(full) as saver:
        saver.conn.execute("PRAGMA max_page_count = 1")
        saver.setup()


def test_only_our_nouns_come_out_of_a_checkpoint() -> None:
    types = checkpoint_types()
    assert Task in types
    assert Path not in types
    assert {kind.__module__.split(".")[0] for kind in types} <= {
        "harness",
        "nodes",
        "graph",
        "tools",
        "knowledge",
        "bench",
    }


def test_errors_name_file_cause_and_remedy() -> None:
    denied = machine_error(PermissionError(13, "Permission denied"), Path("a/b"), "write")
    assert str(denied) == "Could not write a/b: permission denied. Name a folder that you may write to with --out."


def test_this_machine_is_known_without_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)  # importing it fails
    machine = this_machine()
    assert machine.cpu
    assert machine.cores >= 1
    assert machine.versions["cutegen"] == cutegen_version()
    assert "torch" in machine.versions
