"""Eager mode: every enqueue runs its own job, and no other, before it returns."""

import asyncio
import contextlib
import gc
import sqlite3
import threading

import pytest

from tinyjobs.app import eager as eager_module
from tinyjobs.app.facade import TinyJobs
from tinyjobs.app.roster import Roster
from tinyjobs.core.context import current_job
from tinyjobs.core.errors import AppClosedError, UnknownTaskError, UnsupportedCapabilityError
from tinyjobs.core.retry import Retry
from tinyjobs.core.status import JobStatus
from tinyjobs.runtime import drain as drain_module
from tinyjobs.runtime import renewal

PATIENCE = 60.0


@pytest.fixture(
    params=["file", "memory", "looponly", "loopbound", pytest.param("postgres", marks=pytest.mark.postgres)]
)
def eager(request, tmp_path):
    """An eager app over each kind of store."""
    url = f"{request.param}://"
    if request.param == "file":
        url = f"sqlite:///{tmp_path}/jobs.db"
    elif request.param == "postgres":
        url = request.getfixturevalue("postgres_url")
    return request.getfixturevalue("make_app")(url, eager=True)


@pytest.fixture
def one(make_app):
    return make_app("memory://", eager=True)


@pytest.mark.parametrize("kind", ["plain", "coroutine"])
def test_an_enqueue_runs_its_job_before_it_returns(eager, call, kind):
    def plain(number):
        return number, current_job().id

    async def coroutine(number):
        await asyncio.sleep(0)
        return number, current_job().id

    task = eager.task(name="sample", store_result=True)(plain if kind == "plain" else coroutine)
    jobs = [
        call(task, "enqueue", 1),
        *call(task, "enqueue_many", [(2,), {"number": 3}]),
        call(eager, "send", "sample", (4,)),
        call(task.with_options(priority=3, key="k"), "enqueue", 5),
    ]
    assert [job.status for job in jobs] == [JobStatus.SUCCESS] * 5
    assert [job.result() for job in jobs] == [(number, job.id) for number, job in enumerate(jobs, 1)]
    assert [job.wait(timeout=0).status for job in jobs] == [JobStatus.SUCCESS] * 5


def test_it_runs_its_own_job_and_no_other(eager, call, clock):
    ran = []

    @eager.task(name="note")
    def note(number):
        ran.append(number)

    later = call(note.with_options(delay=10, priority=9), "enqueue", 1)
    assert (later.status, ran) == (JobStatus.QUEUED, [])
    clock.advance(10)
    call(note, "enqueue", 2)
    assert ran == [2], "the other is due by now, and waits for a drain"
    assert eager.drain() == 1
    assert ran == [2, 1]


def test_a_failed_attempt_waits_for_its_retry(one, clock):
    attempts = []

    @one.task(name="flaky", max_attempts=3, retry_base=10, retry_jitter=False)
    def flaky():
        attempts.append(current_job().attempts)
        raise ValueError("no")

    job = flaky.enqueue()
    assert (job.status, job.attempts, job.last_error) == (JobStatus.QUEUED, 1, "ValueError: no")
    assert one.drain() == 0
    clock.advance(10)
    assert one.drain() == 1
    assert attempts == [1, 2]


def test_a_retry_at_once_is_left_to_a_drain(one):
    @one.task(name="again", max_attempts=5)
    def again():
        if current_job().attempts < 3:
            raise Retry

    job = again.enqueue()
    assert (job.status, job.attempts) == (JobStatus.QUEUED, 1)
    one.drain()
    assert (job.refresh().status, job.attempts) == (JobStatus.SUCCESS, 3)


def test_a_job_that_fails_comes_back_failed(eager, call):
    told = []
    eager.on_job_failure(lambda job, error, will_retry: told.append((str(error), will_retry)))

    @eager.task(name="broken")
    def broken():
        raise ValueError("no")

    assert call(broken, "enqueue").status is JobStatus.FAILED
    assert told == [("no", False)]


def test_hooks_of_both_kinds_run(one, call):
    told = []

    @one.on_job_start
    async def started(job):
        await asyncio.sleep(0)
        told.append("start")

    @one.on_job_success
    def ended(job, result, seconds):
        told.append((result, job.status))

    @one.task(name="sample")
    def sample():
        return 3

    call(sample, "enqueue")
    assert told == ["start", (3, JobStatus.SUCCESS)]


