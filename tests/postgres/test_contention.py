"""What stands in the way for a while: a full pool, rows somebody else holds, deadlocks, timeouts, a busy server."""

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
from psycopg import errors as pg

from tests.crash.workshop import until
from tinyjobs.backends.postgres.errors import translate
from tinyjobs.backends.registry import open_backend
from tinyjobs.backends.sql.connection import Connection
from tinyjobs.backends.sql.statements import make_statement
from tinyjobs.core.clock import SystemClock
from tinyjobs.core.errors import (
    DataRefusedError,
    SchemaMissingError,
    StoreBusyError,
    StoreError,
    StoreUnavailableError,
)
from tinyjobs.core.inline import finish
from tinyjobs.core.job import ClaimRequest, Held, Job
from tinyjobs.core.transitions import succeeded
from tinyjobs.core.trouble import Trouble, is_transient, kind_of

pytestmark = pytest.mark.postgres

SHORT = {"lease": 1.0, "reap_interval": 0.2}
LOCK = "SELECT id FROM tinyjobs_jobs WHERE id = %s FOR UPDATE"


@pytest.fixture
def make_store(postgres_url: str) -> Iterator[Callable[..., Any]]:
    stores = []

    def make(**options: Any) -> Any:
        store = open_backend(postgres_url, clock=SystemClock(), **options)
        finish(store.inline().setup())
        stores.append(store)
        return store

    yield make
    for store in stores:
        finish(store.inline().close())


@pytest.fixture
def stranger(postgres_url: str) -> Iterator[psycopg.Connection[Any]]:
    """Somebody else's session."""
    with psycopg.connect(postgres_url) as connection:
        yield connection
        connection.rollback()


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(16) as pool:
        yield pool


def put(store: Any, count: int = 1, **values: Any) -> list[str]:
    jobs = [Job(id=f"{number:08d}", task="note", payload=b"{}", max_attempts=5, **values) for number in range(count)]
    return [job.id for job in finish(store.inline().enqueue_many(jobs))]


def waits_for_a_lock(url: str, count: int = 1) -> Callable[[], bool]:
    def ask() -> bool:
        with psycopg.connect(url) as connection:
            ((waiting,),) = connection.execute(
                "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
            ).fetchall()
        return bool(waiting >= count)

    return ask


@contextmanager
def row_held(stranger: psycopg.Connection[Any], job_id: str) -> Iterator[None]:
    stranger.execute(LOCK, [job_id])
    try:
        yield
    finally:
        stranger.rollback()


#: Long enough for a busy machine to open the second connection of a pool.
POOL_TIMEOUT = 3.0


# --- connections --------------------------------------------------------------------------------------------------


def test_a_full_pool_of_threads_says_so_and_serves_again(make_store, postgres_url, stranger, threads):
    store = make_store(max_connections=2, pool_timeout=POOL_TIMEOUT)
    inline = store.inline()
    (job_id, *_) = put(store, 3)
    with row_held(stranger, job_id):
        held_up = [threads.submit(finish, inline.cancel(job_id)) for _ in range(2)]
        until(waits_for_a_lock(postgres_url, 2))
        with pytest.raises(
            StoreBusyError, match=rf"all 2 connections were in use for {POOL_TIMEOUT:g} s\. Raise max_conn"
        ) as caught:
            finish(inline.get(job_id))
        assert kind_of(caught.value) is Trouble.CONTENTION and is_transient(caught.value)
    assert sorted(call.result(60) for call in held_up) == [False, True]
    assert finish(inline.get(job_id)).status == "cancelled"


def test_a_full_pool_of_a_loop_says_so_and_serves_again(make_store, postgres_url, stranger):
    store = make_store(max_connections=2, pool_timeout=POOL_TIMEOUT)
    (job_id, *_) = put(store, 3)

    async def main() -> None:
        with row_held(stranger, job_id):
            held_up = [asyncio.ensure_future(store.cancel(job_id)) for _ in range(2)]
            while not await asyncio.to_thread(waits_for_a_lock(postgres_url, 2)):
                await asyncio.sleep(0.01)
            with pytest.raises(StoreBusyError, match="all 2 connections were in use"):
                await store.get(job_id)
        assert sorted(await asyncio.gather(*held_up)) == [False, True]
        assert (await store.get(job_id)).status == "cancelled"
        await store.close()

    asyncio.run(main())


