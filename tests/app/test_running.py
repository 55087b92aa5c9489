"""Running jobs from the facade: the drain, the worker, hooks, and an app used from inside its own jobs."""

import asyncio
import logging
import threading

import pytest

from tinyjobs.core.context import current_job
from tinyjobs.core.errors import AppClosedError, ConfigurationError, UnknownTaskError
from tinyjobs.core.status import JobStatus


def run(app, how):
    """Run everything that is due, by a drain, by a worker on a loop of the caller's, or by one of its own."""
    if how == "drain":
        app.drain()
    elif how == "worker":
        asyncio.run(app.worker(until_empty=True, handle_signals=False).run())
    else:
        app.run_worker(until_empty=True, handle_signals=False)


@pytest.fixture(params=["drain", "worker", "run_worker"])
def how(request):
    return request.param


def test_plain_and_async_tasks_run_with_their_arguments(any_app, how):
    got = []

    @any_app.task(name="plain", store_result=True)
    def plain(value, *, add=0):
        got.append(value)
        return value + add

    @any_app.task(name="async")
    async def awaited(value):
        await asyncio.sleep(0)
        got.append(value)

    jobs = [plain.enqueue(1, add=5), awaited.enqueue((2, "x"))]
    run(any_app, how)
    ended = [any_app.get(job) for job in jobs]
    assert [job.status for job in ended] == [JobStatus.SUCCESS] * 2
    assert sorted(got, key=str) == [(2, "x"), 1]
    assert ended[0].result() == 6
    assert ended[1].result() is None


def test_a_worker_reaches_a_loop_bound_store_on_its_own_loop(make_app):
    app = make_app("loopbound://")
    loops = []

    @app.task(name="sample")
    async def sample():
        loops.append(asyncio.get_running_loop())

    sample.enqueue()
    asyncio.run(app.worker(until_empty=True, handle_signals=False).run())
    sample.enqueue()
    app.run_worker(until_empty=True, handle_signals=False)
    first, second = app.store.apart_ones
    for store, loop in ((first, loops[0]), (second, loops[1])):
        assert store.loops == [loop]
        assert "setup" in store.calls
        assert store.calls[-1] == "close", "what was opened for the worker is closed with it"
    assert set(app.store.calls) <= {"setup", "enqueue", "heartbeat"}


def test_a_result_over_the_bound_fails_the_job(make_app, how):
    app = make_app(max_result_bytes=10)

    @app.task(name="large", store_result=True, max_attempts=3)
    def large():
        return "x" * 11

    job = large.enqueue()
    run(app, how)
    assert app.get(job).status is JobStatus.FAILED
    assert "ResultTooLarge" in app.get(job).last_error
    assert len(app.executions(job)) == 1


def test_hooks_are_told_of_starts_successes_and_failures(app, how):
    told = []

    @app.on_job_start
    def started(job):
        told.append(("start", job.task, job.status))

    @app.on_job_success
    async def succeeded(job, result, seconds):
        told.append(("success", job.task, app.engine.store is not None and job.status, result, seconds >= 0))

    @app.on_job_failure
    def failed(job, error, will_retry):
        stored = app.get(job)  # the outcome is recorded by now
        told.append(("failure", job.task, stored.status, type(error), will_retry))

    @app.task(name="good")
    def good():
        return 5

    @app.task(name="bad")
    def bad():
        raise ValueError

    good.enqueue()
    bad.enqueue()
    run(app, how)
    assert ("start", "good", JobStatus.RUNNING) in told
    assert ("start", "bad", JobStatus.RUNNING) in told
    assert ("success", "good", JobStatus.SUCCESS, 5, True) in told
    assert ("failure", "bad", JobStatus.FAILED, ValueError, False) in told
    assert len(told) == 4


def test_a_hook_that_raises_is_logged_and_ignored(app, how, caplog):
    @app.on_job_success
    def broken(job, result, seconds):
        raise RuntimeError("hook")

    app.task(name="good")(lambda: None)
    job = app.tasks["good"].enqueue()
    with caplog.at_level(logging.ERROR, "tinyjobs.hooks"):
        run(app, how)
    assert app.get(job).status is JobStatus.SUCCESS
    assert [record.name for record in caplog.records] == ["tinyjobs.hooks"]


def test_a_job_can_use_its_own_app(any_app, how):
    @any_app.task(name="parent")
    def parent():
        child.enqueue(any_app.get(sent.id).status.value)

    @any_app.task(name="async_parent")
    async def async_parent():
        await child.aenqueue((await any_app.aget(sent.id)).status.value)

    seen = []

    @any_app.task(name="child")
    def child(status):
        seen.append(status)

    sent = any_app.send("nobody.knows", queue="elsewhere")
    any_app.cancel(sent)
    parent.enqueue()
    async_parent.enqueue()
    run(any_app, how)
    assert seen == ["cancelled", "cancelled"]


# --- drain ------------------------------------------------------------------------------------------------------------


def test_a_drain_counts_what_it_ran_and_stops_at_its_limit(any_app):
    ran = []
    any_app.task(name="note")(lambda value: ran.append(value))
    note = any_app.tasks["note"]
    note.enqueue_many([(number,) for number in range(5)])
    assert any_app.drain(limit=2) == 2
    assert any_app.drain() == 3
    assert any_app.drain() == 0
    assert ran == [0, 1, 2, 3, 4]


