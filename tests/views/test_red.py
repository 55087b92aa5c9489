"""The health page goes red over real trouble, and green again when that is over: real processes, servers and mounts.

Clocks run thirty times as fast, in this process and in those it starts, so that half a minute of silence is a second.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from django.urls import include, path

from tests.schedules import speed
from tinyjobs.app.facade import TinyJobs
from tinyjobs.core.watching import FORGOTTEN_AFTER
from tinyjobs.taskbackend.shared import use_clock

pytestmark = [pytest.mark.django_db, pytest.mark.urls(__name__)]
urlpatterns = [path("tinyjobs/", include("tinyjobs.urls"))]

ROOT = Path(__file__).parents[2]
PATIENCE = 90.0
FACTOR = 30.0
TOKEN = "a-token-of-some-length"
ENTRY = {"task": "note", "cron": "*/5 * * * *"}


class Site:
    """The page of a project whose jobs are in the store of a URL, and the processes that work on it."""

    def __init__(self, client, settings, url: str, folder: Path, environment: dict[str, str]) -> None:
        self._client = client
        self._folder = folder
        self._environment = {**os.environ, **environment, "SCHEDULES_URL": url}
        self._processes: list[subprocess.Popen[bytes]] = []
        options = {"url": url, "monitoring_token": TOKEN}
        settings.TASKS = {"default": {"BACKEND": "tinyjobs.TinyJobsBackend", "OPTIONS": options}}
        # The jobs of the schedules are those of the processes' own program, which this project does not know.
        self.app = TinyJobs(url, clock=speed.clock(environment))
        self.app.setup()

    def failing(self) -> set[str]:
        """The names of what fails. The status has to agree."""
        status, findings = self._ask()
        found = [finding["name"] for finding in findings if not finding["ok"]]
        assert status == (503 if found else 200)
        return set(found)

    def message(self, name: str) -> str:
        """What is told of one finding; empty where there is none of that name."""
        _, findings = self._ask()
        return next((finding["message"] for finding in findings if finding["name"] == name), "")

    def _ask(self):
        answer = self._client.get("/tinyjobs/health/?store_warnings=0", headers={"Authorization": f"Bearer {TOKEN}"})
        return answer.status_code, answer.json()["backends"]["default"]

    def until(self, condition: Callable[[set[str]], bool], what: str) -> None:
        """Ask until it is so."""
        ends = time.monotonic() + PATIENCE
        while not condition(found := self.failing()):
            assert time.monotonic() < ends, f"it did not come about: {what}; failing: {found}\n{self.errors()}"
            time.sleep(0.05)

    def start(self, role: str, **settings) -> subprocess.Popen[bytes]:
        with (self._folder / f"{len(self._processes)}.err").open("wb") as errors:
            process = subprocess.Popen(
                [sys.executable, "-m", "tests.schedules.program", role, json.dumps(settings)],
                cwd=ROOT,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=errors,
            )
        self._processes.append(process)
        return process

    def errors(self) -> str:
        return "".join(file.read_text() for file in sorted(self._folder.glob("*.err")))

    def close(self) -> None:
        for process in self._processes:
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.kill()
            process.wait(PATIENCE)
        self.app.close()


@pytest.fixture
def environment():
    """Of processes whose clock is this one's."""
    made = speed.switch(FACTOR)
    use_clock(speed.clock(made))
    yield made
    use_clock(None)


@pytest.fixture
def make_site(client, settings, tmp_path, environment):
    sites = []

    def make(url):
        sites.append(Site(client, settings, url, tmp_path, environment))
        return sites[-1]

    yield make
    for site in sites:
        site.close()


@pytest.fixture
def site(make_site, tmp_path):
    """On a SQLite file, whose clock is that of the processes."""
    return make_site(f"sqlite:///{tmp_path}/jobs.db")


def without(*names):
    return lambda found: not found & set(names)


def with_(name):
    return lambda found: name in found