def test_a_call_that_must_hurry_is_cut_off_whatever_it_waits_for(make_store, postgres_url, stranger):
    """One that waits for the server and one that waits for a connection, when a stop wants to be done with them."""
    store = make_store(max_connections=1, pool_timeout=60.0, statement_timeout=None)
    (job_id, *_) = put(store, 2)

    async def main() -> None:
        with row_held(stranger, job_id):
            held_up = asyncio.ensure_future(store.cancel(job_id))
            while not await asyncio.to_thread(waits_for_a_lock(postgres_url)):
                await asyncio.sleep(0.01)
            waiting = asyncio.ensure_future(store.get(job_id))
            await asyncio.sleep(0)
            began = time.monotonic()
            store.hurry(began + 1.0)
            with pytest.raises(StoreUnavailableError):
                await held_up
            with pytest.raises(StoreError):
                await waiting
            assert 0.5 < time.monotonic() - began < 20.0
            with pytest.raises(StoreError):
                await store.cancel(job_id)
            assert time.monotonic() - began < 30.0, "past the deadline nothing waits for long"
        store.hurry(None)
        assert (await store.get(job_id)).status in ("queued", "cancelled")
        await store.close()

    asyncio.run(main())


def test_leases_are_renewed_while_every_other_connection_is_taken(open_workshop, postgres_url, stranger, make_store):
    """The tasks' own enqueues fill the app's pool for longer than a lease; the keeper has a connection elsewhere."""
    workshop = open_workshop(postgres_url + "?max_connections=2&pool_timeout=0.5")
    gate = workshop.folder / "gate"
    held = [workshop.send("hold", str(gate), max_attempts=5) for _ in range(2)]
    target = workshop.send("note", 0, queue="elsewhere")
    with row_held(stranger, target):
        cancels = [workshop.send("cancels", target, max_attempts=5) for _ in range(4)]
        worker = workshop.worker(**SHORT, concurrency=8, queues=["default"])
        until(lambda: len(workshop.starts()) == 6)
        until(waits_for_a_lock(postgres_url, 2))
        for _ in range(4):
            ends = workshop.get(held[0]).lease_expires_at
            until(lambda ends=ends: workshop.get(held[0]).lease_expires_at > ends)
        assert waits_for_a_lock(postgres_url, 2)()
        assert workshop.get(cancels[0]).status == "running" or workshop.history(cancels[0])[0] == "failed"
    gate.touch()
    until(lambda: all(workshop.get(job).status.is_final for job in (*held, *cancels)))
    assert [workshop.history(job) for job in held] == [["success"]] * 2
    assert "no longer held" not in worker.errors and "leases" not in worker.errors


# --- rows that somebody else holds ----------------------------------------------------------------------------------


def test_a_claim_leaves_a_row_that_somebody_holds(make_store, stranger):
    store = make_store().inline()
    ids = put(store, 3)
    request = ClaimRequest(worker_id="w", limit=10, lease=30.0)
    with row_held(stranger, ids[0]):
        assert [job.id for job in finish(store.claim(request)).jobs] == ids[1:]
        assert finish(store.claim(request)).jobs == []
    assert [job.id for job in finish(store.claim(request)).jobs] == ids[:1]


def test_an_outcome_waits_for_its_row_and_is_recorded(open_workshop, postgres_url, stranger):
    """Held past the lease by somebody else: no reaper takes it, the outcome lands as soon as it can."""
    workshop = open_workshop(postgres_url)
    gate = workshop.folder / "gate"
    job = workshop.send("hold", str(gate), max_attempts=5)
    worker = workshop.worker(**SHORT)
    until(lambda: workshop.starts(job))
    with row_held(stranger, job):
        gate.touch()
        until(waits_for_a_lock(postgres_url))
        time.sleep(SHORT["lease"] * 1.5)
        assert workshop.get(job).status == "running"
    until(lambda: workshop.get(job).status == "success")
    assert workshop.history(job) == ["success"]
    assert worker.is_running and "taken back" not in worker.errors


