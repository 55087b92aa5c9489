"""`tx=` on SQLite: jobs written on a `sqlite3` connection of the caller's, in the transaction that is open there."""

import contextlib
import os
import sqlite3
import threading
from dataclasses import replace

import pytest

from tinyjobs.app.facade import TinyJobs
from tinyjobs.backends.sql import produce
from tinyjobs.core.errors import (
    AppClosedError,
    ConfigurationError,
    DataRefusedError,
    SchemaMissingError,
    StoreBusyError,
    StoreError,
    StoreUnavailableError,
    UnsupportedCapabilityError,
)
from tinyjobs.core.inline import finish
from tinyjobs.core.job import Job


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "app.db")


@pytest.fixture
def app(make_app, path):
    # Whatever waits for the caller's lock on a connection of its own fails at once.
    return make_app(f"sqlite:///{path}", busy_timeout=0.0)


@pytest.fixture
def task(app):
    @app.task(name="sample")
    def sample(value=0): ...

    return sample


@pytest.fixture
def connect(path):
    """Opens connections to the file and closes them."""
    with contextlib.ExitStack() as stack:

        def make(where=path, **options):
            return stack.enter_context(contextlib.closing(sqlite3.connect(where, **{"timeout": 20.0} | options)))

        yield make


@pytest.fixture(params=["warm", "cold"])
def warmth(request, app):
    """Whether the store was connected before."""
    if request.param == "warm":
        app.setup()
    return request.param


def kept(connect):
    """The ids of the jobs that everybody sees."""
    with contextlib.suppress(sqlite3.OperationalError):
        return [job for (job,) in connect().execute("SELECT id FROM tinyjobs_jobs ORDER BY id")]
    return []


# --- one transaction --------------------------------------------------------------------------------------------------


def test_a_job_is_kept_if_the_transaction_commits(app, task, connect, call, warmth):
    mine = connect()
    first = call(task.with_options(tx=mine), "enqueue", 1)
    assert kept(connect) == [], "nobody sees it before the commit"
    assert mine.in_transaction
    mine.commit()
    assert kept(connect) == [first.id]
    sent = call(task.with_options(tx=mine), "enqueue", 2)
    many = call(task.with_options(tx=mine.cursor()), "enqueue_many", [(3,), (4,)])
    named = call(app, "send", "unknown", (5,), tx=mine)
    mine.rollback()
    assert kept(connect) == [first.id]
    assert [app.get(job) for job in [sent, *many, named]] == [None] * 4
    assert app.get(first).status == "queued"


@pytest.mark.parametrize("is_many", [False, True])
@pytest.mark.parametrize(
    ("options", "begin", "at_once"),
    [
        ({}, None, False),
        ({"isolation_level": "IMMEDIATE"}, None, False),
        ({"isolation_level": "EXCLUSIVE"}, None, False),
        ({}, "BEGIN", False),
        ({"isolation_level": None}, None, True),
        ({"isolation_level": None}, "BEGIN", False),
        ({"isolation_level": None}, "BEGIN IMMEDIATE", False),
        ({"isolation_level": None}, "SAVEPOINT outer", False),
        ({"autocommit": True}, None, True),
        ({"autocommit": True}, "BEGIN", False),
        ({"autocommit": False}, None, False),
    ],
)
def test_whoever_controls_the_transaction_goes_on_doing_so(task, connect, warmth, options, begin, at_once, is_many):
    mine = connect(**options)
    for end in ("ROLLBACK", "COMMIT"):
        if begin is not None:
            mine.execute(begin)
        sender = task.with_options(tx=mine)
        jobs = sender.enqueue_many([(1,), (2,)]) if is_many else [sender.enqueue(1)]
        if at_once:
            assert not mine.in_transaction
            assert kept(connect)[-len(jobs) :] == [job.id for job in jobs]
            continue
        assert mine.in_transaction
        if options.get("autocommit") is False or begin is None:
            mine.rollback() if end == "ROLLBACK" else mine.commit()
        else:
            mine.execute(end)
        assert kept(connect) == ([] if end == "ROLLBACK" else [job.id for job in jobs])


def test_a_savepoint_takes_its_jobs_along(task, connect, warmth):
    mine = connect(isolation_level=None)
    mine.execute("BEGIN")
    first = task.with_options(tx=mine).enqueue(1)
    mine.execute("SAVEPOINT tinyjobs")
    task.with_options(tx=mine).enqueue(2)
    task.with_options(tx=mine).enqueue_many([(3,), (4,)])
    mine.execute("ROLLBACK TO tinyjobs")
    mine.execute("COMMIT")
    assert kept(connect) == [first.id]


