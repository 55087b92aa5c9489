"""URLs and options of the SQLite store: what they mean, and what is said about those that mean nothing."""

import os
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.sqlite.stores import connection_of
from tinyjobs.backends.registry import known_schemes, open_backend
from tinyjobs.backends.sqlite.backend import SQLiteBackend
from tinyjobs.backends.sqlite.options import file_of
from tinyjobs.core.clock import FrozenClock
from tinyjobs.core.errors import ConfigurationError
from tinyjobs.core.inline import finish
from tinyjobs.core.job import Job


def opened(url: str, **options: object):
    return open_backend(url, clock=FrozenClock(), **options)


def used(store) -> None:
    """Set the store up and put a job into it, through a thread's own connection and another one."""
    inline = store.inline()
    finish(inline.setup())
    finish(inline.enqueue(Job(id="1", task="t", payload=b"")))
    assert finish(store.inline().get("1")) is not None
    finish(inline.close())


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_three_slashes_are_relative_and_four_absolute(folder):
    used(opened("sqlite:///jobs.db"))
    assert (folder / "jobs.db").exists()
    used(opened(f"sqlite:///{folder}/absolute.db"))
    assert (folder / "absolute.db").exists()


@pytest.mark.parametrize("name", ["a blank.db", "per%cent.db", "ques?tion.db", "sha#rp.db", "größe 🦊.db", "a+b&c.db"])
def test_any_file_name_can_be_spelled(folder, name):
    used(opened(f"sqlite:///{quote(name)}"))
    assert (folder / name).exists()
    assert [entry.name for entry in folder.iterdir() if not entry.name.endswith(("-wal", "-shm"))] == [name]


def test_a_uri_of_sqlites_own(folder):
    used(opened("sqlite:///file:own.db?mode=rwc&psow=1"))
    assert (folder / "own.db").exists()
    with pytest.raises(Exception, match=r"unable to open|cannot be opened"):
        used(opened("sqlite:///file:missing.db?mode=rw"))
    assert not (folder / "missing.db").exists()


@pytest.mark.parametrize(
    "url",
    [
        "memory://",
        "sqlite:///:memory:",
        "sqlite:///file::memory:",
        "sqlite:///file:shared?mode=memory&cache=shared",
        "sqlite:///file:name?cache=shared&mode=memory",
        "sqlite:///file:/name?vfs=memdb",
    ],
)
def test_memory_is_one_store_for_every_thread(folder, url):
    store = opened(url)
    inline = store.inline()
    finish(inline.setup())
    with ThreadPoolExecutor(1) as thread:
        thread.submit(finish, inline.enqueue(Job(id="1", task="t", payload=b""))).result()
    assert finish(inline.get("1")) is not None
    assert list(folder.iterdir()) == []
    finish(inline.close())


@pytest.mark.parametrize(
    "path",
    [
        "jobs.db",
        "file:jobs.db",
        "file:jobs.db?mode=rwc&psow=1",
        "file:with%20blank%3Fand%23.db?mode=rwc",
        "file:{folder}/absolute.db",
        "file:///{folder}/three.db",
        "file://localhost/{folder}/host.db?mode=rwc",
    ],
)
def test_the_file_behind_a_path_is_the_one_sqlite_opens(folder, path):
    """It is watched for the commits of others, so it has to be the right one."""
    path = path.format(folder=folder)
    store = SQLiteBackend(path)
    used(store)
    connection = sqlite3.connect(path, uri=path.startswith("file:"))
    ((_, _, opened_file),) = connection.execute("PRAGMA database_list").fetchall()
    connection.close()
    assert os.path.samefile(file_of(store.path), opened_file)


def test_stores_in_memory_are_strangers_to_each_other():
    first, second = opened("memory://").inline(), opened("memory://").inline()
    for store in (first, second):
        finish(store.setup())
    finish(first.enqueue(Job(id="1", task="t", payload=b"")))
    assert finish(second.get("1")) is None


def test_options_may_stand_in_the_url_or_beside_it(folder):
    for store in (
        opened("sqlite:///jobs.db?prefix=mail&busy_timeout=1.5&synchronous=full&returning=false"),
        opened("sqlite:///jobs.db?prefix=other", prefix="mail", busy_timeout=1.5, synchronous="FULL", returning=False),
    ):
        assert (store.statements.prefix, store.returning) == ("mail", False)
        assert (store._settings.busy_timeout, store._settings.synchronous) == (1.5, "FULL")
        used(store)
        os.unlink("jobs.db")


