"""The shapes of work that are measured, once for every program.

A program (one file beside this one for each job queue) says how its queue is set up, filled, sent to and worked; this
module runs the shapes over it and prints one line of JSON. Workers are the queue's own worker command in processes of
their own, held at a gate until all of them have started their interpreter and imported everything.

How a drain is timed: from the start of the first job to the moment the store shows no job left to finish (for a store
that deletes a job when it takes it, the end of the last job). The interpreter's and the imports' time is outside, the
acknowledgement of the last job inside.

It must run in any environment with Python 3.12 alone, and must not know any queue by name.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sqlite3
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, ClassVar

from board import Board

PATIENCE = 240.0


class Program:
    """What a job queue's file fills in. The folder is the run's own and holds everything it writes."""

    name: ClassVar[str]
    kinds: ClassVar[tuple[str, ...]] = ("coroutine", "thread")
    shapes: ClassVar[tuple[str, ...]] = ("enqueue", "bulk", "drain", "latency", "idle", "lateness")
    stop_signal: ClassVar[int] = signal.SIGTERM

    def __init__(self, folder: Path, arguments: argparse.Namespace) -> None:
        self.folder = folder
        self.arguments = arguments
        self.kind: str = arguments.kind
        self.file = folder / "jobs.db"

    def load(self) -> None:
        """Imports and configures the queue in this process."""
        raise NotImplementedError

    def prepare(self) -> None:
        """Makes the empty store."""
        raise NotImplementedError

    def enqueue(self, index: int) -> None:
        """Sends one job by the public call, with one small argument."""
        raise NotImplementedError

    def enqueue_many(self, indexes: range) -> None:
        """Sends these jobs by the queue's own bulk call."""
        raise NotImplementedError

    def load_noops(self, jobs: int) -> None:
        """Puts so many no-op jobs into the store by the fastest way there is; not timed."""
        raise NotImplementedError

    def enqueue_delayed(self, index: int, delay: float) -> None:
        raise NotImplementedError

    def fill(self, finished: int, delayed: int, priority: int) -> dict[str, int]:
        """Puts finished jobs, and jobs delayed far into the future, into the file; answers how many stand there."""
        raise NotImplementedError

    def work(self) -> None:
        """Runs the queue's worker in this process until it is told to stop."""
        raise NotImplementedError

    def unfinished(self) -> bool:
        """Whether the store still shows a no-op job that has not ended."""
        raise NotImplementedError

    def details(self) -> dict[str, Any]:
        """Versions and settings worth a line in the table."""
        return {}

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        connection = sqlite3.connect(self.file, isolation_level=None, timeout=30)
        try:
            yield connection
        finally:
            connection.close()


class Workers:
    """The worker processes of one run, started behind the gate and ended with it."""

    def __init__(self, program: Program, count: int) -> None:
        self.program = program
        self.board = Board.create(program.folder / "board")
        self._log = (program.folder / "worker.log").open("wb")
        self.processes = [self._start(slot) for slot in range(count)]

    def _start(self, slot: int) -> subprocess.Popen[bytes]:
        given = self.program.arguments
        command = [sys.executable, sys.argv[0], "work", "--folder", str(self.program.folder), "--kind", given.kind]
        command += ["--workers", str(given.workers), "--slots", str(given.slots), *_variant(given)]
        environment = dict(os.environ, BENCH_SLOT=str(slot), BENCH_FOLDER=str(self.program.folder))
        return subprocess.Popen(command, env=environment, stdout=self._log, stderr=self._log, stdin=subprocess.DEVNULL)

    def __enter__(self) -> Workers:
        try:
            self.wait(lambda: self.board.ready() == len(self.processes), "did not start")
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()

    def wait(self, done: Any, complaint: str, patience: float = PATIENCE, pause: float = 0.002) -> None:
        limit = time.monotonic() + patience
        while not done():
            ended = [process for process in self.processes if process.poll() is not None]
            if ended or time.monotonic() > limit:
                log = (self.program.folder / "worker.log").read_text(errors="replace")
                codes = [process.poll() for process in self.processes]
                raise SystemExit(
                    f"{self.program.name}: workers {complaint} (exit codes {codes}, "
                    f"{self.board.count()} jobs started).\n{log[-4000:]}"
                )
            time.sleep(pause)

    def cpu_seconds(self) -> float:
        """What the workers have used of the cores so far; unlike a rate it hardly suffers from a busy machine."""
        return sum(_cpu_seconds(process.pid) for process in self.processes)

    def stop(self) -> None:
        for process in self.processes:
            if process.poll() is None:
                process.send_signal(self.program.stop_signal)
        for process in self.processes:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._log.close()


def _variant(arguments: argparse.Namespace) -> list[str]:
    return ["--variant", arguments.variant] if arguments.variant else []


def drain(program: Program) -> dict[str, Any]:
    jobs: int = program.arguments.jobs
    program.load_noops(jobs)
    # What the filling and the run before left to be written would otherwise be paid for by the first checkpoint.
    os.sync()
    with Workers(program, program.arguments.workers) as workers:
        board = workers.board
        spent = workers.cpu_seconds()
        opened = board.open_gate()
        workers.wait(lambda: board.count() >= jobs, "did not run every job")
        ended = board.last()
        settled = ended
        while True:
            asked = time.monotonic()
            if not program.unfinished():
                settled = max(settled, asked) if asked > ended + 0.01 else ended
                break
            if asked > ended + PATIENCE:
                raise SystemExit(f"{program.name}: jobs ran but were never recorded as finished")
            time.sleep(0.001)
        seconds = settled - board.started()
        return {
            "seconds": seconds,
            "rate": jobs / seconds,
            "rate_from_gate": jobs / (settled - opened),
            "first_start_ms": 1000 * (board.started() - opened),
            "record_tail_ms": 1000 * (settled - ended),
            "cpu_us_per_job": 1e6 * (workers.cpu_seconds() - spent) / jobs,
            "runs": board.count(),
            "runs_by_worker": board.counts(program.arguments.workers),
        }


