"""`app.check()` and `await app.acheck()`."""

import asyncio
import socket

import pytest

from tinyjobs import TinyJobs
from tinyjobs.core.errors import AppClosedError, ConfigurationError, SynchronousCallInsideEventLoopError
from tinyjobs.core.job import ClaimRequest
from tinyjobs.core.watching import Finding
from tinyjobs.operations.check import is_healthy

PATIENCE = 60.0


@pytest.fixture(params=["memory", "file"])
def app(request, tmp_path):
    url = "memory://" if request.param == "memory" else f"sqlite:///{tmp_path}/jobs.db"
    with TinyJobs(url) as made:

        @made.task(name="note")
        def note():
            pass

        yield made


def failing(found: list[Finding]) -> set[str]:
    return {finding.name for finding in found if not finding.ok}


def test_both_ways_tell_the_same(app):
    told = app.check(store_warnings=True)
    assert is_healthy(told)
    assert {finding.name for finding in told} >= {"tasks", "leases", "waiting", "workers", "settings"}
    assert {finding.name for finding in asyncio.run(app.acheck(store_warnings=True))} == {
        finding.name for finding in told
    }


def test_a_job_that_waits(app):
    app.tasks["note"].enqueue()
    assert "waiting" not in failing(app.check(max_wait=3_600))
    assert "waiting" in failing(app.check(max_wait=0))
    assert "waiting" in failing(asyncio.run(app.acheck(max_wait=0)))


def test_a_job_past_its_lease(app):
    app.tasks["note"].enqueue()

    async def claim():
        await app.store.claim(ClaimRequest(worker_id="w", limit=1, lease=-5.0))

    asyncio.run(claim())
    assert "leases" in failing(app.check())


def test_a_schedule_that_nobody_fires(tmp_path):
    with TinyJobs(f"sqlite:///{tmp_path}/jobs.db") as app:

        @app.task(cron="@daily")
        def nightly():
            pass

        assert "scheduler" in failing(app.check())


@pytest.mark.parametrize("call", ["check", "acheck"])
def test_a_wrong_wait_is_refused(app, call):
    with pytest.raises(ConfigurationError, match=rf"app\.{call}\(\): max_wait"):
        _called(app, call, max_wait=-1)


def _called(app, call, **options):
    return app.check(**options) if call == "check" else asyncio.run(app.acheck(**options))


@pytest.mark.parametrize("call", ["check", "acheck"])
@pytest.mark.parametrize(
    "url", ["postgresql://me:s3cr3t@127.0.0.1:1/x?pool_timeout=2", "redis://:s3cr3t@127.0.0.1:1/0"]
)
def test_a_store_out_of_reach_is_a_finding(call, url):
    app = TinyJobs(url)
    try:
        (found,) = _called(app, call)
    finally:
        app.close()
    assert (found.name, found.ok) == ("store", False)
    assert "s3cr3t" not in found.message


def test_an_await_gives_up_in_time(monkeypatch):
    """On a server that takes the connection and never says a word."""
    monkeypatch.setattr("tinyjobs.app.checking.BUDGET", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as server:
        app = TinyJobs(f"redis://127.0.0.1:{server.getsockname()[1]}/0")
        (found,) = asyncio.run(app.acheck())
    app.close()
    assert (found.name, found.ok) == ("store", False)
    assert "within" in found.message


def test_inside_an_event_loop_the_blocking_call_is_refused(app):
    async def main():
        with pytest.raises(SynchronousCallInsideEventLoopError, match="acheck"):
            app.check()

    asyncio.run(main())


def test_a_closed_app_is_no_trouble_of_the_stores(app):
    app.close()
    with pytest.raises(AppClosedError):
        app.check()
