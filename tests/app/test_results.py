"""Results: a job that a facade hands out can be read again, waited for, and asked for what its function returned."""

import asyncio
import copy
import pickle
import threading
from dataclasses import replace

import pytest

from tinyjobs.app.results import JobHandle
from tinyjobs.core.clock import SystemClock
from tinyjobs.core.errors import (
    JobNotFoundError,
    SynchronousCallInsideEventLoopError,
    UnencodableResult,
    WaitTimeout,
)
from tinyjobs.core.job import Job
from tinyjobs.core.status import JobStatus


@pytest.fixture
def add(any_app):
    @any_app.task(name="add", store_result=True)
    def add(a, b=0):
        return a + b

    return add


@pytest.fixture(params=["sync", "async"])
def wait(request):
    """Waits for a job by either way; what came of it."""

    def awaited(job, timeout=None):
        async def main():
            return await job.awaited(timeout=timeout)

        return asyncio.run(main())

    return (lambda job, timeout=None: job.wait(timeout=timeout)) if request.param == "sync" else awaited


def test_a_result_comes_back_as_it_was_returned(any_app, add, wait):
    job = add.enqueue((1, "x"), b=(b"y",))
    assert job.result() is None, "it has not run"
    any_app.drain()
    assert wait(job) is job
    assert (job.status, job.result()) == (JobStatus.SUCCESS, (1, "x", b"y"))
    assert any_app.get(job.id).result() == (1, "x", b"y")


def test_every_job_that_the_facade_hands_out_has_the_way_back(any_app, call, add):
    jobs = [
        call(add, "enqueue", 1),
        *call(add, "enqueue_many", [(2,), (3,)]),
        call(any_app, "send", "add", (4,)),
        call(add.with_options(key="k"), "enqueue", 5),
        call(add.with_options(key="k"), "enqueue", 6),
        *call(add.with_options(key="k"), "enqueue_many", [(7,), (8,)]),
    ]
    jobs.append(call(any_app, "get", jobs[0].id))
    any_app.drain()
    assert [job.wait(timeout=60).result() for job in jobs] == [1, 2, 3, 4, 5, 5, 5, 5, 1]
    assert [job.existing for job in jobs] == [False] * 5 + [True] * 3 + [False], "what the enqueue told stays"


def test_the_job_of_a_schedule_run_by_hand_has_it_too(app, call):
    @app.task(name="daily", cron="@daily", store_result=True)
    def daily():
        return "done"

    job = call(app, "run_schedule", "daily")
    app.drain()
    assert job.wait(timeout=60).result() == "done"


def test_refresh_reads_the_job_again_and_tells_of_one_that_is_gone(any_app, call, add):
    job = add.enqueue(1)
    any_app.drain()
    assert job.status is JobStatus.QUEUED
    assert call(job, "refresh") is job
    assert (job.status, job.attempts) == (JobStatus.SUCCESS, 1)
    lost = any_app.get(job)
    lost.record = replace(lost.record, id="no such job")
    with pytest.raises(JobNotFoundError, match="no such job"):
        call(lost, "refresh")
    with pytest.raises(JobNotFoundError):
        lost.wait(timeout=60)


def test_a_job_that_failed_is_returned_and_not_raised(any_app, wait):
    @any_app.task(name="broken", store_result=True)
    def broken():
        raise ValueError("no use")

    job = broken.enqueue()
    any_app.drain()
    wait(job, 60)
    assert (job.status, job.attempts, job.last_error) == (JobStatus.FAILED, 1, "ValueError: no use")
    assert job.result() is None
    cancelled = broken.with_options(delay=60).enqueue()
    any_app.cancel(cancelled)
    assert wait(cancelled).status is JobStatus.CANCELLED


def test_a_result_that_is_not_kept_or_was_dropped_is_none(app):
    @app.task(name="forgetful")
    def forgetful():
        return 5

    job = forgetful.enqueue()
    app.drain()
    assert job.wait(timeout=60).result() is None


def test_a_result_of_another_codec_is_read_by_it(make_app):
    app = make_app(allow_pickle=True)

    @app.task(name="pickled", codec="pickle", store_result=True)
    def pickled():
        return {1: {2, 3}}

    job = pickled.enqueue()
    app.drain()
    assert job.wait(timeout=60).result() == {1: {2, 3}}


