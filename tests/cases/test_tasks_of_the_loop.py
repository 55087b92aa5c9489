"""A coroutine that cancels everything it finds on its event loop ends itself and its like, never the worker."""

import asyncio

import pytest

from tinyjobs import TinyJobs
from tinyjobs.core.status import JobStatus


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def app(request, tmp_path):
    url = f"sqlite:///{tmp_path}/jobs.db" if request.param == "sqlite" else request.getfixturevalue("postgres_url")
    with TinyJobs(url) as app:
        yield app


def cancel_all(tasks):
    for task in tasks:
        task.cancel()


@pytest.mark.parametrize("itself", [True, False])
def test_a_job_that_cancels_all_tasks_does_not_hurt_the_worker(app, itself):
    @app.task(name="cancels_all")
    async def cancels_all():
        cancel_all(task for task in asyncio.all_tasks() if itself or task is not asyncio.current_task())
        await asyncio.sleep(0)

    @app.task(name="fine")
    async def fine(): ...

    told = []
    app.on_job_failure(lambda job, error, will_retry: told.append(job.id))
    app.on_job_success(lambda job, value, seconds: told.append(job.id))
    jobs = []
    for _ in range(3):
        jobs += [cancels_all.enqueue(), *fine.enqueue_many([()] * 5)]
    report = app.run_worker(until_empty=True, async_concurrency=1)
    assert report.succeeded + report.failed == len(jobs)
    expected = [JobStatus.FAILED if itself and place % 6 == 0 else JobStatus.SUCCESS for place in range(len(jobs))]
    assert [app.get(job).status for job in jobs] == expected
    assert sorted(told) == sorted(job.id for job in jobs)


def test_a_job_finds_no_task_but_those_of_jobs(app):
    found = []

    @app.task(name="look")
    async def look():
        await asyncio.sleep(0)
        found.append(asyncio.all_tasks() - {asyncio.current_task()})

    look.enqueue()
    app.run_worker(until_empty=True)
    assert found == [set()]
