"""An app among threads and loops, from its first call to its close: who connects, who is awaited, who is refused."""

import asyncio
import inspect
import random
import sqlite3
import threading
import time
from contextlib import closing

import pytest

from tests.app.stores import LoopBound
from tinyjobs.app.facade import TinyJobs
from tinyjobs.app.results import JobHandle
from tinyjobs.app.roster import Roster
from tinyjobs.app.task import Sendable
from tinyjobs.core.errors import (
    AppClosedError,
    JobNotFoundError,
    ScheduleNotFoundError,
    StoreUnavailableError,
    SynchronousCallInsideEventLoopError,
)
from tinyjobs.core.status import JobStatus

# --- every blocking verb --------------------------------------------------------------------------------------------

#: What touches no store, or is a coroutine or an asynchronous block itself. A method that is new has to be put here, or
#: it must refuse to block an event loop.
HARMLESS = {
    TinyJobs: {
        "task",
        "worker",
        "scheduler",
        "serve",
        "lifespan",
        "on_job_start",
        "on_job_success",
        "on_job_failure",
        "on_error",
    },
    Sendable: {"with_options"},
    JobHandle: {"result"},
}
#: The arguments of those that need any, and the awaitable where it is not the same name with an `a` in front.
ARGUMENTS = {
    "send": ["sample"],
    "enqueue": [1],
    "enqueue_many": [[(1,)]],
    "delete_schedule": ["x"],
    "pause_schedule": ["x"],
    "resume_schedule": ["x"],
    "run_schedule": ["x"],
    "get": ["x"],
    "executions": ["x"],
    "cancel": ["x"],
    "retry": ["x"],
    "delete": ["x"],
    "tallies": [0.0],
}
KEYWORDS = {"save_schedule": {"task": "sample", "cron": "@daily"}}
POSITIONAL = {"save_schedule": ["x"]}
AWAITABLE = {
    "start": "await app.ready()",
    "drain": "await asyncio.to_thread(app.drain)",
    "run_worker": "await app.worker(…).run()",
    "wait": "await job.awaited(…)",
    "__enter__": "async with app",
}


def blocking_verbs():
    for owner, harmless in HARMLESS.items():
        for name, member in inspect.getmembers(owner, inspect.isfunction):
            if name.startswith("_") and name != "__enter__":
                continue
            if name not in harmless and not inspect.iscoroutinefunction(member):
                yield pytest.param(owner, name, id=f"{owner.__name__}.{name}")


@pytest.mark.parametrize(("owner", "name"), list(blocking_verbs()))
def test_every_blocking_verb_refuses_to_hold_up_a_loop_and_names_the_awaitable(app, owner, name):
    @app.task(name="sample")
    def sample(value): ...

    handle = sample.enqueue(0)
    target = {TinyJobs: app, Sendable: sample, JobHandle: handle}[owner]
    given = POSITIONAL.get(name, ARGUMENTS.get(name, []))

    async def inside():
        with pytest.raises(SynchronousCallInsideEventLoopError) as caught:
            getattr(target, name)(*given, **KEYWORDS.get(name, {}))
        return str(caught.value)

    told = asyncio.run(inside())
    awaitable = AWAITABLE.get(name, f"a{name}(")
    assert awaitable in told
    if name not in AWAITABLE:
        assert inspect.iscoroutinefunction(getattr(target, f"a{name}"))
    assert [job.id for job in app.list().jobs] == [handle.id], "nothing was done"


def test_verbs_that_touch_no_store_do_not_block():
    """The list above names nothing that is gone."""
    for owner, harmless in HARMLESS.items():
        assert harmless <= {name for name, _ in inspect.getmembers(owner)}


# --- threads and loops ------------------------------------------------------------------------------------------------


