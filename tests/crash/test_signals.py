"""Workers that are told to stop: once, at any moment, twice, three times, alone or with their whole group."""

import random
import signal
import time

import pytest

from tests.crash.workshop import SHORT, until


@pytest.mark.slow
def test_a_stop_at_any_moment_leaves_nothing_running(workshop):
    """Fifteen workers, each stopped at a random moment: exit 0, no job left running, every job done or queued."""
    seed = random.randrange(10**9)
    print(f"seed {seed}")
    dice = random.Random(seed)
    ids = [
        workshop.send(("work", "awork")[number % 2], number, round(dice.uniform(0.0, 0.05), 3)) for number in range(750)
    ]
    upcoming = workshop.start()
    for number in range(15):
        process, upcoming = upcoming, workshop.start()
        process.wait_until_up()
        time.sleep(dice.uniform(0.0, 0.3) if number else 0.0)
        process.send(dice.choice([signal.SIGTERM, signal.SIGINT]))
        assert process.ended() == 0, process.errors
        assert "Traceback" not in process.errors
        mine = [job for job in workshop.jobs() if f":{process.pid}:" in (job.worker_id or "")]
        assert {job.status.value for job in mine} <= {"success"}
    upcoming.wait_until_up().send(signal.SIGTERM)
    assert upcoming.ended() == 0
    jobs = workshop.jobs()
    assert {job.status.value for job in jobs} <= {"success", "queued"}
    assert all(job.attempts == (job.status == "success") for job in jobs)
    done = [job.id for job in jobs if job.status == "success"]
    assert sorted(workshop.ends()) == sorted(done)
    workshop.finish()
    assert sorted(workshop.ends()) == sorted(ids)


@pytest.mark.parametrize("task", ["hold", "ahold", "block"])
@pytest.mark.parametrize("to", ["process", "group"])
def test_a_job_that_ends_during_the_stop_is_recorded_and_not_run_again(workshop, task, to):
    gate = workshop.folder / "gate"
    job = workshop.send(task, str(gate))
    queued = [workshop.send("hold", str(workshop.folder / "never")) for _ in range(3)]
    worker = workshop.worker(concurrency=1, async_concurrency=1, queues=["default"])
    until(lambda: workshop.starts(job))
    (worker.send if to == "process" else worker.send_to_group)(signal.SIGINT if to == "group" else signal.SIGTERM)
    time.sleep(0.1)
    assert worker.is_running
    gate.touch()
    (workshop.folder / "never").touch()
    assert worker.ended() == 0
    assert workshop.get(job).status == "success"
    assert len(workshop.starts(job)) == 1
    workshop.finish()
    assert len(workshop.starts(job)) == 1
    assert {workshop.get(other).status for other in queued} == {"success"}


def test_coroutines_are_cut_and_given_back_when_the_time_is_up(workshop):
    gate = workshop.folder / "gate"
    jobs = [workshop.send("ahold", str(gate), max_attempts=1) for _ in range(5)]
    worker = workshop.worker(shutdown_timeout=0.0)
    until(lambda: len(workshop.starts()) == 5)
    worker.send(signal.SIGTERM)
    assert worker.ended() == 0
    stored = [workshop.get(job) for job in jobs]
    assert {(job.status.value, job.attempts) for job in stored} == {("queued", 0)}
    assert {tuple(workshop.history(job)) for job in jobs} == {("cancelled",)}
    gate.touch()
    assert workshop.finish()["succeeded"] == 5


def test_a_function_is_waited_for_past_the_timeout_and_the_log_says_so(workshop):
    gate = workshop.folder / "gate"
    job = workshop.send("hold", str(gate), max_attempts=1)
    worker = workshop.worker(**SHORT, shutdown_timeout=0.0)
    other = workshop.worker(**SHORT)
    until(lambda: workshop.starts(job))
    keeper = worker if str(worker.pid) in workshop.get(job).worker_id else other
    keeper.send(signal.SIGTERM)
    time.sleep(2.5)  # two leases and more: the other one would have taken it by now
    assert keeper.is_running
    gate.touch()
    assert keeper.ended() == 0
    assert workshop.get(job).status == "success"
    assert len(workshop.starts(job)) == 1


def test_a_second_signal_cuts_coroutines_short(workshop):
    gate = workshop.folder / "gate"
    jobs = [workshop.send("ahold", str(gate)) for _ in range(3)]
    worker = workshop.worker(shutdown_timeout=3_600.0)
    until(lambda: len(workshop.starts()) == 3)
    worker.send(signal.SIGTERM)
    time.sleep(0.3)
    assert worker.is_running
    worker.send(signal.SIGTERM)
    report = worker.answer()
    assert report["forced"]
    assert {(workshop.get(job).status.value, workshop.get(job).attempts) for job in jobs} == {("queued", 0)}


