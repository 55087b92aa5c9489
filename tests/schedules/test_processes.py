"""Schedulers as processes that race, are killed and suspended, and outlive their server: each firing happens once.

Time runs six hundred times as fast in them, so that an hour of firings takes six seconds.
"""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from tests.schedules import speed
from tinyjobs.app.facade import TinyJobs
from tinyjobs.core.inline import finish
from tinyjobs.core.job import ScheduleMove

ROOT = Path(__file__).parents[2]
PATIENCE = 60.0
FACTOR = 600.0
EVERY_MINUTE = {"task": "note", "cron": "* * * * *", "misfire": "run_all", "overlap": True}


class Fleet:
    """Processes over one store, and what they have made so far."""

    def __init__(self, url: str, folder: Path, factor: float | None = FACTOR) -> None:
        self.url = url
        self.folder = folder
        self.environment = {} if factor is None else speed.switch(factor)
        self.clock = speed.clock(self.environment)
        self.processes: list[subprocess.Popen] = []
        self.app = TinyJobs(url, clock=self.clock)
        self.app.setup()

    def start(self, role="scheduler", **settings) -> subprocess.Popen:
        settings = {"entry": EVERY_MINUTE, **settings}
        number = len(self.processes)
        with (self.folder / f"{number}.err").open("wb") as errors:
            process = subprocess.Popen(
                [sys.executable, "-m", "tests.schedules.program", role, json.dumps(settings)],
                cwd=ROOT,
                env={**os.environ, **self.environment, "SCHEDULES_URL": self.url},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
            )
        self.processes.append(process)
        return process

    def up(self, *processes) -> None:
        for process in processes:
            assert process.stdout.readline() == b"up\n", self.errors()

    def stop(self, *processes) -> list[dict]:
        """End them cleanly; what each did."""
        for process in processes:
            process.send_signal(signal.SIGTERM)
        answers = [process.communicate(timeout=PATIENCE)[0].splitlines()[-1:] for process in processes]
        assert [process.returncode for process in processes] == [0] * len(processes), self.errors()
        return [json.loads(answer[0]) for answer in answers]

    def errors(self) -> str:
        return "".join(path.read_text() for path in sorted(self.folder.glob("*.err")))

    def jobs(self) -> list:
        found, cursor = [], None
        while True:
            page = self.app.list(limit=10_000, cursor=cursor)
            found += page.jobs
            cursor = page.cursor
            if cursor is None:
                return found

    def minutes(self) -> list[float]:
        """The minutes that have a job, one for each job."""
        return sorted(job.scheduled_for / 60 for job in self.jobs() if job.scheduled_for is not None)

    def until(self, condition, what="") -> None:
        ends = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < ends, f"it did not come about: {what}\n{self.errors()}"
            time.sleep(0.05)

    def close(self) -> None:
        for process in self.processes:
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.kill()
            process.wait(PATIENCE)
            process.stdout.close()
        self.app.close()


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def url(request, tmp_path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/jobs.db"
    # A machine that is busy with other things may take its time with connections. Nobody here is to speak of that.
    return request.getfixturevalue("postgres_url") + f"?pool_timeout={PATIENCE}"


@pytest.fixture
def make_fleet(tmp_path):
    fleets = []

    def make(url, **options):
        fleets.append(Fleet(url, tmp_path, **options))
        return fleets[-1]

    yield make
    for fleet in fleets:
        fleet.close()


def assert_each_once(minutes: list[float]) -> None:
    assert [minute for minute, count in Counter(minutes).items() if count > 1] == []
    assert minutes == [minutes[0] + place for place in range(len(minutes))]


def test_four_schedulers_make_one_job_of_each_firing(url, make_fleet):
    fleet = make_fleet(url)
    racers = [fleet.start() for _ in range(4)]
    fleet.up(*racers)
    fleet.until(lambda: len(fleet.jobs()) >= 60, "sixty firings")
    reports = fleet.stop(*racers)
    minutes = fleet.minutes()
    assert_each_once(minutes)
    assert sum(report["fired"] for report in reports) == len(minutes)
    assert fleet.errors() == ""  # losing is nothing to speak of


def test_kills_leave_no_gap_and_make_nothing_twice(url, make_fleet):
    fleet = make_fleet(url)
    chance = random.Random(7)
    running = [fleet.start() for _ in range(3)]
    fleet.up(*running)
    kills = 0
    while len(fleet.jobs()) < 60:
        so_far = len(fleet.jobs()) + chance.randint(1, 6)
        fleet.until(lambda: len(fleet.jobs()) >= so_far)  # noqa: B023
        time.sleep(chance.uniform(0.0, 0.1))  # a tenth of a second is a minute there, so it meets anything
        running.pop(chance.randrange(len(running))).kill()
        kills += 1
        running.append(fleet.start())
    fleet.up(*(process for process in running if process.poll() is None))
    fleet.stop(*running)
    assert kills >= 5
    assert_each_once(fleet.minutes())


@pytest.mark.parametrize("misfire", ["skip", "run_once", "run_all"])
def test_a_suspended_process_goes_on_by_the_misfire_rule(url, make_fleet, misfire):
    """Asleep for half an hour of its time. What falls into the grace at the end counts as on time."""
    grace = 240.0
    fleet = make_fleet(url)
    alone = fleet.start(entry={**EVERY_MINUTE, "misfire": misfire}, scheduler={"misfire_grace": grace})
    fleet.up(alone)
    fleet.until(lambda: len(fleet.jobs()) >= 3)
    alone.send_signal(signal.SIGSTOP)
    before = fleet.minutes()
    wakes_at = fleet.clock.now() + 1800
    fleet.until(lambda: fleet.clock.now() > wakes_at)
    woke_at = fleet.clock.now()
    alone.send_signal(signal.SIGCONT)
    fleet.until(lambda: fleet.minutes()[-1] > woke_at / 60 + 3)
    fleet.stop(alone)
    minutes = fleet.minutes()
    assert len(set(minutes)) == len(minutes)
    missed = [minute for minute in minutes if before[-1] + 5 < minute < (woke_at - grace) / 60 - 1]
    if misfire == "run_all":
        assert_each_once(minutes)
    else:
        assert missed == []
        assert minutes[-1] - minutes[0] + 1 - len(minutes) >= 20  # the rest of that half hour
    (state,) = fleet.app.schedules()
    assert state.next_run_at / 60 > minutes[-1]


def test_a_server_that_restarts_loses_no_firing(own_cluster, make_fleet):
    """The scheduler waits for it and goes on by itself."""
    fleet = make_fleet(own_cluster.url())
    alone = fleet.start()
    fleet.up(alone)
    fleet.until(lambda: len(fleet.jobs()) >= 3)
    own_cluster.stop()
    time.sleep(1.5)
    assert alone.poll() is None
    own_cluster.start()
    woke_at = fleet.clock.now()
    fleet.until(lambda: fleet.minutes()[-1] > woke_at / 60 + 5)
    fleet.stop(alone)
    assert_each_once(fleet.minutes())


@pytest.mark.slow
@pytest.mark.parametrize("job_ends", ["meanwhile", "afterwards"])
def test_worker_scheduler_and_a_running_job_outlive_fifteen_seconds_without_a_server(
    own_cluster, make_fleet, tmp_path, job_ends
):
    """Seven firings fall into them. Each is made by the one and run by the other, and the job ends once."""
    fleet = make_fleet(own_cluster.url(), factor=30.0)
    minute = 60.0
    alone = fleet.start()
    worker = fleet.start("worker", worker={"scheduler": False, "lease": 30 * minute, "shutdown_timeout": 10 * minute})
    fleet.up(alone, worker)
    gate = tmp_path / "gate"
    held = fleet.app.send("hold", [str(gate)]).id
    fleet.until((tmp_path / "gate.starts").exists, "the job runs")
    fleet.until(lambda: len(fleet.minutes()) >= 2, "the scheduler fires")
    own_cluster.stop()
    time.sleep(7.5)
    if job_ends == "meanwhile":
        gate.touch()
    time.sleep(7.5)
    assert (alone.poll(), worker.poll()) == (None, None), fleet.errors()
    own_cluster.start()
    back_at = fleet.clock.now()
    gate.touch()
    fleet.until(lambda: fleet.minutes()[-1] > back_at / 60 + 3, "the scheduler goes on")
    fleet.until(lambda: {job.status for job in fleet.jobs()} == {"success"}, "the worker goes on")
    fleet.stop(alone)
    fleet.until(lambda: {job.status for job in fleet.jobs()} == {"success"}, "the rest")
    fleet.stop(worker)
    minutes = fleet.minutes()
    assert_each_once(minutes)
    assert sum(back_at / 60 - 7.5 < place <= back_at / 60 for place in minutes) in (7, 8)
    assert {job.claims for job in fleet.jobs()} == {1}
    assert [entry.status for entry in fleet.app.executions(held)] == ["success"]
    assert (tmp_path / "gate.starts").read_text() == "start\n"


@pytest.mark.slow
def test_ten_thousand_schedules_of_one_moment_fire_once_each(url, make_fleet, capsys):
    """Under four workers, which run the jobs meanwhile."""
    count = 10_000
    fleet = make_fleet(url, factor=None)
    entry = {"task": "note", "cron": "0 0 1 1 *", "overlap": True}
    settings = {"entry": entry, "count": count, "worker": {"poll": 0.5}, "longest_sleep": 4.0}
    workers = [fleet.start("worker", **settings) for _ in range(4)]
    fleet.up(*workers)
    fleet.until(lambda: len(fleet.app.schedules()) == count, "all are registered")
    moment = _move_all(fleet, seconds=18.0)  # moved within seconds, and then seen by every scheduler
    fleet.until(lambda: fleet.app.stats().by_status.get("success", 0) >= count, "all have run")
    fleet.stop(*workers)
    jobs = fleet.jobs()
    assert len(jobs) == count
    assert {job.scheduled_for for job in jobs} == {moment}
    states = fleet.app.schedules()
    assert len({state.last_job_id for state in states}) == count
    late = sorted(state.last_run_at - moment for state in states)
    with capsys.disabled():
        print(f"\nlate: median {late[count // 2]:.2f} s, p95 {late[count * 95 // 100]:.2f} s, most {late[-1]:.2f} s")
    assert late[-1] < 60.0


def _move_all(fleet: Fleet, seconds: float) -> float:
    """Have every schedule stand at one moment soon."""
    moment = float(int(time.time() + seconds))
    store = fleet.app.store.inline()

    def have_moved() -> bool:
        """A row that a worker is just registering is left to it, so it may take another look."""
        rest = [state for state in fleet.app.schedules() if state.next_run_at != moment]
        moves = [ScheduleMove(name=state.name, expected=state.next_run_at, next_run_at=moment) for state in rest]
        finish(store.fire_schedules(moves))
        return not rest

    fleet.until(have_moved, "every schedule stands at that moment")
    assert time.time() < moment, "one that has fired would have been moved again"
    return moment
