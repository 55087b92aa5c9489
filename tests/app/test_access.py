"""The way to the store: who connects, from where it may be called, what a close does, and what nobody has to call."""

import asyncio
import gc
import threading
import weakref

import pytest

from tests.app.stores import LoopOnly
from tinyjobs.app.election import Election
from tinyjobs.app.loop import LoopThread
from tinyjobs.core.errors import (
    AppClosedError,
    StoreUnavailableError,
    SynchronousCallInsideEventLoopError,
)


def task_of(app):
    @app.task(name="sample")
    def sample(value): ...

    return sample


# --- connecting -------------------------------------------------------------------------------------------------------


def test_nothing_is_opened_before_the_first_call(make_app, tmp_path):
    app = make_app(f"sqlite:///{tmp_path}/jobs.db")
    task_of(app).with_options(priority=1)
    assert app.engine.store is app.store
    assert list(tmp_path.iterdir()) == []
    app.tasks["sample"].enqueue(1)
    assert (tmp_path / "jobs.db").exists()


@pytest.mark.parametrize("verb", ["setup", "start", "asetup", "ready"])
def test_connecting_can_be_asked_for(make_app, tmp_path, verb):
    app = make_app(f"sqlite:///{tmp_path}/jobs.db")
    answer = getattr(app, verb)()
    if answer is not None:
        asyncio.run(answer)
    assert (tmp_path / "jobs.db").exists()


class Slow(LoopOnly):
    """Its setup waits for the test, and fails as often as the test says."""

    started = threading.Event()
    go_on = threading.Event()
    failures = 0

    async def setup(self) -> None:
        self.calls.append("setup")
        type(self).started.set()
        await asyncio.to_thread(type(self).go_on.wait)
        if type(self).failures:
            type(self).failures -= 1
            raise StoreUnavailableError("the store is away")
        await self._real.setup()


@pytest.fixture
def slow(monkeypatch, make_app):
    monkeypatch.setattr(LoopOnly, "from_url", lambda url, *, clock, **options: Slow(clock))
    Slow.started.clear()
    Slow.go_on.clear()
    Slow.failures = 0
    yield make_app("looponly://")
    Slow.go_on.set()