def test_a_drain_runs_plain_functions_in_the_calling_thread(app):
    threads = []
    app.task(name="note")(lambda: threads.append(threading.current_thread()))
    app.tasks["note"].enqueue()
    app.drain()
    assert threads == [threading.current_thread()]


def test_a_drain_runs_its_coroutines_on_one_loop_each_as_its_own_job(app):
    loops, jobs = set(), []

    @app.task(name="note")
    async def note():
        loops.add(asyncio.get_running_loop())
        jobs.append(current_job().id)

    sent = note.enqueue_many([()] * 3)
    assert app.drain() == 3
    assert len(loops) == 1
    assert jobs == [job.id for job in sent]
    assert current_job() is None


def test_a_drain_keeps_to_the_queues_it_was_given(app):
    app.task(name="note")(lambda: None)
    for queue in ("a", "b", "c"):
        app.tasks["note"].with_options(queue=queue).enqueue()
    assert app.drain(queues=["a", "c"]) == 2
    assert [queue.name for queue in app.stats().queues if queue.ready] == ["b"]


@pytest.mark.parametrize("wrong", ["a", ["a,b"], [5]])
def test_wrong_queues_of_a_drain_are_refused(app, wrong):
    with pytest.raises(ConfigurationError, match=r"app\.drain\(\): queues"):
        app.drain(queues=wrong)


@pytest.mark.parametrize("wrong", [-1, True, 1.5, "2"])
def test_a_wrong_limit_of_a_drain_is_refused(app, wrong):
    with pytest.raises(ConfigurationError, match=r"app\.drain\(\): limit"):
        app.drain(limit=wrong)


def test_a_drain_raises_for_a_task_nobody_knows_and_leaves_it_queued(app):
    job = app.send("nobody.knows")
    with pytest.raises(UnknownTaskError, match=r"nobody\.knows"):
        app.drain()
    stored = app.get(job)
    assert (stored.status, stored.attempts) == (JobStatus.QUEUED, 0)


def test_a_closed_app_drains_nothing(app):
    app.close()
    with pytest.raises(AppClosedError):
        app.drain()


# --- worker -----------------------------------------------------------------------------------------------------------


def test_unknown_jobs_wait_longer_each_time(make_app, clock):
    app = make_app(unknown_task_delay=10, unknown_task_max_delay=25)
    job = app.send("nobody.knows")
    waits = []
    for _ in range(4):
        run(app, "worker")
        stored = app.get(job)
        assert (stored.status, stored.attempts) == (JobStatus.QUEUED, 0)
        waits.append(stored.run_at - clock.now())
        clock.advance(waits[-1])
    assert waits == [10, 20, 25, 25]


@pytest.mark.parametrize("start", ["worker", "run_worker"])
def test_wrong_settings_of_a_worker_are_refused(app, start):
    with pytest.raises(ConfigurationError, match=rf"app\.{start}\(\)"):
        getattr(app, start)(concurrency=0)
    with pytest.raises(ConfigurationError, match=rf"app\.{start}\(\)"):
        getattr(app, start)(colour="red")


def test_a_worker_opens_a_closed_app_again(make_app, tmp_path):
    app = make_app(f"sqlite:///{tmp_path}/jobs.db")
    app.task(name="note")(lambda: None)
    job = app.tasks["note"].enqueue()
    app.close()
    run(app, "run_worker")
    assert app.get(job).status is JobStatus.SUCCESS


# --- closing while jobs run -------------------------------------------------------------------------------------------


@pytest.fixture
def file_app(make_app, tmp_path):
    return make_app(f"sqlite:///{tmp_path}/jobs.db")


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_a_close_waits_for_the_jobs_of_its_workers_and_keeps_their_outcome(file_app, kind):
    begun, go_on = threading.Event(), threading.Event()

    @file_app.task(name="long")
    def long():
        begun.set()
        go_on.wait()

    job = long.enqueue()
    worker = threading.Thread(target=run, args=(file_app, "run_worker"))
    worker.start()
    begun.wait()
    close = file_app.close if kind == "sync" else lambda: asyncio.run(file_app.aclose())
    closer = threading.Thread(target=close)
    closer.start()
    assert file_app.get(job).status is JobStatus.RUNNING
    go_on.set()
    closer.join()
    worker.join()
    with pytest.raises(AppClosedError):
        file_app.get(job)
    file_app.start()
    assert file_app.get(job).status is JobStatus.SUCCESS


def test_jobs_that_close_their_own_app_are_recorded_and_then_it_is_closed(file_app, how):
    @file_app.task(name="plain")
    def plain():
        file_app.close()

    @file_app.task(name="async")
    async def awaited():
        await file_app.aclose()

    jobs = [plain.enqueue(), awaited.enqueue()]
    run(file_app, how)
    with pytest.raises(AppClosedError):
        file_app.get(jobs[0])
    file_app.start()
    statuses = [file_app.get(job).status for job in jobs]
    assert JobStatus.SUCCESS in statuses
    assert set(statuses) <= {JobStatus.SUCCESS, JobStatus.QUEUED}
