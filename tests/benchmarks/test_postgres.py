"""That the benchmark's programs and its command work on Postgres. Nothing here looks at how fast they were."""

import json
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.benchmarks.__main__ import main
from tests.benchmarks.databases import PostgresDatabases
from tests.benchmarks.pairs import PROGRAMS, Runner
from tests.benchmarks.plan import DJANGO, FACADE, Work
from tests.benchmarks.rows_postgres import BARE_INSERT, BARE_INSERT_ATOMIC, DJANGO_ATOMIC, DJANGO_SILENT
from tests.benchmarks.test_smoke import DRAINED, SENT, TINY, no_peers
from tests.servers.fixtures import skipping_what_is_missing

pytestmark = pytest.mark.postgres


@pytest.fixture(scope="module")
def databases() -> Iterator[PostgresDatabases]:
    with skipping_what_is_missing():
        databases = PostgresDatabases()
    yield databases
    databases.close()


@pytest.fixture
def store(databases: PostgresDatabases, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A fresh database, as a program sees it."""
    monkeypatch.syspath_prepend(str(PROGRAMS))
    from store import PostgresStore  # type: ignore[import-not-found]

    yield PostgresStore(databases.fresh())
    sys.modules.pop("store")


@pytest.mark.parametrize(
    ("work", "keys"),
    [
        (Work(DJANGO, "enqueue"), SENT | {"p50_us", "p99_us"}),
        (Work(DJANGO_ATOMIC, "enqueue"), SENT | {"p50_us", "p99_us"}),
        (Work(BARE_INSERT, "enqueue"), SENT | {"p50_us", "p99_us"}),
        (Work(BARE_INSERT_ATOMIC, "enqueue"), SENT | {"p50_us", "p99_us"}),
        (Work(FACADE, "bulk"), SENT),
        (Work(DJANGO, "bulk"), SENT),
        (Work(DJANGO, "commits", workers=2, slots=3), SENT | {"commits", "senders"}),
        (Work(DJANGO_SILENT, "commits", workers=2, slots=3), SENT | {"commits", "senders"}),
        (Work(FACADE, "drain", "thread", workers=2, slots=4), DRAINED),
        (Work(DJANGO, "drain", "coroutine"), DRAINED),
        (Work(FACADE, "drain", filled=True, priority=1), DRAINED),
        (Work(DJANGO, "drain", "thread", filled=True, priority=1), DRAINED),
        (Work(FACADE, "latency"), {"p50_ms", "p95_ms", "max_ms"}),
        (Work(FACADE, "idle"), {"cpu_percent", "statements_per_second"}),
        (Work(DJANGO, "lateness", "thread"), {"p50_ms", "max_ms", "min_ms"}),
    ],
    ids=lambda given: (
        f"{given.subject.script}-{given.shape}-{given.kind}-{given.subject.variant}" if isinstance(given, Work) else ""
    ),
)
def test_a_program_answers_with_its_figures(
    work: Work, keys: set[str], databases: PostgresDatabases, tmp_path: Path
) -> None:
    answer = Runner(TINY, no_peers, lambda folder: databases, tmp_path).run(work)
    assert keys <= set(answer)
    assert answer["postgres"]
    if work.shape == "drain":
        assert answer["runs"] == TINY.jobs
    if work.shape == "commits":
        assert (answer["commits"], answer["senders"]) == (30, 6)
    if work.filled:
        assert answer["filled"] == {"finished": TINY.finished, "delayed": TINY.delayed, "priority": work.priority}


def test_a_filled_database_is_copied_for_each_run(databases: PostgresDatabases) -> None:
    with psycopg.connect(databases.fresh(), autocommit=True) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 1 AS one")
    databases.keep("filled")
    for _ in range(2):
        with psycopg.connect(databases.fresh("filled"), autocommit=True) as connection:
            assert connection.execute("SELECT count(*) FROM kept").fetchone() == (1,)
            connection.execute("INSERT INTO kept VALUES (2)")
    with psycopg.connect(databases.fresh()) as connection:
        assert connection.execute("SELECT to_regclass('kept')").fetchone() == (None,)


def test_the_server_of_a_run_is_a_durable_one(databases: PostgresDatabases) -> None:
    told = databases.settings()
    assert told.pop("server_version")
    assert told == {"shared_buffers": "128MB", "fsync": "on", "synchronous_commit": "on", "autovacuum": "on"}


def test_a_numbered_row_is_copied_under_numbers_of_its_own_sequence(store: Any) -> None:
    with store.reading() as connection:
        connection.execute(
            "CREATE TABLE jobs (id bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY, priority int, note text)"
        )
        (first,) = connection.execute("INSERT INTO jobs (priority, note) VALUES (7, 'a') RETURNING id").fetchone()
        ids = store.copy(connection, "jobs", "id", first, 3, {"priority": "jobs.priority + mod(n, 2)"})
        assert ids == [2, 3, 4]
        rows = connection.execute("SELECT id, priority, note FROM jobs ORDER BY id").fetchall()
        assert rows == [(1, 7, "a"), (2, 8, "a"), (3, 7, "a"), (4, 8, "a")]
        # The sequence knows of the copies.
        assert connection.execute("INSERT INTO jobs (note) VALUES ('b') RETURNING id").fetchone() == (5,)


def test_a_row_with_a_uuid_is_copied_with_the_rows_that_belong_to_it(store: Any) -> None:
    with store.reading() as connection:
        connection.execute("CREATE TABLE jobs (id uuid PRIMARY KEY, note text)")
        connection.execute(
            "CREATE TABLE events (id bigint GENERATED ALWAYS AS IDENTITY, line serial, job_id uuid, what text)"
        )
        one = uuid.uuid4()
        connection.execute("INSERT INTO jobs VALUES (%s, 'a')", (one,))
        connection.execute("INSERT INTO events (job_id, what) VALUES (%s, 'sent'), (%s, 'done')", (one, one))
        assert store.sample(connection, "jobs", "id", str(one)) == one
        ids = store.copy(connection, "jobs", "id", one, 2)
        store.copy_for(connection, "events", "job_id", one, ids)
        assert connection.execute("SELECT count(*) FROM jobs WHERE note = 'a'").fetchone() == (3,)
        counts = connection.execute("SELECT job_id, count(*) FROM events GROUP BY job_id").fetchall()
        assert dict(counts) == dict.fromkeys([one, *ids], 2)


def test_a_row_whose_id_is_a_text_is_copied(store: Any) -> None:
    with store.reading() as connection:
        connection.execute("CREATE TABLE jobs (id text PRIMARY KEY, note text)")
        one = str(uuid.uuid4())
        connection.execute("INSERT INTO jobs VALUES (%s, 'a')", (one,))
        ids = store.copy(connection, "jobs", "id", one, 2)
        assert connection.execute("SELECT id FROM jobs WHERE id <> %s ORDER BY id", (one,)).fetchall() == [
            (new,) for new in ids
        ]


def test_statements_of_every_session_are_counted(store: Any) -> None:
    before = store.statements()
    assert store.statements() == before
    with store.reading() as one, store.reading() as other:
        with one.transaction():
            one.execute("SELECT 1")
        other.execute("SELECT 2")
    assert store.statements() - before == 4


def test_the_command_measures_on_a_server_of_its_own(
    databases: PostgresDatabases, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--store", "postgres", "--quick", "--singles", "20", "--only", "enqueue-django-atomic"]
    folders = ["--out", str(tmp_path / "out"), "--scratch", str(tmp_path), "--cache", str(tmp_path / "cache")]
    assert main([*arguments, *folders]) == 0
    assert "bare INSERT, same table and connection" in capsys.readouterr().out
    kept = json.loads((tmp_path / "out" / "benchmark.json").read_text())
    assert kept["machine"]["fsync"] == "on"
