"""Statements, transactions and thread hops of every verb, as numbers.

Whoever makes a verb dearer changes a number here and sees it. A hop is a call handed to the store's own thread and
back; the synchronous face has none.
"""

import asyncio
import re
import threading
from collections import Counter
from collections.abc import Callable, Coroutine
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from tests.sqlite.stores import connection_of, make_job, make_store, request
from tinyjobs.backends.sqlite.backend import SQLiteBackend
from tinyjobs.core.inline import finish
from tinyjobs.core.job import Held, Job, Room, ScheduleState
from tinyjobs.core.status import JobStatus
from tinyjobs.core.transitions import ExecutionError, Outcome, failed, handed_back, succeeded
from tinyjobs.core.watching import WorkerSeen

ERROR = ExecutionError(error_type="ValueError", message="no")
WORKER = WorkerSeen(worker_id="worker-1", host="h", pid=1, version="1", started_at=5.0)
STATE = ScheduleState(name="nightly", cron="0 3 * * *", timezone="UTC", next_run_at=5.0)


class Stage:
    """A store with two running jobs, a lost one, one that failed, one that waits and one that is delayed."""

    def __init__(self, store: SQLiteBackend) -> None:
        self.store = store
        inline = store.inline()
        self.lost = self._running(lease=1)
        store.clock.advance(10)
        self.held = [self._running(), self._running()]
        self.failed = self._running()
        finish(inline.record([failed(self.failed, ERROR, None, store.clock.now())]))
        self.waiting = finish(inline.enqueue(make_job(store.clock, key="held", queue="other")))
        self.delayed = finish(inline.enqueue(make_job(store.clock, run_at=store.clock.now() + 60)))
        finish(inline.register_schedules([STATE]))

    def _running(self, lease: float = 60) -> Job:
        finish(self.store.inline().enqueue(make_job(self.store.clock)))
        (job,) = finish(self.store.inline().claim(request(lease=lease))).jobs
        return job

    def new(self, **values: Any) -> Job:
        return make_job(self.store.clock, **values)

    def ended(self, result: bytes | None = b"1") -> list[Outcome]:
        return [succeeded(job, result, self.store.clock.now()) for job in self.held]

    def ended_apart(self, *results: bytes) -> list[Outcome]:
        now = self.store.clock.now()
        return [succeeded(job, result, now) for job, result in zip(self.held, results, strict=True)]

    @property
    def stale(self) -> list[Outcome]:
        return [succeeded(self.failed, None, self.store.clock.now())]


type Verb = Callable[[Any, Stage], Coroutine[Any, Any, Any]]

