"""`tx=`: jobs written on a connection of the caller's, in the transaction that is open there."""

import asyncio
import re
import sqlite3
import threading
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest
from psycopg import sql
from psycopg.adapt import Loader
from psycopg.pq import Format
from psycopg.rows import dict_row, namedtuple_row

from tinyjobs.app.facade import TinyJobs
from tinyjobs.backends.postgres import joining
from tinyjobs.backends.sql import produce
from tinyjobs.core.errors import (
    ConfigurationError,
    DataRefusedError,
    StoreBusyError,
    StoreError,
    StoreUnavailableError,
    UnsupportedCapabilityError,
)
from tinyjobs.core.inline import finish
from tinyjobs.core.job import Job

pytestmark = pytest.mark.postgres

type Call = Callable[..., Any]


@pytest.fixture
def task(app):
    @app.task(name="sample")
    def sample(value=0): ...

    return sample


@pytest.fixture
def connection(postgres_url):
    with psycopg.connect(postgres_url) as connection:
        yield connection


@pytest.fixture(params=["sync", "async"])
def caller(request, postgres_url) -> Call:
    """Runs `use(connection, call)` on a new connection; `call(owner, verb, …)` is the verb of that kind.

    What `use` does with the connection itself goes through `ask`, which both kinds answer.
    """

    def sync(use, **options):
        with psycopg.connect(postgres_url, **options) as raw:
            use(Asking(raw, None), lambda owner, verb, *given, **named: getattr(owner, verb)(*given, **named))

    def awaited(use, **options):
        async def main():
            raw = await psycopg.AsyncConnection.connect(postgres_url, **options)
            try:
                await asyncio.to_thread(use, Asking(raw, asyncio.get_running_loop()), call(asyncio.get_running_loop()))
            finally:
                await raw.close()

        asyncio.run(main())

    def call(loop):
        def make(owner, verb, *given, **named):
            return asyncio.run_coroutine_threadsafe(getattr(owner, "a" + verb)(*given, **named), loop).result()

        return make

    return sync if request.param == "sync" else awaited


class Asking:
    """A connection of either kind, whose methods are called the same way."""

    def __init__(self, raw: Any, loop: Any) -> None:
        self.raw = raw
        self._loop = loop

    def __getattr__(self, name: str) -> Any:
        def ask(*given, **named):
            return self.wait(getattr(self.raw, name)(*given, **named))

        return ask

    def wait(self, answer: Any) -> Any:
        return answer if self._loop is None else asyncio.run_coroutine_threadsafe(answer, self._loop).result()

    def all(self, query: str) -> list[Any]:
        return self.wait(self.execute(query).fetchall())


def another(url: str, database: str) -> str:
    return urlunsplit(urlsplit(url)._replace(path=f"/{database}"))


# --- one transaction --------------------------------------------------------------------------------------------------


def test_a_job_is_kept_if_the_transaction_commits(app, task, caller):
    def use(mine, call):
        kept = call(task.with_options(tx=mine.raw), "enqueue", 1)
        assert app.get(kept) is None, "nobody sees it before the commit"
        mine.commit()
        assert app.get(kept).status == "queued"
        lost = call(task.with_options(tx=mine.raw), "enqueue", 2)
        many = call(task.with_options(tx=mine.raw), "enqueue_many", [(3,), (4,)])
        sent = call(app, "send", "unknown", (5,), tx=mine.raw)
        mine.rollback()
        assert [app.get(job) for job in [lost, *many, sent]] == [None] * 4

    caller(use)


def test_the_first_statement_of_a_transaction_may_be_many_jobs(app, task, caller):
    """Psycopg's own transaction block would take them for the whole of it, and commit."""

    def use(mine, call):
        call(task.with_options(tx=mine.raw), "enqueue", 0)  # the connection is known from here on
        mine.rollback()
        call(task.with_options(tx=mine.raw), "enqueue_many", [(3,), (4,)])
        assert mine.raw.info.transaction_status == psycopg.pq.TransactionStatus.INTRANS
        mine.rollback()
        assert app.list().jobs == []
        call(task.with_options(tx=mine.raw), "enqueue_many", [(3,), (4,)])
        mine.commit()
        assert len(app.list().jobs) == 2

    caller(use)


