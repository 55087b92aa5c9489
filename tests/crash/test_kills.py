"""Workers that vanish: killed at any moment, by themselves, or suspended until nobody reckons with them."""

import os
import random
import signal
import time
from collections import Counter

import pytest

from tests.crash.workshop import SHORT, until

KILLS = 50


def test_a_job_whose_worker_is_killed_runs_on_another_after_the_lease(workshop):
    gate = workshop.folder / "gate"
    job = workshop.send("hold", str(gate), max_attempts=2)
    first = workshop.worker(**SHORT)
    until(lambda: workshop.starts(job))
    first.kill()
    gate.touch()
    report = workshop.finish()
    assert report["succeeded"] == 1
    assert workshop.history(job) == ["lost", "success"]
    assert (workshop.get(job).status, workshop.get(job).attempts) == ("success", 2)
    assert len(workshop.starts(job)) == 2
    assert {status: count for status, count in workshop.app.stats().by_status.items() if count} == {"success": 1}
    assert workshop.lines("failure") == [[job, "WorkerLost", "True"]]


def test_a_restarted_worker_does_not_vouch_for_the_killed_one(workshop):
    """The next worker starts at once and looks at the same rows long before the lease ends."""
    gate = workshop.folder / "gate"
    job = workshop.send("hold", str(gate), max_attempts=2)
    first = workshop.worker(**SHORT)
    until(lambda: workshop.starts(job))
    owner = workshop.get(job).worker_id
    first.kill()
    workshop.worker(**SHORT)
    gate.touch()
    until(lambda: workshop.get(job).status.is_final)
    assert workshop.history(job) == ["lost", "success"]
    assert workshop.get(job).worker_id != owner


def test_a_job_that_kills_its_worker_each_time_ends_after_its_attempts(workshop):
    job = workshop.send("suicide", max_attempts=3)
    good = [workshop.send("note", number) for number in range(10)]
    settings = {**SHORT, "concurrency": 1, "until_empty": True}
    for _ in range(3):
        workshop.start(**settings).ended()
    report = workshop.finish()
    stored = workshop.get(job)
    assert (stored.status, stored.attempts) == ("failed", 3)
    assert stored.last_error.startswith("WorkerLost")
    assert len(workshop.starts(job)) == 3
    assert workshop.history(job) == ["lost"] * 3
    assert [rest for rest in workshop.lines("failure") if rest[2] == "False"] == [[job, "WorkerLost", "False"]]
    assert {workshop.get(other).status for other in good} == {"success"}
    assert {len(workshop.starts(other)) for other in good} == {1}
    assert report["failed"] == 0


@pytest.mark.slow
def test_fifty_kills_at_random_moments_lose_nothing(workshop):
    """With one attempt each: what ends failed had been started, what had not been started runs.

    Between the commit of a claim and the first line of a function lies the moment in which the claim is handed to a
    slot. No store can close it: a job killed in that very moment counts as started. Since a worker claims into free
    slots only, those are never more than it has slots of that kind.
    """
    seed = random.randrange(10**9)
    print(f"seed {seed}")
    dice = random.Random(seed)
    slots = {"concurrency": 2, "async_concurrency": 2}
    ids = [
        workshop.send(("work", "awork")[number % 2], number, round(dice.uniform(0.0, 0.1), 3), max_attempts=1)
        for number in range(900)
    ]
    nursery = workshop.start("nursery", workers=2, settings={**SHORT, **slots})
    alive: list[int] = []
    for _ in range(KILLS):
        while len(alive) < 2:
            alive.append(int(nursery.line()))
        victim = alive.pop(0)
        until(lambda victim=victim: workshop.has_begun_or_finds_nothing(victim))
        time.sleep(dice.uniform(0.0, 0.15))
        os.kill(victim, signal.SIGKILL)
    nursery.kill()
    workshop.finish()
    jobs = {job.id: job for job in workshop.jobs()}
    assert sorted(jobs) == sorted(ids)
    assert {job.status.value for job in jobs.values()} <= {"success", "failed"}
    started, ended = workshop.starts(), set(workshop.ends())
    assert len(started) == len(set(started))
    never = [job for job in jobs.values() if job.id not in started]
    assert {job.status.value for job in never} <= {"failed"}
    handed_over = Counter((workshop.app.executions(job.id)[0].worker_id, job.task) for job in never)
    assert max(handed_over.values(), default=0) <= 2
    failed = [job.id for job in jobs.values() if job.status == "failed"]
    assert failed, "the kills have hit nothing"
    assert {tuple(workshop.history(job_id)) for job_id in failed} <= {("lost",)}
    assert all(job.id in ended for job in jobs.values() if job.status == "success")
    print(f"{len(failed)} lost in {KILLS} kills, {len(never)} of them between claim and start")


