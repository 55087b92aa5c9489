"""What every measured program has in common: its command line, its workers, and what a queue's own file fills in.

A program (one file beside this one for each job queue) says how its queue is set up, filled, sent to and worked;
`shapes` runs the measurements over it, and `main` prints their figures as one line of JSON. Workers are the queue's own
worker command in processes of their own, held at a gate until all of them have started their interpreter and imported
everything.

It must run in any environment with Python 3.12 alone, and must not know any queue by name.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any, ClassVar

from board import Board, join_if_worker, mark
from store import Connection, PostgresStore, store_at

PATIENCE = 240.0


class Program:
    """What a job queue's file fills in. The folder is the run's own."""

    name: ClassVar[str]
    kinds: ClassVar[tuple[str, ...]] = ("coroutine", "thread")
    shapes: ClassVar[tuple[str, ...]] = ("enqueue", "bulk", "drain", "latency", "idle", "lateness")
    stop_signal: ClassVar[int] = signal.SIGTERM

    def __init__(self, folder: Path, arguments: argparse.Namespace) -> None:
        self.folder = folder
        self.arguments = arguments
        self.kind: str = arguments.kind
        self.store = store_at(arguments.store)

    def load(self) -> None:
        """Imports and configures the queue in this process."""
        raise NotImplementedError

    def prepare(self) -> None:
        """Makes the empty store."""
        raise NotImplementedError

    def enqueue(self, index: int) -> None:
        """Sends one job by the public call, with one small argument."""
        raise NotImplementedError

    def sending(self) -> AbstractContextManager[Any]:
        """What stands around a run of single enqueues, such as a transaction."""
        return nullcontext()

    def enqueue_many(self, indexes: range) -> None:
        """Sends these jobs by the queue's own bulk call."""
        raise NotImplementedError

    def load_noops(self, jobs: int) -> None:
        """Puts so many no-op jobs into the store by the fastest way there is; not timed."""
        raise NotImplementedError

    def enqueue_delayed(self, index: int, delay: float) -> None:
        raise NotImplementedError

    def commit_one(self, index: int) -> None:
        """Sends one job in a transaction of its own, from one of several threads."""
        raise NotImplementedError

    def load_due_at_once(self, jobs: int, delay: float) -> None:
        """Sends so many no-op jobs that all fall due at one moment, `delay` seconds from now."""
        raise NotImplementedError

    def fill(self, finished: int, delayed: int, priority: int) -> dict[str, int]:
        """Puts finished jobs, and jobs delayed far into the future, into the store; answers how many stand there."""
        raise NotImplementedError

    def work(self) -> None:
        """Runs the queue's worker in this process until it is told to stop."""
        raise NotImplementedError

    def unfinished(self) -> bool:
        """Whether the store still shows a no-op job that has not ended."""
        raise NotImplementedError

    def finished(self) -> int | None:
        """How many jobs the store shows as ended in success; None where it keeps none of them."""
        raise NotImplementedError

    def close(self) -> None:
        """Lets go of what this process has open, so that it ends at once."""

    def details(self) -> dict[str, Any]:
        """Versions and settings worth a line in the table."""
        return {}

    @property
    def on_postgres(self) -> bool:
        return isinstance(self.store, PostgresStore)

    @property
    def on_redis(self) -> bool:
        return self.arguments.store.startswith("redis://")

    def reading(self) -> AbstractContextManager[Connection]:
        return self.store.reading()

    def run_noops(self, jobs: int = 1) -> None:
        """Has a worker run the jobs that were sent, to the end. A row of one is then there to be copied."""
        with self.workers(1) as workers:
            workers.board.open_gate()
            workers.wait(lambda: workers.board.count() >= jobs, "did not run the jobs")
            workers.wait(lambda: not self.unfinished(), "did not record the jobs")

    @contextmanager
    def workers(self, count: int, role: str = "work") -> Iterator[Workers]:
        with Workers(self, count, role) as workers:
            yield workers


