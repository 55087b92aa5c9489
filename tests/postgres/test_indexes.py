"""Indexes that are gone or no good: what setup makes of them while jobs go on, and what is said where it may not."""

import logging
import re
import signal
import subprocess
import sys
import textwrap
import threading

import psycopg
import pytest

from tests.postgres.conftest import run_sql
from tinyjobs.backends.marks import SCHEMA_VERSION
from tinyjobs.backends.postgres import indexes
from tinyjobs.core.errors import ConfigurationError, SchemaMissingError, StoreBusyError

pytestmark = pytest.mark.postgres

INVALID = "UPDATE pg_index SET indisvalid = false WHERE indexrelid = '{}'::regclass"
BLOCKED = "SELECT pid FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = %s AND query LIKE %s"

#: What may happen to an index, and what setup says that the store lacked.
DAMAGES = {
    "the unique one not valid": ([INVALID.format("tinyjobs_jobs_key")], "tinyjobs_jobs_key (not valid)"),
    "the unique one gone": (["DROP INDEX tinyjobs_jobs_key"], "tinyjobs_jobs_key;"),
    "not unique any more": (
        [
            "DROP INDEX tinyjobs_jobs_key",
            "CREATE INDEX tinyjobs_jobs_key ON tinyjobs_jobs (active_key) WHERE active_key IS NOT NULL",
        ],
        "tinyjobs_jobs_key (not unique)",
    ),
    "unique of itself": (
        ["DROP INDEX tinyjobs_jobs_due", "CREATE UNIQUE INDEX tinyjobs_jobs_due ON tinyjobs_jobs (due_at, id)"],
        "tinyjobs_jobs_due (unique)",
    ),
    "over other columns": (
        ["DROP INDEX tinyjobs_jobs_due", "CREATE INDEX tinyjobs_jobs_due ON tinyjobs_jobs (id)"],
        "tinyjobs_jobs_due (over id, not due_at, id)",
    ),
    "a plain one not valid": ([INVALID.format("tinyjobs_jobs_ready")], "tinyjobs_jobs_ready (not valid)"),
    "the executions' key gone": (
        ["ALTER TABLE tinyjobs_executions DROP CONSTRAINT tinyjobs_executions_pkey"],
        "the primary key of tinyjobs_executions;",
    ),
    "the jobs' key gone": (
        ["ALTER TABLE tinyjobs_jobs DROP CONSTRAINT tinyjobs_jobs_pkey"],
        "the primary key of tinyjobs_jobs;",
    ),
    "a primary key not valid": (
        [INVALID.format("tinyjobs_schedules_pkey")],
        "the primary key of tinyjobs_schedules (not valid)",
    ),
}


def state(url):
    """Every index with its definition, whether it is valid, and which constraint it serves."""
    with psycopg.connect(url) as raw:
        query = """
            SELECT pg_get_indexdef(indexrelid), indisvalid,
                (SELECT contype FROM pg_constraint WHERE conindid = indexrelid)
            FROM pg_index WHERE indrelid::regclass::text LIKE '%tinyjobs%' ORDER BY 1
        """
        return raw.execute(query).fetchall()


@pytest.fixture
def laid_out(make_app, postgres_url):
    """A store with a job that holds a key; its indexes as they should be."""
    make_app().send("sample", key="held")
    return state(postgres_url)


@pytest.fixture
def impatient(monkeypatch):
    monkeypatch.setattr(indexes, "PATIENCE", 0.5)


@pytest.mark.parametrize("damage", DAMAGES)
def test_setup_builds_what_is_no_good(make_app, postgres_url, laid_out, caplog, damage):
    done, said = DAMAGES[damage]
    run_sql(postgres_url, *done)
    assert state(postgres_url) != laid_out
    make_app().setup()
    assert state(postgres_url) == laid_out
    assert f"lacked {said}" in caplog.text
    caplog.clear()
    make_app().setup()
    assert caplog.text == ""
    app = make_app()
    assert app.send("sample", key="held").existing


@pytest.mark.parametrize("schema", ["else where", "hundred%s", "o'clock"])
def test_it_is_looked_for_where_the_tables_are(make_app, postgres_url, schema):
    make_app(schema=schema).setup()
    before = state(postgres_url)
    place = '"' + schema + '"'
    make_app().setup()
    both = state(postgres_url)
    run_sql(postgres_url, f"DROP INDEX {place}.tinyjobs_jobs_key, {place}.tinyjobs_jobs_due")
    run_sql(postgres_url, f"ALTER TABLE {place}.tinyjobs_executions DROP CONSTRAINT tinyjobs_executions_pkey")
    make_app(schema=schema).setup()
    assert state(postgres_url) == both and before != both