def test_a_statement_that_hits_its_timeout_is_told_of_once_and_tried_again(open_workshop, postgres_url, stranger):
    workshop = open_workshop(postgres_url + "?statement_timeout=1")
    gate = workshop.folder / "gate"
    job = workshop.send("hold", str(gate), max_attempts=5)
    worker = workshop.worker(lease=30.0, reap_interval=0.2)
    until(lambda: workshop.starts(job))
    with row_held(stranger, job):
        gate.touch()
        until(lambda: "statement timeout" in worker.errors)
        time.sleep(3.0)
        other = workshop.send("note", 0)
    until(lambda: workshop.get(job).status == workshop.get(other).status == "success")
    assert workshop.history(job) == ["success"]
    assert worker.errors.count("the store cannot be written, trying again") == 1
    assert "statement_timeout" in worker.errors and "Traceback" not in worker.errors


# --- what the server undoes -----------------------------------------------------------------------------------------


async def _lock(connection: Connection, job_id: str) -> None:
    await connection.fetch(
        make_statement("lock", "SELECT id FROM public.tinyjobs_jobs WHERE id = %s FOR UPDATE"), [job_id]
    )


def test_a_deadlock_is_told_of_and_run_again(make_store, threads, caplog):
    """Two transactions lock two rows crosswise; the server undoes one, which then has its turn."""
    store = make_store()
    ids = put(store, 2)
    both = threading.Barrier(2)
    tries = []

    def verb(first: str, second: str) -> Any:
        is_first_try = True

        async def lock_both(connection: Connection) -> str:
            nonlocal is_first_try
            tries.append(first)
            async with connection.transaction():
                await _lock(connection, first)
                if is_first_try:
                    is_first_try = False
                    both.wait(60)
                await _lock(connection, second)
            return first

        return lock_both

    run = store.inline()._runner.run
    with caplog.at_level(logging.WARNING, "tinyjobs"):
        calls = [
            threads.submit(finish, run(verb(*order), write=True)) for order in ((ids[0], ids[1]), (ids[1], ids[0]))
        ]
        assert [call.result(60) for call in calls] == ids
    assert 3 <= len(tries) <= 5, "on a slow machine both may be undone"
    assert len(caplog.records) == len(tries) - 2
    for told in caplog.records:
        assert "met a deadlock" in told.getMessage() and "Running it again" in told.getMessage()


