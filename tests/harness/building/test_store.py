"""Entries appear whole or not at all."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from harness.building.store import Store, require_room, write_text
from harness.nouns.errors import MachineError


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("CUTEGEN_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def publish(store: Store, key: str, text: str) -> Path:
    with store.staging() as folder:
        write_text(folder / "file", text)
        return store.publish(folder, key)


def test_a_published_folder_is_the_entry():
    store = Store("things")
    entry = publish(store, "abcd", "hello")
    assert entry == store.entry("abcd") and (entry / "file").read_text() == "hello"
    assert entry.stat().st_mode & 0o777 == 0o755


def test_the_first_to_publish_wins():
    store = Store("things")
    publish(store, "abcd", "first")
    assert (publish(store, "abcd", "second") / "file").read_text() == "first"


def test_a_folder_that_is_gone_cannot_be_published(cache):
    with pytest.raises(MachineError, match="No such file"):
        Store("things").publish(cache / "gone", "abcd")


def test_an_abandoned_staging_leaves_nothing(cache):
    with pytest.raises(ZeroDivisionError), Store("things").staging() as folder:
        write_text(folder / "half", "x")
        raise ZeroDivisionError
    assert list((cache / "staging").iterdir()) == []


def test_what_a_killed_builder_left_is_swept_the_next_day(cache):
    old, new = cache / "staging" / "old", cache / "staging" / "new"
    for folder in (old, new):
        folder.mkdir(parents=True)
        (folder / "half").write_text("x")
    os.utime(old, (1, 1))
    with Store("things").staging():
        assert not old.exists() and new.exists()


def test_a_relative_cache_folder_works(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CUTEGEN_CACHE", "here")
    assert publish(Store("things"), "abcd", "x").is_absolute()


def test_the_lock_lets_one_thread_in_at_a_time():
    store, inside, most = Store("things"), [], []

    def work():
        with store.lock("key"):
            inside.append(1)
            most.append(len(inside))
            inside.pop()

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert most == [1] * 8


def test_a_killed_holder_lets_the_lock_go():
    holder = (
        "import sys\nfrom harness.building.store import Store\n"
        "with Store('things').lock('key'):\n    print('held', flush=True)\n    sys.stdin.read()\n"
    )
    child = subprocess.Popen([sys.executable, "-c", holder], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert child.stdout.readline() == b"held\n"
    taken = threading.Event()

    def take():
        with Store("things").lock("key"):
            taken.set()

    waiter = threading.Thread(target=take, daemon=True)
    waiter.start()
    assert not taken.wait(0.2)
    child.kill()
    child.communicate()
    assert taken.wait(10)


def test_a_full_disk_is_the_machines_fault():
    with pytest.raises(MachineError, match=r"No space left on device.*Make room"):
        write_text(Path("/dev/full"), "x" * 10000)


def test_too_little_room_is_told_with_both_numbers(tmp_path):
    with pytest.raises(MachineError, match=r"\d+ MB are free .* 1099511627776 MB are needed"):
        require_room(tmp_path, 1 << 60)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_an_unwritable_folder_is_the_machines_fault(cache):
    cache.mkdir()
    cache.chmod(0o500)
    with pytest.raises(MachineError, match="Permission denied"), Store("things").staging():
        pass