def test_a_savepoint_takes_its_jobs_along(app, task, connection):
    with connection.transaction():
        kept = task.with_options(tx=connection).enqueue(1)
        with connection.transaction(force_rollback=True):
            task.with_options(tx=connection).enqueue(2)
            task.with_options(tx=connection).enqueue_many([(3,), (4,)])
    assert [job.id for job in app.list().jobs] == [kept.id]


def test_on_a_connection_in_autocommit_each_call_is_all_or_nothing(app, task, caller, monkeypatch):
    monkeypatch.setattr(produce, "BATCH", 1)

    def use(mine, call):
        call(task.with_options(tx=mine.raw), "enqueue", 1)
        assert len(app.list().jobs) == 1
        store = app.store if mine._loop else app.store.inline()
        jobs = [Job(id=name, task="t", payload=b"") for name in ("a", "b", "a")]
        # The id is there twice, so the last of three statements fails.
        jobs = [replace(job, key=f"{place}") for place, job in enumerate(jobs)]
        with pytest.raises(DataRefusedError):
            answer = store.joined(mine.raw).enqueue_many(jobs)
            mine.wait(answer) if mine._loop else finish(answer)
        assert len(app.list().jobs) == 1
        assert mine.raw.info.transaction_status == psycopg.pq.TransactionStatus.IDLE

    caller(use, autocommit=True)


def test_many_jobs_that_are_refused_leave_the_transaction_usable(app, task, connection):
    task.with_options(tx=connection).enqueue(1)
    same = [Job(id="a", task="t", key="x", payload=b""), Job(id="a", task="t", key="y", payload=b"")]
    with pytest.raises(DataRefusedError):
        finish(app.store.inline().joined(connection).enqueue_many(same))
    connection.commit()
    assert len(app.list().jobs) == 1


@pytest.mark.parametrize("autocommit", [False, True])
def test_a_pipeline_is_brought_up_to_date(app, task, caller, autocommit):
    def use(mine, call):
        mine.execute("CREATE TABLE orders (id int)")
        for verb, given in (("enqueue", (1,)), ("enqueue_many", ([(2,), (3,)],))):
            pipeline = mine.raw.pipeline()
            mine.wait((pipeline.__aenter__ if mine._loop else pipeline.__enter__)())
            mine.execute("INSERT INTO orders VALUES (1)")
            call(task.with_options(tx=mine.raw), verb, *given)
            again = call(task.with_options(tx=mine.raw, key="k"), "enqueue", 4)
            assert call(task.with_options(tx=mine.raw, key="k"), "enqueue", 5).id == again.id
            mine.execute("INSERT INTO orders VALUES (2)")
            mine.wait((pipeline.__aexit__ if mine._loop else pipeline.__exit__)(None, None, None))
        if not autocommit:
            assert app.list().jobs == []
            mine.commit()
        assert mine.all("SELECT count(*) FROM orders") == [(4,)]
        assert len(app.list().jobs) == 4
        mine.commit()

    caller(use, autocommit=autocommit)


def test_what_failed_in_a_pipeline_before_is_told(app, task, connection):
    task.with_options(tx=connection).enqueue(0)
    connection.commit()
    with pytest.raises(StoreError, match="does not exist"), connection.pipeline():
        connection.execute("SELECT * FROM nowhere")
        task.with_options(tx=connection).enqueue(1)
    connection.rollback()
    assert len(app.list().jobs) == 1


