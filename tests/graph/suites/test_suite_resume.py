"""A suite's folder over several goes: what ended stays, what was interrupted goes on, and what is broken is said."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from report_records import full_record
from suite_records import FACTS, row, suite_record, timing

from graph.driving.loop import compare
from graph.runs.folder import RunFolder, compared
from graph.runs.progress import Observer, Quiet
from graph.runs.suite_record import Row, SuiteTask
from graph.suites.folder import SuiteFolder, SuiteManifest, create_suite, reopen_suite
from graph.suites.run import SuiteRun
from harness.nouns.errors import MachineError, UserError
from nodes.settings import Settings

TASKS = tuple(SuiteTask(id=number, name=f"task{number}", source="class Model: ...") for number in (3, 5, 9))


class Watcher:
    """Keeps what it is told, and what the folder held at that moment."""

    def __init__(self, folder: SuiteFolder) -> None:
        self._folder = folder
        self.began_with: list[str] = []
        self.ended_with: list[Row] = []
        self.stored: list[tuple[str, list[str]]] = []

    def began(self, task: SuiteTask) -> Observer:
        self.began_with.append(task.name)
        return Quiet()

    def ended(self, row: Row) -> None:
        self.ended_with.append(row)
        record = self._folder.record()
        assert record is not None
        self.stored.append((record.outcome, [each.status for each in record.rows]))


def made(tmp_path: Path, *tasks: SuiteTask) -> tuple[SuiteFolder, SuiteManifest]:
    settings = Settings(target="cpu")
    return create_suite(tmp_path / "out", name="mine", tasks=tasks or TASKS, scale=1.0, settings=settings)


def broken(folder: SuiteFolder, *names: str) -> None:
    """Runs that cannot be gone on with: they fail at once."""
    for name in names:
        (folder.path / name).mkdir(exist_ok=True)
        (folder.path / name / "run.json").write_text("{}", encoding="utf-8")


def ended(folder: SuiteFolder, name: str, outcome: str = "improved") -> Path:
    """A run's record, as it was left."""
    (folder.path / name).mkdir(exist_ok=True)
    file = folder.path / name / "record.json"
    file.write_text(full_record().model_copy(update={"outcome": outcome}).model_dump_json(), encoding="utf-8")
    return file


def test_each_task_is_stored_before_it_is_told_and_the_last_one_ends_the_suite(tmp_path: Path) -> None:
    folder, manifest = made(tmp_path)
    broken(folder, "task3", "task5", "task9")
    watcher = Watcher(folder)
    record = SuiteRun(folder, manifest, FACTS, watcher, jobs=1).run()
    assert watcher.began_with == ["task3", "task5", "task9"], "in their own order"
    assert watcher.stored == [
        ("running", ["not_a_task", "waiting", "waiting"]),
        ("running", ["not_a_task", "not_a_task", "waiting"]),
        ("running", ["not_a_task", "not_a_task", "not_a_task"]),
    ]
    assert (record.outcome, record.jobs, [each.id for each in record.rows]) == ("finished", 1, [3, 5, 9])
    assert folder.record() == record
    assert "- task5: " in folder.page.read_text(encoding="utf-8")


def test_what_had_ended_is_not_begun_again(tmp_path: Path) -> None:
    folder, manifest = made(tmp_path)
    before = [ended(folder, "task3"), ended(folder, "task9", "nothing_faster")]
    texts = [file.read_bytes() for file in before]
    broken(folder, "task5")
    watcher = Watcher(folder)
    record = SuiteRun(folder, manifest, FACTS, watcher, jobs=4).run()
    assert watcher.began_with == ["task5"]
    assert [file.read_bytes() for file in before] == texts
    assert [each.status for each in record.rows] == ["improved", "not_a_task", "improved"]
    assert record.figures.right == 2


def test_nothing_left_to_do_is_an_end_too(tmp_path: Path) -> None:
    folder, manifest = made(tmp_path)
    for task in TASKS:
        ended(folder, task.name)
    watcher = Watcher(folder)
    record = SuiteRun(folder, manifest, FACTS, watcher, jobs=2).run()
    assert (record.outcome, watcher.began_with) == ("finished", [])
    assert folder.record() == record


@pytest.mark.parametrize("outcome", ["interrupted", "running", "waiting"])
def test_an_interrupted_run_is_gone_on_with_and_keeps_what_it_had(tmp_path: Path, outcome: str) -> None:
    folder, manifest = made(tmp_path, TASKS[0])
    ended(folder, "task3", outcome)
    assert folder.row(TASKS[0], FACTS) is None
    found = folder.found(TASKS[0], FACTS)
    assert found is not None
    assert (found.status, found.timing is not None) == ("interrupted", True)
    broken(folder, "task3")
    watcher = Watcher(folder)
    record = SuiteRun(folder, manifest, FACTS, watcher, jobs=1).run()
    assert watcher.began_with == ["task3"]
    assert record.rows[0].timing == found.timing
    assert record.rows[0].seconds == full_record().seconds, "the failed second go was shorter than the first"


