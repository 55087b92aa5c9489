"""Verbs against what one SQLite file never does to them, on a connection that answers by script.

Between a refused insert and the read of the key's holder another client may end the holder; elsewhere that happens.
"""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.sqlite.stores import make_job
from tinyjobs.backends.sql import produce
from tinyjobs.backends.sql.connection import Parameters, Row
from tinyjobs.backends.sql.plain import PlainDialect
from tinyjobs.backends.sql.rows import JOB_COLUMNS
from tinyjobs.backends.sql.statements import Statement, Statements
from tinyjobs.core.clock import FrozenClock
from tinyjobs.core.errors import StoreBusyError
from tinyjobs.core.inline import finish
from tinyjobs.core.job import Job

DIALECT = PlainDialect(Statements("tinyjobs.backends.sqlite", "tinyjobs"))
CLOCK = FrozenClock()


class Scripted:
    """Answers inserts with how many rows were kept, and reads of holders with the given jobs, in turn."""

    def __init__(self, inserts: Sequence[int], holders: Sequence[Sequence[Job]]) -> None:
        self.inserts = list(inserts)
        self.holders = list(holders)
        self.sent: list[list[Any]] = []

    async def fetch(self, statement: Statement, parameters: Parameters = ()) -> list[Row]:
        assert statement.name == "holders"
        return [_row(job) for job in self.holders.pop(0)]

    async def execute(self, statement: Statement, parameters: Parameters = ()) -> int:
        assert statement.name == "insert"
        return self.inserts.pop(0)

    async def many(self, statement: Statement, rows: Sequence[Parameters]) -> int:
        assert statement.name == "insert"
        self.sent.append([row[0] for row in rows])
        return self.inserts.pop(0)

    @asynccontextmanager
    async def transaction(self) -> AsyncGenerator[None]:
        yield


def _row(job: Job) -> Row:
    names = {"dedup_key": "key"}
    return tuple(getattr(job, names.get(column, column)) for column in JOB_COLUMNS)


def job(**values: Any) -> Job:
    return make_job(CLOCK, **values)


def test_a_holder_that_ended_meanwhile_leaves_the_key_to_the_caller():
    mine = job(key="k")
    assert finish(produce.enqueue(DIALECT, Scripted([0, 1], [[]]), mine, CLOCK.now())) == mine
    many = [job(), mine, job()]
    connection = Scripted([2, 1], [[]])
    assert finish(produce.enqueue_many(DIALECT, connection, many, CLOCK.now())) == many
    assert connection.sent[1] == [mine.id], "only what is still missing is sent again"


def test_a_holder_found_later_is_answered():
    mine, holder = job(key="k"), job(key="k")
    found = finish(produce.enqueue(DIALECT, Scripted([0, 0], [[], [holder]]), mine, CLOCK.now()))
    assert (found.id, found.existing) == (holder.id, True)
    connection = Scripted([1, 0], [[], [holder]])
    kept = finish(produce.enqueue_many(DIALECT, connection, [mine, other := job()], CLOCK.now()))
    assert [(kept_job.id, kept_job.existing) for kept_job in kept] == [(holder.id, True), (other.id, False)]


def test_a_key_that_never_stands_still_is_contention():
    """After three tries the caller is told, in words that name the key, that trying again may help."""
    with pytest.raises(StoreBusyError, match=r"The key 'k' changed hands 3 times.*Try again"):
        finish(produce.enqueue(DIALECT, Scripted([0] * 3, [[]] * 3), job(key="k"), CLOCK.now()))
    with pytest.raises(StoreBusyError, match="'k' changed hands"):
        finish(produce.enqueue_many(DIALECT, Scripted([0] * 3, [[]] * 3), [job(key="k")], CLOCK.now()))


def test_a_bulk_is_a_series_of_bounded_statements():
    jobs = [job() for _ in range(2 * produce.BATCH + 1)]
    connection = Scripted([produce.BATCH, produce.BATCH, 1], [])
    assert finish(produce.enqueue_many(DIALECT, connection, jobs, CLOCK.now())) == jobs
    assert [len(rows) for rows in connection.sent] == [produce.BATCH, produce.BATCH, 1]


def test_keyed_jobs_are_sent_in_the_order_of_their_keys():
    """So two bulks that want the same keys wait for each other instead of locking each other out."""
    jobs = [job(key=key) for key in ("c", "a", "b")]
    connection = Scripted([3], [])
    finish(produce.enqueue_many(DIALECT, connection, jobs, CLOCK.now()))
    assert connection.sent == [[jobs[1].id, jobs[2].id, jobs[0].id]]