def test_a_task_that_nobody_knows_raises_and_its_job_stays(eager, call):
    with pytest.raises(UnknownTaskError, match="nobody"):
        call(eager, "send", "nobody")
    (job,) = eager.list().jobs
    assert (job.status, job.attempts) == (JobStatus.QUEUED, 0)


def test_what_a_job_sends_runs_inside_it(one, call):
    order = []

    @one.task(name="child")
    def child(number):
        order.append(("child", number, current_job().task))

    @one.task(name="parent")
    def parent():
        order.append("begin")
        child.enqueue(1)
        child.enqueue_many([(2,), (3,)])
        order.append(("end", current_job().task))

    @one.task(name="aparent")
    async def aparent():
        order.append("abegin")
        assert (await child.aenqueue(4)).status is JobStatus.SUCCESS
        order.append(("aend", current_job().task))

    call(parent, "enqueue")
    call(aparent, "enqueue")
    children = [("child", number, "child") for number in (1, 2, 3)]
    assert order == ["begin", *children, ("end", "parent"), "abegin", ("child", 4, "child"), ("aend", "aparent")]


def test_an_awaited_send_runs_coroutines_on_the_callers_loop(one):
    loops = []

    @one.task(name="sample")
    async def sample():
        loops.append(asyncio.get_running_loop())

    @one.task(name="plain")
    def plain():
        loops.append(threading.current_thread())

    async def main():
        await asyncio.gather(*(sample.aenqueue() for _ in range(5)), *(plain.aenqueue() for _ in range(5)))
        return asyncio.get_running_loop()

    loop = asyncio.run(main())
    assert loops.count(loop) == 5
    assert threading.current_thread() not in loops, "a plain function holds up no loop"


def test_a_job_that_somebody_else_took_first_is_waited_for(make_app, tmp_path, call, monkeypatch):
    app = make_app(f"sqlite:///{tmp_path}/jobs.db", eager=True)
    other = make_app(f"sqlite:///{tmp_path}/jobs.db")
    begun, go_on = threading.Event(), threading.Event()

    @app.task(name="sample", store_result=True)
    def sample():
        raise AssertionError("it runs elsewhere")

    @other.task(name="sample", store_result=True)
    def elsewhere():
        begun.set()
        go_on.wait(PATIENCE)
        return "elsewhere"

    worker = threading.Thread(target=other.drain)
    real = drain_module.Drain.run_one

    def late(drain, job_id):
        if not worker.is_alive():
            worker.start()
            begun.wait(PATIENCE)
            threading.Timer(0.05, go_on.set).start()
        return real(drain, job_id)

    monkeypatch.setattr(drain_module.Drain, "run_one", late)
    job = call(sample, "enqueue")
    assert (job.status, job.result()) == (JobStatus.SUCCESS, "elsewhere")
    worker.join()


def test_a_held_key_comes_back_as_it_is(one, call):
    """The holder may be the job that is just running this very call."""
    found = []

    @one.task(name="keyed")
    def keyed():
        if not found:
            found.append(keyed.with_options(key="k").enqueue())

    @one.task(name="akeyed")
    async def akeyed():
        found.append(await akeyed.with_options(key="a").aenqueue())

    job = call(keyed.with_options(key="k"), "enqueue")
    again = call(akeyed.with_options(key="a"), "enqueue")
    assert [(each.id, each.existing, each.status) for each in found] == [
        (job.id, True, JobStatus.RUNNING),
        (again.id, True, JobStatus.RUNNING),
    ]
    assert not job.existing


def test_many_of_one_key_run_once(one, call):
    ran = []

    @one.task(name="note")
    def note(number):
        ran.append(number)

    jobs = call(note.with_options(key="k"), "enqueue_many", [(1,), (2,), (3,)])
    assert ran == [1]
    assert [job.existing for job in jobs] == [False, True, True]


def test_tx_is_refused(one, make_app, tmp_path, call):
    app = make_app(f"sqlite:///{tmp_path}/jobs.db", eager=True)
    with contextlib.closing(sqlite3.connect(tmp_path / "jobs.db")) as mine:
        for refusing in (app, one):
            with pytest.raises(UnsupportedCapabilityError, match=r"tx="):
                call(refusing, "send", "sample", tx=mine)
        with pytest.raises(UnsupportedCapabilityError, match=r"eager.*before your transaction could commit"):
            call(app, "send", "sample", tx=mine)
        assert mine.execute("SELECT * FROM sqlite_master").fetchall() == []