class Workers:
    """The worker processes of one run, started behind the gate and ended with it."""

    def __init__(self, program: Program, count: int, role: str = "work") -> None:
        self.program = program
        self.board = Board.create(program.folder / "board")
        self._log = (program.folder / "worker.log").open("wb")
        self.processes = [self._start(slot, role) for slot in range(count)]

    def _start(self, slot: int, role: str) -> subprocess.Popen[bytes]:
        given = self.program.arguments
        command = [sys.executable, sys.argv[0], role, "--folder", str(self.program.folder), "--store", given.store]
        command += ["--kind", given.kind, "--workers", str(given.workers), "--slots", str(given.slots)]
        command += ["--jobs", str(given.jobs), *(["--variant", given.variant] if given.variant else [])]
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


def _parse(description: str, shapes: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("shape", choices=[*shapes, "fill", "work", "send"])
    parser.add_argument("--folder", type=Path, required=True, help="an empty folder for this run")
    parser.add_argument("--store", required=True, help="the SQLite file, Postgres database or Redis server of this run")
    parser.add_argument("--prepared", action="store_true", help="the store was laid already, by `fill`")
    parser.add_argument("--kind", default="coroutine", choices=("coroutine", "thread"))
    parser.add_argument("--variant", default="", help="a setting that only this program knows")
    parser.add_argument("--jobs", type=int, default=1000, help="jobs, or samples for latency and lateness")
    parser.add_argument("--workers", type=int, default=1, help="worker processes for a drain, senders for commits")
    parser.add_argument("--slots", type=int, default=0, help="jobs at a time in one worker; 0: this program's best")
    parser.add_argument("--delay", type=float, default=3.0)
    parser.add_argument("--seconds", type=float, default=10.0, help="how long an idle worker is watched")
    parser.add_argument("--finished", type=int, default=0, help="finished jobs that `fill` puts into the store")
    parser.add_argument("--delayed", type=int, default=0, help="delayed jobs that `fill` puts into the store")
    parser.add_argument("--priority", type=int, default=0, help="the priority of those delayed jobs")
    return parser.parse_args()


def main(kind_of_program: type[Program]) -> None:
    # Imported here: it measures programs, and the name of this module is what programs import.
    from shapes import SHAPES, send_all

    arguments = _parse(sys.modules["__main__"].__doc__ or kind_of_program.name, list(SHAPES))
    arguments.folder.mkdir(parents=True, exist_ok=True)
    os.environ.update(BENCH_FOLDER=str(arguments.folder), BENCH_STORE=arguments.store, BENCH_KIND=arguments.kind)
    os.environ.update(BENCH_VARIANT=arguments.variant, BENCH_SLOTS=str(arguments.slots))
    program = kind_of_program(arguments.folder, arguments)
    if arguments.shape in ("work", "send"):
        program.load()
        join_if_worker()
        Board(arguments.folder / "board").wait_at_gate(int(os.environ["BENCH_SLOT"]))
        if arguments.shape == "work":
            program.work()
        else:
            send_all(program, mark)
        return
    if arguments.kind not in program.kinds:
        raise SystemExit(f"{program.name} runs no {arguments.kind} jobs of its own; it has {', '.join(program.kinds)}")
    program.load()
    try:
        if not arguments.prepared:
            program.prepare()
        if arguments.shape == "fill":
            measured: dict[str, Any] = program.fill(arguments.finished, arguments.delayed, arguments.priority)
        else:
            measured = SHAPES[arguments.shape](program)
    finally:
        program.close()
    answer = {
        "program": program.name,
        "shape": arguments.shape,
        "kind": arguments.kind,
        "workers": arguments.workers,
        "jobs": arguments.jobs,
        "python": sys.version.split()[0],
        **program.store.version(),
        **program.details(),
        **measured,
    }
    print(json.dumps(answer), flush=True)
