"""Tables: made once by whoever comes first, completed where something is missing, refused where they are not ours."""

import logging
import sqlite3
from contextlib import closing

import pytest

from tests.sqlite.stores import make_job, make_store, request
from tinyjobs.backends.marks import SCHEMA_VERSION
from tinyjobs.backends.sqlite.backend import SQLiteBackend
from tinyjobs.core.clock import FrozenClock
from tinyjobs.core.errors import ConfigurationError, NewerStoreError, SchemaMissingError
from tinyjobs.core.inline import finish
from tinyjobs.core.job import ScheduleState
from tinyjobs.core.transitions import succeeded
from tinyjobs.core.trouble import Trouble, is_transient, kind_of

# The layout of the package of the same name that is on the public index, as its release 0.7.1 makes it.
PUBLIC_JOBS = """
    CREATE TABLE {jobs} (
        id TEXT PRIMARY KEY, task TEXT NOT NULL, payload BLOB NOT NULL, codec TEXT NOT NULL,
        queue TEXT NOT NULL DEFAULT 'default', status TEXT NOT NULL, priority INTEGER NOT NULL DEFAULT 0,
        attempts INTEGER NOT NULL DEFAULT 0, max_attempts INTEGER NOT NULL DEFAULT 1,
        hand_backs INTEGER NOT NULL DEFAULT 0, claims INTEGER NOT NULL DEFAULT 0, run_at REAL NOT NULL,
        created_at REAL NOT NULL, finished_at REAL, lease_expires_at REAL, worker_id TEXT, dedup_key TEXT,
        result BLOB, last_error TEXT
    )
"""
PUBLIC_EXECUTIONS = """
    CREATE TABLE {executions} (
        id INTEGER PRIMARY KEY, job_id TEXT NOT NULL, attempt INTEGER NOT NULL, claim INTEGER NOT NULL,
        status TEXT NOT NULL, worker_id TEXT NOT NULL, started_at REAL NOT NULL, finished_at REAL, error_type TEXT,
        traceback TEXT
    )
"""


@pytest.fixture
def path(tmp_path):
    return tmp_path / "jobs.db"