def enqueue(program: Program) -> dict[str, Any]:
    jobs: int = program.arguments.jobs
    for index in range(min(50, jobs)):
        program.enqueue(index)
    times = []
    begun = before = time.perf_counter()
    for index in range(jobs):
        program.enqueue(index)
        after = time.perf_counter()
        times.append(after - before)
        before = after
    seconds = before - begun
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


def latency(program: Program) -> dict[str, Any]:
    """From just before the call that sends a job, in this process, to the job's start in an idle worker."""
    samples: int = program.arguments.jobs
    chance = random.Random(20261129)
    sent = []
    with Workers(program, 1) as workers:
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
    with Workers(program, 1) as workers:
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
    """The share of one core that an idle worker takes, its processes' and threads' time together."""
    seconds: float = program.arguments.seconds
    with Workers(program, 1) as workers:
        workers.board.open_gate()
        program.enqueue(0)
        workers.wait(lambda: workers.board.stamp_of(0) > 0, "did not run the first job")
        time.sleep(3.0)
        before, begun = _cpu_seconds(workers.processes[0].pid), time.monotonic()
        time.sleep(seconds)
        used, passed = _cpu_seconds(workers.processes[0].pid) - before, time.monotonic() - begun
    return {"cpu_percent": 100 * used / passed, "seconds": passed}


def _cpu_seconds(pid: int) -> float:
    """Of a process and its children, by the kernel's nanosecond counters. Linux alone has them; elsewhere 0.0."""
    total = 0.0
    if not Path("/proc/self/schedstat").exists():
        return total
    for task in Path(f"/proc/{pid}/task").iterdir():
        total += int((task / "schedstat").read_text().split()[0]) / 1e9
        for child in (task / "children").read_text().split():
            total += _cpu_seconds(int(child))
    return total


SHAPES = {"drain": drain, "enqueue": enqueue, "bulk": bulk, "latency": latency, "lateness": lateness, "idle": idle}


def _parse(description: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("shape", choices=[*SHAPES, "work"])
    parser.add_argument("--folder", type=Path, required=True, help="an empty folder for this run")
    parser.add_argument("--kind", default="coroutine", choices=("coroutine", "thread"))
    parser.add_argument("--variant", default="", help="a setting that only this program knows")
    parser.add_argument("--jobs", type=int, default=1000, help="jobs, or samples for latency and lateness")
    parser.add_argument("--workers", type=int, default=1, help="worker processes for a drain")
    parser.add_argument("--slots", type=int, default=0, help="jobs at a time in one worker; 0: this program's best")
    parser.add_argument("--delay", type=float, default=3.0)
    parser.add_argument("--seconds", type=float, default=10.0, help="how long an idle worker is watched")
    parser.add_argument("--finished", type=int, default=0, help="finished jobs in the file beforehand")
    parser.add_argument("--delayed", type=int, default=0, help="delayed jobs in the file beforehand")
    parser.add_argument("--priority", type=int, default=0, help="the priority of those delayed jobs")
    parser.add_argument("--template", type=Path, help="a folder to keep and reuse the filled store in")
    return parser.parse_args()


def _lay_store(program: Program) -> dict[str, int]:
    given = program.arguments
    if not (given.finished or given.delayed):
        program.prepare()
        return {}
    told = given.template / "filled.json" if given.template else None
    if told is None or not told.exists():
        program.prepare()
        filled = program.fill(given.finished, given.delayed, given.priority)
        if told is None:
            return filled
        given.template.mkdir(parents=True, exist_ok=True)
        _copy_store(program.file, given.template / program.file.name)
        told.write_text(json.dumps(filled))
        return filled
    _copy_store(given.template / program.file.name, program.file)
    return dict(json.loads(told.read_text()))


def _copy_store(source: Path, target: Path) -> None:
    """By SQLite itself: a file opened and closed by hand would drop the locks of this process's own connections."""
    with closing(sqlite3.connect(source)) as one, closing(sqlite3.connect(target, timeout=30)) as other:
        one.backup(other)


def main(kind_of_program: type[Program]) -> None:
    arguments = _parse(sys.modules["__main__"].__doc__ or kind_of_program.name)
    arguments.folder.mkdir(parents=True, exist_ok=True)
    os.environ.setdefault("BENCH_FOLDER", str(arguments.folder))
    os.environ["BENCH_KIND"] = arguments.kind
    program = kind_of_program(arguments.folder, arguments)
    if arguments.shape == "work":
        program.load()
        import board

        board.join_if_worker()
        Board(arguments.folder / "board").wait_at_gate(int(os.environ["BENCH_SLOT"]))
        program.work()
        return
    if arguments.kind not in program.kinds:
        raise SystemExit(f"{program.name} runs no {arguments.kind} jobs of its own; it has {', '.join(program.kinds)}")
    program.load()
    filled = _lay_store(program)
    measured = SHAPES[arguments.shape](program)
    answer = {
        "program": program.name,
        "shape": arguments.shape,
        "kind": arguments.kind,
        "workers": arguments.workers,
        "jobs": arguments.jobs,
        "filled": filled,
        "python": sys.version.split()[0],
        "sqlite": sqlite3.sqlite_version,
        **program.details(),
        **measured,
    }
    print(json.dumps(answer), flush=True)
