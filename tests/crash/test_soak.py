"""Everybody at once on one file: four workers, a program that enqueues, one that writes in deferred mode, and kills.

Seven seconds in the suite, a minute with TINYJOBS_SOAK_SECONDS=60. Its figures are printed and never judged here; what
is judged is that nothing is lost, nothing runs twice but after a kill, and nobody meets a lock.
"""

import os
import statistics
import time
from collections import Counter

import pytest

from tests.crash.workshop import SHORT, Process, Workshop

SECONDS = float(os.environ.get("TINYJOBS_SOAK_SECONDS", "7"))
KILL_EVERY = 5.0 if SECONDS >= 30 else 2.0


@pytest.mark.slow
def test_a_busy_file_with_kills_loses_nothing_and_runs_nothing_twice_but_after_a_kill(workshop):
    workers = [workshop.worker(**SHORT) for _ in range(4)]
    enqueuer = workshop.start("enqueuer", seconds=SECONDS, pause=0.004)
    writer = start_writer(workshop)
    kills = 0
    ends = time.monotonic() + SECONDS
    while time.monotonic() + KILL_EVERY < ends:
        time.sleep(KILL_EVERY)
        oldest = workers.pop(0)
        assert oldest.is_running, oldest.errors
        oldest.kill()
        kills += 1
        workers.append(workshop.start(**SHORT))
    sent, written = enqueuer.answer(), writer.answer() if writer else None
    for worker in workers:
        assert worker.is_running, worker.errors
        worker.kill()
        kills += 1
    workshop.finish()

    jobs = {job.id: job for job in workshop.jobs()}
    assert sorted(jobs) == sorted(sent["ids"])
    assert {job.status.value for job in jobs.values()} == {"success"}
    runs = Counter(workshop.starts())
    assert set(runs) == set(jobs)
    twice = [job_id for job_id, count in runs.items() if count > 1]
    for job_id in twice:
        assert workshop.history(job_id).count("lost") >= runs[job_id] - 1
    assert sum(job.claims > 1 for job in jobs.values()) <= kills * (8 + 128) * 2
    assert written is None or not written["locked"]
    errors = "\n".join(process.errors for process in workshop.processes)
    assert "Traceback" not in errors
    assert "locked" not in errors
    print(
        f"\n{SECONDS:g} s, {kills} kills: {len(jobs)} sent, 0 lost, {len(twice)} ran twice (all after a kill), "
        f"enqueue {_figures(sent['took'])}"
    )
    if written is not None:
        print(f"writer {_figures(written['took'])}, {written['rows']} rows")


def start_writer(workshop: Workshop) -> Process | None:
    """Another program on the same database; a Redis has none."""
    if workshop.url.startswith("redis"):
        return None
    return workshop.start("writer", seconds=SECONDS, pause=0.004)


def _figures(took: list[float]) -> str:
    cuts = statistics.quantiles(took, n=100)
    return f"p50 {cuts[49] * 1000:.1f} ms, p99 {cuts[98] * 1000:.1f} ms, worst {max(took) * 1000:.1f} ms"
