"""One soak: sends, kills, purges, looks, and adds up. Knows the store by its URL alone."""

import os
import platform
import random
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.soak.measures import NOTHING, Size, megabytes_of, size_of, versions_of

ROOT = Path(__file__).parents[2]
#: Rows of the table, and how much of a measure may grow from the second row to the last before the run has failed.
ROWS = 10
MORE_MEMORY = 12.0
MORE_DESCRIPTORS = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """`rate` in jobs a second, the others in seconds. One worker more than `workers` is never killed."""

    url: str
    seconds: float
    rate: float = 20.0
    workers: int = 2
    kill_every: float = 15.0
    purge_every: float = 20.0


@dataclass(slots=True)
class Row:
    """A tenth of the time: what was sent, how long sends and waits took (seconds), and how large things were."""

    sent: int = 0
    took: list[float] = field(default_factory=list)
    waited: list[float] = field(default_factory=list)
    worker: Size = NOTHING
    sender: Size = NOTHING
    store: float = 0.0
    jobs: int = 0


@dataclass(slots=True)
class Report:
    """What came out. `problems` is empty for a run that has passed."""

    settings: Settings
    machine: str
    rows: list[Row]
    sent: int = 0
    again: int = 0
    kills: int = 0
    stops: int = 0
    ticks: int = 0
    purged: int = 0
    problems: list[str] = field(default_factory=list)

    def markdown(self) -> str:
        heads = ["minutes", "sent", "send p50 / p95, ms", "wait p50 / p95 / worst, ms", "worker, MB", "its descriptors"]
        heads += ["sender, MB", "store, MB", "jobs in it"]
        lines = ["| " + " | ".join(heads) + " |", "| " + " | ".join("---" for _ in heads) + " |"]
        for number, row in enumerate(self.rows, 1):
            minutes = self.settings.seconds * number / len(self.rows) / 60
            cells = [f"{minutes:.1f}", f"{row.sent}", _cuts(row.took).rpartition(" / ")[0], _cuts(row.waited)]
            cells += [f"{row.worker.memory:.1f}", f"{row.worker.descriptors}", f"{row.sender.memory:.1f}"]
            cells += [f"{row.store:.1f}", f"{row.jobs}"]
            lines.append("| " + " | ".join(cells) + " |")
        settings = self.settings
        how = (
            f"{self.machine}; {settings.rate:g} jobs a second for {settings.seconds / 60:g} minutes, "
            f"{settings.workers} workers that are stopped in turn and one that is not."
        )
        outcome = (
            f"{self.sent} jobs sent, none lost; {self.again} ran again after {self.kills} kills and {self.stops} clean "
            f"stops; {self.ticks} firings of a schedule by the minute, none missed, none doubled; {self.purged} jobs "
            f"purged."
        )
        return "\n".join([how, "", *lines, "", "FAILED: " + "; ".join(self.problems) if self.problems else outcome])


def _cuts(seconds: list[float]) -> str:
    if len(seconds) < 2:
        return "- / - / -"
    cuts = statistics.quantiles(seconds, n=20)
    return " / ".join(f"{value * 1000:.1f}" for value in (statistics.median(seconds), cuts[18], max(seconds)))