@pytest.mark.parametrize("raised", [KeyboardInterrupt, SystemExit])
def test_an_interrupt_propagates_and_gives_the_job_back_an_exit_fails_it(one, raised):
    @one.task(name="odd")
    def odd():
        raise raised

    if raised is KeyboardInterrupt:
        with pytest.raises(KeyboardInterrupt):
            odd.enqueue()
        (job,) = one.list().jobs
        assert (job.status, job.attempts) == (JobStatus.QUEUED, 0)
    else:
        assert odd.enqueue().status is JobStatus.FAILED


def test_a_timeout_leaves_the_thread_behind(one):
    go_on = threading.Event()

    @one.task(name="slow", timeout=0.02)
    def slow():
        go_on.wait(PATIENCE)

    @one.task(name="aslow", timeout=0.02)
    async def aslow():
        await asyncio.sleep(PATIENCE)

    jobs = [slow.enqueue(), aslow.enqueue()]
    go_on.set()
    assert [job.status for job in jobs] == [JobStatus.FAILED] * 2
    assert [one.executions(job)[0].status for job in jobs] == ["timeout"] * 2


def test_sends_follow_each_other_without_a_thread_each(one, monkeypatch):
    @one.task(name="sample")
    def sample(): ...

    sample.enqueue()
    started = []
    real = threading.Thread.start
    monkeypatch.setattr(threading.Thread, "start", lambda thread: (started.append(thread.name), real(thread)))
    for _ in range(20):
        sample.enqueue()
    assert started == []


