"""Starts the processes of the crash tests and reads what they left: the store, the ledger, their output."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tinyjobs.app.facade import TinyJobs
from tinyjobs.core.job import Job

ROOT = Path(__file__).parents[2]
#: Reached only by a test that fails.
PATIENCE = 90.0
#: A lease that runs out soon and a reaper that looks often: a kill costs a test a second, not a minute.
SHORT = {"lease": 1.0, "reap_interval": 0.2}


class Process:
    """One process of `program.py`, in a session of its own."""

    def __init__(self, workshop: "Workshop", role: str, settings: dict[str, Any]) -> None:
        environment = {
            **os.environ,
            **workshop.environment,
            "CRASH_STORE": workshop.url,
            "CRASH_LEDGER": str(workshop.ledger_file),
            "PYTHONUNBUFFERED": "1",
        }
        self.errors_file = workshop.folder / f"{role}-{len(workshop.processes)}.err"
        with self.errors_file.open("wb") as errors:
            self._popen = subprocess.Popen(
                [sys.executable, "-m", "tests.crash.program", role, json.dumps(settings)],
                cwd=ROOT,
                env=environment,
                stdout=subprocess.PIPE,
                stderr=errors,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
        self.pid = self._popen.pid

    def wait_until_up(self) -> "Process":
        """Return once its signal handlers stand."""
        assert self._popen.stdout is not None
        assert self._popen.stdout.readline() == b"up\n", self.errors
        return self

    def line(self) -> str:
        """The next line it prints."""
        assert self._popen.stdout is not None
        return self._popen.stdout.readline().decode().strip()

    @property
    def errors(self) -> str:
        """What it wrote to its error stream so far."""
        return self.errors_file.read_text()

    @property
    def is_running(self) -> bool:
        return self._popen.poll() is None

    def send(self, number: signal.Signals) -> None:
        self._popen.send_signal(number)

    def send_to_group(self, number: signal.Signals) -> None:
        os.killpg(self.pid, number)

    def kill(self) -> None:
        self._popen.kill()
        self._popen.wait(PATIENCE)

    def ended(self) -> int:
        """Its exit status, once it has ended."""
        return self._popen.wait(PATIENCE)

    def answer(self) -> Any:
        """The last line it printed, as JSON, once it has ended."""
        output, _ = self._popen.communicate(timeout=PATIENCE)
        assert self.ended() == 0, self.errors
        return json.loads(output.splitlines()[-1])

    def clear_away(self) -> None:
        """End it, whatever state it is in."""
        if self.is_running:
            self._popen.send_signal(signal.SIGCONT)
            self._popen.kill()
        self._popen.wait(PATIENCE)
        if self._popen.stdout is not None:
            self._popen.stdout.close()


class Workshop:
    """A store, a ledger, and the processes over them. Without a URL the store is a file in the folder."""

    def __init__(self, folder: Path, url: str | None = None) -> None:
        self.folder = folder
        self.database = folder / "jobs.db"
        self.url = url or f"sqlite:///{self.database}"
        #: For the processes started from here on.
        self.environment: dict[str, str] = {}
        self.ledger_file = folder / "ledger"
        self.ledger_file.touch()
        self._read, self._lines = 0, dict[str, list[list[str]]]()
        self.processes: list[Process] = []
        self.app = TinyJobs(self.url)
        self.app.setup()

    def start(self, role: str = "worker", **settings: Any) -> Process:
        """Start a process; a worker is not up yet when this returns."""
        process = Process(self, role, settings)
        self.processes.append(process)
        return process

    def worker(self, **settings: Any) -> Process:
        """Start a worker and wait until it is up."""
        return self.start(**settings).wait_until_up()

    def wait_until_seen(self, *workers: Process) -> None:
        """Return once each has reached the store. One that cannot do so as it begins ends, whatever the others do."""
        until(lambda: {worker.pid for worker in workers} <= {seen.pid for seen in self.app.workers()})

    def finish(self, **settings: Any) -> Any:
        """Run a worker until nothing is due or running; its report."""
        return self.start(until_empty=True, **{**SHORT, **settings}).answer()

    def send(self, task: str, *args: Any, **options: Any) -> str:
        return self.app.send(task, args, **options).id

    def get(self, job_id: str) -> Job:
        return self.app.get(job_id)

    def jobs(self) -> list[Job]:
        """Every job there is."""
        found: list[Job] = []
        cursor: str | None = None
        while True:
            page = self.app.list(limit=1_000, cursor=cursor)
            found.extend(page.jobs)
            cursor = page.cursor
            if cursor is None:
                return found

    def history(self, job_id: str) -> list[str]:
        return [entry.status.value for entry in self.app.executions(job_id)]

    def lines(self, word: str) -> list[list[str]]:
        """What stands in the ledger behind that word, line by line. Asked again and again, so only news is read."""
        with self.ledger_file.open("rb") as ledger:
            ledger.seek(self._read)
            news = ledger.read()
        whole = news[: news.rfind(b"\n") + 1]
        self._read += len(whole)
        for first, *rest in (line.split() for line in whole.decode().splitlines()):
            self._lines.setdefault(first, []).append(rest)
        return list(self._lines.get(word, ()))

    def starts(self, job_id: str | None = None) -> list[str]:
        """The jobs whose function began, once for each time it did."""
        return [found for found, *_ in self.lines("start") if job_id in (None, found)]

    def ends(self, job_id: str | None = None) -> list[str]:
        """The jobs whose function came to its end."""
        return [found for found, *_ in self.lines("end") if job_id in (None, found)]

    def has_begun_or_finds_nothing(self, pid: int) -> bool:
        """Whether that process has begun a function, or will not, since no job is left to be claimed."""
        return str(pid) in {by for _, by, *_ in self.lines("start")} or not self.app.stats().by_status["queued"]

    def close(self) -> None:
        for process in self.processes:
            process.clear_away()
        self.app.close()


def until(condition: Callable[[], Any], what: object = "", patience: float = PATIENCE) -> Any:
    """Wait for something that another process does; `what` is shown if it does not, or what it returns."""
    ends = time.monotonic() + patience
    while not (found := condition()):
        assert time.monotonic() < ends, f"it did not come about: {what() if callable(what) else what}"
        time.sleep(0.01)
    return found


@contextmanager
def workshop_in(folder: Path, url: str | None = None) -> Iterator[Workshop]:
    workshop = Workshop(folder, url)
    try:
        yield workshop
    finally:
        workshop.close()