#: Each verb with what it costs: (statements, transactions). Statements that open and end a transaction do not count.
COSTS: dict[str, tuple[Verb, int, int]] = {
    "enqueue": (lambda face, on: face.enqueue(on.new()), 1, 0),
    "enqueue with a key": (lambda face, on: face.enqueue(on.new(key="free")), 1, 0),
    "enqueue with a held key": (lambda face, on: face.enqueue(on.new(key="held")), 2, 0),
    "enqueue_many, 50 jobs": (lambda face, on: face.enqueue_many([on.new() for _ in range(50)]), 50, 1),
    "enqueue_many, one key held": (lambda face, on: face.enqueue_many([on.new(), on.new(key="held")]), 3, 1),
    "enqueue_many, none": (lambda face, on: face.enqueue_many([]), 0, 0),
    "claim, all it asked for": (lambda face, on: face.claim(request()), 2, 1),
    "claim, known that none is due": (lambda face, on: face.claim(request(let_in=False)), 1, 1),
    "claim, fewer than it asked for": (lambda face, on: face.claim(request(5)), 3, 1),
    "claim with room": (lambda face, on: face.claim(request(room=Room(frozenset("x"), 1))), 2, 1),
    "claim_job": (lambda face, on: face.claim_job(on.waiting.id, worker_id="w", lease=60), 2, 1),
    "claim_job, not to be had": (lambda face, on: face.claim_job(on.delayed.id, worker_id="w", lease=60), 1, 1),
    "record two": (lambda face, on: face.record(on.ended()), 3, 1),
    "record two that are not text": (lambda face, on: face.record(on.ended(b"\xff")), 3, 1),
    "record two that differ": (lambda face, on: face.record(on.ended_apart(b"1", b"2")), 3, 1),
    "record two that differ and are not text": (lambda face, on: face.record(on.ended_apart(b"\xfe", b"\xff")), 5, 1),
    "record a stale one": (lambda face, on: face.record(on.stale), 3, 1),
    "record two, claim one": (lambda face, on: face.record(on.ended(), request()), 5, 1),
    "hand back": (lambda face, on: face.record([handed_back(on.held[0], 1.0)]), 4, 1),
    "heartbeat of two": (lambda face, on: face.heartbeat([Held(job.id, 1) for job in on.held], 60), 2, 1),
    "heartbeat of none": (lambda face, on: face.heartbeat([], 60), 0, 0),
    "reap one": (lambda face, on: face.reap_expired(), 6, 1),
    "end unstarted jobs, none": (lambda face, on: face.end_unstarted(), 1, 0),
    "sweep, due": (lambda face, on: face.claim_sweep(60.0), 2, 0),
    "purge two": (lambda face, on: face.purge(JobStatus.FAILED, 0.0), 5, 1),
    "purge, nothing": (lambda face, on: face.purge(JobStatus.CANCELLED, 0.0), 1, 0),
    "purgeable": (lambda face, on: face.purgeable(JobStatus.FAILED, 0.0), 1, 0),
    "drop results, none": (lambda face, on: face.drop_results("t", 0.0), 1, 0),
    "next_due": (lambda face, on: face.next_due(), 1, 0),
    "next_due of some queues": (lambda face, on: face.next_due(["a", "b"]), 1, 0),
    "cancel": (lambda face, on: face.cancel(on.waiting.id), 3, 1),
    "requeue": (lambda face, on: face.requeue(on.failed.id), 2, 1),
    "delete": (lambda face, on: face.delete(on.failed.id), 3, 1),
    "delete, not ended": (lambda face, on: face.delete(on.waiting.id), 1, 1),
    "neighbours": (lambda face, on: face.neighbours(on.failed.id), 1, 0),
    "beat": (lambda face, on: face.beat(WORKER), 1, 0),
    "sign off": (lambda face, on: face.sign_off("worker-1"), 1, 0),
    "workers": (lambda face, on: face.workers(), 1, 0),
    "tallies": (lambda face, on: face.tallies(0.0), 1, 0),
    "tidy, nothing": (lambda face, on: face.tidy(), 2, 0),
    "get": (lambda face, on: face.get(on.waiting.id), 1, 0),
    "executions": (lambda face, on: face.executions(on.failed.id), 2, 0),
    "list": (lambda face, on: face.list(), 1, 0),
    "list a status": (lambda face, on: face.list(status=JobStatus.QUEUED, queue="other"), 1, 0),
    "list a queue": (lambda face, on: face.list(queue="other"), 1, 0),
    "list a bounded number": (lambda face, on: face.list(task="none", scan=1_000), 1, 0),
    "list a text": (lambda face, on: face.list(text="nowhere"), 1, 0),
    "counts_by_status": (lambda face, on: face.counts_by_status(), 1, 0),
    "stats": (lambda face, on: face.stats(), 5, 0),
    "schedules": (lambda face, on: face.schedules(), 1, 0),
    "register_schedules": (lambda face, on: face.register_schedules([STATE]), 1, 1),
    "register_schedules, none": (lambda face, on: face.register_schedules([]), 0, 0),
    "save_schedule": (lambda face, on: face.save_schedule(replace(STATE, name="mine")), 1, 0),
    "delete_schedule": (lambda face, on: face.delete_schedule("nightly"), 1, 0),
    "present": (lambda face, on: face.present(), 0, 0),
    "fire_schedule": (
        lambda face, on: face.fire_schedule("nightly", expected=5.0, next_run_at=6.0, jobs=[on.new()]),
        3,
        1,
    ),
    "fire_schedule, too late": (
        lambda face, on: face.fire_schedule("nightly", expected=4.0, next_run_at=6.0, jobs=[on.new()]),
        1,
        1,
    ),
}
FREE = {"present", "enqueue_many, none", "heartbeat of none", "register_schedules, none"}
#: What the older form of the claim costs beyond the one statement: pick, take and read instead.
OLDER_CLAIM = {"claim, all it asked for": 2, "claim, known that none is due": 2, "claim, fewer than it asked for": 2}
OLDER_CLAIM |= {"claim with room": 2, "record two, claim one": 2}