# --- whatever connection ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("factory", [psycopg.Cursor, psycopg.ClientCursor, psycopg.RawCursor])
@pytest.mark.parametrize("rows", [dict_row, namedtuple_row])
def test_any_cursor_and_any_rows_of_the_callers(app, task, postgres_url, factory, rows):
    with psycopg.connect(postgres_url, cursor_factory=factory, row_factory=rows) as mine:
        mine.adapters.register_loader("float8", NoLoader)
        mine.adapters.register_loader("text", NoLoader)
        first = task.with_options(tx=mine, key="k").enqueue(1)
        again = task.with_options(tx=mine.cursor(), key="k").enqueue(2)
        named = task.with_options(tx=mine.cursor("named"), key="k").enqueue(3)
        assert again.id == named.id == first.id
        assert (again.existing, type(again.run_at)) == (True, float)
    assert app.get(first).record == replace(again.record, existing=False)


class NoLoader(Loader):
    """What a program may register for its own sake."""

    format = Format.BINARY

    def load(self, data):
        return Decimal(0)


def test_nothing_of_the_connection_is_changed(app, task, postgres_url):
    with psycopg.connect(postgres_url, prepare_threshold=0) as mine:
        before = settings(mine)
        for number in range(8):
            task.with_options(tx=mine, key=str(number)).enqueue(number)
        assert settings(mine) == before
        prepared = mine.execute("SELECT statement FROM pg_prepared_statements").fetchall()
        assert not [text for (text,) in prepared if "tinyjobs" in text]


def settings(raw):
    return raw.execute("SELECT name, setting FROM pg_settings ORDER BY name").fetchall()


def test_tables_of_that_name_on_the_callers_path_do_not_take_the_job(app, task, connection):
    app.setup()
    connection.execute("CREATE TEMPORARY TABLE tinyjobs_jobs (LIKE tinyjobs_jobs INCLUDING ALL)")
    connection.execute("CREATE TEMPORARY TABLE tinyjobs_meta (LIKE tinyjobs_meta INCLUDING ALL)")
    connection.execute("CREATE SCHEMA elsewhere")
    connection.execute("SET search_path = elsewhere, pg_temp")
    job = task.with_options(tx=connection).enqueue(1)
    connection.commit()
    assert app.get(job) is not None


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (lambda: sqlite3.connect(":memory:"), r"tx: a sqlite3\.Connection is no connection of psycopg 3"),
        (lambda: "postgresql://", r"tx: a builtins\.str is no connection"),
        (lambda: True, "tx: a builtins.bool is no"),
    ],
)
def test_what_is_no_connection_is_refused(app, task, wrong, said):
    with pytest.raises(ConfigurationError, match=said):
        task.with_options(tx=wrong()).enqueue(1)
    assert app.list().jobs == []


def test_a_connection_of_the_other_kind_is_refused(app, task, postgres_url, connection):
    async def with_a_synchronous_one():
        await task.with_options(tx=connection).aenqueue(1)

    with pytest.raises(ConfigurationError, match="awaited call cannot use a synchronous connection"):
        asyncio.run(with_a_synchronous_one())

    async def make():
        return await psycopg.AsyncConnection.connect(postgres_url)

    raw = asyncio.run(make())
    with pytest.raises(ConfigurationError, match=r"blocking call cannot use an AsyncConnection.*aenqueue"):
        task.with_options(tx=raw).enqueue(1)
    asyncio.run(raw.close())
    assert app.list().jobs == []


def test_a_connection_that_is_of_no_use_is_said_to_be(app, task, postgres_url, connection):
    with pytest.raises(psycopg.Error):
        connection.execute("SELECT * FROM nowhere")
    with pytest.raises(StoreError, match=r"earlier statement failed.*rollback\. Nothing was enqueued"):
        task.with_options(tx=connection).enqueue(1)
    connection.rollback()
    task.with_options(tx=connection).enqueue(2)
    connection.commit()
    connection.close()
    with pytest.raises(StoreUnavailableError, match="connection is closed"):
        task.with_options(tx=connection).enqueue(3)
    with psycopg.connect(postgres_url, client_encoding="SQL_ASCII") as mine:
        with pytest.raises(ConfigurationError, match="client_encoding=UTF8"):
            task.with_options(tx=mine).enqueue(4)
    assert len(app.list().jobs) == 1


