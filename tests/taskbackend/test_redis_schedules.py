"""Schedules of a project whose jobs are in Redis: of tasks, of the settings, as data; fired, steered and told of."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from io import StringIO

import pytest
from django.core.management import call_command
from django.db import transaction
from django.tasks.signals import task_enqueued

from tests.schedules.daily import tasks
from tests.schedules.test_django import CLOSE, GREET, MIDNIGHT, POST, clock, project, tick, until
from tinyjobs.core.cron import NEVER
from tinyjobs.core.inline import finish
from tinyjobs.taskbackend.shared import use_clock
from tinyjobs.taskbackend.working import drain_here, open_scheduler, open_worker

pytestmark = pytest.mark.redis
__all__ = ["clock", "project"]  # fixtures


@pytest.fixture
def on_redis(project, redis_url):
    return lambda options=None, **values: project({"url": redis_url, **(options or {})}, **values)


@pytest.fixture
def heard():
    told = []

    def hear(sender, task_result, **kwargs):
        told.append(task_result)

    task_enqueued.connect(hear)
    yield told
    task_enqueued.disconnect(hear)


def stored(backend, **which):
    return finish(backend.shared.store.list(**which)).jobs[::-1]


def test_of_tasks_and_of_the_settings(on_redis, clock, heard):
    by_name = {"weekly": {"task": POST, "cron": "0 8 * * *", "args": [7], "priority": 9}}
    backend = on_redis({"schedules": by_name}, TIME_ZONE="Asia/Jakarta")
    tick()
    assert {state.name: (state.timezone, state.source) for state in backend.schedules()} == {
        CLOSE: ("Asia/Jakarta", "code"),
        GREET: ("America/New_York", "code"),
        "weekly": ("Asia/Jakarta", "code"),
    }
    clock.advance(3600)  # eight o'clock in Jakarta
    tick()
    tick()
    (job,) = stored(backend)
    assert (job.task, job.priority, job.scheduled_for) == (POST, 9, MIDNIGHT + 3600)
    assert [(result.id, result.scheduled_for.timestamp()) for result in heard] == [(job.id, MIDNIGHT + 3600)]
    assert drain_here() == 1
    assert tasks.ran == [("post", 7, "all")]


def test_pausing_resuming_and_running_by_hand(on_redis, clock, heard):
    backend = on_redis()
    tick()
    assert backend.pause_schedule(CLOSE).next_run_at == NEVER
    clock.advance(8 * 3600 + 25 * 60)
    tick()
    assert stored(backend, task=CLOSE) == []
    first, second = backend.run_schedule(CLOSE), backend.run_schedule(CLOSE)
    assert (first.existing, second.existing, second.id) == (False, True, first.id)
    assert datetime.fromtimestamp(backend.resume_schedule(CLOSE).next_run_at, UTC).hour == 9
    call_command("tinyjobs", "schedules", "run", GREET, stdout=StringIO())
    assert [result.id for result in heard] == [job.id for job in stored(backend)]


def test_a_job_run_by_hand_waits_for_the_commit(on_redis):
    backend = on_redis()
    tick()
    with pytest.raises(RuntimeError), transaction.atomic():
        backend.run_schedule(CLOSE)
        raise RuntimeError
    with transaction.atomic():
        result = backend.run_schedule(CLOSE)
        assert stored(backend) == []
    assert [job.id for job in stored(backend)] == [result.id]


def test_kept_as_data_also_from_async_code(on_redis):
    backend = on_redis()

    async def steer():
        await backend.asave_schedule("x", task=POST, cron="@daily", args=[1])
        await backend.apause_schedule("x")
        await backend.aresume_schedule("x")
        result = await backend.arun_schedule("x")
        states = await backend.aschedules()
        await backend.adelete_schedule("x")
        return result, states

    result, states = asyncio.run(steer())
    assert ([state.name for state in states], result.args) == (["x"], [1])
    assert backend.schedules() == []


@pytest.mark.parametrize("opened", [open_worker, open_scheduler])
def test_a_worker_and_a_scheduler_fire(on_redis, clock, heard, opened):
    backend = on_redis({"schedules": {"x": {"task": POST, "cron": "0 8 * * *", "args": [3], "overlap": True}}})
    tick()
    clock.advance(8 * 3600)
    with opened() as running, ThreadPoolExecutor(1) as pool:
        running.engine.catalogue.discover()
        ended = pool.submit(lambda: asyncio.run(running.run()))
        try:
            until(lambda: heard)
        finally:
            running.stop()
        ended.result(20)
    (job,) = stored(backend, task=POST)
    assert [result.id for result in heard] == [job.id]
    assert heard[0].scheduled_for.timestamp() == MIDNIGHT + 8 * 3600


def test_on_the_clock_of_the_server(on_redis):
    use_clock(None)
    backend = on_redis()
    made = backend.save_schedule("x", task=POST, cron="* * * * *", args=[5])
    backend.delete_schedule("x")
    finish(backend.shared.store.save_schedule(replace(made, next_run_at=made.next_run_at - 60)))
    with open_worker() as running, ThreadPoolExecutor(1) as pool:
        ended = pool.submit(lambda: asyncio.run(running.run()))
        until(lambda: tasks.ran)
        running.stop()
        ended.result(20)
    assert stored(backend, task=POST)[0].scheduled_for == made.next_run_at - 60