@contextmanager
def counted(raw):
    """What SQLite is asked for meanwhile, by the first word."""
    words: Counter[str] = Counter()
    raw.set_trace_callback(lambda sql: words.update([re.match(r"\s*(\w+)", sql)[1].upper()]))  # type: ignore[index]
    try:
        yield words
    finally:
        raw.set_trace_callback(None)


def check(words: Counter[str], statements: int, transactions: int) -> None:
    edges = {word: words.pop(word, 0) for word in ("BEGIN", "COMMIT", "ROLLBACK", "SAVEPOINT", "RELEASE")}
    assert edges == {"BEGIN": transactions, "COMMIT": transactions, "ROLLBACK": 0, "SAVEPOINT": 0, "RELEASE": 0}
    assert words.total() == statements, dict(words)


@pytest.mark.parametrize("name", COSTS)
@pytest.mark.parametrize("returning", [True, False], ids=["returning", "older form"])
def test_statements_and_transactions(tmp_path, name, returning):
    verb, statements, transactions = COSTS[name]
    stage = Stage(make_store(tmp_path / "jobs.db", returning=returning))
    inline = stage.store.inline()
    coroutine = verb(inline, stage)
    with counted(connection_of(inline)._raw) as words:
        finish(coroutine)
    check(words, statements + (0 if returning else OLDER_CLAIM.get(name, 0)), transactions)


@pytest.mark.parametrize("name", COSTS)
def test_thread_hops(tmp_path, name):
    """One hop to the store's thread and back for each verb, on an event loop; none on the synchronous face."""
    verb, _, _ = COSTS[name]
    stage = Stage(make_store(tmp_path / "jobs.db"))
    ran_in: list[str] = []
    connection_of(stage.store.inline())._raw.set_trace_callback(lambda sql: ran_in.append(_here()))
    before = threading.active_count()
    finish(verb(stage.store.inline(), stage))
    assert set(ran_in) <= {threading.current_thread().name}
    assert threading.active_count() == before, "the synchronous face makes no thread"

    stage = Stage(make_store(tmp_path / "other.db"))
    calls = _CountingQueue(stage.store._runner)

    async def main() -> None:
        loop = asyncio.get_running_loop()
        answers = _counting_answers(loop)
        await verb(stage.store, stage)
        assert (calls.count, answers[0]) == ((0, 0) if name in FREE else (1, 1))
        await stage.store.close()

    asyncio.run(main())


def _here() -> str:
    return threading.current_thread().name


class _CountingQueue:
    """Counts what is handed to the store's thread."""

    def __init__(self, runner: Any) -> None:
        self.count = 0
        self._put = runner._calls.put
        self.get = runner._calls.get
        runner._calls = self

    def put(self, call: Any) -> None:
        self.count += call is not None
        self._put(call)


def _counting_answers(loop: asyncio.AbstractEventLoop) -> list[int]:
    """Counts what other threads hand to the loop."""
    answers = [0]
    call_soon = loop.call_soon_threadsafe

    def counting(*arguments: Any, **options: Any) -> Any:
        answers[0] += 1
        return call_soon(*arguments, **options)

    loop.call_soon_threadsafe = counting  # type: ignore[method-assign]
    return answers


def test_recording_in_the_calling_thread(tmp_path):
    """On a loop that has nothing else to do: the store's own connection, without a hop."""
    stage = Stage(make_store(tmp_path / "jobs.db"))
    store = stage.store

    async def main() -> None:
        assert store.record_now([], None) is None, "there is no connection yet, and opening one may mean to wait"
        await store.next_due()
        calls = _CountingQueue(store._runner)
        answers = _counting_answers(asyncio.get_running_loop())
        with counted(store._own._connection._raw) as words:
            recorded = store.record_now(stage.ended(), request())
        assert recorded is not None
        assert (recorded.applied, len(recorded.claimed.jobs)) == ([True, True], 1)
        assert words.pop("PRAGMA") == 1, "this connection also reads whether others write, to give way to them"
        check(words, 5, 1)
        assert (calls.count, answers[0]) == (0, 0)
        await store.close()

    asyncio.run(main())


def test_opening_and_setting_up(tmp_path):
    """A store that is laid out already costs two reads to check, and no write."""
    make_store(tmp_path / "jobs.db")
    store = SQLiteBackend(str(tmp_path / "jobs.db"))
    inline = store.inline()
    finish(inline.get("none"))  # opens it
    with counted(connection_of(inline)._raw) as words:
        finish(inline.setup())
        finish(inline.setup())
    check(words, 2, 0)
