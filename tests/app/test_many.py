"""`enqueue_many` of the facade at size: one transaction of bounded statements, whatever the items come from."""

import contextlib
import sqlite3

import pytest

from tinyjobs.core.errors import DataRefusedError, SerializationError


@pytest.fixture
def watched(make_app, tmp_path):
    """An app on a file whose statements are noted: `(app, statements)`."""
    app = make_app(f"sqlite:///{tmp_path}/jobs.db")
    assert app.list().jobs == []  # this thread's connection is open from here on
    noted = []
    app._access.current.inline._runner.connection()._raw.set_trace_callback(noted.append)
    return app, noted


@pytest.fixture
def note(watched):
    app, _ = watched

    @app.task(name="note")
    def note(number): ...

    return note


def kinds(statements):
    return [statement.split()[0] for statement in statements]


def test_ten_thousand_from_a_generator_are_one_transaction(watched, note):
    app, statements = watched
    drawn = []

    def items():
        for number in range(10_000):
            drawn.append(number)
            yield (number,)

    jobs = note.enqueue_many(items())
    assert len(jobs) == len(drawn) == 10_000
    assert [job.id for job in jobs] == sorted(job.id for job in jobs)
    ran = kinds(statements)
    assert (ran.count("BEGIN"), ran.count("COMMIT"), ran[0], ran[-1]) == (1, 1, "BEGIN", "COMMIT")
    assert set(ran) == {"BEGIN", "INSERT", "COMMIT"}
    stored = [app.codec.decode_call(app.get(job).payload) for job in (jobs[0], jobs[4_321], jobs[-1])]
    assert [args for args, _ in stored] == [(0,), (4_321,), (9_999,)]


def test_none_is_kept_where_the_last_item_is_wrong_or_the_generator_breaks(watched, note):
    app, statements = watched

    def breaks(error):
        for number in range(5_001):
            yield (number,)
        raise error

    with pytest.raises(SerializationError, match="item 6000 of enqueue_many"):
        note.enqueue_many([(number,) for number in range(6_000)] + [(object(),)])
    with pytest.raises(LookupError):
        note.enqueue_many(breaks(LookupError()))
    assert kinds(statements) == [], "nothing was sent"
    assert app.list().jobs == []


def test_none_is_kept_where_the_store_refuses_one_in_a_later_batch(watched, note, monkeypatch):
    app, statements = watched
    monkeypatch.setattr(
        app._producer._ids, "make_many", lambda now, count: [f"id {place:05}" for place in range(count)]
    )
    monkeypatch.setattr(app._producer._ids, "make", lambda now: "id 05500")
    note.enqueue(0)
    with pytest.raises(DataRefusedError, match="UNIQUE"):
        note.enqueue_many([(number,) for number in range(6_000)])
    assert kinds(statements)[-1] == "ROLLBACK"
    assert len(app.list().jobs) == 1


def test_keys_in_one_call_and_before_it(watched, note):
    app, _ = watched
    before = note.with_options(key="k").enqueue(0)
    jobs = note.with_options(key="k").enqueue_many([(number,) for number in range(3)])
    assert [(job.id, job.existing) for job in jobs] == [(before.id, True)] * 3
    app.cancel(before)
    jobs = note.with_options(key="k").enqueue_many([(number,) for number in range(3)])
    assert len({job.id for job in jobs}) == 1
    assert [job.existing for job in jobs] == [False, True, True]


def test_a_mapping_gives_keywords_and_the_order_is_that_of_the_items(watched, note, tmp_path):
    app, _ = watched
    note.enqueue_many([{"number": 2}, (1,), [3]])
    app.drain()
    with contextlib.closing(sqlite3.connect(tmp_path / "jobs.db")) as other:
        rows = other.execute("SELECT payload FROM tinyjobs_jobs ORDER BY id").fetchall()
    assert [bytes(payload) for (payload,) in rows] == [b'[[],{"number":2}]', b"[[1],{}]", b"[[3],{}]"]