class Soak:
    """See the module. `run` returns the report."""

    def __init__(self, settings: Settings, folder: Path) -> None:
        self.settings = settings
        self.ledger = folder / "ledger"
        self.ledger.touch()
        self.log = folder / "log"
        self.environment = {**os.environ, "SOAK_STORE": settings.url, "SOAK_LEDGER": str(self.ledger)}
        os.environ.update(SOAK_STORE=settings.url, SOAK_LEDGER=str(self.ledger))
        from tests.soak.app import app

        self.app = app
        self.dice = random.Random(1)
        #: When each job was due, and those that run twice by themselves.
        self.expected: dict[int, float] = {}
        self.shaky: set[int] = set()
        self.steady: subprocess.Popen[bytes] | None = None
        self.others: list[subprocess.Popen[bytes]] = []
        machine = f"{os.cpu_count()} cores, Python {platform.python_version()}, {versions_of(settings.url)}"
        self.report = Report(settings, machine, [])

    def run(self) -> Report:
        self.app.setup()
        with self._workers():
            began = time.time()
            self._go_on()
            stopped_at = time.time()
            self._settle()
            self._stop_all()
        self._reckon(began, stopped_at)
        self.app.close()
        return self.report

    # --- the workers --------------------------------------------------------------------------------------------------

    @contextmanager
    def _workers(self) -> Iterator[None]:
        try:
            self.steady = self._start()
            self.others = [self._start() for _ in range(self.settings.workers)]
            self._wait_for_all()
            yield
        finally:
            for process in [self.steady, *self.others]:
                if process is not None and process.poll() is None:
                    process.kill()
                    process.wait()

    def _start(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "tinyjobs", "worker", "--app", "tests.soak.app:app"]
        command += ["--lease", "5", "--reap-interval", "1", "--concurrency", "4", "--async-concurrency", "16"]
        with self.log.open("ab") as log:
            return subprocess.Popen(
                command, cwd=ROOT, env=self.environment, stdout=log, stderr=log, start_new_session=True
            )

    def _wait_for_all(self) -> None:
        """Until each worker has told that it is there, so that no row measures how one starts."""
        ends = time.monotonic() + 180.0
        while len(self.app.workers()) < 1 + self.settings.workers:
            assert time.monotonic() < ends, self.log.read_text()
            time.sleep(0.05)

    def _blow(self) -> None:
        """The oldest of those that may be: killed and told to end in turn, another in its place."""
        oldest = self.others.pop(0)
        if oldest.poll() is not None:
            self.report.problems.append(f"a worker ended by itself with {oldest.returncode}")
        elif (self.report.kills + self.report.stops) % 2:
            oldest.send_signal(signal.SIGTERM)
            self.report.stops += 1
        else:
            oldest.kill()
            self.report.kills += 1
        self.others.append(self._start())
        try:
            code = oldest.wait(60)
        except subprocess.TimeoutExpired:
            self.report.problems.append("a worker that was told to end did not in a minute")
            oldest.kill()
        else:
            if code not in (0, -signal.SIGKILL, -signal.SIGTERM):
                self.report.problems.append(f"a worker that was told to end ended with {code}")

    def _stop_all(self) -> None:
        for process in [self.steady, *self.others]:
            assert process is not None
            process.send_signal(signal.SIGTERM)
        for process in [self.steady, *self.others]:
            assert process is not None
            if process.wait(60) not in (0, -signal.SIGTERM):
                self.report.problems.append(f"a worker ended with {process.returncode}")

    # --- the load -----------------------------------------------------------------------------------------------------

    def _go_on(self) -> None:
        seconds, began = self.settings.seconds, time.monotonic()
        blow_at, purge_at, number = began + self.settings.kill_every, began + self.settings.purge_every, 0
        for place in range(ROWS):
            row = Row()
            self.report.rows.append(row)
            while time.monotonic() < began + seconds * (place + 1) / ROWS:
                self._send(number, row)
                number += 1
                now = time.monotonic()
                if now >= blow_at:
                    blow_at = now + self.settings.kill_every
                    self._blow()
                if now >= purge_at:
                    purge_at = now + self.settings.purge_every
                    self.report.purged += sum(self.app.purge().deleted.values())
                time.sleep(max(began + number / self.settings.rate - time.monotonic(), 0.0))
            self._look(row)

    def _send(self, number: int, row: Row) -> None:
        task = self.dice.choice(["plain", "plain", "coroutine", "coroutine", "shaky"])
        options: dict[str, Any] = {}
        if self.dice.random() < 0.1:
            options["delay"] = self.dice.uniform(0.5, 3.0)
        if self.dice.random() < 0.1:
            options["key"] = f"key {self.dice.randrange(5)}"
        at, began = time.time(), time.perf_counter()
        job = self.app.send(task, (number, self.dice.uniform(0.0, 0.05)), **options)
        row.took.append(time.perf_counter() - began)
        row.sent += 1
        if not job.existing:
            self.expected[number] = at + options.get("delay", 0.0)
            if task == "shaky":
                self.shaky.add(number)

    def _look(self, row: Row) -> None:
        assert self.steady is not None
        if self.steady.poll() is not None:
            self.report.problems.append(f"the steady worker ended by itself with {self.steady.returncode}")
            return
        row.worker, row.sender = size_of(self.steady.pid), size_of(os.getpid())
        row.store = megabytes_of(self.settings.url)
        row.jobs = sum(self.app.stats().by_status.values())

    # --- the end ------------------------------------------------------------------------------------------------------

    def _settle(self) -> None:
        ends = time.monotonic() + 60.0
        while time.monotonic() < ends:
            stats = self.app.stats()
            if not any(queue.ready or queue.delayed or queue.running for queue in stats.queues):
                return
            time.sleep(0.2)
        self.report.problems.append(f"jobs were left after a minute: {self.app.stats().by_status}")

    def _reckon(self, began: float, stopped_at: float) -> None:
        report = self.report
        lines = [line.split() for line in self.ledger.read_text().splitlines()]
        starts: dict[int, list[float]] = {}
        for word, number, *rest in lines:
            if word == "start":
                starts.setdefault(int(number), []).append(float(rest[0]))
        ended = {int(number) for word, number, *_ in lines if word == "end"}
        report.sent = len(self.expected)
        for name, numbers in {
            "lost": self.expected.keys() - ended,
            "run and never sent": starts.keys() - self.expected.keys(),
        }.items():
            if numbers:
                report.problems.append(f"{len(numbers)} jobs {name}, such as {sorted(numbers)[:5]}")
        report.again = sum(len(times) > 1 + (number in self.shaky) for number, times in starts.items())
        self._reckon_ticks(lines, began, stopped_at)
        per_row = [row.sent for row in report.rows]
        places = [place for place, count in enumerate(per_row) for _ in range(count)]
        for number, at in self.expected.items():
            if number in starts:
                report.rows[places[number]].waited.append(max(min(starts[number]) - at, 0.0))
        self._reckon_growth()
        if "Traceback" in self.log.read_text().replace("ValueError: the first time", ""):
            traces = self.log.read_text().count("Traceback")
            report.problems.append(f"the workers' log has {traces} tracebacks: see {self.log}")

    def _reckon_ticks(self, lines: list[list[str]], began: float, stopped_at: float) -> None:
        # A job that ran again is one firing all the same.
        fired: dict[int, set[str]] = {}
        for word, instant, *rest in lines:
            if word == "tick":
                fired.setdefault(int(instant), set()).add(rest[0])
        self.report.ticks = len(fired)
        # The first worker needs a moment, and the last firing too.
        wanted = {at for at in range(int(began // 60 + 1) * 60, int(stopped_at), 60) if at > began + 15}
        if missing := wanted - fired.keys() - {at for at in wanted if at > stopped_at - 5}:
            self.report.problems.append(f"the schedule did not fire for {sorted(missing)}")
        if doubled := [at for at, jobs in fired.items() if len(jobs) > 1]:
            self.report.problems.append(f"the schedule fired twice for {doubled}")

    def _reckon_growth(self) -> None:
        # What is loaded at the first use is there by the end of the second row.
        early, late = self.report.rows[1], self.report.rows[-1]
        for what, before, after, allowed in (
            ("the worker's memory in MB", early.worker.memory, late.worker.memory, MORE_MEMORY),
            ("the sender's memory in MB", early.sender.memory, late.sender.memory, MORE_MEMORY),
            ("the worker's descriptors", early.worker.descriptors, late.worker.descriptors, MORE_DESCRIPTORS),
            ("the worker's threads", early.worker.threads, late.worker.threads, MORE_DESCRIPTORS),
        ):
            if after > before + allowed:
                self.report.problems.append(f"{what} grew from {before:.0f} to {after:.0f}")