def test_many_jobs_that_are_refused_leave_the_transaction_as_it_was(app, task, connect, monkeypatch):
    monkeypatch.setattr(produce, "BATCH", 1)
    mine = connect()
    first = task.with_options(tx=mine).enqueue(1)
    # The id is there twice, so the last of three statements fails.
    same = [Job(id=name, task="t", key=str(place), payload=b"") for place, name in enumerate(["a", "b", "a"])]
    with pytest.raises(DataRefusedError):
        finish(app.store.inline().joined(mine).enqueue_many(same))
    mine.commit()
    assert kept(connect) == [first.id]
    alone = connect(isolation_level=None)
    with pytest.raises(DataRefusedError):
        finish(app.store.inline().joined(alone).enqueue_many(same))
    assert not alone.in_transaction
    assert kept(connect) == [first.id]


def test_an_interrupt_in_the_middle_of_many_leaves_the_transaction_usable(app, task, connect, monkeypatch):
    mine = connect()
    first = task.with_options(tx=mine).enqueue(1)

    async def interrupted(dialect, connection, jobs, now):
        await dialect.insert_many(connection, jobs[:1], now)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(produce, "_insert", interrupted)
        with pytest.raises(KeyboardInterrupt):
            task.with_options(tx=mine).enqueue_many([(2,), (3,)])
    mine.commit()
    assert kept(connect) == [first.id]


# --- keys -------------------------------------------------------------------------------------------------------------


def test_a_job_sent_twice_in_one_transaction_comes_back_once(task, connect, call, warmth):
    mine = connect()
    keyed = task.with_options(tx=mine, key="k")
    first = call(keyed, "enqueue", 1)
    again = call(keyed, "enqueue", 2)
    many = call(keyed, "enqueue_many", [(3,), (4,)])
    assert [job.id for job in [again, *many]] == [first.id] * 3
    assert [job.existing for job in [first, again, *many]] == [False, True, True, True]
    mine.commit()
    assert kept(connect) == [first.id]
    assert call(task.with_options(key="k"), "enqueue", 5).existing
    mine.execute("UPDATE tinyjobs_jobs SET status = 'cancelled', active_key = NULL, ready_at = NULL")
    assert not call(keyed, "enqueue", 6).existing


# --- whatever connection ----------------------------------------------------------------------------------------------


class Shouting(sqlite3.Connection):
    def cursor(self, *given):
        raise AssertionError("the program's own way to make cursors")

    def execute(self, *given):
        raise AssertionError("the program's own way to run statements")


@pytest.mark.parametrize(
    "change",
    [
        {"row_factory": sqlite3.Row},
        {"row_factory": lambda cursor, row: {"a": 1}},
        {"text_factory": bytes},
        {"text_factory": lambda text: None},
    ],
)
def test_any_rows_and_texts_of_the_callers(app, task, connect, warmth, change):
    mine = connect()
    for name, value in change.items():
        setattr(mine, name, value)
    first = task.with_options(tx=mine, key="k").enqueue(1)
    again = task.with_options(tx=mine.cursor(), key="k").enqueue(2)
    for name, value in change.items():
        assert getattr(mine, name) is value
    mine.commit()
    assert again.existing
    assert app.get(first).record == replace(again.record, existing=False)


def test_a_connection_of_a_class_of_the_programs_own(task, connect, warmth):
    mine = connect(factory=Shouting)
    first = task.with_options(tx=mine, key="k").enqueue(1)
    task.with_options(tx=mine).enqueue_many([(2,), (3,)])
    mine.commit()
    assert kept(connect)[0] == first.id
    assert len(kept(connect)) == 3


def test_nothing_of_the_connection_is_changed(task, connect, warmth):
    mine = connect(timeout=3.0)
    mine.execute("PRAGMA foreign_keys = OFF")

    def settings():
        names = ["foreign_keys", "busy_timeout", "synchronous", "temp_store", "cache_size", "legacy_alter_table"]
        return [mine.execute(f"PRAGMA {name}").fetchall() for name in names]

    before = settings()
    for number in range(3):
        task.with_options(tx=mine, key=str(number)).enqueue(number)
    mine.commit()
    assert settings() == before
    assert (mine.isolation_level, mine.row_factory, mine.text_factory) == ("", None, str)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (lambda: "app.db", r"tx: a builtins\.str is no connection of sqlite3"),
        (lambda: True, r"tx: a builtins\.bool is no connection"),
        (lambda: object(), r"tx: a builtins\.object is no connection"),
    ],
)
def test_what_is_no_connection_is_refused(app, task, call, wrong, said):
    with pytest.raises(ConfigurationError, match=said):
        call(task.with_options(tx=wrong()), "enqueue", 1)
    assert app.list().jobs == []


