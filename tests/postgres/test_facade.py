"""The facade on Postgres from end to end: who uses which connection on which loop, and whose clock decides."""

import asyncio
import subprocess
import sys
import textwrap
import threading
from datetime import UTC, datetime, timedelta

import psycopg
import pytest

from tests.crash.wrong_clocks import ShiftedClock
from tinyjobs.backends.postgres.connection import PostgresConnection
from tinyjobs.core.clock import SystemClock
from tinyjobs.core.errors import AppClosedError
from tinyjobs.core.inline import finish
from tinyjobs.core.job import ClaimRequest

pytestmark = pytest.mark.postgres


@pytest.fixture
def spoken(monkeypatch):
    """The threads in which statements were sent, in order."""
    threads: list[str] = []
    run = PostgresConnection._run

    async def noted(self, statement, parameters):
        threads.append(threading.current_thread().name)
        await run(self, statement, parameters)

    monkeypatch.setattr(PostgresConnection, "_run", noted)
    return threads


def ended(app):
    """How many jobs have which status."""
    return {status: number for status, number in app.stats().by_status.items() if number}


def working(app, how):
    if how == "run_worker":
        app.run_worker(until_empty=True, handle_signals=False)
    else:
        asyncio.run(app.worker(until_empty=True, handle_signals=False).run())


@pytest.mark.parametrize("how", ["run_worker", "worker"])
def test_no_statement_of_a_worker_goes_by_way_of_the_apps_loop(app, spoken, how):
    @app.task(name="awaited", store_result=True)
    async def awaited(value):
        await asyncio.sleep(0)
        return value

    @app.task(name="plain", max_attempts=2, retry_base=0.001)
    def plain(value):
        if value % 2:
            raise ValueError(value)

    awaited.enqueue_many([(number,) for number in range(50)])
    plain.enqueue_many([(number,) for number in range(50)])
    spoken.clear()
    working(app, how)
    assert ended(app) == {"success": 75, "failed": 25}
    assert "tinyjobs-loop" not in spoken
    assert threading.current_thread().name in spoken


def test_jobs_use_the_app_while_a_worker_of_its_own_loop_runs_them(app, spoken):
    @app.task(name="second")
    async def second(): ...

    @app.task(name="first")
    async def first():
        await second.aenqueue()
        await app.astats()

    @app.task(name="plain")
    def plain():
        second.enqueue_many([()] * 3)
        assert app.stats().by_status

    first.enqueue()
    plain.enqueue()
    working(app, "run_worker")
    assert ended(app) == {"success": 6}
    assert "tinyjobs-loop" in spoken, "the app's own calls go where its connections are"