def test_what_fails_while_the_process_ends_is_no_word_on_a_task(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The second Ctrl-C, or the SIGTERM of a stop that comes twice: the present step has nowhere to write."""
    begun, ending = threading.Event(), threading.Event()
    workers: list[threading.Thread] = []

    def step(*_: object, **__: object) -> None:
        workers.append(threading.current_thread())
        begun.set()
        ending.wait(20)
        raise RuntimeError("cannot schedule new futures after shutdown")

    def stopped(*_: object) -> None:
        assert begun.wait(20)
        raise KeyboardInterrupt

    monkeypatch.setattr("graph.suites.run.drive", step)
    monkeypatch.setattr(SuiteRun, "_wait", stopped)
    folder, manifest = made(tmp_path, *TASKS[:2])
    watcher = Watcher(folder)
    with pytest.raises(KeyboardInterrupt):
        SuiteRun(folder, manifest, FACTS, watcher, jobs=1).run()
    ending.set()
    workers[0].join(20)
    record = folder.record()
    assert record is not None
    assert (record.outcome, [each.status for each in record.rows]) == ("interrupted", ["interrupted", "waiting"])
    assert watcher.ended_with == []
    assert "Traceback" not in capsys.readouterr().err


def test_a_suite_of_which_one_task_waits_has_not_ended(tmp_path: Path) -> None:
    folder, manifest = made(tmp_path)
    ended(folder, "task3")
    ended(folder, "task5", "interrupted")
    watcher = Watcher(folder)
    record = SuiteRun(folder, manifest, FACTS, watcher, jobs=0).run()
    assert (record.outcome, watcher.began_with) == ("interrupted", [])
    assert [each.status for each in record.rows] == ["improved", "interrupted", "waiting"]
    assert folder.record() == record


def test_a_record_that_cannot_be_read_is_no_end(tmp_path: Path) -> None:
    folder, _ = made(tmp_path)
    for name, text in (("task3", ""), ("task5", "{"), ("task9", '{"schema_version": 99}')):
        (folder.path / name).mkdir()
        (folder.path / name / "record.json").write_text(text, encoding="utf-8")
    assert [folder.found(task, FACTS) for task in TASKS] == [None, None, None]


def test_wall_time_adds_up_over_the_goes(tmp_path: Path) -> None:
    folder, manifest = made(tmp_path, TASKS[0])
    assert (folder.record(), folder.seconds()) == (None, 0.0)
    ended(folder, "task3")
    folder.write(suite_record(row(1, 2.0)))
    assert folder.seconds() == 61.0
    assert 61.0 <= SuiteRun(folder, manifest, FACTS, Watcher(folder), jobs=1).run().seconds < 120.0
    folder.results.write_text("{", encoding="utf-8")
    assert (folder.record(), folder.seconds()) == (None, 0.0)


class Faulty(Quiet):
    """An observer with a defect."""

    def __init__(self, defect: Exception) -> None:
        self.defect = defect

    def started(self, agent: str) -> None:
        raise self.defect


class Careless(Watcher):
    """Gives it to the first task."""

    def __init__(self, folder: SuiteFolder, defect: Exception) -> None:
        super().__init__(folder)
        self.defect = defect

    def began(self, task: SuiteTask) -> Observer:
        super().began(task)
        return Faulty(self.defect) if task is TASKS[0] else Quiet()


def test_a_defect_of_ours_is_its_row_and_the_others_go_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, manifest = made(tmp_path)
    broken(folder, "task5", "task9")
    watcher = Careless(folder, LookupError("nobody is called intake"))
    record = SuiteRun(folder, manifest, FACTS, watcher, jobs=1).run()
    assert [each.status for each in record.rows] == ["defect", "not_a_task", "not_a_task"]
    assert record.rows[0].reason == "a defect of cutegen's own: LookupError: nobody is called intake"
    assert watcher.ended_with == list(record.rows)
    assert "Traceback" in capsys.readouterr().err


def test_a_reason_does_not_say_again_whose_it_is(tmp_path: Path) -> None:
    folder, manifest = made(tmp_path, TASKS[0])
    watcher = Careless(folder, UserError("task3: there is no class Model.", "Write one."))
    [shown] = SuiteRun(folder, manifest, FACTS, watcher, jobs=1).run().rows
    assert (shown.status, shown.reason) == ("not_a_task", "there is no class Model. Write one.")


def test_a_machine_that_fails_one_task_does_not_fail_the_others(tmp_path: Path) -> None:
    folder, manifest = made(tmp_path)
    (folder.path / "task3").symlink_to("nowhere/at/all")  # a folder that cannot be made
    broken(folder, "task5", "task9")
    record = SuiteRun(folder, manifest, FACTS, Watcher(folder), jobs=1).run()
    assert [each.status for each in record.rows] == ["machine_failed", "not_a_task", "not_a_task"]
    assert "Could not create the run folder" in record.rows[0].reason
    assert record.outcome == "finished"


# -- the folder --------------------------------------------------------------------------------------------------------


def test_a_suite_is_found_by_its_folder_and_by_its_name_under_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    folder, manifest = create_suite(None, name="mine", tasks=TASKS, scale=0.5, settings=Settings(target="cpu"))
    assert folder.path == tmp_path / "runs" / f"mine-{manifest.id}"
    for name in (folder.path, folder.path.relative_to(tmp_path), Path(folder.path.name)):
        again, read = reopen_suite(name)
        assert (again.path, read) == (folder.path, manifest)
    assert (manifest.scale, manifest.tasks) == (0.5, TASKS)


def test_folders_that_hold_something_else_are_refused(tmp_path: Path) -> None:
    folder, _ = made(tmp_path)
    with pytest.raises(UserError, match="already holds a suite") as caught:
        made(tmp_path)
    assert f"--resume {folder.path}" in caught.value.remedy
    file = tmp_path / "file"
    file.write_text("text", encoding="utf-8")
    for out, kind, words in (
        (file, UserError, "is a file, not a folder"),
        (file / "below", MachineError, "Could not create the suite's folder"),
    ):
        with pytest.raises(kind, match=words):
            create_suite(out, name="mine", tasks=TASKS, scale=1.0, settings=Settings())
    assert file.read_text(encoding="utf-8") == "text"
    with pytest.raises(UserError, match=r"holds no suite: suite\.json cannot be read"):
        reopen_suite(tmp_path)
    for text in ("", "{}", '{"schema_version": 2}'):
        folder.manifest_file.write_text(text, encoding="utf-8")
        with pytest.raises(UserError, match="not a suite of this version"):
            reopen_suite(folder.path)


def test_a_tasks_run_is_made_once_and_then_opened(tmp_path: Path) -> None:
    folder, manifest = made(tmp_path)
    first, asked = folder.run_of(TASKS[0], manifest)
    again, read = folder.run_of(TASKS[0], manifest)
    assert first.path == again.path == folder.path / "task3"
    assert (asked.id, asked.source, asked.settings) == (read.id, read.source, read.settings)
    assert (asked.name, asked.settings.target) == ("task3", "cpu")


# -- beside torch.compile ----------------------------------------------------------------------------------------------


def test_a_comparison_is_kept_and_not_made_again(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    full = full_record()
    assert full.best is not None
    assert compared(run, full.best) is None
    verdict = full.best.verdict.model_copy(update={"timing": timing(1.5)})
    run.compiled.write_text(verdict.model_dump_json(), encoding="utf-8")
    compare(run, full, "auto")  # judging would need a real kernel
    assert compared(run, full.best) == timing(1.5)
    other = full.best.verdict.model_copy(update={"candidate": "0" * 64})
    run.compiled.write_text(other.model_dump_json(), encoding="utf-8")
    assert compared(run, full.best) is None, "the run went deeper since"
    for text in ("", "{", '{"status": "passed"}'):
        run.compiled.write_text(text, encoding="utf-8")
        assert compared(run, full.best) is None
    run.compiled.unlink()
    for nothing in ({"best": None}, {"task": None}):
        compare(run, full.model_copy(update=nothing), "auto")
        assert not run.compiled.exists()


def test_only_a_run_that_has_ended_is_compared(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    for outcome in ("interrupted", "waiting"):
        compare(run, full_record().model_copy(update={"outcome": outcome}), "auto")
        assert not run.compiled.exists()


def test_a_resumed_suite_compares_what_has_no_comparison_yet(tmp_path: Path) -> None:
    """Where --compile-baseline is asked for later: rows with a kernel are open again, those without stay closed."""
    folder, manifest = made(tmp_path)
    full = full_record()
    assert full.best is not None
    for name in ("task3", "task5"):
        ended(folder, name)
        broken(folder, name)
    file = ended(folder, "task9", "nothing_faster")
    file.write_text(full.model_copy(update={"best": None, "outcome": "nothing_faster"}).model_dump_json())
    verdict = full.best.verdict.model_copy(update={"timing": timing(1.5)})
    RunFolder(folder.path / "task5").compiled.write_text(verdict.model_dump_json(), encoding="utf-8")
    for asked, begun in ((False, []), (True, ["task3"])):
        watcher = Watcher(folder)
        record = SuiteRun(folder, manifest, FACTS, watcher, jobs=1, compile_baseline=asked).run()
        assert watcher.began_with == begun
    assert [each.status for each in record.rows] == ["not_a_task", "improved", "no_kernel"]
    assert record.rows[1].beside_compiled == timing(1.5)
    assert record.rows[0].timing is not None, "what was verified is not lost"
