"""What a store says in plain words when its file is out of reach, full, read-only, damaged or no database at all."""

import asyncio
import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from tests.sqlite.stores import connection_of, make_job, make_store, request
from tinyjobs.backends.sqlite.backend import SQLiteBackend
from tinyjobs.core.clock import FrozenClock
from tinyjobs.core.errors import DataRefusedError, StoreError, StoreReplacedError, StoreUnavailableError
from tinyjobs.core.inline import finish
from tinyjobs.core.trouble import Trouble, is_final, kind_of

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="file permissions work differently there")


def setting_up(path: object) -> StoreError:
    store = SQLiteBackend(str(path), clock=FrozenClock())
    with pytest.raises(StoreError) as caught:
        finish(store.inline().setup())
    assert str(path) in str(caught.value), "the message names the file"
    assert kind_of(caught.value) is Trouble.OUTAGE
    return caught.value


def test_the_folder_is_missing(tmp_path):
    error = setting_up(tmp_path / "no" / "such" / "folder" / "jobs.db")
    assert "cannot be opened; check the folder and its permissions" in str(error)
    assert error.sqlite_errorname == "SQLITE_CANTOPEN"  # type: ignore[attr-defined]


def test_the_path_is_a_folder(tmp_path):
    assert "cannot be opened" in str(setting_up(tmp_path))


