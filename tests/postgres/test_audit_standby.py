"""What is told of a server that is a standby, by a real one that streams, and that all is well once it is promoted."""

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from django.db import connections
from django.urls import include, path

from tests.crash.telling import BEGINS, ENDS, said, tells_twice
from tests.crash.workshop import until
from tests.servers.apps import apps_on
from tests.servers.fixtures import skipping_what_is_missing
from tests.servers.postgres import Cluster, Standby
from tinyjobs.app.facade import TinyJobs
from tinyjobs.core.inline import finish
from tinyjobs.core.watching import Finding
from tinyjobs.operations.check import is_healthy

pytestmark = pytest.mark.postgres
urlpatterns = [path("tinyjobs/", include("tinyjobs.urls"))]
ROOT = Path(__file__).parents[2]
#: Or the audit would speak of that instead.
SAFE = {"fsync": "on"}
PROGRAM = """
from tinyjobs import TinyJobs
app = TinyJobs({url!r})
@app.task(name="note")
def note(*given): pass
"""


@pytest.fixture
def primary(make_cluster) -> Cluster:
    return make_cluster(settings=SAFE)


@pytest.fixture
def follow() -> Iterator[Callable[[Cluster], Standby]]:
    """Makes a standby of a cluster as it is by now."""
    with ExitStack() as stack:

        def follow(primary: Cluster) -> Standby:
            with skipping_what_is_missing():
                return stack.enter_context(Standby(primary, settings=SAFE))

        yield follow


@pytest.fixture
def make() -> Iterator[Callable[[str], TinyJobs]]:
    with apps_on("memory://") as make:

        def with_a_task(url: str) -> TinyJobs:
            app = make(url)
            app.task(name="note")(lambda *given: None)
            return app

        yield with_a_task


@pytest.fixture
def standby(primary, make, follow) -> Standby:
    """Of a primary with a store in it."""
    make(primary.url()).setup()
    made: Standby = follow(primary)
    made.catch_up()
    return made


def failing(found: list[Finding]) -> list[str]:
    return [finding.name for finding in found if not finding.ok]


async def acheck(app: TinyJobs) -> list[Finding]:
    return await app.acheck()


def test_the_audit_and_the_check_tell_that_it_is_a_standby_until_it_is_promoted(standby, make):
    app = make(standby.url())
    (told,) = [finding for finding in app.check() if not finding.ok]
    assert told.name == "recovery"
    assert "standby" in told.message and "refuses every write" in told.message
    assert "primary" in told.remedy
    assert failing(finish(app.store.inline().audit())) == ["recovery"]
    assert failing(asyncio.run(acheck(make(standby.url())))) == ["recovery"]
    assert is_healthy(app.check(store_warnings=True))
    standby.promote()
    for each in (app, make(standby.url())):
        assert failing(each.check()) == []
    assert failing(asyncio.run(acheck(make(standby.url())))) == []
    app.tasks["note"].enqueue()


@pytest.mark.slow
def test_the_command_exits_with_1_and_with_0_after_the_promotion(standby, tmp_path):
    (tmp_path / "work.py").write_text(PROGRAM.format(url=standby.url()))

    def check() -> tuple[int, str]:
        command = [sys.executable, "-m", "tinyjobs", "check", "--app", "work:app"]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60)
        return done.returncode, done.stdout + done.stderr

    status, told = check()
    assert status == 1, told
    (line,) = [line for line in told.splitlines() if line.startswith("FAIL")]
    assert line.startswith("FAIL  recovery: The server is a standby")
    standby.promote()
    status, told = check()
    assert status == 0, told


def test_a_standby_without_tables_is_told_of_as_such(primary, follow, make):
    app = make(follow(primary).url())
    assert failing(app.check()) == ["store"]
    assert "no tables" in app.check()[0].message


@pytest.fixture
def behind_an_alias(standby, django_db_setup, django_db_blocker) -> Iterator[Standby]:
    """The standby as one more database of the project."""
    place = urlsplit(standby.url())
    connections.settings["standby"] = {
        **connections["default"].settings_dict,
        "ENGINE": "django.db.backends.postgresql",
        "NAME": "postgres",
        "USER": place.username,
        "HOST": place.hostname,
        "PORT": place.port,
        "OPTIONS": {},
    }
    with django_db_blocker.unblock():
        yield standby
        connections["standby"].close()
    del connections["standby"], connections.settings["standby"]


@pytest.mark.slow
@pytest.mark.database
@pytest.mark.urls(__name__)
@pytest.mark.parametrize("kind", ["url", "database"])
def test_the_health_page_answers_503_until_it_is_promoted(behind_an_alias, client, settings, kind):
    standby = behind_an_alias
    options = {"url": standby.url()} if kind == "url" else {"database": "standby"}
    token = "a-token-of-some-length"
    tasks = {"BACKEND": "tinyjobs.TinyJobsBackend", "OPTIONS": {**options, "monitoring_token": token}}
    settings.TASKS = {"default": tasks}
    answer = client.get("/tinyjobs/health/", headers={"Authorization": f"Bearer {token}"})
    assert answer.status_code == 503
    told = [finding["name"] for finding in answer.json()["backends"]["default"] if not finding["ok"]]
    assert told == ["recovery"]
    standby.promote()
    assert client.get("/tinyjobs/health/").status_code == 200


@pytest.mark.slow
def test_a_worker_on_a_standby_warns_once_and_runs_after_the_promotion(primary, standby, make, open_workshop):
    sender = make(primary.url())
    before = sender.tasks["note"].enqueue(0)
    standby.catch_up()
    workshop = open_workshop(standby.url())
    worker = workshop.worker(lease=3.0, reap_interval=0.3)
    until(lambda: BEGINS in worker.errors)
    time.sleep(2.0)  # each of its loops has met it by now
    (line,) = said(worker)
    assert "WARNING" in line and "a standby or read-only" in line
    assert workshop.get(before.id).status == "queued"
    sender.close()
    primary.stop()
    standby.promote()
    until(lambda: workshop.get(before.id).status == "success")
    later = workshop.send("note", 1)
    until(lambda: workshop.get(later).status == "success")
    until(lambda: ENDS in worker.errors)
    assert tells_twice(said(worker)), worker.errors
