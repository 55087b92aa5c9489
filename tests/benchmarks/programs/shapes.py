"""The shapes of work that are measured, once for every program.

How a drain is timed: from the start of the first job to the moment the store shows no job left to finish (for a store
that deletes a job when it takes it, the end of the last job). The interpreter's and the imports' time is outside, the
acknowledgement of the last job inside. Afterwards the store is asked how many ended in success, and has to say all.
"""

from __future__ import annotations

import random
import statistics
import threading
import time
from collections.abc import Callable
from typing import Any

from measuring import PATIENCE, Program, Workers


def drain(program: Program) -> dict[str, Any]:
    jobs: int = program.arguments.jobs
    finished_before = program.finished()
    program.load_noops(jobs)
    program.store.settle()
    with program.workers(program.arguments.workers) as workers:
        board = workers.board
        spent, served = workers.cpu_seconds(), program.store.busy_seconds()
        opened = board.open_gate()
        workers.wait(lambda: board.count() >= jobs, "did not run every job")
        settled, ended = _settled(program, workers)
        seconds = settled - board.started()
        used = workers.cpu_seconds() - spent
        served_since = program.store.busy_seconds()
        runs = board.counts(program.arguments.workers)
    if sum(runs) != jobs:
        raise SystemExit(f"{program.name}: {jobs} jobs ran {sum(runs)} times")
    if finished_before is not None and program.finished() != finished_before + jobs:
        raise SystemExit(f"{program.name}: the store does not show all {jobs} jobs as ended in success")
    server = {} if served is None else {"server_cpu_us_per_job": 1e6 * (served_since - served) / jobs}
    return {
        **server,
        "seconds": seconds,
        "rate": jobs / seconds,
        "rate_from_gate": jobs / (settled - opened),
        "first_start_ms": 1000 * (board.started() - opened),
        "record_tail_ms": 1000 * (settled - ended),
        "cpu_us_per_job": 1e6 * used / jobs,
        "runs": sum(runs),
        "runs_by_worker": runs,
    }


def _settled(program: Program, workers: Workers) -> tuple[float, float]:
    """When the store showed nothing left to finish, and when the last job ended."""
    ended = workers.board.last()
    while True:
        asked = time.monotonic()
        if not program.unfinished():
            return (max(ended, asked) if asked > ended + 0.01 else ended), ended
        if asked > ended + PATIENCE:
            raise SystemExit(f"{program.name}: jobs ran but were never recorded as finished")
        time.sleep(0.001)