def test_what_a_failed_build_left_is_built_again(make_app, postgres_url, laid_out):
    with psycopg.connect(postgres_url, autocommit=True) as raw, psycopg.connect(postgres_url) as other:
        raw.execute("DROP INDEX tinyjobs_jobs_key")
        other.execute("UPDATE tinyjobs_jobs SET priority = 1")
        raw.execute("SET lock_timeout = 100")
        with pytest.raises(psycopg.errors.LockNotAvailable):
            raw.execute(
                "CREATE UNIQUE INDEX CONCURRENTLY tinyjobs_jobs_key ON tinyjobs_jobs (active_key)"
                " WHERE active_key IS NOT NULL"
            )
        other.rollback()
    assert laid_out != state(postgres_url)
    make_app().setup()
    assert state(postgres_url) == laid_out


@pytest.mark.parametrize(
    ("taken", "said"),
    [
        ("CREATE TABLE tinyjobs_jobs_key (id int)", r"tinyjobs_jobs_key \(the name is another relation's\)"),
        ("CREATE SEQUENCE tinyjobs_jobs_due", r"tinyjobs_jobs_due \(the name is another relation's\)"),
        (
            "CREATE TABLE mine (id int); CREATE UNIQUE INDEX tinyjobs_jobs_key ON mine (id)",
            r"tinyjobs_jobs_key \(the name is that of an index of mine\)",
        ),
        (
            "ALTER TABLE tinyjobs_executions DROP CONSTRAINT tinyjobs_executions_pkey, ADD PRIMARY KEY (claim, job_id)",
            r"the primary key of tinyjobs_executions \(over claim, job_id, not job_id, claim\)",
        ),
    ],
)
def test_a_name_that_is_taken_stops_setup(make_app, postgres_url, laid_out, taken, said):
    if not taken.startswith("ALTER"):
        run_sql(postgres_url, "DROP INDEX tinyjobs_jobs_key, tinyjobs_jobs_due")
    run_sql(postgres_url, *taken.split("; "))
    before = state(postgres_url)
    for _ in range(2):
        with pytest.raises(ConfigurationError, match=rf"cannot have its .*{said}.*Drop or rename"):
            make_app().setup()
    assert state(postgres_url) == before


def test_jobs_that_got_the_same_key_meanwhile_are_named(make_app, postgres_url, laid_out):
    app = make_app()
    (held,) = app.list().jobs
    other = app.send("sample")
    run_sql(
        postgres_url,
        "DROP INDEX tinyjobs_jobs_key",
        f"UPDATE tinyjobs_jobs SET (dedup_key, active_key) = (SELECT dedup_key, active_key FROM tinyjobs_jobs"
        f" WHERE id = '{held.id}') WHERE id = '{other.id}'",
    )
    with pytest.raises(ConfigurationError, match=rf"'held': {other.id} beside {held.id}.*active_key = NULL") as caught:
        make_app().setup()
    run_sql(postgres_url, re.search(r"UPDATE .*", str(caught.value))[0])
    make_app().setup()
    assert state(postgres_url) == laid_out
    assert make_app().send("sample", key="held").id == held.id


def test_a_newer_layout_is_left_as_it_is(make_app, postgres_url, laid_out):
    run_sql(
        postgres_url,
        f"UPDATE tinyjobs_meta SET value = '{SCHEMA_VERSION + 1}' WHERE key = 'schema_version'",
        INVALID.format("tinyjobs_jobs_due"),
    )
    before = state(postgres_url)
    make_app().setup()
    assert state(postgres_url) == before


# --- while others work ------------------------------------------------------------------------------------------------


def until_blocked(server, raw, query):
    """Wait until a statement like that waits for a lock."""
    for _ in range(200_000):
        if found := server.execute(BLOCKED, [raw.info.dbname, query]):
            return found[0][0]
    raise AssertionError("nothing waits")


def test_jobs_go_on_while_an_index_is_built(make_app, postgres_url, postgres_cluster, laid_out):
    app = make_app()
    app.setup()
    run_sql(postgres_url, "DROP INDEX tinyjobs_jobs_due")
    with psycopg.connect(postgres_url) as other:
        other.execute("UPDATE tinyjobs_jobs SET priority = 1")
        building = threading.Thread(target=make_app().setup)
        building.start()
        until_blocked(postgres_cluster, other, "CREATE INDEX CONCURRENTLY%")
        app.send("sample", delay=60)
        assert building.is_alive()
        other.rollback()
    building.join(60)
    assert state(postgres_url) == laid_out


def test_a_plain_index_that_would_wait_for_too_long_is_left_for_the_next_setup(
    make_app, postgres_url, laid_out, impatient, caplog
):
    run_sql(postgres_url, "DROP INDEX tinyjobs_jobs_due, tinyjobs_jobs_ended")
    with psycopg.connect(postgres_url, application_name="the slow one") as other:
        other.execute("UPDATE tinyjobs_jobs SET priority = 1")
        app = make_app()
        app.setup()
        assert "lacks tinyjobs_jobs_due, tinyjobs_jobs_ended. Jobs run without, only more slowly." in caplog.text
        assert f"{other.info.backend_pid} ({other.info.user}, the slow one)" in caplog.text
        app.send("sample")
    make_app().setup()
    assert state(postgres_url) == laid_out


