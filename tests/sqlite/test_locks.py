"""The write lock: waited for within bounds, never needed to look, and never left behind by an interrupt."""

import asyncio
import sqlite3
import sys
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from tests.sqlite.stores import WatchedClock, connection_of, make_job, make_store, request, write_lock_held
from tinyjobs.core.errors import StoreBusyError, StoreError, StoreUnavailableError
from tinyjobs.core.inline import finish
from tinyjobs.core.job import Held
from tinyjobs.core.status import JobStatus
from tinyjobs.core.transitions import ExecutionError, failed, succeeded
from tinyjobs.core.trouble import Trouble, is_transient, kind_of

# A verb that is interrupted before it began leaves a coroutine behind.
pytestmark = pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "jobs.db"


@pytest.fixture
def thread():
    with ThreadPoolExecutor(1) as pool:
        yield pool


def begun(store, thread, coroutine) -> Future:
    """Run the verb in another thread and come back once it waits for the lock."""
    store._settings.clock = WatchedClock()
    running = thread.submit(finish, coroutine)
    assert store._settings.clock.asked.wait(60)
    return running


# --- waiting ------------------------------------------------------------------------------------------------------


def test_a_write_waits_for_the_lock_and_then_lands(path, thread):
    store = make_store(path, busy_timeout=3_600)
    job = make_job(store.clock)
    with write_lock_held(path):
        waiting = begun(store, thread, store.inline().enqueue(job))
        assert not waiting.done()
    assert waiting.result(60) == job
    assert finish(store.inline().get(job.id)) == job


VERBS = {
    "enqueue": lambda store, job: store.enqueue(make_job(store.clock)),
    "enqueue_many": lambda store, job: store.enqueue_many([make_job(store.clock)]),
    "claim": lambda store, job: store.claim(request()),
    "record": lambda store, job: store.record([succeeded(job, None, 0.0)]),
    "heartbeat": lambda store, job: store.heartbeat([Held(job.id, job.claims)], 60),
    "claim_job": lambda store, job: store.claim_job(job.id, worker_id="w", lease=1),
    "cancel": lambda store, job: store.cancel(job.id),
    "requeue": lambda store, job: store.requeue(job.id),
}


@pytest.mark.parametrize("verb", VERBS)
def test_the_wait_is_bounded(path, verb):
    store = make_store(path, busy_timeout=0.5)
    inline = store.inline()
    finish(inline.enqueue(make_job(store.clock)))
    (job,) = finish(inline.claim(request())).jobs
    store._settings.clock = watch = WatchedClock()
    with write_lock_held(path):
        with pytest.raises(StoreBusyError, match=r"jobs\.db: database is locked\. Another connection") as caught:
            finish(VERBS[verb](inline, job))
        assert 0.5 <= watch._ticks < 1.0
    assert finish(inline.get(job.id)) == job
    finish(VERBS[verb](inline, job))
    assert (caught.value.sqlite_errorname, caught.value.sqlite_errorcode) == ("SQLITE_BUSY", sqlite3.SQLITE_BUSY)
    assert isinstance(caught.value.__cause__, sqlite3.OperationalError)
    assert kind_of(caught.value) is Trouble.CONTENTION
    assert is_transient(caught.value)


def test_a_deadline_ends_the_wait_early(path, thread):
    store = make_store(path, busy_timeout=3_600)
    inline = store.inline()
    with write_lock_held(path):
        waiting = begun(store, thread, inline.enqueue(make_job(store.clock)))
        store.hurry(store._settings.clock.monotonic() + 0.2)
        with pytest.raises(StoreBusyError):
            waiting.result(60)
    finish(inline.enqueue(make_job(store.clock)))  # past the deadline what needs no waiting still works
    store.hurry(None)
    with write_lock_held(path):
        waiting = begun(store, thread, inline.enqueue(make_job(store.clock)))
    waiting.result(60)


def test_a_claim_that_waited_gets_its_whole_lease(path, thread):
    store = make_store(path, busy_timeout=3_600)
    inline = store.inline()
    jobs = finish(inline.enqueue_many([make_job(store.clock), make_job(store.clock)]))
    with write_lock_held(path):
        waiting = begun(store, thread, inline.claim(request(lease=10.0)))
        store.clock.advance(30)
    (claimed,) = waiting.result(60).jobs
    with write_lock_held(path):
        waiting = begun(store, thread, inline.claim_job(jobs[1].id, worker_id="w", lease=10.0))
        store.clock.advance(30)
    by_id = waiting.result(60)
    assert (claimed.started_at, claimed.lease_expires_at) == (store.clock.now() - 30, store.clock.now() - 20)
    assert (by_id.started_at, by_id.lease_expires_at) == (store.clock.now(), store.clock.now() + 10)