def run(path, *statements: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for statement in statements:
            connection.execute(statement)


def objects(path) -> set[str]:
    with closing(sqlite3.connect(path)) as connection:
        found = connection.execute("SELECT name FROM sqlite_master WHERE name NOT LIKE 'sqlite_%'")
        return {name for (name,) in found}


def refused(path, **options) -> ConfigurationError:
    before = objects(path)
    with pytest.raises(ConfigurationError) as caught:
        make_store(path, **options)
    assert objects(path) == before, "nothing was made"
    return caught.value


def test_tables_are_made_once(path):
    store = make_store(path)
    made = objects(path)
    assert {"tinyjobs_jobs", "tinyjobs_executions", "tinyjobs_schedules", "tinyjobs_limits", "tinyjobs_meta"} <= made
    assert all(name.startswith("tinyjobs_") for name in made)
    job = finish(store.inline().enqueue(make_job(store.clock)))
    again = make_store(path)
    assert objects(path) == made
    assert finish(again.inline().get(job.id)) == job


def test_tallies_that_are_gone_are_counted_anew(path):
    store = make_store(path)
    jobs = [finish(store.inline().enqueue(make_job(store.clock))) for _ in range(3)]
    for job in jobs[:2]:
        finish(store.inline().cancel(job.id))
    run(path, "DROP TABLE tinyjobs_tallies")
    again = make_store(path)
    assert finish(again.inline().counts_by_status())["cancelled"] == 2
    finish(again.inline().requeue(jobs[0].id))
    assert finish(again.inline().counts_by_status())["cancelled"] == 1
    make_store(path)
    assert finish(again.inline().counts_by_status())["cancelled"] == 1


def test_without_setup_the_error_says_what_to_run(path):
    store = SQLiteBackend(str(path), clock=FrozenClock())
    with pytest.raises(SchemaMissingError, match=r"no such table.*manage\.py migrate.*setup\(\)") as caught:
        finish(store.inline().enqueue(make_job(store.clock)))
    assert is_transient(caught.value), "whoever runs the migration meanwhile helps"


def test_an_applications_own_tables_are_left_alone(path):
    run(path, "CREATE TABLE jobs (title TEXT)", "CREATE TABLE meta (key TEXT, value TEXT)", "CREATE TABLE x (a)")
    run(path, "CREATE TABLE executions (id, name)", "INSERT INTO jobs VALUES ('baker')")
    store = make_store(path)
    finish(store.inline().enqueue(make_job(store.clock)))
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT * FROM jobs").fetchall() == [("baker",)]


def test_the_public_packages_file_is_refused(path):
    """Its tables have no prefix: a queue that would silently stand still beside a new, empty one."""
    run(path, PUBLIC_JOBS.format(jobs="jobs"), PUBLIC_EXECUTIONS.format(executions="executions"))
    run(path, "CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL)")
    run(path, "INSERT INTO meta VALUES ('schema_version', '3')")
    for options in ({}, {"prefix": "mine"}):
        assert "an older package named tinyjobs" in str(refused(path, **options))
        assert "another file" in str(refused(path, **options))


@pytest.mark.parametrize("version", ["3", "4", "7"])
def test_the_public_packages_tables_under_our_names_are_refused(path, version):
    """Its later releases use the same prefix with other columns and version numbers of their own."""
    run(path, PUBLIC_JOBS.format(jobs="tinyjobs_jobs"), PUBLIC_EXECUTIONS.format(executions="tinyjobs_executions"))
    run(path, "CREATE TABLE tinyjobs_meta (key TEXT PRIMARY KEY, value TEXT NOT NULL)")
    run(path, f"INSERT INTO tinyjobs_meta VALUES ('schema_version', '{version}'), ('compatible_since', '1')")
    error = refused(path)
    assert "tinyjobs_… that this package did not lay out" in str(error)
    assert kind_of(error) is Trouble.MISCONFIGURATION
    make_store(path, prefix="mine")  # the remedy that the message names


@pytest.mark.parametrize(
    "table",
    [
        "CREATE TABLE tinyjobs_jobs (id INTEGER PRIMARY KEY, name TEXT)",
        "CREATE TABLE tinyjobs_meta (key TEXT, value TEXT)",
        "CREATE TABLE tinyjobs_meta (id INTEGER, text TEXT)",
        "CREATE TABLE tinyjobs_schedules (id INTEGER, text TEXT)",
        "CREATE VIEW tinyjobs_jobs AS SELECT 1 AS id",
    ],
)
def test_somebody_elses_table_under_one_of_our_names_is_refused(path, table):
    run(path, table)
    assert "did not lay out" in str(refused(path))


def test_a_newer_store_is_refused(path):
    make_store(path)
    newer = SCHEMA_VERSION + 2
    run(path, f"UPDATE tinyjobs_meta SET value = '{newer}' WHERE key = 'schema_version'")
    run(path, f"UPDATE tinyjobs_meta SET value = '{newer}' WHERE key = 'compatible_since'")
    with pytest.raises(NewerStoreError, match=rf"newer tinyjobs \(version {newer}.*Upgrade the package") as caught:
        make_store(path)
    assert not is_transient(caught.value)
    run(path, "DELETE FROM tinyjobs_meta WHERE key = 'compatible_since'")
    with pytest.raises(NewerStoreError):
        make_store(path)


@pytest.mark.parametrize("since", [1, SCHEMA_VERSION])
def test_a_newer_store_that_is_compatible_is_worked_on_and_left_as_it_is(path, since):
    make_store(path)
    run(path, f"UPDATE tinyjobs_meta SET value = '{SCHEMA_VERSION + 2}' WHERE key = 'schema_version'")
    run(path, f"UPDATE tinyjobs_meta SET value = '{since}' WHERE key = 'compatible_since'")
    run(path, "ALTER TABLE tinyjobs_jobs ADD COLUMN colour TEXT", "DROP INDEX tinyjobs_jobs_by_queue")
    before = objects(path)
    store = make_store(path)
    inline = store.inline()
    finish(inline.enqueue(make_job(store.clock)))
    (job,) = finish(inline.claim(request())).jobs
    assert finish(inline.record([succeeded(job, b"1", store.clock.now())])).applied == [True]
    assert objects(path) == before, "only the newer release may change it"
    with closing(sqlite3.connect(path)) as connection:
        meta = dict(connection.execute("SELECT key, value FROM tinyjobs_meta"))
    assert (meta["schema_version"], meta["compatible_since"]) == (str(SCHEMA_VERSION + 2), str(since))


@pytest.mark.parametrize("value", ["", "one", "1.5"])
def test_a_version_that_is_no_number_is_refused(path, value):
    make_store(path)
    run(path, f"UPDATE tinyjobs_meta SET value = '{value}' WHERE key = 'schema_version'")
    assert "schema_version" in str(refused(path))
    run(path, "DELETE FROM tinyjobs_meta WHERE key = 'schema_version'")
    assert "schema_version" in str(refused(path))


def test_what_is_missing_is_made_again(path, caplog):
    """An index or table that somebody dropped does not turn a part of the store off in silence."""
    store = make_store(path)
    inline = store.inline()
    whole = objects(path)
    job = finish(inline.enqueue(make_job(store.clock, key="k")))
    for name in sorted(whole - {"tinyjobs_jobs", "tinyjobs_meta"}):
        with closing(sqlite3.connect(path)) as connection:
            ((kind,),) = connection.execute("SELECT type FROM sqlite_master WHERE name = ?", [name]).fetchall()
            connection.execute(f"DROP {kind} {name}")
        caplog.clear()
        again = make_store(path).inline()
        assert objects(path) == whole, name
        assert [(record.levelno, name in record.getMessage()) for record in caplog.records] == [(logging.WARNING, True)]
        assert finish(again.enqueue(make_job(store.clock, key="k"))).id == job.id


def test_tables_without_their_meta_get_one(path):
    """As after a test run that built the tables from Django's models."""
    store = make_store(path)
    job = finish(store.inline().enqueue(make_job(store.clock)))
    for loss in ("DROP TABLE tinyjobs_meta", "DELETE FROM tinyjobs_meta"):
        run(path, loss)
        assert finish(make_store(path).inline().get(job.id)) == job
        with closing(sqlite3.connect(path)) as connection:
            meta = dict(connection.execute("SELECT key, value FROM tinyjobs_meta"))
        assert (meta["layout"], meta["schema_version"]) == ("tinyjobs-django", str(SCHEMA_VERSION))


def test_two_prefixes_in_one_file_do_not_mix(path):
    """Stores beside each other, one's prefix being the beginning of the other's."""
    clock = FrozenClock()
    stores = {prefix: make_store(path, prefix=prefix, clock=clock).inline() for prefix in ("app", "app_jobs", "a_p")}
    state = ScheduleState(name="nightly", cron="0 3 * * *", timezone="UTC", next_run_at=1.0)
    for prefix, store in stores.items():
        finish(store.register_schedules([state]))
        fired = finish(store.fire_schedule("nightly", expected=1.0, next_run_at=2.0, jobs=[make_job(clock, key="k")]))
        assert fired is not None
        assert not fired[0].existing, f"{prefix} met another store's key"
    for store in stores.values():
        assert finish(store.counts_by_status())["queued"] == 1
        (job,) = finish(store.claim(request(9))).jobs
        assert [finish(other.get(job.id)) is not None for other in stores.values()].count(True) == 1
        assert finish(store.record([succeeded(job, None, clock.now())])).applied == [True]
        assert len(finish(store.executions(job.id))) == 1


def test_the_longest_prefix(path):
    store = make_store(path, prefix="p" * 40)
    finish(store.inline().enqueue(make_job(store.clock)))
    assert len(finish(store.inline().claim(request())).jobs) == 1


def test_a_file_in_utf_16_is_refused(path):
    """Results travel as text where they can, and that file would keep other bytes than were sent."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA encoding = 'UTF-16'")
        connection.execute("CREATE TABLE somebodys (text TEXT)")
    assert "UTF-16" in str(refused(path))


def test_counters_beyond_32_bits(path):
    store = make_store(path)
    inline = store.inline()
    job = finish(inline.enqueue(make_job(store.clock)))
    run(path, f"UPDATE tinyjobs_jobs SET claims = {2**31 - 2}, hand_backs = {2**31}")
    for claim in (2**31 - 1, 2**31, 2**31 + 1):
        (claimed,) = finish(inline.claim(request())).jobs
        assert claimed.claims == claim
        store.clock.advance(61)
        assert [lost.id for lost in finish(inline.reap_expired())] == [job.id]
        run(path, "UPDATE tinyjobs_jobs SET attempts = 0")
    assert [entry.claim for entry in finish(inline.executions(job.id))] == [2**31 - 1, 2**31, 2**31 + 1]