def test_only_the_timeout_raises_and_it_goes_by_the_apps_clock(any_app, add, wait, clock):
    job = add.enqueue(1)
    with pytest.raises(WaitTimeout, match=r"job .* of add is still queued after 0 s") as caught:
        wait(job, 0)
    assert isinstance(caught.value, TimeoutError)
    ended = []

    def wait_an_hour():
        with pytest.raises(WaitTimeout) as caught:
            wait(job, 3600)
        ended.append(caught.value)

    waiter = threading.Thread(target=wait_an_hour)
    waiter.start()
    waiter.join(0.05)
    assert waiter.is_alive(), "an hour is not over"
    clock.advance(3600)
    waiter.join(60)
    assert "after 3600 s" in str(ended[0])


def test_a_wait_ends_when_a_worker_of_another_thread_has_run_the_job(make_app, tmp_path, wait):
    app = make_app(f"sqlite:///{tmp_path}/jobs.db", clock=SystemClock())
    waiting = threading.Event()

    @app.task(name="late", store_result=True)
    def late():
        waiting.wait()
        return "in the end"

    job = late.enqueue()
    worker = threading.Thread(target=lambda: app.run_worker(until_empty=True, handle_signals=False))
    worker.start()
    threading.Timer(0.1, waiting.set).start()
    assert wait(job, 60).result() == "in the end"
    worker.join()


def test_a_wait_looks_more_and_more_rarely(app, monkeypatch):
    @app.task(name="sample")
    def sample(): ...

    job, pauses = sample.enqueue(), []

    class Noted(threading.Event):
        def wait(self, timeout=None):
            pauses.append(timeout)
            if len(pauses) == 12:
                app.drain()
            return False

    monkeypatch.setattr("tinyjobs.app.results.Event", Noted)
    job.wait()
    assert len(pauses) == 12
    for number, pause in enumerate(pauses):
        assert 0.75 * min(0.005 * 2**number, 0.5) <= pause <= 1.25 * min(0.005 * 2**number, 0.5)


@pytest.mark.parametrize("wrong", [-1, "5", True, float("nan")])
def test_a_wrong_timeout_is_refused(app, add_to, wait, wrong):
    with pytest.raises(ValueError, match="timeout"):
        wait(add_to.enqueue(), wrong)


@pytest.fixture
def add_to(app):
    @app.task(name="sample")
    def sample(): ...

    return sample


@pytest.mark.parametrize(("verb", "awaitable"), [("wait", r"job\.awaited"), ("refresh", r"job\.arefresh")])
def test_the_blocking_ones_name_the_awaitable_inside_a_loop(app, add_to, verb, awaitable):
    job = add_to.enqueue()

    async def main():
        getattr(job, verb)()

    with pytest.raises(SynchronousCallInsideEventLoopError, match=awaitable):
        asyncio.run(main())


def test_an_awaited_job_leaves_nothing_on_the_loop(app, add_to):
    job = add_to.enqueue()

    async def main():
        drained = asyncio.create_task(asyncio.to_thread(app.drain))
        await job.awaited(timeout=3600)
        await drained
        await asyncio.sleep(0)
        return asyncio.all_tasks() - {asyncio.current_task()}

    assert asyncio.run(main()) == set()


def test_a_handle_can_be_compared_hashed_copied_and_pickled(app, add_to):
    job = add_to.enqueue()
    again = app.get(job)
    held = {job}
    assert again == job and again in held
    app.drain()
    job.refresh()
    assert job in held, "reading it again does not lose it in a set"
    for copied in (copy.copy(job), pickle.loads(pickle.dumps(job))):
        assert type(copied) is Job, "the way back stays behind"
        assert (copied.id, copied.status, copied.created_at) == (job.id, job.status, job.created_at)
    assert isinstance(job, JobHandle)


def test_the_runtime_makes_plain_records(app, add_to):
    kinds = []
    app.on_job_start(lambda job: kinds.append(type(job)))
    app.on_job_success(lambda job, result, seconds: kinds.append(type(job)))
    add_to.enqueue()
    app.drain()
    assert kinds == [Job, Job]


def test_a_result_that_cannot_be_stored_fails_the_job_once(any_app):
    told = []
    any_app.on_job_failure(lambda job, error, will_retry: told.append((type(error), will_retry)))

    @any_app.task(name="odd", store_result=True, max_attempts=5)
    def odd():
        return object()

    job = odd.enqueue()
    assert any_app.drain() == 1
    assert job.wait(timeout=60).status is JobStatus.FAILED
    assert job.last_error.startswith("UnencodableResult: the result of odd cannot be stored")
    assert (job.attempts, told) == (1, [(UnencodableResult, False)])
