"""The app that a soak sends by, and that its workers serve: `tinyjobs worker --app tests.soak.app:app`.

Every task writes a line to the ledger when it begins and one when it ends, each in one write: what really happened,
whatever the store says.
"""

import asyncio
import os
import time

from tinyjobs.app.facade import TinyJobs
from tinyjobs.core.context import current_job

LEDGER = os.environ["SOAK_LEDGER"]
app = TinyJobs(
    os.environ["SOAK_STORE"],
    retention={"success": 60.0, "cancelled": 60.0, "failed": 60.0},
    schedules={"tick": {"task": "tick", "cron": "* * * * *", "misfire": "run_all", "overlap": True}},
)


def write(*words: object) -> None:
    line = " ".join(str(word) for word in words) + "\n"
    descriptor = os.open(LEDGER, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(descriptor, line.encode())
    finally:
        os.close(descriptor)


@app.task(name="plain", max_attempts=50)
def plain(number: int, seconds: float) -> None:
    write("start", number, time.time())
    time.sleep(seconds)
    write("end", number)


@app.task(name="coroutine", max_attempts=50)
async def coroutine(number: int, seconds: float) -> None:
    write("start", number, time.time())
    await asyncio.sleep(seconds)
    write("end", number)


@app.task(name="shaky", max_attempts=50, retry_base=0.5)
def shaky(number: int, seconds: float) -> None:
    """Fails the first time."""
    job = current_job()
    assert job is not None
    write("start", number, time.time())
    if job.attempts == 1:
        raise ValueError("the first time")
    write("end", number)


@app.task(name="tick", max_attempts=50)
def tick() -> None:
    job = current_job()
    assert job is not None
    write("tick", int(job.scheduled_for or 0.0), job.id)