def test_a_worker_that_was_suspended_past_its_lease_cannot_report(workshop):
    """Its job ran again meanwhile; awake, its own outcome is refused, and there is one end."""
    gate, second_gate = workshop.folder / "gate", workshop.folder / "second"
    job = workshop.send("hold", str(gate), max_attempts=3)
    first = workshop.worker(**SHORT, concurrency=1)
    until(lambda: workshop.starts(job))
    first.send(signal.SIGSTOP)
    second = workshop.worker(**SHORT, concurrency=1)
    until(lambda: len(workshop.starts(job)) == 2)
    gate.touch()
    until(lambda: workshop.get(job).status == "success")
    winner = workshop.get(job)
    first.send(signal.SIGCONT)
    until(lambda: len(workshop.ends(job)) == 2)
    first.send(signal.SIGTERM)
    second.send(signal.SIGTERM)
    assert (first.ended(), second.ended()) == (0, 0)
    assert workshop.get(job) == winner
    assert workshop.history(job) == ["lost", "success"]
    assert "came too late and was refused" in first.errors
    assert str(second.pid) in winner.worker_id
    assert not second_gate.exists()


def test_a_job_longer_than_its_lease_runs_once_beside_idle_workers(workshop):
    jobs = [workshop.send("work", 1, 2.5, max_attempts=5), workshop.send("awork", 2, 2.5, max_attempts=5)]
    for _ in range(3):
        workshop.start(**SHORT)
    until(lambda: all(workshop.get(job).status.is_final for job in jobs))
    assert [workshop.history(job) for job in jobs] == [["success"], ["success"]]
    assert sorted(workshop.starts()) == sorted(jobs)


def test_delayed_jobs_run_once_each_and_none_before_its_time(workshop):
    """Their time lies beyond the lease, and three workers are waiting for it."""
    began = time.time()
    ids = [workshop.send("note", number, delay=2.5, max_attempts=3) for number in range(50)]
    workers = [workshop.worker(**SHORT) for _ in range(3)]
    until(lambda: len(workshop.ends()) == 50)
    for worker in workers:
        worker.send(signal.SIGTERM)
    assert [worker.ended() for worker in workers] == [0, 0, 0]
    assert sorted(workshop.starts()) == sorted(ids)
    jobs = workshop.jobs()
    assert {job.status for job in jobs} == {"success"}
    assert min(job.started_at for job in jobs) >= began + 2.5


def test_four_workers_run_two_thousand_jobs_once_each(workshop):
    ids = [job.id for job in _bulk(workshop, 2_000)]
    workers = [workshop.start(until_empty=True) for _ in range(4)]
    reports = [worker.answer() for worker in workers]
    assert sum(report["succeeded"] for report in reports) == 2_000
    assert sorted(workshop.starts()) == sorted(ids)


def _bulk(workshop, count):
    for number in range(count):
        workshop.send("note" if number % 2 else "anote", number)
    return workshop.jobs()


def test_no_job_waits_behind_a_long_one(workshop):
    """The long one holds until every other job has ended, so the test ends only if none of them waits for it."""
    long = workshop.send("until_ended", 1_000)
    jobs = [workshop.send("note" if number % 2 else "anote", number) for number in range(1_000)]
    workers = [workshop.start(concurrency=2, until_empty=True) for _ in range(2)]
    reports = [worker.answer() for worker in workers]
    assert sum(report["succeeded"] for report in reports) == 1_001
    assert workshop.ends()[-1] == long
    assert sorted(workshop.starts()) == sorted([long, *jobs])


def test_a_lone_worker_that_was_suspended_goes_on_with_its_own_job(workshop):
    """Awake again, it finds leases that ran out, and they are its own."""
    gate = workshop.folder / "gate"
    jobs = [workshop.send("hold", str(gate), max_attempts=3), workshop.send("ahold", str(gate), max_attempts=3)]
    worker = workshop.worker(**SHORT)
    until(lambda: len(workshop.starts()) == 2)
    for _ in range(3):
        worker.send(signal.SIGSTOP)
        time.sleep(1.5)
        worker.send(signal.SIGCONT)
        time.sleep(0.3)
    gate.touch()
    until(lambda: all(workshop.get(job).status.is_final for job in jobs))
    assert [workshop.history(job) for job in jobs] == [["success"], ["success"]]
    assert sorted(workshop.starts()) == sorted(jobs)
