"""Hosts whose clocks are wrong, over one Postgres: the server's clock decides what is due."""

import asyncio

import pytest

from tests.crash.wrong_clocks import ShiftedClock
from tinyjobs.app.facade import TinyJobs
from tinyjobs.core.clock import SystemClock
from tinyjobs.core.inline import finish
from tinyjobs.runtime.scheduler import Scheduler

TEN_MINUTES = 600.0


@pytest.fixture
def app_on(postgres_url):
    apps = []

    def make(by):
        app = TinyJobs(postgres_url, clock=ShiftedClock(by))
        app.task(name="note")(lambda: None)
        apps.append(app)
        return app

    yield make
    for app in apps:
        app.close()


def tick(app):
    """One pass of a scheduler, on a loop and with connections of its own."""

    async def run():
        store = app.engine.store.apart()
        await store.setup()
        try:
            engine = app._engine_over(store)
            return await Scheduler(engine, engine.timetable).tick()
        finally:
            await store.close()

    return asyncio.run(run())


def stand_at(app, seconds_from_now):
    """A schedule whose time comes so many seconds from now, by a clock that is right."""
    made = app.save_schedule("s", task="note", cron="0 0 1 1 *")
    real = SystemClock().now()
    store = app.engine.store.inline()
    stands_at = real + seconds_from_now
    assert finish(store.fire_schedule("s", expected=made.next_run_at, next_run_at=stands_at, jobs=[])) == []
    return stands_at


@pytest.mark.parametrize("by", [TEN_MINUTES, -TEN_MINUTES])
def test_nothing_fires_early_and_nothing_is_late(app_on, by):
    app = app_on(by)
    stand_at(app, 20.0)
    assert 15.0 < tick(app) <= 20.0  # it sleeps until then
    assert app.list().jobs == []
    stands_for = stand_at(app_on(0.0), -1.0)
    assert tick(app) == 0.0
    (job,) = app.list().jobs
    assert (job.scheduled_for, job.run_at) == (stands_for, stands_for)
    assert abs(job.created_at - SystemClock().now()) < 60.0


def test_a_right_next_time_is_not_taken_for_that_of_a_clock_that_stepped_back(app_on):
    behind = app_on(-TEN_MINUTES)
    made = behind.save_schedule("s", task="note", cron="* * * * *")
    tick(behind)
    (state,) = behind.schedules()
    assert state.next_run_at >= made.next_run_at > SystemClock().now() - 60.0