def enqueue(program: Program) -> dict[str, Any]:
    jobs: int = program.arguments.jobs
    for index in range(min(50, jobs)):
        program.enqueue(index)
    times = []
    begun = time.perf_counter()
    with program.sending():
        before = time.perf_counter()
        for index in range(jobs):
            program.enqueue(index)
            after = time.perf_counter()
            times.append(after - before)
            before = after
    seconds = time.perf_counter() - begun
    times.sort()
    return {
        "seconds": seconds,
        "rate": jobs / seconds,
        "p50_us": 1e6 * times[len(times) // 2],
        "p99_us": 1e6 * times[min(len(times) - 1, len(times) * 99 // 100)],
    }


def bulk(program: Program) -> dict[str, Any]:
    jobs: int = program.arguments.jobs
    program.enqueue_many(range(min(20, jobs)))
    begun = time.perf_counter()
    program.enqueue_many(range(jobs))
    seconds = time.perf_counter() - begun
    return {"seconds": seconds, "rate": jobs / seconds}


def commits(program: Program) -> dict[str, Any]:
    """Transactions that each send one job, by several processes of several threads at once."""
    jobs, senders = program.arguments.jobs, program.arguments.workers * max(1, program.arguments.slots)
    each = max(1, jobs // senders)
    with program.workers(program.arguments.workers, "send") as workers:
        board = workers.board
        opened = board.open_gate()
        # A sender ends when it has sent all, so an ended one alone is no failure.
        limit = time.monotonic() + PATIENCE
        while any(process.poll() is None for process in workers.processes) and time.monotonic() < limit:
            time.sleep(0.002)
        sent, last = board.count(), board.last()
    if sent != each * senders:
        log = (program.folder / "worker.log").read_text(errors="replace")
        raise SystemExit(f"{program.name}: {sent} of {each * senders} transactions were committed\n{log[-4000:]}")
    return {"seconds": last - opened, "rate": sent / (last - opened), "commits": sent, "senders": senders}


def send_all(program: Program, committed: Callable[[], None]) -> None:
    """The part of one sending process in `commits`."""
    threads = max(1, program.arguments.slots)
    each = max(1, program.arguments.jobs // (program.arguments.workers * threads))

    def send() -> None:
        for index in range(each):
            program.commit_one(index)
            committed()

    senders = [threading.Thread(target=send) for _ in range(threads)]
    for sender in senders:
        sender.start()
    for sender in senders:
        sender.join()


def latency(program: Program) -> dict[str, Any]:
    """From just before the call that sends a job, in this process, to the job's start in an idle worker."""
    samples: int = program.arguments.jobs
    chance = random.Random(20261129)
    sent = []
    with program.workers(1) as workers:
        workers.board.open_gate()
        program.enqueue(samples)
        workers.wait(lambda: workers.board.stamp_of(samples) > 0, "did not run the first job")
        for index in range(samples):
            time.sleep(chance.uniform(0.3, 0.9))
            sent.append(time.monotonic())
            program.enqueue(index)
        stamps = workers.board
        workers.wait(lambda: all(stamps.stamp_of(i) for i in range(samples)), "did not run every job")
        waits = sorted(1000 * (stamps.stamp_of(index) - at) for index, at in enumerate(sent))
    return {
        "p50_ms": statistics.median(waits),
        "p95_ms": waits[min(samples - 1, samples * 95 // 100)],
        "max_ms": waits[-1],
    }


def lateness(program: Program) -> dict[str, Any]:
    """How long after its due time a job starts that was sent with a delay from this process."""
    samples: int = program.arguments.jobs
    delay: float = program.arguments.delay
    chance = random.Random(3)
    due = []
    with program.workers(1) as workers:
        workers.board.open_gate()
        program.enqueue(samples)
        workers.wait(lambda: workers.board.stamp_of(samples) > 0, "did not run the first job")
        time.sleep(1.0)
        for index in range(samples):
            time.sleep(chance.uniform(0.1, 0.4))
            due.append(time.monotonic() + delay)
            program.enqueue_delayed(index, delay)
        stamps = workers.board
        workers.wait(lambda: all(stamps.stamp_of(i) for i in range(samples)), "did not run every delayed job")
        waits = sorted(1000 * (stamps.stamp_of(index) - at) for index, at in enumerate(due))
    return {"p50_ms": statistics.median(waits), "max_ms": waits[-1], "min_ms": waits[0], "delay_s": delay}


def idle(program: Program) -> dict[str, Any]:
    """What an idle worker takes: its share of a core, threads and children included, and its statements to a server."""
    seconds: float = program.arguments.seconds
    with program.workers(1) as workers:
        workers.board.open_gate()
        program.enqueue(0)
        workers.wait(lambda: workers.board.stamp_of(0) > 0, "did not run the first job")
        time.sleep(3.0)
        sent, used, begun = program.store.statements(), workers.cpu_seconds(), time.monotonic()
        time.sleep(seconds)
        used, passed = workers.cpu_seconds() - used, time.monotonic() - begun
        sent_since = program.store.statements()
    figures = {"cpu_percent": 100 * used / passed, "seconds": passed}
    if sent is not None and sent_since is not None:
        figures["statements_per_second"] = (sent_since - sent) / passed
    return figures


def pressure(program: Program) -> dict[str, Any]:
    """A worker's claims with a long queue, while as many delayed jobs as asked for fall due at one moment.

    Told are the server's own times of the slow scripts, and how long it left another client's `PING` unanswered.
    """
    jobs, delay = program.arguments.jobs, program.arguments.delay
    program.load_noops(program.arguments.finished)
    due = time.monotonic() + delay
    program.load_due_at_once(program.arguments.delayed, delay)
    program.store.settle()
    time.sleep(max(0.0, due - time.monotonic()))
    program.store.watch_slow()
    waits = []
    with program.workers(1) as workers:
        workers.board.open_gate()
        while workers.board.count() < jobs:
            begun = time.perf_counter()
            program.store.client.ping()
            waits.append(1000 * (time.perf_counter() - begun))
            workers.wait(lambda: True, "did not run the jobs")
            time.sleep(0.0005)
        seconds = workers.board.last() - workers.board.started()
    slow = program.store.slow() or [0.0]
    waits.sort()
    return {
        "rate": jobs / seconds,
        "slowest_ms": slow[-1],
        "slow_p50_ms": statistics.median(slow),
        "slow_scripts": len(slow),
        "ping_p50_ms": statistics.median(waits),
        "ping_max_ms": waits[-1],
    }


SHAPES = {
    "drain": drain,
    "enqueue": enqueue,
    "bulk": bulk,
    "commits": commits,
    "latency": latency,
    "lateness": lateness,
    "idle": idle,
    "pressure": pressure,
}
