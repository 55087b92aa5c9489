"""Many workers over one server, killed at any moment, or all at everything at once: nothing is lost.

A module of each server's store imports these, and gives the fixture `workshop`.
"""

import os
import random
import signal
import time
from collections import Counter

from tests.crash.workshop import Workshop, until

SHORT = {"lease": 1.0, "reap_interval": 0.2}
KILLS = 120
#: For how long everybody works at once; a minute where there is time.
HUNT = float(os.environ.get("TINYJOBS_HUNT_SECONDS", "8"))


def test_a_hundred_kills_at_random_moments_lose_nothing(workshop):
    """Every job ends in success, and one that ran twice was lost once in between."""
    seed = random.randrange(10**9)
    print(f"seed {seed}")
    dice = random.Random(seed)
    ids = [
        workshop.send(("work", "awork")[number % 2], number, round(dice.uniform(0.0, 0.03), 3), max_attempts=100)
        for number in range(1_500)
    ]
    slots = {"concurrency": 2, "async_concurrency": 2}
    nursery = workshop.start("nursery", workers=3, settings={**SHORT, **slots})
    alive: list[int] = []
    for number in range(KILLS):
        while len(alive) < 3:
            alive.append(int(nursery.line()))
        victim = alive.pop(dice.randrange(3))
        if number % 4 == 0:
            # Some are to be at work, also where the machine is so busy that many are killed as they begin.
            until(lambda victim=victim: workshop.has_begun_or_finds_nothing(victim))
        time.sleep(dice.uniform(0.0, 0.12))
        os.kill(victim, signal.SIGKILL)
    nursery.kill()
    workshop.finish()
    jobs = {job.id: job for job in workshop.jobs()}
    assert sorted(jobs) == sorted(ids)
    assert {job.status.value for job in jobs.values()} == {"success"}
    runs, lost = Counter(workshop.starts()), 0
    assert set(runs) == set(jobs)
    for job_id, job in jobs.items():
        if job.claims == runs[job_id] == 1:
            continue
        history = workshop.history(job_id)
        assert history == ["lost"] * (len(history) - 1) + ["success"]
        assert runs[job_id] <= len(history)
        lost += len(history) - 1
    assert 0 < lost <= (KILLS + 3) * 4 * 2
    assert "Traceback" not in nursery.errors
    print(f"{lost} claims lost in {KILLS} kills, {sum(runs.values()) - len(ids)} jobs ran again")


def everybody_at_once(workshop: Workshop) -> str:
    """Leases so short that every worker renews, loses and takes back jobs all the time, under cancels and kills.

    Each job ends once, in success or cancelled. Returns what was done, in words.
    """
    settings = {"lease": 1.0, "reap_interval": 0.1, "concurrency": 4, "async_concurrency": 32}
    nursery = workshop.start("nursery", workers=4, settings=settings)
    enqueuers = [workshop.start("enqueuer", seconds=HUNT, pause=0.002) for _ in range(2)]
    cancellers = [workshop.start("canceller", seconds=HUNT, seed=seed) for seed in range(2)]
    ends = time.monotonic() + HUNT
    alive: list[int] = []
    kills = 0
    while time.monotonic() < ends:
        while len(alive) < 4:
            alive.append(int(nursery.line()))
        time.sleep(0.5)
        victim = alive.pop(0)
        os.kill(victim, signal.SIGSTOP if kills % 3 == 2 else signal.SIGKILL)
        if kills % 3 == 2:
            time.sleep(1.2)  # past its lease: what it held is taken back, and its own outcomes come too late
            os.kill(victim, signal.SIGCONT)
            alive.append(victim)
        kills += 1
    sent = [job_id for enqueuer in enqueuers for job_id in enqueuer.answer()["ids"]]
    cancelled = sum(canceller.answer()["cancelled"] for canceller in cancellers)
    nursery.kill()
    workshop.finish(concurrency=8)
    statuses = Counter(job.status.value for job in workshop.jobs())
    assert sum(statuses.values()) == len(sent)
    assert statuses["cancelled"] == cancelled > 0
    assert set(statuses) == {"success", "cancelled"}
    told = "\n".join(process.errors for process in workshop.processes)
    assert "deadlock" not in told and "Traceback" not in told
    until(lambda: not workshop.app.list(status="running", limit=1).jobs)
    return f"{len(sent)} jobs, {cancelled} cancelled, {kills} blows in {HUNT:g} s"