def test_a_text_that_the_connection_cannot_send_is_refused_before_it_is(app, task, postgres_url):
    with psycopg.connect(postgres_url, client_encoding="LATIN1") as mine:
        task.with_options(tx=mine, key="größe").enqueue(1)
        with pytest.raises(DataRefusedError):
            task.with_options(tx=mine, key="🦊").enqueue(2)
    assert [job.key for job in app.list().jobs] == ["größe"]


def test_a_store_that_cannot_join_says_so_at_the_enqueue(connection):
    app = TinyJobs("memory://")
    with pytest.raises(UnsupportedCapabilityError, match=r"memory:// cannot write jobs in a transaction"):
        app.send("sample", tx=connection)
    app.close()


# --- which database ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["empty", "store", "copy"])
def test_a_connection_to_another_database_is_refused(app, task, postgres_cluster, postgres_url, kind):
    app.setup()
    app.close()  # nobody may be connected to what is copied
    own = urlsplit(postgres_url).path.lstrip("/")
    name = postgres_cluster.create_database(template=own if kind == "copy" else None)
    try:
        other = TinyJobs(another(postgres_url, name))
        if kind != "empty":
            other.setup()
        app.start()
        with psycopg.connect(another(postgres_url, name)) as mine:
            for _ in range(2):
                with pytest.raises(ConfigurationError, match=rf"'{name}'.*'{own}'"):
                    task.with_options(tx=mine).enqueue(1)
            mine.execute("SELECT 1")  # the caller's transaction is still usable
        assert app.list().jobs == []
        if kind != "empty":
            assert other.list().jobs == []
        other.close()
    finally:
        postgres_cluster.drop_database(name)


def test_a_database_of_the_same_number_on_another_server_is_another_one(
    app, task, monkeypatch, connection, postgres_url
):
    app.setup()
    known = app.store._joining._identity
    assert known.system is not None and known.instance
    for foreign in (replace(known, system="1"), replace(known, system=None, instance="another")):
        app.store._joining._identity = foreign
        with pytest.raises(ConfigurationError, match="another store"):
            task.with_options(tx=connection).enqueue(1)
        connection.rollback()
    app.store._joining._identity = known
    task.with_options(tx=connection).enqueue(1)


def test_a_role_that_may_not_ask_for_the_servers_number_can_join(app, task, connection, postgres_url, postgres_cluster):
    app.setup()
    role = f"plain_{connection.info.backend_pid}"
    postgres_cluster.execute(sql.SQL("CREATE ROLE {} LOGIN").format(sql.Identifier(role)))
    connection.execute("REVOKE EXECUTE ON FUNCTION pg_control_system() FROM PUBLIC")
    connection.execute(f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO {role}")
    connection.commit()
    with psycopg.connect(postgres_url, user=role) as mine:
        task.with_options(tx=mine).enqueue(1)
    assert len(app.list().jobs) == 1
    connection.execute(f"DROP OWNED BY {role}")
    connection.commit()
    postgres_cluster.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(role)))


def test_a_connection_is_asked_once_where_it_leads(app, task, connection, monkeypatch):
    asked = []
    read = joining.Joining._read

    async def counted(self, *given):
        asked.append(given)
        return await read(self, *given)

    app.setup()
    monkeypatch.setattr(joining.Joining, "_read", counted)
    for number in range(3):
        task.with_options(tx=connection).enqueue(number)
        connection.commit()
    assert len(asked) == 1


# --- keys -------------------------------------------------------------------------------------------------------------


