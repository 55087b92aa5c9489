"""How the tables come to be: many processes at once, one that dies half-way, and tables that are somebody else's."""

import signal
import subprocess
import sys
import textwrap
import threading
from urllib.parse import quote

import psycopg
import pytest

from tests.postgres.conftest import run_sql
from tinyjobs.app.facade import TinyJobs
from tinyjobs.backends.marks import SCHEMA_VERSION
from tinyjobs.core.errors import ConfigurationError, NewerStoreError

pytestmark = pytest.mark.postgres


def relations(url, schema="public"):
    """The names of the tables and indexes in a schema."""
    with psycopg.connect(url) as raw:
        query = "SELECT relname FROM pg_class WHERE relnamespace = %s::text::regnamespace"
        return {name for (name,) in raw.execute(query, [f'"{schema}"']).fetchall()}


PROGRAM = """
    import os, sys
    from tinyjobs import TinyJobs

    app = TinyJobs(sys.argv[1])
    print("ready", flush=True)
    sys.stdin.readline()
    if sys.argv[2] == "sync":
        app.send("sample")
    else:
        import asyncio
        asyncio.run(app.asend("sample"))
    app.close()
"""


def starting(url, count):
    """Processes that are about to enqueue for the first time, and wait for a line."""
    command = [sys.executable, "-c", textwrap.dedent(PROGRAM), url]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    started = [subprocess.Popen([*command, ("sync", "async")[number % 2]], **pipes) for number in range(count)]
    for process in started:
        assert process.stdout.readline() == "ready\n", process.stderr.read()
    return started


@pytest.mark.parametrize("query", ["", "?schema=made%20anew"])
def test_eight_processes_start_on_an_empty_database_at_once(make_app, postgres_url, query):
    started = starting(postgres_url + query, 8)
    for process in started:
        process.stdin.write("go\n")
        process.stdin.flush()
    for process in started:
        _, errors = process.communicate(timeout=60)
        assert (process.returncode, errors) == (0, "")
    app = make_app(postgres_url + query)
    assert len(app.list().jobs) == 8
    with psycopg.connect(postgres_url) as raw:
        query = "SELECT count(*) FROM pg_class WHERE relname = 'tinyjobs_meta'"
        assert raw.execute(query).fetchone() == (1,)


@pytest.mark.parametrize("times", range(10))
def test_eight_threads_start_at_once_whatever_the_sessions_isolation(make_app, postgres_url, times):
    name = f"{postgres_url}?options={quote('-c default_transaction_isolation=serializable')}"
    apps = [make_app(name) for _ in range(8)]
    barrier = threading.Barrier(8)
    failed = []

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
    identities = {app.store._joining._identity for app in apps}
    assert len(identities) == 1


DYING = """
    import os, signal, sys
    from tinyjobs import TinyJobs
    from tinyjobs.backends.postgres.connection import PostgresConnection

    execute, left = PostgresConnection.execute, int(sys.argv[2])

    async def dying(self, statement, parameters=()):
        global left
        if statement.name.startswith("schema"):
            left -= 1
            if left < 0:
                os.kill(os.getpid(), signal.SIGKILL)
        return await execute(self, statement, parameters)

    PostgresConnection.execute = dying
    TinyJobs(sys.argv[1]).setup()
"""


@pytest.mark.parametrize("after", [0, 1, 7])
def test_a_process_that_dies_in_its_setup_leaves_nothing_behind(make_app, postgres_url, after):
    url = postgres_url + "?schema=half"
    command = [sys.executable, "-c", textwrap.dedent(DYING), url, str(after)]
    assert subprocess.run(command, timeout=60, check=False).returncode == -signal.SIGKILL
    with psycopg.connect(postgres_url) as raw:
        assert raw.execute("SELECT count(*) FROM pg_namespace WHERE nspname = 'half'").fetchone() == (0,)
        assert raw.execute("SELECT count(*) FROM pg_class WHERE relname LIKE 'tinyjobs%'").fetchone() == (0,)
    app = make_app(url)
    app.send("sample")
    assert len(app.list().jobs) == 1


def test_a_setup_of_what_is_there_takes_no_lock_and_changes_nothing(make_app, postgres_url):
    make_app().setup()
    with psycopg.connect(postgres_url) as raw:
        # Whoever wanted to lay anything out would wait for this.
        raw.execute("SELECT pg_advisory_xact_lock(hashtextextended('tinyjobs', 0))")
        raw.execute("LOCK TABLE tinyjobs_jobs IN SHARE UPDATE EXCLUSIVE MODE")
        make_app().setup()
        make_app().send("sample")


def test_no_sequence_can_run_out(app, postgres_url):
    app.setup()
    with psycopg.connect(postgres_url) as raw:
        assert raw.execute("SELECT count(*) FROM pg_class WHERE relkind = 'S'").fetchone() == (0,)


# --- whose tables -----------------------------------------------------------------------------------------------------


def test_a_missing_index_is_made_again(make_app, postgres_url, caplog):
    make_app().setup()
    before = relations(postgres_url)
    run_sql(postgres_url, "DROP INDEX tinyjobs_jobs_due", "DROP TABLE tinyjobs_limits")
    make_app().setup()
    assert relations(postgres_url) == before
    assert "tinyjobs_jobs_due" in caplog.text and "tinyjobs_limits" in caplog.text