def test_a_connection_to_another_file_is_refused_and_both_are_named(task, connect, path, tmp_path, call, warmth):
    for where, found in (
        (str(tmp_path / "other.db"), str(tmp_path / "other.db")),
        (":memory:", "a database in memory"),
    ):
        other = connect(where)
        with pytest.raises(ConfigurationError) as caught:
            call(task.with_options(tx=other), "enqueue", 1)
        assert found in str(caught.value) and path in str(caught.value)
        assert other.execute("SELECT count(*) FROM sqlite_master").fetchall() == [(0,)]
        assert not other.in_transaction


def test_files_are_told_apart_by_their_real_path(make_app, task, connect, path, tmp_path):
    os.symlink(path, tmp_path / "link.db")
    linked = make_app(f"sqlite:///{tmp_path}/link.db")
    linked.send("sample", tx=connect(isolation_level=None))
    task.with_options(tx=connect(str(tmp_path / "link.db"), isolation_level=None)).enqueue(2)
    uri = make_app(f"sqlite:///file:{path}?cache=private")
    uri.send("sample", tx=connect(isolation_level=None))
    assert len(kept(connect)) == 3


def test_a_file_attached_beside_the_jobs_is_no_hindrance(task, connect, tmp_path, warmth):
    mine = connect()
    mine.execute("ATTACH ? AS other", [str(tmp_path / "other.db")])
    task.with_options(tx=mine).enqueue(1)
    mine.commit()
    assert len(kept(connect)) == 1


def test_a_closed_connection_and_one_of_another_thread_are_refused(app, task, connect, call, warmth):
    closed = connect()
    closed.close()
    with pytest.raises(StoreUnavailableError, match="this connection is closed"):
        call(task.with_options(tx=closed), "enqueue", 1)
    elsewhere = connect()
    told = []

    def use(mine):
        try:
            call(task.with_options(tx=mine), "enqueue", 1)
            mine.commit()
        except ConfigurationError as error:
            told.append(str(error))

    for mine in (elsewhere, connect(check_same_thread=False)):
        thread = threading.Thread(target=use, args=(mine,))
        thread.start()
        thread.join()
    assert len(told) == 1 and "belongs to another thread" in told[0]
    assert len(kept(connect)) == 1


def test_a_store_in_memory_refuses_and_says_why(make_app, connect, call):
    app = make_app("memory://")
    with pytest.raises(
        UnsupportedCapabilityError, match=r"memory:// cannot write jobs in a transaction of yours \(tx="
    ):
        call(app, "send", "sample", tx=connect())
    with pytest.raises(UnsupportedCapabilityError, match="in memory is its own"):
        app.store.joined(connect())


def test_a_closed_app_refuses(app, task, connect, call):
    app.close()
    with pytest.raises(AppClosedError):
        call(task.with_options(tx=connect()), "enqueue", 1)


# --- the first call of a process --------------------------------------------------------------------------------------


def test_a_fresh_file_gets_its_tables_with_the_transaction_that_is_open(app, task, connect, call):
    mine = connect()
    mine.execute("CREATE TABLE documents (id)")
    for _ in range(2):
        mine.execute("INSERT INTO documents VALUES (1)")
        call(task.with_options(tx=mine), "enqueue", 1)
        call(task.with_options(tx=mine), "enqueue", 2)
        mine.rollback()
        assert connect().execute("SELECT name FROM sqlite_master WHERE name LIKE 'tinyjobs%'").fetchall() == []
    mine.execute("INSERT INTO documents VALUES (1)")
    job = call(task.with_options(tx=mine), "enqueue", 3)
    mine.commit()
    assert app.get(job).status == "queued", "an ordinary call connects and finds them"
    assert connect().execute("PRAGMA journal_mode").fetchall() == [("wal",)]
    app.drain()
    assert app.get(job).status == "success"


def test_a_fresh_file_gets_its_tables_outside_of_a_transaction_too(app, task, connect, path):
    mine = connect()
    job = task.with_options(tx=mine).enqueue(1)
    assert connect().execute("SELECT count(*) FROM tinyjobs_jobs").fetchall() == [(0,)], "the tables are committed"
    assert connect().execute("PRAGMA journal_mode").fetchall() == [("wal",)]
    mine.rollback()
    assert app.get(job) is None