def test_workers_one_after_another_and_side_by_side(app):
    @app.task(name="awaited")
    async def awaited():
        await asyncio.sleep(0.001)

    for _ in range(3):
        awaited.enqueue_many([()] * 20)
        threads = [threading.Thread(target=working, args=(app, how)) for how in ("run_worker", "worker")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
    assert ended(app) == {"success": 60}


def test_a_close_leaves_no_connection_behind(app, postgres_url, postgres_cluster):
    ran = threading.Event()

    @app.task(name="awaited")
    async def awaited():
        ran.set()

    async def use():
        await awaited.aenqueue()
        return await app.astats()

    awaited.enqueue()
    asyncio.run(use())
    worker = threading.Thread(target=lambda: app.run_worker(handle_signals=False))
    worker.start()
    assert ran.wait(60)
    app.close()
    worker.join(60)
    assert not worker.is_alive()
    with pytest.raises(AppClosedError):
        awaited.enqueue()
    with psycopg.connect(postgres_url, application_name="counting") as counting:
        query = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = %s"
        for _ in range(1000):
            counting.rollback()
            if counting.execute(query, ["tinyjobs"]).fetchone() == (0,):
                break
        else:
            raise AssertionError("connections were left")
    app.start()
    awaited.enqueue()
    assert app.drain() in (1, 2)


def test_a_drain_and_calls_from_many_threads_and_loops(app):
    @app.task(name="sample", store_result=True)
    async def sample(value):
        await asyncio.sleep(0)
        return value

    def thread(number):
        for place in range(10):
            sample.enqueue(number * 100 + place)

    async def loop(number):
        await asyncio.gather(*(sample.aenqueue(number * 100 + place) for place in range(10)))

    threads = [threading.Thread(target=thread, args=(number,)) for number in range(4)]
    threads += [threading.Thread(target=lambda n=number: asyncio.run(loop(n))) for number in range(4, 8)]
    for one in threads:
        one.start()
    for one in threads:
        one.join(60)
    assert app.drain() == 80
    results = {app.get(job.id).result() for job in app.list(limit=100).jobs}
    assert results == {number * 100 + place for number in range(8) for place in range(10)}


# --- connections that were lost ---------------------------------------------------------------------------------------


def test_connections_that_the_server_ended_while_idle_cost_no_call(app, postgres_cluster, postgres_url):
    database = postgres_url.rpartition("/")[2]

    async def use():
        await asyncio.gather(*(app.asend("sample") for _ in range(5)))
        for _ in range(3):
            assert postgres_cluster.terminate("tinyjobs", database=database)
            await app.asend("sample")

    for _ in range(3):
        app.send("sample")
        assert postgres_cluster.terminate("tinyjobs", database=database)
    app.send("sample")
    asyncio.run(use())
    assert len(app.list().jobs) == 12


def test_a_worker_connects_again_though_a_job_has_cancelled_every_task(app, postgres_cluster, postgres_url):
    ended, again = threading.Event(), threading.Event()

    @app.task(name="cancels all")
    async def cancels_all():
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()
        ended.set()

    @app.task(name="again")
    async def one_more():
        again.set()

    cancels_all.enqueue()
    worker = threading.Thread(target=lambda: app.run_worker(handle_signals=False, poll=0.1))
    worker.start()
    assert ended.wait(60)
    postgres_cluster.terminate("tinyjobs", database=postgres_url.rpartition("/")[2])
    one_more.enqueue()
    assert again.wait(60), "the pool's own tasks were not cancelled with the jobs'"
    app.close()
    worker.join(60)
    assert not worker.is_alive()


PROGRAM = """
    import os
    from tinyjobs import TinyJobs

    app = TinyJobs(os.environ["STORE"])


    @app.task
    def plain(value):
        print("plain", value, flush=True)


    @app.task
    async def awaited(value):
        print("awaited", value, flush=True)
"""


def test_a_worker_of_the_command_line(make_app, postgres_url, tmp_path):
    (tmp_path / "jobs.py").write_text(textwrap.dedent(PROGRAM), "utf-8")
    app = make_app(f"{postgres_url}?prefix=cli")
    app.send("jobs.plain", (1,))
    app.send("jobs.awaited", (2,))
    command = [sys.executable, "-m", "tinyjobs", "worker", "--app", "jobs:app", "--until-empty"]
    environment = {"STORE": f"{postgres_url}?prefix=cli", "PATH": "/usr/bin:/bin", "PYTHONPATH": ":".join(sys.path)}
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert {"awaited 2", "plain 1"} <= set(done.stdout.split("\n"))
    assert ended(app) == {"success": 2}


# --- time -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("wrong_by", [600, -600])
def test_a_producer_whose_clock_is_wrong_delays_nothing_and_hurries_nothing(app, make_app, wrong_by):
    wrong = make_app(clock=ShiftedClock(wrong_by))
    at_once = wrong.send("at once")
    later = wrong.send("later", delay=60)
    many = wrong.task(name="many")(lambda: None).with_options(delay=timedelta(seconds=60)).enqueue_many([(), ()])
    instant = datetime.now(UTC) + timedelta(seconds=60)
    meant = wrong.send("meant", run_at=instant)
    now = SystemClock().now()
    assert abs(app.get(at_once).run_at - now) < 20
    for job in (later, *many, meant):
        assert 30 < app.get(job).run_at - now < 61
    assert app.get(meant).run_at == instant.timestamp(), "an instant is an instant"
    assert [queue.ready for queue in app.stats().queues] == [1]


@pytest.mark.parametrize("wrong_by", [600, -600])
def test_a_worker_whose_clock_is_wrong_takes_what_is_due_and_nothing_else(app, make_app, wrong_by):
    wrong = make_app(clock=ShiftedClock(wrong_by))
    ran = []
    for one in (app, wrong):
        one.task(name="sample")(ran.append)
    app.send("sample", (1,))
    app.send("sample", (2,), delay=300)
    assert wrong.run_worker(until_empty=True, handle_signals=False).succeeded == 1
    assert wrong.drain() == 0
    assert ran == [1]
    (job,) = app.list(status="success").jobs
    assert abs(job.finished_at - SystemClock().now()) < 20, "what happened is told on the server's clock"


def test_a_worker_whose_clock_is_ahead_takes_no_live_lease(app, make_app):
    wrong = make_app(clock=ShiftedClock(600))
    app.send("sample")
    request = ClaimRequest(worker_id="w", limit=1, lease=30)
    assert len(finish(app.store.inline().claim(request)).jobs) == 1
    wrong.setup()
    assert finish(wrong.store.inline().reap_expired()) == []
    assert app.list().jobs[0].status == "running"