def test_a_worker_that_is_stopped(site, monkeypatch):
    workers = {"count": 0, "entry": {}}
    worker = site.start("worker", **workers)
    site.until(lambda found: len(site.app.workers()) == 1 and "silent_workers" not in found, "a worker is there")
    worker.send_signal(signal.SIGSTOP)
    site.until(with_("silent_workers"), "the worker is silent")
    second = site.start("worker", **workers)
    # Instead of waiting until it has been silent for so long.
    monkeypatch.setattr("tinyjobs.operations.presence.FAILING_FOR", 0.0)
    site.until(without("silent_workers"), "another one serves its queues, and this one went silent long ago")
    assert len(site.app.workers()) == 2
    second.send_signal(signal.SIGTERM)
    site.until(with_("silent_workers"), "that one has gone")
    assert second.wait(PATIENCE) == 0
    worker.send_signal(signal.SIGCONT)
    site.until(without("silent_workers"), "it goes on")
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(PATIENCE) == 0, site.errors()
    assert site.app.workers() == []


def test_one_of_two_workers_that_is_stopped(site, monkeypatch):
    """The other one does all that there is to do, and the page goes red all the same."""
    # The window is ten seconds by these clocks, which a loaded machine may sleep through.
    monkeypatch.setattr("tinyjobs.operations.presence.FAILING_FOR", FORGOTTEN_AFTER)
    stopped, other = (site.start("worker", count=0, entry={}) for _ in range(2))
    site.until(lambda found: len(site.app.workers()) == 2 and "silent_workers" not in found, "both are there")
    stopped.send_signal(signal.SIGSTOP)

    def only_it_is_silent(found):
        told = site.message("silent_workers")
        return "silent_workers" in found and f":{stopped.pid}:" in told and "others serve their queues" in told

    site.until(only_it_is_silent, "it is silent, and the other one is not")
    stopped.send_signal(signal.SIGCONT)
    site.until(without("silent_workers"), "it goes on")
    assert other.poll() is None


def test_a_worker_that_was_killed_stays_listed_and_one_that_was_stopped_does_not(site):
    worker = site.start("worker", count=0, entry={})
    site.until(lambda found: len(site.app.workers()) == 1, "a worker is there")
    worker.kill()
    site.until(with_("silent_workers"), "the worker is silent")
    assert [seen.pid for seen in site.app.workers()] == [worker.pid]


def test_a_scheduler_that_is_dead(site):
    scheduler = site.start("scheduler", entry=ENTRY)
    site.until(lambda found: bool(site.app.workers()) and "scheduler" not in found, "it has made a pass")
    scheduler.kill()
    site.until(with_("scheduler"), "its last pass was long ago")
    site.start("scheduler", entry=ENTRY)
    site.until(without("scheduler"), "another one fires")


def test_a_disk_that_is_full(make_site, tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    try:
        mounted = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=80m", "tmpfs", str(disk)], capture_output=True, text=True, timeout=60
        )
    except FileNotFoundError:
        pytest.skip("there is no mount program")
    if mounted.returncode:
        pytest.skip(f"mounting is not permitted here: {mounted.stderr.strip()}")
    try:
        site = make_site(f"sqlite:///{disk}/jobs.db")
        assert "free_space" not in site.failing()
        (disk / "other").write_bytes(b"x" * 60_000_000)
        assert "free_space" in site.failing()
        (disk / "other").unlink()
        assert "free_space" not in site.failing()
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True, timeout=60)


@pytest.mark.redis
def test_a_redis_that_is_gone(make_site, own_redis):
    site = make_site(own_redis.url())
    assert "store" not in site.failing()
    own_redis.kill()
    assert site.failing() == {"store"}
    own_redis.start()
    site.until(without("store"), "it is there again")


@pytest.mark.redis
def test_a_redis_that_hangs(make_site, own_redis, monkeypatch):
    monkeypatch.setattr("tinyjobs.taskbackend.checking.BUDGET", 2.0)
    site = make_site(own_redis.url())
    site.until(without("store"), "it answers")
    own_redis.pause()
    try:
        site.until(lambda found: found == {"store"}, "it does not answer")
    finally:
        own_redis.resume()
    site.until(without("store"), "it answers again")


@pytest.mark.postgres
def test_a_postgres_that_turns_read_only(make_site, own_cluster):
    site = make_site(own_cluster.url())
    assert "read_only" not in site.failing()
    own_cluster.set_read_only(True)
    assert "read_only" in site.failing()
    own_cluster.set_read_only(False)
    site.until(without("read_only"), "it takes writes again")


@pytest.mark.postgres
def test_a_postgres_that_is_gone(make_site, own_cluster):
    site = make_site(own_cluster.url())
    assert "store" not in site.failing()
    own_cluster.stop("immediate")
    assert site.failing() == {"store"}
    own_cluster.start()
    site.until(without("store"), "it is there again")