def test_what_is_there_already_costs_a_look_from_outside_and_one_statement(make_app, app, task, connect, path):
    app.setup()
    cold = make_app(f"sqlite:///{path}")
    mine, ran = connect(), []
    mine.set_trace_callback(ran.append)
    for number in range(3):
        cold.send("sample", (number,), tx=mine)
        mine.commit()
    own = [statement for statement in ran if "database_list" not in statement]
    assert [statement.split()[0] for statement in own] == ["BEGIN", "INSERT", "COMMIT"] * 3
    assert len(cold.list().jobs) == 3


def test_many_first_calls_at_once_on_a_new_file(make_app, connect, path):
    barrier, failures = threading.Barrier(6), []

    def first(number):
        app = make_app(f"sqlite:///{path}")
        mine = sqlite3.connect(path, isolation_level=None, timeout=30)
        barrier.wait()
        try:
            mine.execute("BEGIN")
            app.send("sample", (number,), tx=mine)
            mine.execute("COMMIT")
        except Exception as error:
            failures.append(error)
        finally:
            mine.close()

    threads = [threading.Thread(target=first, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert len(kept(connect)) == 6


def test_tables_that_are_gone_are_made_again(app, task, connect, warmth):
    mine = connect()
    task.with_options(tx=mine).enqueue(1)
    mine.commit()
    connect().executescript("DROP TABLE tinyjobs_jobs; DROP TABLE tinyjobs_meta; DROP TABLE tinyjobs_executions;"
                            "DROP TABLE tinyjobs_schedules; DROP TABLE tinyjobs_limits;"
                            "DROP TABLE tinyjobs_workers; DROP TABLE tinyjobs_tallies;")  # fmt: skip
    job = task.with_options(tx=mine).enqueue(2)
    mine.commit()
    assert kept(connect) == [job.id]


def test_a_transaction_older_than_the_tables_is_told_so(app, task, connect):
    connect().execute("CREATE TABLE documents (id)")
    connect().execute("PRAGMA journal_mode = WAL")
    mine = connect(isolation_level=None)
    mine.execute("BEGIN")
    mine.execute("SELECT * FROM documents").fetchall()
    app.setup()
    with pytest.raises(StoreError, match=r"as it was before|BEGIN IMMEDIATE") as caught:
        task.with_options(tx=mine).enqueue(1)
    assert isinstance(caught.value, SchemaMissingError), caught.value
    mine.execute("ROLLBACK")
    task.with_options(tx=mine).enqueue(2)


def test_a_file_that_is_somebody_elses_is_left_alone(task, connect):
    mine = connect()
    mine.execute("CREATE TABLE tinyjobs_jobs (id)")
    with pytest.raises(ConfigurationError, match="did not lay out"):
        task.with_options(tx=mine).enqueue(1)
    assert mine.execute("SELECT name FROM sqlite_master").fetchall() == [("tinyjobs_jobs",)]


# --- the three traps --------------------------------------------------------------------------------------------------


def test_a_transaction_that_read_before_it_writes_is_told_to_begin_otherwise(app, task, connect, call, warmth):
    mine, neighbour = connect(), connect()
    neighbour.execute("PRAGMA journal_mode = WAL")
    neighbour.execute("CREATE TABLE documents (id)")
    task.with_options(tx=neighbour).enqueue(0)
    neighbour.commit()
    mine.execute("BEGIN")
    mine.execute("SELECT * FROM documents").fetchall()
    neighbour.execute("INSERT INTO documents VALUES (1)")
    neighbour.commit()
    for verb, given in (("enqueue", (1,)), ("enqueue_many", ([(1,)],))):
        with pytest.raises(StoreBusyError, match="begin it with BEGIN IMMEDIATE") as caught:
            call(task.with_options(tx=mine), verb, *given)
        assert (caught.value.sqlite_errorname, caught.value.sqlite_errorcode) == ("SQLITE_BUSY_SNAPSHOT", 517)
    mine.rollback()
    mine.execute("BEGIN IMMEDIATE")
    mine.execute("SELECT * FROM documents").fetchall()
    call(task.with_options(tx=mine), "enqueue", 1)
    mine.commit()


@pytest.mark.parametrize("begin", ["BEGIN", None, "SAVEPOINT mine"])
def test_a_transaction_whose_first_statement_is_the_enqueue_never_is(app, task, connect, begin, call):
    """A neighbour commits as each statement of ours begins; with a key too, whose holder is read after the insert."""
    app.setup()
    mine = connect(isolation_level=None) if begin else connect()
    neighbour, commits = connect(timeout=0, isolation_level=None), []
    neighbour.executescript("CREATE TABLE ticks (number); INSERT INTO ticks VALUES (0)")

    def commit(statement):
        with contextlib.suppress(sqlite3.OperationalError):
            neighbour.execute("UPDATE ticks SET number = number + 1")
            commits.append(statement)

    mine.set_trace_callback(commit)
    for number in range(4):
        for verb, given in (("enqueue", (number,)), ("enqueue_many", ([(number,), (number,)],))):
            for key in (None, f"k{number % 2}"):
                if begin:
                    mine.execute(begin)
                call(task.with_options(tx=mine, key=key), verb, *given)
                mine.execute("COMMIT")
    assert any(statement.startswith("INSERT") for statement in commits)
    assert len(kept(connect)) == 14


def test_a_cursor_may_be_open_on_the_connection(app, task, connect, warmth):
    """Such as that of a loop over rows, each of which gets a job: also where the first makes the tables."""
    connect().executescript("CREATE TABLE documents (id); INSERT INTO documents VALUES (1), (2), (3)")
    mine = connect()
    mine.execute("INSERT INTO documents VALUES (4)")
    rows = mine.execute("SELECT id FROM documents ORDER BY id")
    jobs = [task.with_options(tx=mine).enqueue(number) for (number,) in rows]
    rows = mine.execute("SELECT id FROM documents ORDER BY id")
    many = [task.with_options(tx=mine).enqueue_many([(number,), (number,)]) for (number,) in rows]
    mine.commit()
    assert (len(jobs), len(many), len(kept(connect))) == (4, 4, 12)


def test_the_callers_transaction_may_hold_the_whole_file(make_app, app, task, connect, path, warmth):
    """In rollback-journal mode a transaction that outgrew the page cache keeps even readers out."""
    app.close()
    mine = connect()
    mine.execute("PRAGMA cache_size = 5")
    mine.execute("CREATE TABLE documents (id, text)")
    mine.commit()
    assert mine.execute("PRAGMA journal_mode = DELETE").fetchall() == [("delete",)]
    mine.executemany("INSERT INTO documents VALUES (?, ?)", [(number, "x" * 2_000) for number in range(200)])
    with pytest.raises(sqlite3.OperationalError, match="locked"):
        connect(timeout=0).execute("SELECT count(*) FROM documents")
    cold = make_app(f"sqlite:///{path}")
    job = cold.send("sample", (1,), tx=mine)
    mine.commit()
    assert kept(connect) == [job.id]


def test_a_lock_that_somebody_else_holds_is_waited_for_as_long_as_the_connection_says(app, task, connect, call):
    app.setup()
    other, mine = connect(), connect(timeout=0)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreBusyError, match="longer than the timeout") as caught:
        call(task.with_options(tx=mine), "enqueue", 1)
    assert (caught.value.sqlite_errorname, caught.value.sqlite_errorcode) == ("SQLITE_BUSY", 5)
    assert isinstance(caught.value.__cause__, sqlite3.OperationalError)
    patient, waiting = connect(timeout=30, check_same_thread=False), threading.Event()

    def enqueue():
        waiting.set()
        call(task.with_options(tx=patient), "enqueue", 2)
        patient.commit()

    thread = threading.Thread(target=enqueue)
    thread.start()
    waiting.wait()
    thread.join(0.05)
    assert thread.is_alive()
    other.rollback()
    thread.join()
    assert len(kept(connect)) == 1


# --- beside it --------------------------------------------------------------------------------------------------------


def test_a_job_can_send_another_one_in_its_own_transaction(make_app, path, connect):
    app = make_app(f"sqlite:///{path}")
    connect().execute("CREATE TABLE documents (id)")

    @app.task(name="child")
    def child(number): ...

    @app.task(name="parent")
    def parent(number):
        with contextlib.closing(sqlite3.connect(path)) as mine, mine:
            mine.execute("INSERT INTO documents VALUES (?)", [number])
            child.with_options(tx=mine).enqueue(number)
            if number:
                raise ValueError(number)

    parent.enqueue_many([(0,), (1,)])
    assert app.drain() == 3
    assert connect().execute("SELECT id FROM documents").fetchall() == [(0,)]


def test_the_capability_is_told(make_app, path):
    assert make_app(f"sqlite:///{path}").store.capabilities.transactional_enqueue
    assert not make_app("memory://").store.capabilities.transactional_enqueue
    assert not TinyJobs("sqlite:///file::memory:").store.capabilities.transactional_enqueue