def together(*calls):
    """Run the calls at once, each in a thread of its own; what each returned or raised."""
    barrier = threading.Barrier(len(calls))
    answers: list[object] = [None] * len(calls)

    def run(number, call):
        barrier.wait()
        try:
            answers[number] = call()
        except Exception as error:
            answers[number] = error

    threads = [threading.Thread(target=run, args=entry, daemon=True) for entry in enumerate(calls)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive(), "a call never came back"
    return answers


@pytest.fixture
def sample(any_app):
    @any_app.task(name="sample")
    def sample(value): ...

    return sample


def test_any_number_of_threads_and_loops_share_one_app(any_app, sample):
    async def awaited():
        return [job.id for job in await asyncio.gather(*[sample.aenqueue(number) for number in range(5)])]

    calls = [lambda: [sample.enqueue(number).id for number in range(5)]] * 4 + [lambda: asyncio.run(awaited())] * 4
    answers = together(*calls)
    assert {job.id for job in any_app.list().jobs} == {job_id for answer in answers for job_id in answer}
    assert any_app.stats().by_status["queued"] == 40


def test_a_loop_that_ends_takes_nothing_with_it(any_app, sample):
    """Also one that is stopped with calls under way, and closed without a word to them."""
    loop = asyncio.new_event_loop()

    async def many():
        while True:
            await asyncio.gather(*[sample.aenqueue(number) for number in range(5)])

    task = loop.create_task(many())
    loop.call_later(0.05, loop.stop)
    loop.run_forever()
    task.cancel()
    loop.run_until_complete(asyncio.gather(task, return_exceptions=True))
    loop.close()
    assert sample.enqueue(1).id
    assert asyncio.run(sample.aenqueue(2)).id


class Hesitant(LoopBound):
    """A store on a network that takes its time to connect, and may not be there."""

    def __init__(self, clock) -> None:
        super().__init__(clock)
        self.asked = threading.Event()
        self.answers = threading.Event()
        self.error: Exception | None = None

    async def setup(self) -> None:
        self.calls.append("setup")
        self.asked.set()
        await asyncio.to_thread(self.answers.wait)
        if self.error is not None:
            raise self.error
        await self._real.setup()


@pytest.fixture
def hesitant(monkeypatch, make_app):
    monkeypatch.setattr(LoopBound, "from_url", lambda url, *, clock, **options: Hesitant(clock))
    app = make_app("loopbound://")
    yield app
    app.store.answers.set()


def test_an_unreachable_store_is_asked_once_for_all_who_wait(hesitant):
    hesitant.store.error = StoreUnavailableError("the store is away")
    opener = threading.Thread(target=lambda: (hesitant.store.asked.wait(), time.sleep(0.05), answer.set()))
    answer = hesitant.store.answers
    opener.start()
    answers = together(*[hesitant.stats] * 4, *[lambda: asyncio.run(hesitant.astats())] * 4)
    opener.join()
    assert [str(error) for error in answers] == ["the store is away"] * 8
    assert hesitant.store.calls.count("setup") <= 2, "one for all who were there when it was asked"
    hesitant.store.error = None
    assert hesitant.stats().queues == []


def test_whoever_connects_may_stop_its_loop_without_harm_to_the_others(hesitant):
    loop = asyncio.new_event_loop()
    first = loop.create_task(hesitant.astats())

    async def until_asked():
        await asyncio.to_thread(hesitant.store.asked.wait)

    loop.run_until_complete(until_asked())
    # Stopped here, with the connection half made; nobody will ever run it again.
    waiter = threading.Thread(target=lambda: done.append(hesitant.stats()))
    done: list[object] = []
    waiter.start()
    hesitant.store.answers.set()
    waiter.join(60)
    assert done
    assert asyncio.run(hesitant.astats())
    assert hesitant.store.calls.count("setup") == 1
    first.cancel()
    loop.run_until_complete(asyncio.gather(first, return_exceptions=True))
    loop.close()


# --- the end ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def file_app(make_app, tmp_path):
    return make_app(f"sqlite:///{tmp_path}/jobs.db", clock=None)


@pytest.mark.parametrize("face", ["sync", "async"])
def test_a_close_waits_for_the_calls_under_way(monkeypatch, file_app, face):
    """For one that waits for somebody else's lock, too. Calls that come later are refused meanwhile."""
    monkeypatch.setattr("tinyjobs.backends.sqlite.connection._CLOSING", 0.0)  # the connections themselves do not wait
    file_app.setup()
    path = file_app.store.path
    with closing(sqlite3.connect(path, isolation_level=None, check_same_thread=False)) as other:
        other.execute("BEGIN IMMEDIATE")
        sent: list[object] = []
        call = (lambda: file_app.send("x")) if face == "sync" else (lambda: asyncio.run(file_app.asend("x")))
        caller = threading.Thread(target=lambda: sent.append(call()))
        caller.start()
        under_way = file_app._access.current.calls
        while not any(call.cr_running or call.cr_suspended for call in list(under_way)):
            time.sleep(0.001)
        closer = threading.Thread(target=file_app.close)
        closer.start()
        while not file_app._access.current.is_closed:
            time.sleep(0.001)
        with pytest.raises(AppClosedError):
            file_app.stats()
        closer.join(0.3)
        assert closer.is_alive()
        assert not sent
        other.rollback()
        closer.join(60)
        caller.join(60)
    assert [job.task for job in sent] == ["x"]
    file_app.start()
    assert file_app.get(sent[0].id).status is JobStatus.QUEUED


def test_a_call_that_takes_longer_is_cut_and_says_so(monkeypatch, file_app):
    monkeypatch.setattr("tinyjobs.app.access.PATIENCE", 0.1)
    file_app.setup()
    ends: list[BaseException] = []

    def call():
        try:
            file_app.send("x")
        except BaseException as error:
            ends.append(error)

    with closing(sqlite3.connect(file_app.store.path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        caller = threading.Thread(target=call)
        caller.start()
        while not file_app._access.current.calls:
            time.sleep(0.001)
        file_app.close()
        caller.join(60)
        other.rollback()
    assert [type(error) for error in ends] == [AppClosedError]


def test_two_jobs_in_two_workers_may_each_close_the_app(file_app):
    both = threading.Barrier(2)

    @file_app.task(name="closes")
    def closes():
        both.wait(60)
        file_app.close()

    jobs = closes.enqueue_many([(), ()])
    together(*[lambda: file_app.run_worker(concurrency=1, poll=0.01)] * 2)
    with pytest.raises(AppClosedError):
        file_app.stats()
    file_app.start()
    assert [file_app.get(job).status for job in jobs] == [JobStatus.SUCCESS] * 2


def test_a_job_of_another_app_is_no_reason_not_to_wait(make_app, tmp_path):
    """Only a job of the app that is closed would wait for itself."""
    outer = make_app(f"sqlite:///{tmp_path}/outer.db", clock=None)
    inner = make_app(f"sqlite:///{tmp_path}/inner.db", clock=None)
    begun, ended = threading.Event(), []

    @inner.task(name="long")
    def long():
        begun.set()
        threading.Event().wait(0.2)
        ended.append(1)

    @outer.task(name="closes")
    def closes():
        inner.close()
        ended.append(2)

    long.enqueue()
    closes.enqueue()
    worker = threading.Thread(target=lambda: inner.run_worker(poll=0.01))
    worker.start()
    begun.wait()
    assert outer.drain() == 1
    worker.join()
    assert ended == [1, 2]


def test_a_drain_under_way_ends_its_job_and_takes_no_other(file_app):
    begun, go_on = threading.Event(), threading.Event()

    @file_app.task(name="long")
    def long():
        begun.set()
        go_on.wait()

    jobs = long.enqueue_many([(), ()])
    ran: list[int] = []
    drain = threading.Thread(target=lambda: ran.append(file_app.drain()))
    drain.start()
    begun.wait()
    closer = threading.Thread(target=file_app.close)
    closer.start()
    while not file_app._access.current.roster._is_closing:
        time.sleep(0.001)
    with pytest.raises(AppClosedError):
        file_app.drain()
    go_on.set()
    closer.join(60)
    drain.join(60)
    assert ran == [1]
    file_app.start()
    assert [file_app.get(job).status for job in jobs] == [JobStatus.SUCCESS, JobStatus.QUEUED]


def test_blocks_of_both_kinds_may_be_nested(any_app, sample):
    async def inner():
        async with any_app, any_app:
            await sample.aenqueue(1)
        return await any_app.astats()

    with any_app:
        with any_app:
            assert asyncio.run(inner()).by_status["queued"] == 1
        sample.enqueue(2)
    with pytest.raises(AppClosedError):
        any_app.stats()
    with any_app:
        any_app.stats()


def test_blocks_of_many_tasks_begin_and_end_together(any_app, sample):
    """One that ends while others still connect closes nothing over their heads."""

    async def block():
        async with any_app:
            pass
        async with any_app:
            await sample.aenqueue(1)

    async def at_once():
        await asyncio.gather(*[block() for _ in range(8)])

    asyncio.run(at_once())
    with pytest.raises(AppClosedError):
        any_app.stats()


@pytest.mark.parametrize("looked", [1, 2])
def test_a_block_that_begins_as_the_last_one_ends_is_not_closed(any_app, sample, looked):
    """A thread enters right behind each look at whether any block is open.

    Behind the second the close is certain. Then that thread closes, and has opened anew before the close begins.
    """
    looks, entered = [], []

    class Blocks(list):
        def __bool__(self):
            is_any = len(self) > 0
            looks.append(is_any)
            if len(looks) == looked:
                thread = threading.Thread(target=lambda: entered.append(any_app.__enter__()), daemon=True)
                thread.start()
                thread.join(60)
                assert entered
            return is_any

    any_app._life._blocks = Blocks()
    with any_app:
        pass
    assert len(looks) == 2
    sample.enqueue(1)
    any_app._life._blocks = [None]
    any_app.__exit__(None, None, None)
    with pytest.raises(AppClosedError):
        any_app.stats()


@pytest.mark.parametrize("work", ["drain", "run_worker"])
def test_who_enters_right_behind_a_look_of_a_close_at_an_idle_app_is_refused(file_app, monkeypatch, work):
    """The close goes on without them, so nothing may have been claimed."""
    file_app.task(name="note")(lambda: None)
    job, told = file_app.send("note"), []
    real = Roster.is_idle.fget

    def enter():
        settings = {} if work == "drain" else {"handle_signals": False, "until_empty": True, "poll": 0.01}
        try:
            told.append(getattr(file_app, work)(**settings))
        except AppClosedError as error:
            told.append(error)

    def is_idle(roster):
        was_idle = real(roster)
        monkeypatch.setattr(Roster, "is_idle", property(real))
        thread = threading.Thread(target=enter)
        thread.start()
        thread.join(60)
        return was_idle

    monkeypatch.setattr(Roster, "is_idle", property(is_idle))
    asyncio.run(file_app.aclose())
    assert [type(each) for each in told] == [AppClosedError]
    with file_app:
        assert file_app.get(job).status is JobStatus.QUEUED


def test_a_block_that_is_not_the_last_after_all_hides_no_close(file_app):
    """While it looks whether it is, somebody closes the app, and somebody else enters."""
    begun, go_on, looks, closers = threading.Event(), threading.Event(), [], []

    @file_app.task(name="long")
    def long():
        begun.set()
        go_on.wait(60)

    class Blocks(list):
        def __bool__(self):
            looks.append(len(self) > 0)
            if len(looks) == 2:
                closers.append(threading.Thread(target=file_app.close))
                closers[0].start()
                while not file_app._access.current.is_leaving:
                    time.sleep(0.001)
                return True
            return looks[-1]

    long.enqueue()
    drain = threading.Thread(target=file_app.drain)
    drain.start()
    begun.wait(60)
    file_app._life._blocks = Blocks()
    with file_app:
        pass
    opener = threading.Thread(target=file_app.start)
    opener.start()
    opener.join(0.2)
    assert opener.is_alive(), "it joined a store that is about to be closed"
    go_on.set()
    for thread in (drain, opener, *closers):
        thread.join(60)
    file_app.stats()


def test_a_closer_who_comes_late_stops_nobody_on_the_store_that_was_opened_since(file_app, monkeypatch):
    """It found the store open; before it stops who works there, another has closed it and opened the next."""
    real, late, go_on = Roster.dismiss, [], threading.Event()
    begun, ended = threading.Event(), threading.Event()

    @file_app.task(name="long")
    def long():
        begun.set()
        ended.wait(60)

    def dismiss(roster, caller=None):
        if threading.current_thread() in late:
            assert go_on.wait(60)
        return real(roster, caller)

    monkeypatch.setattr(Roster, "dismiss", dismiss)
    file_app.start()
    closer = threading.Thread(target=file_app.close)
    late.append(closer)
    closer.start()
    while not file_app._access.current.is_leaving:
        time.sleep(0.001)
    file_app.close()
    file_app.start()
    jobs = long.enqueue_many([(), ()])
    ran: list[int] = []
    drain = threading.Thread(target=lambda: ran.append(file_app.drain()))
    drain.start()
    begun.wait(60)
    go_on.set()
    closer.join(60)
    ended.set()
    drain.join(60)
    assert ran == [2]
    assert {file_app.get(job).status for job in jobs} == {JobStatus.SUCCESS}


def test_a_close_goes_on_when_whoever_waits_for_it_is_cancelled(file_app):
    """As with a timeout around it: the workers end, and the app is closed then."""
    begun, go_on = threading.Event(), threading.Event()

    @file_app.task(name="long")
    def long():
        begun.set()
        go_on.wait(60)

    async def main():
        job = await long.aenqueue()
        worker = asyncio.create_task(file_app.worker(poll=0.01).run())
        await asyncio.to_thread(begun.wait, 60)
        close = asyncio.create_task(file_app.aclose())
        while not file_app._access.current.roster._is_closing:
            await asyncio.sleep(0.001)
        close.cancel()
        with pytest.raises(asyncio.CancelledError):
            await close
        go_on.set()
        assert (await worker).succeeded == 1
        with pytest.raises(AppClosedError):
            for _ in range(6000):
                await file_app.astats()
                await asyncio.sleep(0.01)
        await file_app.ready()
        assert (await file_app.aget(job)).status is JobStatus.SUCCESS
        assert await asyncio.to_thread(file_app.drain) == 0

    asyncio.run(main())


@pytest.mark.parametrize("seconds", [0.5, pytest.param(2.0, marks=pytest.mark.slow)])
def test_whatever_meets_a_close_hears_that_the_app_is_closed_and_nothing_else(any_app, sample, seconds, caplog):
    """Threads and loops that send, open and close as they like."""
    ends = time.monotonic() + seconds
    met: list[BaseException] = []
    # What is asked of a store in memory after it was opened again is not there any more.
    expected = (AppClosedError, JobNotFoundError, ScheduleNotFoundError)

    def at_random(number, verbs):
        choose = random.Random(number)
        while time.monotonic() < ends:
            try:
                choose.choice(verbs)()
            except expected:
                continue
            except BaseException as error:
                met.append(error)
                return

    async def aat_random(number, verbs):
        choose = random.Random(number)
        while time.monotonic() < ends:
            try:
                await choose.choice(verbs)()
            except expected:
                continue
            except BaseException as error:
                met.append(error)
                return

    sync = [lambda: sample.enqueue(1)] * 4 + [any_app.stats, any_app.start, any_app.close]
    awaited = [lambda: sample.aenqueue(1)] * 4 + [any_app.astats, any_app.ready, any_app.aclose]
    together(
        *[lambda number=number: at_random(number, sync) for number in range(4)],
        *[lambda number=number: asyncio.run(aat_random(number, awaited)) for number in range(4, 7)],
    )
    assert not met
    # A driver may say that it gave up a connection whose call was cut twice, by its caller and by a close.
    ours = [record for record in caplog.records if not record.name.startswith("psycopg")]
    assert not ours, [record.getMessage() for record in ours]
    any_app.start()
    assert sample.enqueue(1).id