def test_threads_whose_first_sends_come_at_once_share_one_session(make_app, monkeypatch):
    """And with it one thread that renews their leases."""
    app = make_app("memory://", eager=True)
    made, both = [], threading.Barrier(2, timeout=PATIENCE)
    real = eager_module.LeaseRenewal

    class Slow(real):
        def __init__(self, engine):
            super().__init__(engine)
            both.wait()

        def hold(self, held):
            made.append(self)
            super().hold(held)

    monkeypatch.setattr(eager_module, "LeaseRenewal", Slow)
    task = app.task(name="sample")(lambda: None)
    app.setup()
    threads = [threading.Thread(target=task.enqueue) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 2 and len(set(made)) == 1
    assert app.stats().by_status["success"] == 2


def test_the_leases_of_jobs_that_run_at_once_are_all_renewed(make_app, tmp_path, monkeypatch):
    monkeypatch.setattr(renewal, "LEASE", 0.3)
    app = make_app(f"sqlite:///{tmp_path}/jobs.db", eager=True)
    enough, beats = threading.Event(), []
    real = type(app.store).heartbeat

    async def beat(store, held, lease):
        beats.append({entry.job_id for entry in held})
        if sum(len(held) == 3 for held in beats) > 4:
            enough.set()
        return await real(store, held, lease)

    monkeypatch.setattr(type(app.store), "heartbeat", beat)

    @app.task(name="long")
    def long():
        enough.wait(PATIENCE)

    @app.task(name="parent")
    def parent():
        long.enqueue()

    threads = [threading.Thread(target=task.enqueue) for task in (long, parent)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {job.status for job in app.list().jobs} == {JobStatus.SUCCESS}
    assert max(map(len, beats)) == 3


@pytest.mark.parametrize("how", ["closed", "dropped"])
def test_the_thread_that_renews_leases_ends_with_the_app(monkeypatch, how):
    """And not when it wakes the next time: a test suite makes an app for each of its tests."""
    monkeypatch.setattr(renewal, "LEASE", 3_600.0)
    before = threading.enumerate()
    app = TinyJobs("memory://", eager=True)
    app.task(name="sample")(lambda: None).enqueue()
    (renewing,) = set(threading.enumerate()) - set(before)
    if how == "closed":
        app.close()
    else:
        del app
        gc.collect()
    renewing.join(PATIENCE)
    assert not renewing.is_alive()


# --- closing ----------------------------------------------------------------------------------------------------------


def test_a_closed_app_sends_nothing(one, call):
    @one.task(name="sample")
    def sample(): ...

    sample.enqueue()
    one.close()
    with pytest.raises(AppClosedError):
        call(sample, "enqueue")


@pytest.mark.parametrize("way", ["enqueue", "aenqueue", "drain"])
def test_a_coroutine_that_a_close_cuts_is_left_queued_and_its_caller_is_told(make_app, tmp_path, monkeypatch, way):
    real = Roster.enter
    monkeypatch.setattr(
        Roster, "enter", lambda roster, who, stop, patience, *rest: real(roster, who, stop, -4.9, *rest)
    )
    app = make_app(f"sqlite:///{tmp_path}/jobs.db", eager=way != "drain")
    begun, told, runs = threading.Event(), [], []

    @app.task(name="long")
    async def long():
        runs.append(1)
        begun.set()
        await asyncio.sleep(PATIENCE)

    def use():
        try:
            if way == "enqueue":
                long.enqueue()
            elif way == "aenqueue":
                asyncio.run(long.aenqueue())
            else:
                long.enqueue()
                app.drain()
        except BaseException as error:
            told.append(error)

    thread = threading.Thread(target=use)
    thread.start()
    begun.wait(PATIENCE)
    app.close()
    thread.join(PATIENCE)
    assert [type(error) for error in told] == [AppClosedError]
    app.start()
    (job,) = app.list().jobs
    assert (job.status, job.attempts, runs) == (JobStatus.QUEUED, 0, [1])


def test_a_close_waits_for_a_job_under_way_and_no_further_one_begins(make_app, tmp_path):
    app = make_app(f"sqlite:///{tmp_path}/jobs.db", eager=True)
    begun, go_on, told = threading.Event(), threading.Event(), []

    @app.task(name="child")
    def child(): ...

    @app.task(name="long")
    def long():
        begun.set()
        go_on.wait(PATIENCE)
        try:
            child.enqueue()
        except AppClosedError as error:
            told.append(error)

    thread = threading.Thread(target=lambda: told.append(long.enqueue().status))
    thread.start()
    begun.wait(PATIENCE)
    closer = threading.Thread(target=app.close)
    closer.start()
    while not app._access.current.roster._is_closing:
        closer.join(0.001)
    go_on.set()
    closer.join()
    thread.join()
    assert [type(entry) for entry in told] == [AppClosedError, JobStatus]
    app.start()
    assert [job.status for job in app.list().jobs] == [JobStatus.SUCCESS], "the child was not even written"


def test_a_job_that_closes_its_own_app_is_recorded_first(make_app, tmp_path, call):
    app = make_app(f"sqlite:///{tmp_path}/jobs.db", eager=True)

    @app.task(name="last")
    def last():
        app.close()

    job = call(last, "enqueue")
    assert job.status is JobStatus.SUCCESS
    with pytest.raises(AppClosedError):
        app.get(job)


def test_a_caller_who_leaves_before_the_coroutine_begins_keeps_it_from_running(make_app, tmp_path):
    app = make_app(f"sqlite:///{tmp_path}/jobs.db", eager=True)
    claimed, left, ran = threading.Event(), threading.Event(), []

    @app.on_job_start
    def wait_until_it_left(job):
        claimed.set()
        left.wait(PATIENCE)

    @app.task(name="late")
    async def late():
        ran.append(1)

    async def main():
        sending = asyncio.create_task(late.aenqueue())
        await asyncio.to_thread(claimed.wait, PATIENCE)
        sending.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await sending

    asyncio.run(main())
    left.set()
    app.close()
    app.start()
    (job,) = app.list().jobs
    assert (job.status, job.attempts, ran) == (JobStatus.QUEUED, 0, [])


def test_a_caller_who_leaves_takes_its_coroutine_along(make_app, tmp_path):
    app = make_app(f"sqlite:///{tmp_path}/jobs.db", eager=True)

    begun = []

    @app.task(name="long")
    async def long():
        begun[0].set()
        await asyncio.sleep(PATIENCE)

    async def main():
        begun.append(asyncio.Event())
        sending = asyncio.create_task(long.aenqueue())
        await begun[0].wait()
        sending.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await sending

    asyncio.run(main())
    app.close()
    app.start()
    (job,) = app.list().jobs
    assert (job.status, job.attempts) == (JobStatus.QUEUED, 0)


@pytest.mark.parametrize("way", ["enqueue", "drain"])
def test_a_hook_may_close_the_app_and_does_not_wait_for_itself(make_app, tmp_path, way):
    app = make_app(f"sqlite:///{tmp_path}/jobs.db", eager=way == "enqueue")
    open_after_it = []

    @app.task(name="sample")
    def sample(): ...

    @app.on_job_success
    def close(job, result, seconds):
        app.close()
        open_after_it.append(not app._access.current.is_closed)

    sample.enqueue()
    if way == "drain":
        assert app.drain() == 1
    assert open_after_it == [True], "it was left to the end of what runs"
    with pytest.raises(AppClosedError):
        app.stats()