def test_the_file_is_no_database(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("Buy milk.\n" * 400)
    assert "not a SQLite database" in str(setting_up(path))
    assert path.read_text() == "Buy milk.\n" * 400


def test_the_file_is_read_only(tmp_path):
    path = tmp_path / "jobs.db"
    job = finish(make_store(path).inline().enqueue(make_job(FrozenClock())))
    store = SQLiteBackend(f"file:{path}?mode=ro", clock=FrozenClock())
    inline = store.inline()
    finish(inline.setup())
    assert finish(inline.get(job.id)) == job, "what only looks still works"
    with pytest.raises(StoreUnavailableError, match="The file or its folder is read-only"):
        finish(inline.enqueue(make_job(store.clock)))
    with pytest.raises(StoreUnavailableError, match="read-only"):
        finish(inline.claim(request()))


READ_ONLY_FOLDER = """
import os, sys
from tinyjobs.backends.sqlite.backend import SQLiteBackend
from tinyjobs.core.errors import StoreUnavailableError
from tinyjobs.core.inline import finish
from tinyjobs.core.job import Job
SQLiteBackend(":memory:")  # what is read from the package is read by now
if os.geteuid() == 0:
    os.seteuid(65534)
store = SQLiteBackend(sys.argv[1]).inline()
try:
    finish(store.setup())
    finish(store.enqueue(Job(id="1", task="t", payload=b"")))
except StoreUnavailableError as error:
    print(error)
"""


@pytest.mark.parametrize("exists", [False, True])
def test_the_folder_is_read_only(tmp_path, exists):
    """As somebody who is not root; root may write everywhere."""
    folder = tmp_path / "kept"
    folder.mkdir()
    path = folder / "jobs.db"
    if exists:
        make_store(path)
        for leftover in folder.glob("*-*"):
            leftover.unlink()
    for part in (tmp_path, *tmp_path.parents):
        if part == Path("/tmp") or not os.access(part, os.W_OK):
            break
        part.chmod(part.stat().st_mode | 0o055)
    folder.chmod(0o555)
    command = [sys.executable, "-c", READ_ONLY_FOLDER, str(path)]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    folder.chmod(0o755)
    assert str(path) in said
    assert "read-only" in said or "check the folder and its permissions" in said


def test_the_disk_is_full(tmp_path):
    store = make_store(tmp_path / "jobs.db")
    inline = store.inline()
    there = finish(inline.enqueue(make_job(store.clock)))
    raw = connection_of(inline)._raw
    ((pages,),) = raw.execute("PRAGMA page_count")
    raw.execute(f"PRAGMA max_page_count = {pages + 3}")
    big = [make_job(store.clock, payload=os.urandom(3_000)) for _ in range(20)]
    with pytest.raises(StoreUnavailableError, match="The disk is full") as caught:
        finish(inline.enqueue_many(big))
    assert caught.value.sqlite_errorname == "SQLITE_FULL"  # type: ignore[attr-defined]
    with pytest.raises(StoreUnavailableError, match="The disk is full"):
        for job in big:
            finish(inline.enqueue(job))
    raw.execute("PRAGMA max_page_count = 1000000")
    kept = finish(inline.counts_by_status())["queued"]
    finish(inline.enqueue(make_job(store.clock)))
    assert finish(inline.counts_by_status())["queued"] == kept + 1, "with room again it goes on, on the same connection"
    assert finish(inline.get(there.id)) == there


def test_the_file_is_damaged(tmp_path):
    path = tmp_path / "jobs.db"
    store = make_store(path)
    finish(store.inline().enqueue_many([make_job(store.clock, payload=os.urandom(500)) for _ in range(200)]))
    finish(store.inline().close())
    content = bytearray(path.read_bytes())
    assert len(content) > 20 * 4096
    content[4096 * 2 :] = b"\xa5" * (len(content) - 4096 * 2)
    path.write_bytes(content)
    inline = SQLiteBackend(str(path), clock=FrozenClock()).inline()
    with pytest.raises(StoreUnavailableError, match="The file is damaged") as caught:
        finish(inline.setup())
        finish(inline.claim(request()))
    assert caught.value.sqlite_errorname.startswith("SQLITE_CORRUPT")  # type: ignore[attr-defined]


@pytest.fixture
def each_look_counts(monkeypatch):
    """A look at which file stands there holds for a moment of real time, within which all of a test may happen."""
    monkeypatch.setattr("tinyjobs.backends.sqlite.connection._TRUSTED", 0.0)


@pytest.mark.usefixtures("each_look_counts")
def test_the_file_is_replaced_in_use(tmp_path):
    """What is written to the old one would reach nobody, so nothing is."""
    path = tmp_path / "jobs.db"
    store = make_store(path)
    inline = store.inline()

    async def use():
        await store.enqueue(make_job(store.clock))
        finish(inline.enqueue(make_job(store.clock)))
        for leftover in tmp_path.iterdir():
            leftover.unlink()
        finish(make_store(path).inline().close())
        for ask in (
            lambda: store.enqueue(make_job(store.clock)),
            lambda: finish(inline.enqueue(make_job(store.clock))),
            lambda: store.record_now([], request()),
        ):
            with pytest.raises(StoreReplacedError, match="was replaced by another one while it was in use") as caught:
                await ask()
            assert is_final(caught.value)
        await store.close()
        finish(inline.close())

    asyncio.run(use())
    assert finish(make_store(path).inline().counts_by_status())["queued"] == 0


@pytest.mark.usefixtures("each_look_counts")
def test_the_file_is_removed_in_use(tmp_path):
    path = tmp_path / "jobs.db"
    store = make_store(path)

    async def use():
        job = await store.enqueue(make_job(store.clock))
        os.rename(path, tmp_path / "elsewhere.db")
        for ask in (store.claim, lambda wanted: finish(store.inline().claim(wanted))):
            with pytest.raises(StoreUnavailableError, match="was removed while it was in use") as caught:
                await ask(request())
            assert kind_of(caught.value) is Trouble.OUTAGE
        assert not path.exists()
        os.rename(tmp_path / "elsewhere.db", path)
        assert [found.id for found in (await store.claim(request())).jobs] == [job.id]
        await store.close()

    finish(store.inline().next_due())
    asyncio.run(use())


def test_values_that_no_column_takes(tmp_path):
    store = make_store(tmp_path / "jobs.db")
    inline = store.inline()
    for values in ({"priority": 2**63}, {"task": "half \ud800"}, {"payload": None}):
        with pytest.raises(DataRefusedError) as caught:
            finish(inline.enqueue(make_job(store.clock, **values)))
        assert kind_of(caught.value) is Trouble.DATA
    assert finish(inline.counts_by_status())["queued"] == 0


def test_after_closing(tmp_path):
    for store in (make_store(tmp_path / "jobs.db"), SQLiteBackend(":memory:")):
        inline = store.inline()
        finish(inline.setup())
        finish(inline.close())
        finish(inline.close())
        with pytest.raises(StoreUnavailableError, match="closed"):
            finish(inline.enqueue(make_job(FrozenClock())))
        with pytest.raises(StoreUnavailableError, match="closed"):
            finish(inline.next_due())


def test_an_error_keeps_the_drivers_own(tmp_path):
    store = make_store(tmp_path / "jobs.db")
    inline = store.inline()
    job = finish(inline.enqueue(make_job(store.clock)))
    with pytest.raises(DataRefusedError) as caught:
        finish(inline.enqueue(job))
    assert isinstance(caught.value.__cause__, sqlite3.IntegrityError)
    assert caught.value.sqlite_errorname.startswith("SQLITE_CONSTRAINT")  # type: ignore[attr-defined]
