"""`expires=`, `result_ttl=` and `retention=` of the facade, and a purge by hand, by both faces."""

import asyncio
import datetime
import math

import pytest

from tests.runtime.conftest import PATIENCE
from tinyjobs import KEEP_EVERYTHING, FrozenClock
from tinyjobs.core.errors import ConfigurationError, UnsupportedCapabilityError
from tinyjobs.core.retention import DAY, Retention
from tinyjobs.core.status import JobStatus

MINUTE = datetime.timedelta(minutes=1)


def sample(): ...


WAYS = [(how, expires) for how in ("with_options", "send", "many") for expires in (60, 60.0, MINUTE, "instant")]
WAYS += [("declared", 60), ("declared", MINUTE)]  # a task has no one instant


@pytest.mark.parametrize(("how", "expires"), WAYS)
def test_every_way_to_say_when(any_app, how, expires):
    now = any_app.engine.clock.now()
    if expires == "instant":
        expires = datetime.datetime.fromtimestamp(now + 60, datetime.UTC)
    task = any_app.task(name="sample", **({"expires": expires} if how == "declared" else {}))(sample)
    if how == "send":
        job = any_app.send("sample", expires=expires)
    else:
        view = task.with_options(expires=expires) if how == "with_options" else task
        if how == "many":
            (job,) = task.with_options(expires=expires).enqueue_many([()])
        else:
            job = view.enqueue()
    assert job.expires_at == pytest.approx(now + 60, abs=1e-3)
    assert any_app.get(job).expires_at == job.expires_at


def test_an_enqueue_wins_over_its_task(app):
    task = app.task(name="sample", expires=60)(sample)
    now = app.engine.clock.now()
    assert task.enqueue().expires_at == now + 60
    assert task.with_options(expires=5).enqueue().expires_at == now + 5
    assert task.with_options(expires=None).enqueue().expires_at == now + 60


def test_seconds_count_from_each_enqueue(app, clock):
    view = app.task(name="sample")(sample).with_options(expires=60)
    clock.advance(1_000)
    assert view.enqueue().expires_at == clock.now() + 60


def test_an_instant_in_the_past_ends_the_job_at_once(any_app):
    past = datetime.datetime.fromtimestamp(any_app.engine.clock.now() - 1, datetime.UTC)
    job = any_app.task(name="sample")(sample).with_options(expires=past).enqueue()
    assert any_app.drain() == 0
    assert any_app.get(job).status is JobStatus.CANCELLED


@pytest.mark.parametrize("wrong", [0, -1, True, "1h", math.nan, math.inf, 1e11, 1e20, datetime.datetime(2040, 1, 1)])
def test_a_wrong_expiry_is_refused_where_it_is_said(app, wrong):
    task = app.task(name="sample")(sample)
    with pytest.raises(ConfigurationError, match=r"sample\.with_options\(\): expires"):
        task.with_options(expires=wrong)
    with pytest.raises(ConfigurationError, match="expires"):
        app.send("sample", expires=wrong)


def test_a_task_has_no_instant(app):
    with pytest.raises(ConfigurationError, match="one instant, and a task has many jobs"):
        app.task(expires=datetime.datetime.now(datetime.UTC))(sample)


def test_a_job_that_would_expire_before_it_may_start_is_refused(app):
    task = app.task(name="sample", expires=60)(sample)
    with pytest.raises(ConfigurationError, match="may start in 3600 s, and will have expired"):
        task.with_options(delay=3_600).enqueue()
    assert app.list().jobs == []
    assert task.with_options(delay=3_600, expires=7_200).enqueue().expires_at is not None
    with pytest.raises(ConfigurationError, match="expires"):
        task.with_options(delay=60).enqueue()


def test_what_was_asked_for_is_compared_however_the_clock_moves_meanwhile(make_app):
    class Moving(FrozenClock):
        def now(self):
            self.advance(0.000_4)
            return super().now()

    task = make_app(clock=Moving(1_800_000_000.0)).task(name="sample")(sample)
    with pytest.raises(ConfigurationError, match=r"may start in 10 s, and will have expired"):
        task.with_options(delay=10, expires=10).enqueue()
    for slack in (-1, 0):
        at = datetime.datetime.fromtimestamp(1_800_000_060 + slack, datetime.UTC)
        with pytest.raises(ConfigurationError, match=r"may start in 60 s, and will"):
            task.with_options(run_at=datetime.datetime.fromtimestamp(1_800_000_060, datetime.UTC), expires=at).enqueue()
    assert task.with_options(delay=10, expires=10.5).enqueue().expires_at is not None


# --- retention ------------------------------------------------------------------------------------------------------