def test_a_coroutine_that_ignores_its_cancellation_does_not_keep_the_process(workshop):
    job = workshop.send("stubborn", str(workshop.folder / "never"), max_attempts=1)
    worker = workshop.worker(**SHORT, shutdown_timeout=0.0)
    until(lambda: workshop.starts(job))
    worker.send(signal.SIGTERM)
    assert worker.ended() == 0
    assert workshop.lines("cancelled")
    assert workshop.get(job).status == "running"  # its lease brings it back
    workshop.finish()
    assert workshop.history(job) == ["lost"]


def test_a_blocked_thread_behind_a_coroutine_does_not_keep_the_process(workshop):
    job = workshop.send("elsewhere", str(workshop.folder / "never"))
    worker = workshop.worker(shutdown_timeout=0.0)
    until(lambda: workshop.starts(job))
    worker.send(signal.SIGTERM)
    assert worker.ended() == 0
    assert (workshop.get(job).status, workshop.get(job).attempts) == ("queued", 0)


def test_a_blocked_loop_is_left_at_the_second_signal_with_a_status_of_its_own(workshop):
    job = workshop.send("block", str(workshop.folder / "never"))
    worker = workshop.worker(**SHORT, shutdown_timeout=3_600.0)
    until(lambda: workshop.starts(job))
    worker.send(signal.SIGTERM)
    time.sleep(0.2)
    assert worker.is_running
    worker.send(signal.SIGTERM)
    assert worker.ended() == 130
    assert workshop.get(job).status == "running"
    workshop.finish()
    assert workshop.history(job) == ["lost"]


def test_a_third_signal_ends_a_worker_that_waits_for_a_function(workshop):
    job = workshop.send("hold", str(workshop.folder / "never"))
    worker = workshop.worker(shutdown_timeout=3_600.0)
    until(lambda: workshop.starts(job))
    for _ in range(2):
        worker.send(signal.SIGINT)
        time.sleep(0.3)
        assert worker.is_running
    # On a busy machine two of them may have been delivered as one.
    until(lambda: worker.send(signal.SIGINT) or time.sleep(0.3) or not worker.is_running)
    assert worker.ended() == 130


def test_a_ctrl_c_ends_a_worker_that_leaves_the_signals_to_its_caller(workshop):
    """The job that runs is finished first, and then the interrupt goes on as anywhere else."""
    gate = workshop.folder / "gate"
    jobs = [workshop.send("hold", str(gate)), workshop.send("ahold", str(gate))]
    worker = workshop.worker(handle_signals=False)
    until(lambda: len(workshop.starts()) == 2)
    worker.send(signal.SIGINT)
    time.sleep(0.2)
    assert worker.is_running
    gate.touch()
    assert worker.ended() == -signal.SIGINT
    assert "KeyboardInterrupt" in worker.errors
    assert {workshop.get(job).status for job in jobs} == {"success"}


@pytest.mark.parametrize("how", ["pool", "executor", "subprocess"])
def test_a_job_may_start_processes_of_its_own(workshop, how):
    """A pool ends its processes by SIGTERM, which must not be taken for a stop of the worker they were forked from."""
    job = workshop.send("children", how)
    report = workshop.finish()
    assert report["succeeded"] == 1, workshop.get(job).last_error
    stored = workshop.get(job)
    assert stored.result() == [0, 1, 4, 9, 16]


@pytest.mark.parametrize("task", ["hold", "ahold", "hold_timed"])
def test_a_ctrl_c_in_a_drain_gives_the_job_back_or_waits_for_its_thread(workshop, task):
    """In the calling thread the interrupt ends the function; one in a thread of its own cannot be ended."""
    gate = workshop.folder / "gate"
    job = workshop.send(task, str(gate), max_attempts=1)
    drainer = workshop.start("drainer")
    until(lambda: workshop.starts(job))
    drainer.send(signal.SIGINT)
    if task == "hold_timed":
        time.sleep(0.3)
        assert drainer.is_running
        gate.touch()
    assert drainer.ended() == -signal.SIGINT
    stored = workshop.get(job)
    assert (stored.status, stored.attempts) == (("success", 1) if task == "hold_timed" else ("queued", 0))
    gate.touch()
    workshop.finish()
    assert workshop.get(job).status == "success"
    assert len(workshop.starts(job)) == (1 if task == "hold_timed" else 2)