@pytest.mark.parametrize(("level", "number"), [("NORMAL", 1), ("full", 2), ("EXTRA", 3)])
def test_how_a_connection_is_set_up(folder, level, number):
    """On every thread's connection: the log that readers do not block, and the durability that was asked for."""
    store = SQLiteBackend("jobs.db", synchronous=level)
    inline = store.inline()
    finish(inline.setup())

    def settings() -> list[object]:
        finish(inline.get("none"))  # opens it
        raw = connection_of(inline)._raw
        pragmas = ("journal_mode", "synchronous", "foreign_keys")
        return [raw.execute(f"PRAGMA {pragma}").fetchone()[0] for pragma in pragmas]

    with ThreadPoolExecutor(1) as thread:
        assert settings() == thread.submit(settings).result() == ["wal", number, 1]
    finish(inline.close())


SPELLINGS = [("true", True), ("1", True), ("False", False), ("0", False), ("off", False)]


@pytest.mark.parametrize(("text", "value"), SPELLINGS)
def test_a_switch_in_a_url_is_read_as_one(folder, text, value):
    if value and sqlite3.sqlite_version_info < (3, 35):
        pytest.skip(f"SQLite {sqlite3.sqlite_version} has no RETURNING to switch on")
    assert opened(f"sqlite:///jobs.db?returning={text}").returning is value


@pytest.mark.parametrize(
    ("url", "options", "said"),
    [
        ("sqlite://jobs.db", {}, r"names the host 'jobs\.db'.*three slashes"),
        ("sqlite:///", {}, "names no file"),
        ("sqlite:///?prefix=x", {}, "names no file"),
        ("sqlite:///jobs#2.db", {}, "%23"),
        ("sqlite:///jobs%00.db", {}, "NUL"),
        ("memory://name", {}, "memory:// takes no name"),
        ("memory:///name", {}, "memory:// takes no name"),
        ("jobs.db", {}, "no store URL"),
        ("nosuch://x", {}, "No store is registered for nosuch://"),
        ("sqlite:///jobs.db?colour=red", {}, r"does not take 'colour'\. It takes: busy_timeout, prefix, returning"),
        ("sqlite:///jobs.db", {"pool": 3}, "does not take 'pool'"),
        ("sqlite:///jobs.db?prefix=", {}, "prefix: '' cannot name tables"),
        ("sqlite:///jobs.db?prefix=Bad-Name", {}, "prefix: 'Bad-Name' cannot name tables"),
        ("sqlite:///jobs.db", {"prefix": "a" * 41}, "up to 40"),
        ("sqlite:///jobs.db", {"prefix": "x; drop table y"}, "cannot name tables"),
        ("sqlite:///jobs.db", {"prefix": 7}, "prefix: 7 cannot name tables"),
        ("sqlite:///jobs.db", {"prefix": "sqlite_x"}, "sqlite_"),
        ("sqlite:///jobs.db", {"busy_timeout": "soon"}, "busy_timeout: 'soon' is not a number of seconds"),
        ("sqlite:///jobs.db", {"busy_timeout": -1}, "busy_timeout: -1 is not"),
        ("sqlite:///jobs.db", {"busy_timeout": float("nan")}, "busy_timeout: nan is not"),
        ("sqlite:///jobs.db", {"busy_timeout": True}, "busy_timeout: True is not"),
        ("sqlite:///jobs.db", {"synchronous": "OFF"}, "synchronous: 'OFF' is not one of NORMAL, FULL, EXTRA"),
        ("sqlite:///jobs.db?returning=maybe", {}, "returning: 'maybe' is neither"),
        ("sqlite:///jobs.db?prefix=a&prefix=b", {}, "'prefix' twice"),
    ],
)
def test_what_means_nothing_is_refused(folder, url, options, said):
    with pytest.raises(ConfigurationError, match=said):
        opened(url, **options)
    assert list(folder.iterdir()) == [], "nothing was opened"


def test_the_schemes_are_known():
    assert {"sqlite", "memory"} <= set(known_schemes())


def test_an_old_library_is_refused(monkeypatch):
    monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 31, 1))
    with pytest.raises(ConfigurationError, match=r"SQLite 3\.31\.1 is too old: tinyjobs needs 3\.33\.0"):
        opened("memory://")


def test_the_claim_follows_the_library(monkeypatch):
    monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 34, 1))
    assert opened("memory://").returning is False
    with pytest.raises(ConfigurationError, match=r"returning.*3\.35"):
        opened("memory://", returning=True)
    monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 35, 0))
    assert opened("memory://").returning is True
