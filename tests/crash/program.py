"""What the processes of the crash tests run: `python -m tests.crash.program worker|enqueuer|writer …`.

Every task writes a line to a ledger, a file opened for appending, before it does anything else: the ledger is what
really happened, whatever the store says.
"""

import asyncio
import concurrent.futures
import ctypes
import json
import logging
import multiprocessing
import os
import random
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from pathlib import Path

from tinyjobs.app.facade import TinyJobs
from tinyjobs.core.context import current_job
from tinyjobs.runtime.driving import drive

STORE = os.environ["CRASH_STORE"]
LEDGER = Path(os.environ["CRASH_LEDGER"])
STEP = 0.005

app = TinyJobs(STORE)


def write(*words: object) -> None:
    """Append one line, in one write, so that lines of several processes never mix."""
    line = " ".join(str(word) for word in words) + "\n"
    descriptor = os.open(LEDGER, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(descriptor, line.encode())
    finally:
        os.close(descriptor)


def rest(seconds: float) -> None:
    """Sleep, also where the machine's clock is a false one, under which `time.sleep` fails."""
    threading.Event().wait(seconds)


def begin() -> str:
    job = current_job()
    assert job is not None
    write("start", job.id, os.getpid(), job.claims)
    return job.id


def end(job_id: str) -> None:
    write("end", job_id, os.getpid())


@app.task(name="note")
def note(number: int) -> None:
    end(begin())


@app.task(name="anote")
async def anote(number: int) -> None:
    end(begin())


@app.task(name="work")
def work(number: int, seconds: float) -> None:
    job_id = begin()
    rest(seconds)
    end(job_id)


@app.task(name="awork")
async def awork(number: int, seconds: float) -> None:
    job_id = begin()
    await asyncio.sleep(seconds)
    end(job_id)


@app.task(name="fails_once", retry_base=1.0)
def fails_once() -> None:
    """Its first attempt tells what this machine takes for the time, and fails."""
    job = current_job()
    begin()
    write("clock", job.id, time.time())
    if job.attempts == 1:
        raise ValueError("the first time")


@app.task(name="cancels")
def cancels(job_id: str) -> bool:
    """A call of the application's own to the store."""
    begin()
    return app.cancel(job_id)


@app.task(name="hold")
def hold(path: str) -> None:
    """Runs until the file is there."""
    job_id = begin()
    while not os.path.exists(path):
        rest(STEP)
    end(job_id)


@app.task(name="hold_timed", timeout=3_600.0)
def hold_timed(path: str) -> None:
    """The same with a timeout, so that a drain runs it in a thread."""
    hold.function(path)


@app.task(name="ahold")
async def ahold(path: str) -> None:
    job_id = begin()
    while not os.path.exists(path):
        await asyncio.sleep(STEP)
    end(job_id)


@app.task(name="stubborn")
async def stubborn(path: str) -> None:
    """Ignores every cancellation."""
    job_id = begin()
    while not os.path.exists(path):
        try:
            await asyncio.sleep(STEP)
        except asyncio.CancelledError:
            write("cancelled", job_id)
    end(job_id)


@app.task(name="block")
async def block(path: str) -> None:
    """Blocks the event loop."""
    job_id = begin()
    while not os.path.exists(path):
        rest(STEP)
    end(job_id)


@app.task(name="elsewhere")
async def elsewhere(path: str) -> None:
    """A coroutine that waits for a thread which nothing can stop."""
    begin()
    await asyncio.to_thread(_wait, path)


def _wait(path: str) -> None:
    while not os.path.exists(path):
        rest(STEP)


@app.task(name="suicide", max_attempts=3, retry_base=0.01)
def suicide() -> None:
    begin()
    os.kill(os.getpid(), signal.SIGKILL)


@app.task(name="until_ended")
def until_ended(count: int) -> None:
    """The long one: holds until the ledger tells of that many ends of others."""
    job_id = begin()
    while sum(line.startswith("end ") for line in LEDGER.read_text().splitlines()) < count:
        rest(0.02)
    end(job_id)


def square(number: int) -> int:
    return number * number


@app.task(name="children", store_result=True)
def children(how: str) -> list[int]:
    """Starts processes of its own, each in the way that ends them by a signal or by a word."""
    begin()
    if how == "pool":
        with multiprocessing.get_context("fork").Pool(2) as pool:
            return pool.map(square, range(5))
    if how == "executor":
        with concurrent.futures.ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("fork")) as executor:
            return list(executor.map(square, range(5)))
    code = "print([number * number for number in range(5)])"
    return json.loads(subprocess.check_output([sys.executable, "-c", code]))


