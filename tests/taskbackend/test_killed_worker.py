"""`manage.py tinyjobs worker`, killed with jobs running: each of them runs again elsewhere, and none is lost."""

import json
import random
import time
from collections import Counter

import pytest

from tests.taskbackend.projects import Project, until

KINDS = {
    "postgres": ("postgres_url", None),
    "redis beside sqlite": (None, "redis_url"),
    "redis beside postgres": ("postgres_url", "redis_url"),
}
MARKS = {"postgres_url": pytest.mark.postgres, "redis_url": pytest.mark.redis}


@pytest.fixture(
    params=[
        pytest.param(fixtures, id=kind, marks=[MARKS[name] for name in fixtures if name])
        for kind, fixtures in KINDS.items()
    ]
)
def project(request, tmp_path):
    database, jobs = (name and request.getfixturevalue(name) for name in request.param)
    made = Project(tmp_path, database or f"sqlite:///{tmp_path}/club.sqlite3", jobs=jobs)
    yield made
    made.close()


def test_a_worker_that_is_killed_with_jobs_running(project):
    flags = ("--concurrency", "2", "--async-concurrency", "2", "--lease", "2", "--reap-interval", "0.2")
    doomed = project.start_worker(*flags)
    named = [(task, f"{task}{number}") for number in range(2) for task in ("linger", "alinger")]
    jobs = [project.send(task, name, max_attempts=3) for task, name in named]
    started = project.folder / "started"
    until(lambda: started.exists() and len(started.read_text().splitlines()) == 4, "the start of four jobs")
    waiting = project.send("count")
    doomed.kill()
    doomed.wait()

    second = project.start_worker(*flags)
    ended = [project.ended(job) for job in jobs]
    assert {job.status for job in ended} == {"success"}
    assert {json.loads(job.record.result) for job in ended} == {second.pid}
    assert [job.attempts for job in ended] == [2] * 4
    assert [[entry.status for entry in project.app.executions(job)] for job in jobs] == [["lost", "success"]] * 4
    assert project.ended(waiting).attempts == 1
    project.stop(second)
    assert len(started.read_text().splitlines()) == 8


@pytest.mark.slow
def test_workers_killed_again_and_again(project):
    """With one attempt each: a job that was started ends once, in success or as lost, and every other one runs."""
    seed = random.randrange(10**9)
    print(f"seed {seed}")
    dice = random.Random(seed)
    flags = ("--concurrency", "2", "--lease", "2", "--reap-interval", "0.2")
    jobs = [project.send("note", f"job{number}", max_attempts=1) for number in range(200)]
    started = project.folder / "started"
    for kills in range(1, 6):
        worker = project.start_worker(*flags)
        until(lambda: started.exists() and len(started.read_text().splitlines()) >= 20 * kills, "the start of some")  # noqa: B023
        time.sleep(dice.uniform(0, 0.1))
        worker.kill()
        worker.wait()
    last = project.start_worker(*flags)
    ended = [project.ended(job) for job in jobs]
    project.stop(last)
    starts = Counter(line.split()[0] for line in started.read_text().splitlines())
    assert set(starts.values()) == {1}
    assert {job.status for job in ended} <= {"success", "failed"}
    for number, job in enumerate(ended):
        history = [entry.status for entry in project.app.executions(job.id)]
        assert history == (["success"] if job.status == "success" else ["lost"]), (number, history)
        assert job.status == "failed" or starts[f"job{number}"] == 1
    print(f"{sum(job.status == 'failed' for job in ended)} of {len(jobs)} were lost with their one attempt")