@pytest.mark.parametrize("schema", [None, "else where"])
def test_tables_without_a_meta_table_get_one(make_app, postgres_url, schema):
    app = make_app(schema=schema)
    job = app.send("sample")
    place = f'"{schema}".' if schema else ""
    run_sql(postgres_url, f"DROP TABLE {place}tinyjobs_meta")
    again = make_app(schema=schema)
    assert again.get(job) is not None
    with psycopg.connect(postgres_url) as raw:
        keys = raw.execute(f"SELECT key FROM {place}tinyjobs_meta ORDER BY key").fetchall()
    assert keys == [("compatible_since",), ("instance",), ("layout",), ("schema_version",)]


def test_a_store_of_a_newer_release_is_refused_unless_it_says_that_this_one_will_do(make_app, postgres_url):
    make_app().setup()
    newer = SCHEMA_VERSION + 1
    run_sql(
        postgres_url,
        f"UPDATE tinyjobs_meta SET value = '{newer}' WHERE key IN ('schema_version', 'compatible_since')",
    )
    with pytest.raises(NewerStoreError, match=rf"version {newer} of the layout.*Upgrade the package"):
        make_app().send("sample")
    run_sql(
        postgres_url,
        f"UPDATE tinyjobs_meta SET value = '{SCHEMA_VERSION}' WHERE key = 'compatible_since'",
        "DROP INDEX tinyjobs_jobs_due",
    )
    make_app().send("sample")
    assert "tinyjobs_jobs_due" not in relations(postgres_url), "a newer layout is left as it is"


@pytest.mark.parametrize(
    "foreign",
    [
        ["CREATE TABLE tinyjobs_jobs (id bigserial PRIMARY KEY, args jsonb)"],
        ["CREATE TABLE tinyjobs_meta (key text PRIMARY KEY, value text)"],
        ["CREATE TABLE tinyjobs_meta (name text)"],
        ["CREATE VIEW tinyjobs_jobs AS SELECT 1 AS id"],
        [
            "CREATE TABLE tinyjobs_jobs (id text)",
            "CREATE TABLE tinyjobs_meta (key text, value text)",
            "INSERT INTO tinyjobs_meta VALUES ('schema_version', '12')",
        ],
        ["CREATE TABLE tinyjobs_schedules (id int)"],
    ],
)
def test_tables_of_somebody_else_are_refused_and_left_alone(make_app, postgres_url, foreign):
    run_sql(postgres_url, *foreign)
    before = relations(postgres_url)
    for _ in range(2):
        with pytest.raises(
            ConfigurationError, match=r"tables named tinyjobs_… that this package did not lay out.*prefix="
        ):
            make_app().send("sample")
    assert relations(postgres_url) == before
    make_app(prefix="ours").send("sample")


def test_meta_that_makes_no_sense_is_named(make_app, postgres_url):
    make_app().setup()
    run_sql(postgres_url, "UPDATE tinyjobs_meta SET value = 'soon' WHERE key = 'schema_version'")
    with pytest.raises(ConfigurationError, match="schema_version in the meta table is 'soon', not a number"):
        make_app().setup()


# --- rights -----------------------------------------------------------------------------------------------------------


def test_a_role_with_a_schema_of_its_own_needs_no_right_on_the_database(make_app, postgres_url, role):
    run_sql(postgres_url, f'CREATE SCHEMA "its own" AUTHORIZATION {role}')
    app = make_app(user=role, schema="its own")
    app.send("sample")
    assert len(app.list().jobs) == 1


def test_a_role_that_may_not_make_tables_is_told_what_it_needs(make_app, postgres_url, role):
    run_sql(postgres_url, "REVOKE CREATE ON SCHEMA public FROM PUBLIC")
    with pytest.raises(ConfigurationError, match=r"permission denied for schema public.*GRANT CREATE ON SCHEMA"):
        make_app(user=role).setup()
    with pytest.raises(ConfigurationError, match=r"permission denied for database .*ON DATABASE for a schema"):
        make_app(user=role, schema="new").setup()
    make_app().setup()
    run_sql(postgres_url, f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO {role}")
    app = make_app(user=role)
    ran = []
    app.task(name="sample")(lambda: ran.append(1))
    app.send("sample")
    app.run_worker(until_empty=True, handle_signals=False)
    assert ran == [1]


def test_a_search_path_that_leads_nowhere_is_an_error(make_app):
    with pytest.raises(ConfigurationError, match=r"no schema of the search_path exists.*schema="):
        make_app(options="-c search_path=nowhere").setup()
    app = make_app(options="-c search_path=nowhere", schema="some where")
    app.send("sample")
    assert len(app.list().jobs) == 1


def test_a_failed_setup_can_be_tried_again(postgres_url):
    run_sql(postgres_url, "CREATE TABLE tinyjobs_jobs (id int)")
    app = TinyJobs(postgres_url)
    with pytest.raises(ConfigurationError):
        app.setup()
    run_sql(postgres_url, "DROP TABLE tinyjobs_jobs")
    app.send("sample")
    assert len(app.list().jobs) == 1
    app.close()