@app.on_job_failure
def failed(job, error, will_retry) -> None:
    write("failure", job.id, type(error).__name__, will_retry)


def worker(settings: dict) -> None:
    """Run a worker, and say so once its signal handlers stand."""
    real = app.worker(**{"handle_signals": True, **settings})
    run = real.run

    async def announced():
        print("up", flush=True)
        return await run()

    real.run = announced  # type: ignore[method-assign]
    report = drive(real)
    app.close()
    print(json.dumps({"succeeded": report.succeeded, "failed": report.failed, "forced": report.forced}), flush=True)


def nursery(settings: dict) -> None:
    """Keep that many workers alive, forked so that each is there in a moment; tells the number of each."""
    alive: set[int] = set()
    own = os.getpid()
    while True:
        while len(alive) < settings["workers"]:
            pid = os.fork()
            if pid == 0:
                ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # not to outlive the nursery
                if os.getppid() != own:  # it was killed before that was said
                    os._exit(0)
                os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
                worker(settings["settings"])
                os._exit(0)
            alive.add(pid)
            print(pid, flush=True)
        alive.discard(os.wait()[0])


def canceller(settings: dict) -> None:
    """Cancel, list and look at jobs at random, beside those who work on them."""
    dice = random.Random(settings["seed"])
    ends = time.monotonic() + settings["seconds"]
    cancelled = 0
    while time.monotonic() < ends:
        jobs = app.list(status=dice.choice(["queued", "running"]), limit=50).jobs
        for job in dice.sample(jobs, min(len(jobs), 3)):
            cancelled += app.cancel(job.id)
        app.stats()
        time.sleep(0.02)
    print(json.dumps({"cancelled": cancelled}), flush=True)


def drainer(settings: dict) -> None:
    """Run what is due in this process, without a worker."""
    app.drain()


def enqueuer(settings: dict) -> None:
    """Enqueue until told to stop, or for that many seconds; tells how long each call took, and its own number."""
    ends = time.monotonic() + settings["seconds"]
    ids, took = [], []
    number = 0
    while time.monotonic() < ends:
        began = time.perf_counter()
        job = app.send("work" if number % 2 else "awork", (number, 0.002), max_attempts=50)
        took.append(time.perf_counter() - began)
        ids.append(job.id)
        number += 1
        time.sleep(settings["pause"])
    print(json.dumps({"ids": ids, "took": took}), flush=True)


def writer(settings: dict) -> None:
    """Another program on the same database, whose transactions write first: on SQLite in its default deferred mode."""
    if STORE.startswith("sqlite"):
        connection, trouble = sqlite3.connect(STORE.removeprefix("sqlite:///"), timeout=5.0), sqlite3.OperationalError
        connection.execute("PRAGMA journal_mode = WAL")
    else:
        import psycopg

        connection, trouble = psycopg.connect(STORE, application_name="writer"), psycopg.Error
    with connection if STORE.startswith("sqlite") else connection.transaction():
        connection.execute("CREATE TABLE IF NOT EXISTS visits (at DOUBLE PRECISION)")
    ends = time.monotonic() + settings["seconds"]
    locked, took = [], []
    while time.monotonic() < ends:
        began = time.perf_counter()
        try:
            with connection if STORE.startswith("sqlite") else connection.transaction():
                connection.execute(f"INSERT INTO visits (at) VALUES ({time.time()})")
                connection.execute("SELECT count(*) FROM visits").fetchone()
        except trouble as error:
            locked.append(str(error))
        took.append(time.perf_counter() - began)
        time.sleep(settings["pause"])
    ((count,),) = connection.execute("SELECT count(*) FROM visits")
    print(json.dumps({"locked": locked, "took": took, "rows": count}), flush=True)


if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    roles = (worker, nursery, drainer, enqueuer, canceller, writer)
    {role.__name__: role for role in roles}[sys.argv[1]](json.loads(sys.argv[2]))