def test_a_reaper_that_waited_judges_by_the_time_before(path, thread):
    """Whoever held the lock kept heartbeats out as well, so the wait does not count against a lease."""
    store = make_store(path, busy_timeout=3_600)
    inline = store.inline()
    finish(inline.enqueue_many([make_job(store.clock), make_job(store.clock)]))
    long_gone, alive = finish(inline.claim(request(2))).jobs
    store.clock.advance(30)
    finish(inline.heartbeat([Held(alive.id, 1)], 60))
    store.clock.advance(40)
    with write_lock_held(path):
        waiting = begun(store, thread, inline.reap_expired())
        store.clock.advance(40)
    assert [job.id for job in waiting.result(60)] == [long_gone.id]
    assert [job.id for job in finish(inline.reap_expired())] == [alive.id]


def test_a_reaper_that_gave_up_waiting_judges_by_the_time_before_all_of_it(path):
    store = make_store(path, busy_timeout=0.0)
    inline = store.inline()
    finish(inline.enqueue_many([make_job(store.clock), make_job(store.clock)]))
    long_gone, alive = finish(inline.claim(request(2))).jobs
    store.clock.advance(30)
    finish(inline.heartbeat([Held(alive.id, 1)], 60))
    store.clock.advance(40)
    with write_lock_held(path):
        for _ in range(2):
            with pytest.raises(StoreBusyError):
                finish(inline.reap_expired())
            store.clock.advance(40)
    assert [job.id for job in finish(inline.reap_expired())] == [long_gone.id]
    assert [job.id for job in finish(inline.reap_expired())] == [alive.id]


def test_recording_now_never_waits(path):
    """Neither for the file's lock nor for the store's own connection; nothing is done then."""
    store = make_store(path, busy_timeout=3_600)
    finish(store.inline().enqueue(make_job(store.clock)))
    (job,) = finish(store.inline().claim(request())).jobs
    outcomes = [succeeded(job, b"1", store.clock.now())]

    async def main() -> None:
        await store.next_due()
        store._settings.clock = WatchedClock()
        with write_lock_held(path):
            assert store.record_now(outcomes, request()) is None
            waiting = asyncio.create_task(store.enqueue(make_job(store.clock)))
            assert await asyncio.to_thread(store._settings.clock.asked.wait, 60)
            assert store.record_now(outcomes, request()) is None, "the store's thread is using its connection"
        await waiting
        assert await store.get(job.id) == job
        refused = ExecutionError(error_type="ValueError", message="half a pair \ud800")
        assert store.record_now([failed(job, refused, None, 1.0)], request()) is None, "data that `record` takes apart"
        recorded = store.record_now(outcomes, request())
        assert recorded is not None
        assert (recorded.applied, len(recorded.claimed.jobs)) == ([True], 1)
        await store.close()
        with pytest.raises(StoreUnavailableError, match="closed"):
            store.record_now([], request())

    asyncio.run(main())


# --- looking ------------------------------------------------------------------------------------------------------


def test_looking_needs_no_write_lock(path):
    """An idle worker looks, a page lists, a reaper finds nothing: all of it beside a writer that never lets go."""
    store = make_store(path, busy_timeout=0)
    inline = store.inline()
    job = finish(inline.enqueue(make_job(store.clock, key="k", queue="mail")))
    with write_lock_held(path):
        assert finish(inline.next_due()) == (True, None)
        assert finish(inline.next_due(["mail"])) == (True, None)
        assert finish(inline.get(job.id)) == job
        assert finish(inline.executions(job.id)) == []
        assert finish(inline.counts_by_status())["queued"] == 1
        assert finish(inline.stats()).queues[0].ready == 1
        assert finish(inline.schedules()) == []
        for status in (None, *JobStatus):
            finish(inline.list(status=status))
        assert len(finish(inline.list(queue="mail")).jobs) == 1
        assert finish(inline.reap_expired()) == []
        assert finish(inline.heartbeat([], 60)) == []
        finish(inline.register_schedules([]))
        assert finish(inline.enqueue_many([])) == []
        finish(make_store(path, busy_timeout=0).inline().setup())  # nor does setting up what is set up


