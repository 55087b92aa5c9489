"""Workers whose clocks are wrong, beside one server: its own decides, so nothing is early, late or stolen.

The tests of every server's store, which a module of its own imports and gives the fixtures `workshop` and `store_url`.
"""

import time
from pathlib import Path
from typing import Any

import pytest

from tests.crash.workshop import Workshop, until
from tinyjobs.backends.registry import open_backend
from tinyjobs.core.clock import SystemClock
from tinyjobs.core.inline import finish
from tinyjobs.core.job import ClaimRequest, Job
from tinyjobs.core.transitions import ExecutionError, failed, handed_back, succeeded

AHEAD, BEHIND = 600.0, -120.0
FAKETIME = [path for folder in Path("/usr").glob("lib*/**/faketime") for path in folder.glob("libfaketimeMT.so*")]
#: Seconds by which two readings of one right clock may differ.
CLOSE = 0.005
#: Seconds by which a machine that is busy with other things may be late: far fewer than either clock is off.
LATE = 30.0
SHORT = {"lease": 9.0, "reap_interval": 0.3}


class ShiftedClock(SystemClock):
    """A machine whose wall clock is wrong."""

    def __init__(self, shift: float) -> None:
        self.shift = shift

    def now(self) -> float:
        return super().now() + self.shift


def on_a_wrong_clock(workshop: Workshop, shift: float, **settings: Any) -> Any:
    """A worker in a process whose wall clock is that many seconds off; the clock that only measures is left alone."""
    workshop.environment = {
        "LD_PRELOAD": str(FAKETIME[0]),
        "FAKETIME": f"{shift:+g}s",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        "DONT_FAKE_MONOTONIC": "1",
    }
    try:
        return workshop.worker(**{**SHORT, **settings})
    finally:
        workshop.environment = {}


needs_faketime = pytest.mark.skipif(not FAKETIME, reason="needs libfaketime: apt-get install faketime")


@needs_faketime
def test_two_workers_with_wrong_clocks_take_every_job_at_its_time_and_no_lease(workshop):
    """One ten minutes ahead, one two minutes behind, with a job that is longer than its lease in each."""
    began = time.time()
    workers = [on_a_wrong_clock(workshop, shift) for shift in (AHEAD, BEHIND)]
    sent: dict[str, float] = {}
    long = [workshop.send("work", number, 11.0, max_attempts=3) for number in range(4)]
    until(lambda: len(workshop.starts()) == 4)
    for number in range(20):
        delay = (0.0, 1.5, 4.0)[number % 3]
        job = workshop.send(("note", "anote")[number % 2], number, delay=delay, max_attempts=3)
        sent[job] = workshop.get(job).run_at
    again = workshop.send("fails_once", max_attempts=2)
    until(lambda: all(workshop.get(job).status == "success" for job in (*sent, *long, again)))
    assert all(worker.is_running for worker in workers), [worker.errors for worker in workers]
    jobs = {job.id: job for job in workshop.jobs()}
    for job_id, due in sent.items():
        assert due <= jobs[job_id].started_at < due + LATE
        assert jobs[job_id].started_at <= jobs[job_id].finished_at < time.time()
    told = "\n".join(worker.errors for worker in workers)
    assert [workshop.history(job) for job in long] == [["success"]] * 4, f"a live lease was taken:\n{told}"
    assert {len(workshop.starts(job)) for job in long} == {1}
    first, second = workshop.app.executions(again)
    assert (first.status, second.status) == ("failed", "success")
    # Its pause is half a second to a whole one, from the failure to the instant that still stands in the job.
    assert -LATE < jobs[again].run_at - first.finished_at < 1.0 + LATE, "its pause is by the server's clock"
    assert jobs[again].run_at <= second.started_at < jobs[again].run_at + LATE, "it is retried after its pause"
    assert "taken back" not in told and "no longer held" not in told, told
    shown = [float(text) for _, text in workshop.lines("clock")]
    assert any(not began <= instant <= time.time() for instant in shown), "the clocks were wrong indeed"


@needs_faketime
def test_a_job_of_a_killed_worker_comes_back_after_its_lease_whatever_the_clocks_say(workshop):
    gate = workshop.folder / "gate"
    job = workshop.send("hold", str(gate), max_attempts=2)
    first = on_a_wrong_clock(workshop, AHEAD)
    until(lambda: workshop.starts(job))
    until(lambda: workshop.get(job).lease_expires_at)
    on_a_wrong_clock(workshop, BEHIND)
    first.kill()
    ends = workshop.get(job).lease_expires_at
    gate.touch()
    until(lambda: workshop.get(job).status == "success")
    assert workshop.history(job) == ["lost", "success"]
    lost, success = workshop.app.executions(job)
    assert ends <= success.started_at < ends + LATE
    assert ends <= lost.finished_at < ends + LATE


# --- what a statement makes of a worker's instants --------------------------------------------------------------------


def open_shifted(url: str, shift: float) -> Any:
    store = open_backend(url, clock=ShiftedClock(shift)).inline()
    finish(store.setup())
    return store


def claimed(store: Any, count: int) -> list[Job]:
    jobs = [Job(id=f"{number:08d}", task="note", payload=b"{}", max_attempts=3, delay=0.0) for number in range(count)]
    finish(store.enqueue_many(jobs))
    return list(finish(store.claim(ClaimRequest(worker_id="w", limit=count, lease=30.0))).jobs)


@pytest.mark.parametrize("shift", [AHEAD, BEHIND, 0.0])
def test_instants_that_a_worker_reports_are_moved_onto_the_servers_clock(store_url, shift):
    """To a few milliseconds: what a statement takes on its way is all that is not known."""
    store, right = open_shifted(store_url, shift), open_shifted(store_url, 0.0)
    before = time.time()
    jobs = claimed(store, 4)
    assert all(before - CLOSE <= job.started_at <= time.time() + CLOSE for job in jobs)
    error = ExecutionError(error_type="ValueError", message="No", traceback="…")
    before, now = time.time(), store.clock.now()
    finish(store.record([succeeded(jobs[0], None, now - 5.0), succeeded(jobs[1], None, now - 7.0)]))
    finish(store.record([failed(jobs[2], error, now + 60.0, now - 1.0), handed_back(jobs[3], now, 90.0)]))
    after = time.time()
    stored = [finish(right.get(job.id)) for job in jobs]

    def is_moved(instant: float | None, by: float) -> bool:
        return instant is not None and before + by - CLOSE <= instant <= after + by + CLOSE

    assert is_moved(stored[0].finished_at, -5.0) and is_moved(stored[1].finished_at, -7.0)
    assert abs(stored[0].finished_at - stored[1].finished_at - 2.0) < CLOSE
    assert is_moved(stored[2].run_at, 60.0) and is_moved(stored[3].run_at, 90.0)
    (entry,) = finish(right.executions(jobs[2].id))
    assert is_moved(entry.finished_at, -1.0)
    _, due = finish(store.next_due())
    assert now + 60.0 - CLOSE <= due <= store.clock.now() + 60.0 + CLOSE, "told on the caller's own clock"
    for opened in (store, right):
        finish(opened.close())