def test_the_unique_index_that_would_wait_for_too_long_stops_setup(make_app, postgres_url, laid_out, impatient):
    run_sql(postgres_url, "DROP INDEX tinyjobs_jobs_key")
    with psycopg.connect(postgres_url, application_name="the slow one") as other:
        other.execute("UPDATE tinyjobs_jobs SET priority = 1")
        with pytest.raises(StoreBusyError, match=r"lacks tinyjobs_jobs_key.*\(\w+, the slow one\).*End them") as caught:
            make_app().setup()
        assert f" {other.info.backend_pid} (" in str(caught.value)
    make_app().setup()
    assert state(postgres_url) == laid_out


@pytest.mark.parametrize("times", range(5))
def test_of_many_that_start_at_once_one_builds(make_app, postgres_url, laid_out, caplog, times):
    run_sql(
        postgres_url,
        "DROP INDEX tinyjobs_jobs_key, tinyjobs_jobs_due",
        "ALTER TABLE tinyjobs_executions DROP CONSTRAINT tinyjobs_executions_pkey",
    )
    apps = [make_app() for _ in range(6)]
    barrier, failed = threading.Barrier(6), []

    def start(app):
        barrier.wait()
        try:
            app.setup()
        except Exception as error:
            failed.append(error)

    threads = [threading.Thread(target=start, args=(app,)) for app in apps]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert failed == []
    assert state(postgres_url) == laid_out
    assert caplog.text.count("built again") == 3


def test_who_waits_for_another_that_builds_gives_up_in_time(make_app, postgres_url, laid_out, impatient, caplog):
    app = make_app()
    app.setup()
    run_sql(postgres_url, "DROP INDEX tinyjobs_jobs_due")
    with psycopg.connect(postgres_url, autocommit=True) as builder:
        assert builder.execute(app.store.statements["index_lock"].format).fetchone() == (True,)
        make_app().setup()
        assert "lacks tinyjobs_jobs_due" in caplog.text and "Another process is building." in caplog.text
        run_sql(postgres_url, "DROP INDEX tinyjobs_jobs_key")
        with pytest.raises(StoreBusyError, match=r"tinyjobs_jobs_key.*another process is still building"):
            make_app().setup()
    make_app().setup()
    assert state(postgres_url) == laid_out


PROGRAM = "import sys; from tinyjobs import TinyJobs; TinyJobs(sys.argv[1]).setup()"


def test_a_builder_that_dies_is_made_up_for_by_the_next(make_app, postgres_url, postgres_cluster, laid_out):
    run_sql(postgres_url, "DROP INDEX tinyjobs_jobs_key")
    with psycopg.connect(postgres_url) as other:
        other.execute("UPDATE tinyjobs_jobs SET priority = 1")
        process = subprocess.Popen([sys.executable, "-c", textwrap.dedent(PROGRAM), postgres_url])
        session = until_blocked(postgres_cluster, other, "CREATE UNIQUE INDEX CONCURRENTLY%")
        process.kill()
        assert process.wait(60) == -signal.SIGKILL
        postgres_cluster.execute("SELECT pg_terminate_backend(%s, 10000)", [session])
        other.rollback()
    assert state(postgres_url) != laid_out
    make_app().setup()
    assert state(postgres_url) == laid_out


# --- who may not build ------------------------------------------------------------------------------------------------


def test_a_role_that_does_not_own_the_tables_says_what_the_owner_has_to(
    make_app,
    postgres_url,
    laid_out,
    role,
    caplog,
):
    run_sql(
        postgres_url,
        f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO {role}",
        "DROP INDEX tinyjobs_jobs_due",
    )
    make_app(user=role).send("sample")
    assert "lacks tinyjobs_jobs_due" in caplog.text and "must be owner" in caplog.text
    run_sql(postgres_url, "DROP INDEX tinyjobs_jobs_key")
    with pytest.raises(ConfigurationError, match=r"must be owner.*Let the tables' owner say: CREATE UNIQUE") as caught:
        make_app(user=role).setup()
    run_sql(postgres_url, str(caught.value).split("say: ")[1])
    make_app().setup()
    assert state(postgres_url) == laid_out


def test_a_key_without_its_index_is_told_with_the_remedy(make_app, postgres_url, laid_out, caplog):
    app = make_app()
    app.setup()
    run_sql(postgres_url, "DROP INDEX tinyjobs_jobs_key")
    with caplog.at_level(logging.WARNING), pytest.raises(SchemaMissingError, match=r"manage\.py migrate.*setup\(\)"):
        app.send("sample", key="held")
    app.send("sample")
