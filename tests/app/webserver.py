"""A real uvicorn around an app with an embedded worker, what its jobs leave behind, and clients that load it."""

import http.client
import re
import socket
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.cli.processes import PATIENCE, Program
from tinyjobs.app.facade import TinyJobs
from tinyjobs.core.status import JobStatus

SERVED = """
import asyncio, os, time
from fastapi import FastAPI
from tinyjobs import TinyJobs

jobs = TinyJobs(os.environ["JOBS_URL"])

def tell(word, number):
    # One write of few bytes at the end of a file: whole, however many processes write.
    line = f"{word} {number} {os.getpid()}\\n".encode()
    os.write(ledger, line)

ledger = os.open("ledger.txt", os.O_WRONLY | os.O_APPEND | os.O_CREAT)

@jobs.task(name="plain")
def plain(number, seconds=0.0):
    tell("began", number)
    time.sleep(seconds)
    tell("ended", number)

@jobs.task(name="awaited")
async def awaited(number, seconds=0.0):
    tell("began", number)
    await asyncio.sleep(seconds)
    tell("ended", number)

TASKS = [plain, awaited]
web = FastAPI(lifespan=jobs.lifespan(concurrency=4, poll=0.1, shutdown_timeout=3, scheduler=False))

@web.get("/plain/{number}")
def send(number: int, seconds: float = 0.0):
    return {"id": TASKS[number // 2 % 2].enqueue(number, seconds).id}

@web.get("/awaited/{number}")
async def asend(number: int, seconds: float = 0.0):
    return {"id": (await TASKS[number // 2 % 2].aenqueue(number, seconds)).id}
"""


class Site:
    """A folder with that program, the store it uses, and the servers a test starts on it."""

    def __init__(self, folder: Path, url: str, start: Callable[..., Program]):
        self.folder = folder
        self.url = url
        self._start = start
        self.port = 0
        self.program = folder / "served.py"
        self.program.write_text(SERVED)

    def start(self, *arguments: str, processes: int = 1) -> Program:
        """A server whose every process answers, on a free port."""
        # Development mode, which tells of whatever is left open; not of the socket that uvicorn's own parent leaves.
        python = [sys.executable, "-X", "dev", "-W", "ignore:unclosed <socket.socket:ResourceWarning"]
        command = [*python, "-m", "uvicorn", "served:web", "--port", "0", "--no-access-log"]
        environment = {"JOBS_URL": self.url}
        server = self._start([*command, *arguments], self.folder, environment=environment, start_new_session=True)
        began = [server.wait_for(r"Uvicorn running on http://127\.0\.0\.1:(\d+)|startup complete") for _ in range(2)]
        for _ in range(processes - 1):
            server.wait_for("startup complete")
        self.port = int(next(line[1] for line in began if line[1]))
        wait_until(self._answers, lambda: server.output)  # it listens a moment after it has begun
        return server

    def _answers(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE).close()
        except ConnectionRefusedError:
            return False
        return True

    def get(self, paths: Iterable[str], clients: int = 16) -> Counter[int]:
        """Ask for every path, by several clients at once that keep their connections; how often which status came."""
        shares: list[list[str]] = [[] for _ in range(clients)]
        for place, path in enumerate(paths):
            shares[place % clients].append(path)
        with ThreadPoolExecutor(clients) as pool:
            return sum(pool.map(self._ask, shares), Counter())

    def _ask(self, paths: list[str]) -> Counter[int]:
        statuses: Counter[int] = Counter()
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        try:
            for path in paths:
                connection.request("GET", path)
                answer = connection.getresponse()
                answer.read()
                statuses[answer.status] += 1
        finally:
            connection.close()
        return statuses

    def told(self, word: str) -> list[int]:
        """The numbers of the jobs that began, or ended, in order and as often as they did."""
        ledger = self.folder / "ledger.txt"
        text = ledger.read_text() if ledger.exists() else ""
        return [int(number) for number in re.findall(rf"^{word} (\d+) ", text, re.MULTILINE)]

    def processes(self) -> set[str]:
        """Those that ran jobs."""
        return set(re.findall(r" (\d+)$", (self.folder / "ledger.txt").read_text(), re.MULTILINE))

    def wait_for(self, word: str, count: int) -> None:
        """Return once so many jobs began, or ended."""
        wait_until(lambda: len(self.told(word)) >= count, lambda: f"{len(self.told(word))} of {count} {word}")

    def jobs(self) -> dict[JobStatus, list]:
        """Every job of the store, by status."""
        found: dict[JobStatus, list] = {}
        with TinyJobs(self.url) as app:
            page = app.list(limit=1000)
            while page.jobs:
                for job in page.jobs:
                    found.setdefault(job.status, []).append(job)
                if page.cursor is None:
                    break
                page = app.list(limit=1000, cursor=page.cursor)
        return found

    def wait_for_success(self, count: int) -> None:
        """Return once so many jobs stand as successes."""
        with TinyJobs(self.url) as app:
            seen: list[Mapping[str, int]] = []

            def is_there() -> bool:
                seen[:] = [app.stats().by_status]
                return seen[0].get(JobStatus.SUCCESS, 0) >= count

            wait_until(is_there, lambda: str(seen))


def wait_until(is_so: Callable[[], bool], shown: Callable[[], str]) -> None:
    end = time.monotonic() + PATIENCE
    while not is_so():
        assert time.monotonic() < end, shown()
        time.sleep(0.02)