def test_what_is_kept_for_how_long_by_default(app):
    assert app.engine.retention == Retention(success=7 * DAY, cancelled=7 * DAY, failed=30 * DAY)


def test_what_may_be_said(make_app):
    app = make_app(retention={"success": 60, "failed": datetime.timedelta(days=1)})
    assert app.engine.retention == Retention(success=60, cancelled=7 * DAY, failed=DAY)
    assert make_app(retention={"failed": 0}).engine.retention.rules.keys() == {JobStatus.SUCCESS, JobStatus.CANCELLED}
    assert make_app(retention=KEEP_EVERYTHING).engine.retention.rules == {}


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"sucess": 1}, "TinyJobs: retention does not take 'sucess'"),
        ({"queued": 1}, "TinyJobs: retention does not take 'queued'"),
        ({"failed": -1}, "TinyJobs: retention: failed: -1"),
        ({"failed": "7d"}, "TinyJobs: retention: failed: '7d'"),
        ({"failed": math.nan}, "TinyJobs: retention: failed: nan"),
        ({"failed": True}, "TinyJobs: retention: failed: True"),
        ({1: 1}, "TinyJobs: retention does not take '1'"),
        (7, "TinyJobs: retention: 7 is not a mapping"),
    ],
)
def test_wrong_retention(make_app, wrong, says):
    with pytest.raises(ConfigurationError, match=says):
        make_app(retention=wrong)


def test_a_store_that_deletes_nothing_takes_no_retention(make_app):
    with pytest.raises(UnsupportedCapabilityError, match="TinyJobs: retention: this store deletes no jobs"):
        make_app("meagre://", retention={"failed": 5})
    app = make_app("meagre://", retention=KEEP_EVERYTHING)
    with pytest.raises(UnsupportedCapabilityError, match="result_ttl: this store drops no results"):
        app.task(result_ttl=5)(sample)


def finished(app, count=4):
    """Jobs that succeeded, and one that was cancelled, at the present."""
    task = app.task(name="sample")(sample)
    for _ in range(count):
        task.enqueue()
    app.drain()
    app.cancel(task.enqueue())


@pytest.fixture(params=["file", pytest.param("postgres", marks=pytest.mark.postgres)])
def sql_app(request, make_app, tmp_path):
    url = f"sqlite:///{tmp_path}/jobs.db" if request.param == "file" else request.getfixturevalue("postgres_url")
    return request.getfixturevalue("make_app")(url)


def test_a_purge_by_hand(sql_app, clock, call):
    app = sql_app
    finished(app)
    clock.advance(100)
    young = app.send("sample")
    app.drain()
    dry = call(app, "purge", older_than=100, dry_run=True)
    assert (dry.is_dry_run, dict(dry.deleted)) == (True, {"success": 4, "cancelled": 1, "failed": 0})
    assert len(app.list().jobs) == 6
    done = call(app, "purge", older_than=datetime.timedelta(seconds=100))
    assert (done.deleted, done.kept, done.is_dry_run) == (dry.deleted, dry.kept, False)
    assert [job.id for job in app.list().jobs] == [young.id]


def test_a_purge_by_the_retention(sql_app, clock, call):
    app = sql_app
    finished(app)
    clock.advance(7 * DAY - 1)
    assert sum(call(app, "purge").deleted.values()) == 0
    clock.advance(1)
    done = call(app, "purge", statuses="success")
    assert (done.deleted, done.rules) == ({"success": 4}, {"success": 7 * DAY})
    assert call(app, "purge").deleted == {"success": 0, "cancelled": 1, "failed": 0}


@pytest.mark.parametrize("wrong", [{"older_than": -1}, {"older_than": "7d"}, {"statuses": "queued"}, {"statuses": 5}])
def test_a_wrong_purge_is_refused(app, call, wrong):
    with pytest.raises(ConfigurationError, match=rf"app\.purge\(\): {next(iter(wrong))}"):
        call(app, "purge", **wrong)


def test_a_result_goes_before_its_job(make_app, tmp_path):
    clock = FrozenClock()
    app = make_app(f"sqlite:///{tmp_path}/jobs.db", clock=clock)
    job = app.task(name="answer", store_result=True, result_ttl=MINUTE)(lambda: 42).enqueue()
    app.drain()
    assert app.get(job).result() == 42
    clock.advance(60)

    async def main():
        worker = app.worker(handle_signals=False)
        running = asyncio.create_task(worker.run())
        async with asyncio.timeout(PATIENCE):
            while (await app.aget(job)).result() is not None:
                await asyncio.sleep(0.005)
        worker.stop()
        await running

    asyncio.run(main())
    ended = app.get(job)
    assert (ended.status, ended.result(), len(app.executions(job))) == (JobStatus.SUCCESS, None, 1)