def test_writing_does_not_wait_for_readers(path):
    store = make_store(path, busy_timeout=0)
    reader = sqlite3.connect(path, isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM tinyjobs_jobs").fetchall()
    finish(store.inline().enqueue(make_job(store.clock)))
    assert len(finish(store.inline().claim(request(5))).jobs) == 1
    assert reader.execute("SELECT count(*) FROM tinyjobs_jobs").fetchall() == [(0,)]
    reader.close()


@pytest.mark.parametrize(
    ("begin", "first", "fails"),
    [
        ("BEGIN", "SELECT count(*) FROM orders", True),
        ("BEGIN", "INSERT INTO orders VALUES ('first')", False),
        ("BEGIN IMMEDIATE", "SELECT count(*) FROM orders", False),
    ],
    ids=["reads first", "writes first", "begins immediate"],
)
def test_an_applications_own_transaction_beside_a_worker(path, thread, begin, first, fails):
    """What SQLite does and no store can change: who reads first and writes later fails at once, whatever its timeout.

    Others may not write between what it read and what it writes; so the documentation asks for IMMEDIATE.
    """
    store = make_store(path, busy_timeout=60)
    application = sqlite3.connect(path, isolation_level=None, timeout=60)
    application.execute("CREATE TABLE orders (name TEXT)")
    application.execute(begin)
    application.execute(first).fetchall()
    inline = store.inline()
    if fails:
        finish(inline.enqueue(make_job(store.clock)))
        with pytest.raises(sqlite3.OperationalError, match="database is locked") as caught:
            application.execute("INSERT INTO orders VALUES ('second')")
        assert caught.value.sqlite_errorname in ("SQLITE_BUSY_SNAPSHOT", "SQLITE_BUSY")
        application.rollback()
    else:
        waiting = begun(store, thread, inline.enqueue(make_job(store.clock)))
        application.execute("INSERT INTO orders VALUES ('second')")
        application.execute("COMMIT")
        waiting.result(60)
    assert finish(inline.counts_by_status())["queued"] == 1
    application.close()


# --- interrupts ---------------------------------------------------------------------------------------------------


@contextmanager
def at_line(number: int, act):
    """Call `act` at the line of that number, counting the lines of the store's own modules as they run."""
    seen = [0]
    before = sys.gettrace()

    def trace(frame, event, argument):
        if "/backends/sql" not in frame.f_code.co_filename:
            return None
        if event == "line":
            seen[0] += 1
            if seen[0] == number:
                sys.settrace(before)
                act()
                return None
        return trace

    sys.settrace(trace)
    try:
        yield seen
    finally:
        sys.settrace(before)


def interrupt():
    raise KeyboardInterrupt


@pytest.mark.parametrize("verb", ["enqueue_many", "record", "cancel", "enqueue"])
def test_an_interrupt_leaves_no_transaction_behind(path, verb):
    """Ctrl-C at any line of the store's code: what was begun is whole or gone, and the next call works."""
    store = make_store(path, busy_timeout=0)
    inline = store.inline()
    other = make_store(path, busy_timeout=0).inline()
    line = 0
    while True:
        line += 1
        finish(inline.enqueue(make_job(store.clock)))
        (job,) = finish(inline.claim(request())).jobs
        jobs = [make_job(store.clock) for _ in range(3)]
        coroutine = {
            "enqueue_many": lambda jobs=jobs: inline.enqueue_many(jobs),
            "enqueue": lambda jobs=jobs: inline.enqueue(jobs[0]),
            "record": lambda job=job: inline.record([succeeded(job, b"1", store.clock.now())], request()),
            "cancel": lambda job=job: inline.cancel(job.id),
        }[verb]()
        interrupted = False
        try:
            with at_line(line, interrupt):
                finish(coroutine)
        except KeyboardInterrupt:
            interrupted = True
        found = finish(inline.get(job.id))
        assert found is not None
        assert not connection_of(inline)._raw.in_transaction
        finish(other.enqueue(make_job(store.clock)))  # the lock is free
        kept = [finish(other.get(sent.id)) is not None for sent in jobs]
        if verb == "enqueue_many":
            assert kept in ([True] * 3, [False] * 3), f"half a bulk, interrupted at line {line}"
        attempts = finish(other.executions(job.id))
        assert attempts[-1].status == (found.status if found.status is not JobStatus.QUEUED else None)
        for status in (JobStatus.QUEUED, JobStatus.RUNNING):
            for rest in finish(inline.list(status=status)).jobs:
                finish(inline.cancel(rest.id))
        if not interrupted:
            break
    assert line > 15, "the verb ran through many lines"


@pytest.mark.parametrize("verb", ["get", "enqueue", "enqueue_many", "list"])
def test_what_an_interrupt_left_open_is_rolled_back_before_the_next_use(path, verb):
    """Python can lose a `finally` to a signal, so the next verb does not rely on the one before it."""
    store = make_store(path, busy_timeout=0)
    inline = store.inline()
    finish(inline.enqueue(make_job(store.clock)))
    raw = connection_of(inline)._raw
    raw.execute("BEGIN IMMEDIATE")
    raw.execute("DELETE FROM tinyjobs_jobs")
    job = make_job(store.clock)
    finish(
        {
            "get": lambda: inline.get(job.id),
            "enqueue": lambda: inline.enqueue(job),
            "enqueue_many": lambda: inline.enqueue_many([job]),
            "list": inline.list,
        }[verb]()
    )
    assert not raw.in_transaction
    other = make_store(path, busy_timeout=0).inline()
    assert finish(other.counts_by_status())["queued"] == 1 + ("enqueue" in verb)


def test_a_signal_handler_may_call_in_the_middle_of_a_write(path):
    """A call that arrives while its own thread is inside a transaction becomes a part of it."""
    store = make_store(path, busy_timeout=0)
    inline = store.inline()
    line = 0
    while True:
        line += 1
        jobs = [make_job(store.clock) for _ in range(3)]
        beside = [make_job(store.clock), make_job(store.clock)]
        called = []

        def call(beside=beside, called=called) -> None:
            called.append(finish(inline.enqueue(beside[0])))
            called.extend(finish(inline.enqueue_many(beside[1:])))

        with at_line(line, call):
            finish(inline.enqueue_many(jobs))
        for job in [*jobs, *called]:
            assert finish(inline.get(job.id)) == job, f"lost, called at line {line}"
        if not called:
            break
    assert line > 15


def test_a_statement_cut_in_the_middle_rolls_everything_back(path):
    store = make_store(path)
    inline = store.inline()
    raw = connection_of(inline)._raw
    jobs = [make_job(store.clock) for _ in range(400)]
    changes = raw.total_changes
    raw.set_progress_handler(lambda: raw.total_changes > changes + 600, 50)
    with pytest.raises(StoreError, match="interrupted"):
        finish(inline.enqueue_many(jobs + [make_job(store.clock) for _ in range(400)]))
    raw.set_progress_handler(None, 0)
    assert finish(inline.counts_by_status())["queued"] == 0
    finish(inline.enqueue_many(jobs))
    assert finish(inline.counts_by_status())["queued"] == 400


def test_a_failing_commit_is_rolled_back(path):
    store = make_store(path)
    inline = store.inline()
    connection = connection_of(inline)
    before = connection._now

    def failing(sql, parameters=()):
        if sql == "COMMIT":
            raise StoreError("the disk is gone")
        return before(sql, parameters)

    connection._now = failing  # type: ignore[method-assign]
    with pytest.raises(StoreError, match="the disk is gone"):
        finish(inline.enqueue_many([make_job(store.clock)]))
    connection._now = before  # type: ignore[method-assign]
    assert finish(inline.counts_by_status())["queued"] == 0
    with write_lock_held(path):
        pass


def test_a_cancelled_call_that_has_begun_is_not_left_half_done(path):
    """The coroutine is gone; its verb goes on in the store's thread and ends its transaction."""
    store = make_store(path, busy_timeout=3_600)
    jobs = [make_job(store.clock) for _ in range(3)]

    async def main() -> dict[str, int]:
        store._settings.clock = WatchedClock()
        with write_lock_held(path):
            begun = asyncio.create_task(store.enqueue_many(jobs[:2]))
            assert await asyncio.to_thread(store._settings.clock.asked.wait, 60)
            queued = asyncio.create_task(store.enqueue(jobs[2]))
            await asyncio.sleep(0)
            begun.cancel()
            queued.cancel()
            for task in (begun, queued):
                with pytest.raises(asyncio.CancelledError):
                    await task
        counts = await store.counts_by_status()
        await store.close()
        return counts

    assert asyncio.run(main())["queued"] == 2, "the one that had begun landed, the one behind it never began"