@pytest.mark.parametrize("failures", [1, 3, 4])
@pytest.mark.parametrize("face", ["thread", "loop"])
def test_what_cannot_be_serialized_runs_again_three_times(make_store, stranger, failures, face):
    store = make_store()
    (job_id,) = put(store)
    tries = 0
    isolation = make_statement("isolation", "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
    look = make_statement("look", "SELECT priority FROM public.tinyjobs_jobs WHERE id = %s")
    change = make_statement("change", "UPDATE public.tinyjobs_jobs SET priority = priority + 1 WHERE id = %s")

    async def raise_priority(connection: Connection) -> None:
        nonlocal tries
        async with connection.transaction():
            await connection.execute(isolation)
            await connection.fetch(look, [job_id])
            tries += 1
            if tries <= failures:
                stranger.execute("UPDATE tinyjobs_jobs SET priority = priority + 10 WHERE id = %s", [job_id])
                stranger.commit()
            await connection.execute(change, [job_id])

    def run() -> None:
        if face == "thread":
            finish(store.inline()._runner.run(raise_priority, write=True))
        else:
            asyncio.run(on_loop())

    async def on_loop() -> None:
        try:
            await store._own.run(raise_priority, write=True)
        finally:
            await store._own.close()

    if failures <= 3:
        run()
        assert tries == failures + 1
    else:
        with pytest.raises(StoreBusyError, match="could not be serialized"):
            run()
        assert tries == 4
    priority = finish(store.inline().get(job_id)).priority
    assert priority == 10 * failures + (failures <= 3)


ROUNDS, GROUP = 200, 40


@pytest.mark.slow
def test_two_hundred_rounds_of_a_reaper_against_a_group_and_a_heartbeat(make_store, postgres_url, threads):
    """All three go for the same rows at one moment. Each job ends once, by whoever came first, and nobody deadlocks."""
    writer, reaper, keeper = (make_store().inline() for _ in range(3))
    start = threading.Barrier(3)
    for round_ in range(ROUNDS):
        jobs = [
            Job(id=f"{round_:04d}-{number:04d}", task="note", payload=b"{}", max_attempts=1) for number in range(GROUP)
        ]
        finish(writer.enqueue_many(jobs))
        claimed = finish(writer.claim(ClaimRequest(worker_id="w", limit=GROUP, lease=0.001))).jobs
        outcomes = [succeeded(job, None, time.time()) for job in sorted(claimed, key=lambda job: job.id)]
        held = [Held(job.id, job.claims) for job in reversed(claimed)]

        def at_once(verb: Callable[[], Any]) -> Any:
            start.wait(60)
            return finish(verb())

        recorded = threads.submit(at_once, lambda outcomes=outcomes: writer.record(outcomes))
        reaped = threads.submit(at_once, reaper.reap_expired)
        beaten = threads.submit(at_once, lambda held=held: keeper.heartbeat(held, 0.001))
        applied = sum(recorded.result(60).applied)
        taken = len(reaped.result(60))
        beaten.result(60)
        assert applied + taken <= GROUP
        while applied + taken < GROUP:
            taken += len(finish(reaper.reap_expired()))
        counts = finish(writer.counts_by_status())
        assert counts["running"] == counts["queued"] == 0
    counts = finish(writer.counts_by_status())
    assert counts["success"] + counts["failed"] == ROUNDS * GROUP
    with psycopg.connect(postgres_url) as connection:
        ends = connection.execute("SELECT count(*), count(DISTINCT job_id) FROM tinyjobs_executions").fetchall()
        assert ends == [(ROUNDS * GROUP, ROUNDS * GROUP)]
        text = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
        assert connection.execute(text).fetchall() == [(0,)]
    print(f"{counts['success']} recorded, {counts['failed']} taken back")


def test_no_number_of_the_servers_is_used_up(make_store, postgres_url):
    """Neither an enqueue nor a run takes a number from a sequence, which might come to its end."""
    put(make_store(), 10)
    with psycopg.connect(postgres_url) as connection:
        assert connection.execute("SELECT count(*) FROM pg_class WHERE relkind = 'S'").fetchall() == [(0,)]


# --- what the driver's errors mean ------------------------------------------------------------------------------------

MEANING: dict[type[psycopg.Error], tuple[type[StoreError], str]] = {
    pg.DiskFull: (StoreUnavailableError, ""),
    pg.OutOfMemory: (StoreUnavailableError, ""),
    pg.IoError: (StoreUnavailableError, ""),
    pg.DataCorrupted: (StoreUnavailableError, ""),
    pg.AdminShutdown: (StoreUnavailableError, ""),
    pg.CrashShutdown: (StoreUnavailableError, ""),
    pg.CannotConnectNow: (StoreUnavailableError, ""),
    pg.IdleSessionTimeout: (StoreUnavailableError, ""),
    pg.DatabaseDropped: (StoreUnavailableError, ""),
    pg.InvalidCatalogName: (StoreUnavailableError, ""),
    pg.InvalidPassword: (StoreUnavailableError, ""),
    pg.ConnectionFailure: (StoreUnavailableError, ""),
    pg.ReadOnlySqlTransaction: (StoreUnavailableError, "a standby or read-only"),
    pg.TooManyConnections: (StoreBusyError, "no connection left"),
    pg.LockNotAvailable: (StoreBusyError, "held for too long"),
    pg.QueryCanceled: (StoreBusyError, "statement_timeout"),
    pg.DeadlockDetected: (StoreBusyError, "deadlock"),
    pg.SerializationFailure: (StoreBusyError, "serialized"),
    pg.UndefinedTable: (SchemaMissingError, "migrate"),
    pg.UndefinedColumn: (SchemaMissingError, "migrate"),
    pg.UniqueViolation: (DataRefusedError, ""),
    pg.ProgramLimitExceeded: (DataRefusedError, ""),
}


@pytest.mark.parametrize("kind", MEANING, ids=lambda kind: kind.__name__)
def test_each_error_of_the_driver_has_its_kind(kind):
    told, text = MEANING[kind]
    error = kind("what the server said\nLINE 1: UPDATE secret\n        ^")
    found = translate(error, "postgresql://…/shop")
    assert type(found) is told
    assert str(found).startswith("postgresql://…/shop: ") and "what the server said" in str(found)
    assert text in str(found) and "secret" not in str(found)
    assert found.__cause__ is error and found.sqlstate == kind.sqlstate  # type: ignore[attr-defined]