def callers(app):
    """Six callers at once, from threads and from loops of their own; what each got."""
    answers = []

    def call(number):
        try:
            answers.append(asyncio.run(app.astats()) if number % 2 else app.stats())
        except Exception as error:
            answers.append(error)

    threads = [threading.Thread(target=call, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()

    def join():
        for thread in threads:
            thread.join()
        return answers

    return join


def test_one_caller_connects_and_the_others_wait(slow):
    join = callers(slow)
    Slow.started.wait()
    Slow.go_on.set()
    assert not [answer for answer in join() if isinstance(answer, Exception)]
    assert slow.store.calls.count("setup") == 1
    slow.stats()
    assert slow.store.calls.count("setup") == 1


def test_a_failure_is_shared_and_the_next_call_tries_again(slow):
    Slow.failures = 1
    answers = []

    def ask():
        try:
            slow.stats()
        except StoreUnavailableError as error:
            answers.append(error)

    first = threading.Thread(target=ask)
    first.start()
    Slow.started.wait()

    async def wait_in_a_loop():
        waiter = asyncio.create_task(slow.astats())
        await asyncio.sleep(0)  # it has joined the attempt
        Slow.go_on.set()
        with pytest.raises(StoreUnavailableError, match="away"):
            await waiter

    asyncio.run(wait_in_a_loop())
    first.join()
    assert len(answers) == 1
    assert slow.store.calls.count("setup") == 1
    slow.stats()
    assert slow.store.calls.count("setup") == 2


def test_a_caller_who_leaves_does_not_take_the_connection_with_him(slow):
    async def leave():
        waiter = asyncio.create_task(slow.astats())
        await asyncio.to_thread(Slow.started.wait)
        waiter.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiter

    asyncio.run(leave())
    Slow.go_on.set()
    assert slow.stats().queues == []
    assert slow.store.calls.count("setup") == 1


def test_an_interrupt_while_connecting_concerns_that_caller_alone():
    attempts = []

    def work():
        attempts.append(1)
        if len(attempts) == 1:
            raise KeyboardInterrupt

    election = Election(work)
    with pytest.raises(KeyboardInterrupt):
        election.settle()
    assert not election.is_done
    election.settle()
    assert (election.is_done, len(attempts)) == (True, 2)


# --- from where -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("verb", "awaitable"),
    [
        (lambda app: app.tasks["sample"].enqueue(1), "await sample.aenqueue(…)"),
        (lambda app: app.tasks["sample"].enqueue_many([(1,)]), "aenqueue_many(…)"),
        (lambda app: app.tasks["sample"].with_options(priority=1).enqueue(1), "await sample.aenqueue(…)"),
        (lambda app: app.send("x"), "await app.asend(…)"),
        (lambda app: app.get("x"), "await app.aget(…)"),
        (lambda app: app.list(), "await app.alist(…)"),
        (lambda app: app.cancel("x"), "await app.acancel(…)"),
        (lambda app: app.retry("x"), "await app.aretry(…)"),
        (lambda app: app.executions("x"), "await app.aexecutions(…)"),
        (lambda app: app.stats(), "await app.astats()"),
        (lambda app: app.setup(), "await app.asetup()"),
        (lambda app: app.start(), "await app.ready()"),
        (lambda app: app.close(), "await app.aclose()"),
        (lambda app: app.drain(), "await asyncio.to_thread(app.drain)"),
        (lambda app: app.run_worker(), "await app.worker(…).run()"),
        (lambda app: app.__enter__(), "async with app"),
    ],
)
def test_a_blocking_call_inside_a_loop_names_the_awaitable(any_app, verb, awaitable):
    task_of(any_app)

    async def inside():
        with pytest.raises(SynchronousCallInsideEventLoopError) as caught:
            verb(any_app)
        return str(caught.value)

    assert awaitable in asyncio.run(inside())
    assert any_app.list().jobs == []


def test_a_blocking_call_beside_a_loop_is_fine(any_app):
    task = task_of(any_app)

    async def beside():
        return await asyncio.to_thread(task.enqueue, 1)

    assert any_app.get(asyncio.run(beside())).task == "sample"


def test_a_store_with_a_synchronous_client_is_called_in_the_callers_thread(app):
    before = set(threading.enumerate())
    task_of(app).enqueue(1)
    app.list()
    assert set(threading.enumerate()) <= before


def test_a_store_without_one_is_called_on_one_background_loop(make_app):
    app = make_app("looponly://")
    task = task_of(app)
    task.enqueue(1)
    another = threading.Thread(target=task.enqueue, args=(2,))
    another.start()
    another.join()
    assert app.store.threads == {"tinyjobs-loop"}
    assert len(app.store.loops) == 1


def test_awaits_run_on_the_callers_own_loop(make_app):
    app = make_app("looponly://")

    async def awaits():
        await app.alist()
        return asyncio.get_running_loop()

    first, second = asyncio.run(awaits()), asyncio.run(awaits())
    assert {first, second} <= set(app.store.loops)


def test_a_store_bound_to_a_loop_is_reached_by_a_hop_from_every_loop(make_app):
    app = make_app("loopbound://")
    task = task_of(app)

    async def awaits():
        return (await task.aenqueue(1)).id

    ids = {asyncio.run(awaits()), asyncio.run(awaits()), task.enqueue(1).id}
    assert {job.id for job in app.list().jobs} == ids
    assert app.store.threads == {"tinyjobs-loop"}
    assert len(app.store.loops) == 1


def test_cancelling_a_hop_cancels_its_work():
    loop, ended = LoopThread(), threading.Event()
    begun = threading.Event()

    async def work():
        try:
            begun.set()
            await asyncio.Event().wait()
        finally:
            ended.set()

    async def caller():
        hop = asyncio.create_task(loop.arun(work))
        await asyncio.to_thread(begun.wait)
        hop.cancel()
        with pytest.raises(asyncio.CancelledError):
            await hop

    asyncio.run(caller())
    assert ended.wait(60)
    loop.close(lambda: asyncio.sleep(0))


# --- closing ----------------------------------------------------------------------------------------------------------


def test_a_closed_app_refuses_calls_until_it_is_opened_again(any_app, call):
    task = task_of(any_app)
    task.enqueue(1)
    call(any_app, "close")
    for verb, arguments in [("get", ["x"]), ("list", []), ("setup", []), ("stats", []), ("cancel", ["x"])]:
        with pytest.raises(AppClosedError, match=r"start\(\) or ready\(\) opens it again"):
            call(any_app, verb, *arguments)
    with pytest.raises(AppClosedError):
        call(task, "enqueue", 1)
    any_app.start()
    assert call(task, "enqueue", 2).id


def test_a_closed_app_does_not_start_its_loop(make_app):
    app = make_app("looponly://")
    app.close()
    before = set(threading.enumerate())
    with pytest.raises(AppClosedError):
        app.stats()
    assert set(threading.enumerate()) <= before


def test_closing_twice_and_from_two_threads_is_fine(any_app):
    any_app.stats()
    closers = [threading.Thread(target=any_app.close) for _ in range(4)]
    for closer in closers:
        closer.start()
    for closer in closers:
        closer.join()
    any_app.close()
    assert not [thread for thread in threading.enumerate() if thread.name == "tinyjobs-loop" and thread.is_alive()]


def test_jobs_in_a_file_outlive_the_app(make_app, tmp_path):
    url = f"sqlite:///{tmp_path}/jobs.db"
    with make_app(url) as app:
        job = task_of(app).enqueue(1)
    with make_app(url) as again:
        assert again.get(job.id).task == "sample"
    with pytest.raises(AppClosedError):
        again.get(job.id)


def test_nested_blocks_share_one_connection_that_the_outermost_closes(any_app):
    with any_app as outer:
        store = outer.store
        with any_app as inner:
            assert inner is any_app
        assert any_app.stats().queues == []
        assert any_app.store is store
    with pytest.raises(AppClosedError):
        any_app.stats()


def test_nested_async_blocks_too(any_app):
    async def blocks():
        async with any_app:
            async with any_app:
                pass
            await any_app.astats()
        with pytest.raises(AppClosedError):
            await any_app.astats()

    asyncio.run(blocks())


def test_calls_caught_by_a_close_get_no_other_error(make_app, tmp_path):
    app = make_app(f"sqlite:///{tmp_path}/jobs.db")
    task = task_of(app)
    task.enqueue(0)
    barrier = threading.Barrier(5)
    ends = []

    def until_closed(number):
        async def awaited():
            while True:
                await task.aenqueue(number)

        barrier.wait()
        try:
            if number % 2:
                asyncio.run(awaited())
            while True:
                task.enqueue(number)
        except Exception as error:
            ends.append(error)

    threads = [threading.Thread(target=until_closed, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    barrier.wait()
    app.close()
    for thread in threads:
        thread.join()
    assert [type(error) for error in ends] == [AppClosedError] * 4


def test_a_call_under_way_on_the_loop_is_cut_by_a_close_as_a_closed_app(monkeypatch, make_app):
    monkeypatch.setattr("tinyjobs.app.access.PATIENCE", 0.0)
    app = make_app("loopbound://")
    app.setup()
    begun = threading.Event()

    async def never(*args, **kwargs):
        begun.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(app.store, "stats", never, raising=False)
    ends = []

    def call(verb):
        try:
            verb()
        except BaseException as error:
            ends.append(type(error))

    threads = [threading.Thread(target=call, args=(verb,)) for verb in (app.stats, lambda: asyncio.run(app.astats()))]
    for thread in threads:
        begun.clear()
        thread.start()
        assert begun.wait(60)
    app.close()
    for thread in threads:
        thread.join()
    assert ends == [AppClosedError] * 2


def test_an_app_nobody_holds_any_more_ends_its_loop(make_app):
    from tinyjobs.app.facade import TinyJobs

    app = TinyJobs("looponly://")
    app.stats()
    (thread,) = [thread for thread in threading.enumerate() if thread.name == "tinyjobs-loop"]
    gone = weakref.ref(app)
    del app
    gc.collect()
    assert gone() is None
    thread.join(60)
    assert not thread.is_alive()