def test_a_key_holds_inside_the_transaction_and_outside(app, task, caller):
    def use(mine, call):
        held = task.with_options(key="outside").enqueue(0)
        keyed = {key: task.with_options(tx=mine.raw, key=key) for key in ("outside", "inside")}
        mine.execute("CREATE TABLE orders (id int)")
        assert call(keyed["outside"], "enqueue", 1).id == held.id
        first = call(keyed["inside"], "enqueue", 2)
        again = call(keyed["inside"], "enqueue", 3)
        assert (again.id, again.existing, first.existing) == (first.id, True, False)
        # The conflicts left the transaction as it was.
        mine.execute("INSERT INTO orders VALUES (1)")
        mine.commit()
        assert mine.all("SELECT count(*) FROM orders") == [(1,)]
        assert {job.id for job in app.list().jobs} == {held.id, first.id}
        mine.rollback()

    caller(use)


def test_a_holder_that_is_not_committed_is_waited_for(app, task, connection, postgres_url, postgres_cluster):
    for commits in (True, False):
        key = f"k{commits}"
        first = task.with_options(tx=connection, key=key).enqueue(1)
        answers = []

        def wait_for_it(key=key, answers=answers):
            with psycopg.connect(postgres_url) as other:
                answers.append(task.with_options(tx=other, key=key).enqueue(2))

        waiter = threading.Thread(target=wait_for_it)
        waiter.start()
        until_somebody_waits(postgres_cluster)
        (connection.commit if commits else connection.rollback)()
        waiter.join(60)
        assert (answers[0].id == first.id) is commits


def until_somebody_waits(server):
    for _ in range(200_000):
        if server.execute("SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock'"):
            return
    raise AssertionError("nobody waits for a lock")


def test_two_bulk_enqueues_of_the_same_keys_do_not_deadlock(app, postgres_url):
    """Each brings them in another order; whoever is second gets the holders of the first."""
    keys = [f"k{number:03}" for number in range(60)]
    for _ in range(30):
        barrier = threading.Barrier(2)
        answers: list[Any] = []

        def bring(order, barrier=barrier, answers=answers):
            with psycopg.connect(postgres_url, autocommit=True) as mine:
                store = app.store.inline().joined(mine)
                jobs = [Job(id=f"{threading.get_ident()}-{key}", task="t", key=key, payload=b"") for key in order]
                barrier.wait()
                try:
                    answers.append({job.key: job.id for job in finish(store.enqueue_many(jobs))})
                except StoreError as error:
                    answers.append(error)

        app.setup()
        threads = [threading.Thread(target=bring, args=(order,)) for order in (keys, keys[::-1])]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        first, second = answers
        assert first == second and len(first) == 60
        with psycopg.connect(postgres_url, autocommit=True) as mine:
            mine.execute("DELETE FROM tinyjobs_jobs")


def test_a_stricter_isolation_is_the_callers_to_try_again(app, task, postgres_url):
    app.setup()
    with psycopg.connect(postgres_url) as mine:
        mine.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        mine.execute("SELECT 1")
        task.with_options(tx=mine).enqueue(1)
        held = task.with_options(key="k").enqueue(2)
        with pytest.raises(StoreBusyError, match="could not be serialized"):
            task.with_options(tx=mine, key="k").enqueue(3)
        mine.rollback()
        assert task.with_options(tx=mine, key="k").enqueue(3).id == held.id


# --- who is told ------------------------------------------------------------------------------------------------------


def test_nobody_is_notified_inside_the_transaction(app, task, connection, postgres_url):
    app.setup()
    with psycopg.connect(postgres_url, autocommit=True) as listener:
        ((channel,),) = listener.execute(app.store.statements["channel"].format, []).fetchall()
        listener.execute(sql.SQL("LISTEN {}").format(sql.Identifier(channel)))
        task.with_options(tx=connection).enqueue(1)
        task.with_options(tx=connection).enqueue_many([(2,), (3,)])
        connection.commit()
        connection.execute("SELECT pg_notify(%s, 'the end')", [channel])
        connection.commit()
        told = [next(iter(listener.notifies(timeout=60, stop_after=1))).payload]
    assert told == ["the end"]


def test_a_delay_counts_from_the_servers_clock(task, app, connection):
    job = task.with_options(tx=connection, delay=60).enqueue(1)
    connection.commit()
    ((left,),) = connection.execute(
        "SELECT due_at - extract(epoch FROM now()) FROM tinyjobs_jobs WHERE id = %s", [job.id]
    ).fetchall()
    assert 50 < left <= 60


def test_a_job_can_send_another_one_in_its_own_transaction(app, postgres_url):
    @app.task(name="follow up")
    def follow_up(): ...

    @app.task(name="plain")
    def plain():
        with psycopg.connect(postgres_url) as mine:
            follow_up.with_options(tx=mine).enqueue()

    @app.task(name="awaited")
    async def awaited():
        async with await psycopg.AsyncConnection.connect(postgres_url) as mine:
            await follow_up.with_options(tx=mine).aenqueue()

    plain.enqueue()
    awaited.enqueue()
    app.run_worker(until_empty=True, handle_signals=False)
    assert app.stats().by_status["success"] == 4


# --- whatever else is on the caller's search path ---------------------------------------------------------------------

#: What the statements that run on a caller's connection call, each with the caller's own of that name before it.
THEIRS = (
    "date_part(text, timestamptz) RETURNS float8",
    "statement_timestamp() RETURNS timestamptz",
    "convert_to(text, name) RETURNS bytea",
    "convert_to(text, text) RETURNS bytea",
    "sha256(bytea) RETURNS bytea",
    "encode(bytea, text) RETURNS text",
    "json_array_elements_text(json) RETURNS SETOF text",
    "unnest(text[]) RETURNS SETOF text",
    "unnest(bytea[]) RETURNS SETOF bytea",
    "unnest(anyarray) RETURNS SETOF anyelement",
)
RUN_THERE = ("insert", "insert_now", "insert_many", "insert_mixed", "holders", "unstarted_end", "identity", "system")
# An unnest of several arrays is never looked up by the path.
SYNTAX = {
    "as",
    "in",
    "values",
    "from",
    "coalesce",
    "greatest",
    "materialized",
    "exists",
    "array",
    "any",
    "conflict",
    "select",
    "unnest",
    "tinyjobs_jobs",
}
ALIASES = {"given", "row", "tally"}  # of a table, with the names of its columns


def test_functions_and_types_of_the_callers_stay_out_of_it(app, task, connection):
    app.setup()
    connection.execute("CREATE SCHEMA app")
    for theirs in THEIRS:
        # Each answers what is no answer.
        connection.execute(f"CREATE FUNCTION app.{theirs} LANGUAGE plpgsql AS $$BEGIN RAISE 'called'; END$$")
    for name in ("text", "bytea", "json", "float8", "int8"):
        connection.execute(f"CREATE DOMAIN app.{name} AS pg_catalog.{name} CHECK (false)")
    connection.execute("SET search_path = app, pg_catalog, public")
    now = task.with_options(tx=connection).enqueue(1)
    later = task.with_options(tx=connection, delay=60).enqueue(2)
    first = task.with_options(tx=connection, key="k", expires=60).enqueue(3)
    again = task.with_options(tx=connection, key="k").enqueue(4)
    many = task.with_options(tx=connection).enqueue_many([(5,), (6,)])
    store = app.store.inline().joined(connection)
    mixed = finish(store.enqueue_many([Job(id=f"0-{n}", task="t", key=f"k{n}", payload=b"") for n in range(2)]))
    connection.commit()
    assert again.id == first.id
    kept = {job.id: job for job in app.list().jobs}
    assert kept.keys() == {job.id for job in [now, later, first, *many, *mixed]}
    assert all(abs(kept[job.id].run_at - kept[job.id].created_at) < 10 for job in (now, first, *many))


def test_what_runs_on_a_callers_connection_names_the_schema_of_each_function(app):
    app.setup()
    for name in RUN_THERE:
        text = app.store.statements[name].format
        called = re.findall(r"(?<![.\w\"])(\w+) ?\(", text)
        assert {word for word in map(str.lower, called) if word not in SYNTAX} <= ALIASES, name
