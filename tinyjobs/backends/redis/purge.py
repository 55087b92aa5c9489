"""Verbs that end and delete what nobody waits for any more. Ages are in seconds, by the clock that decides here."""

from tinyjobs.backends.redis.calls import Caller
from tinyjobs.backends.redis.rows import whole_jobs
from tinyjobs.core.errors import StoreError
from tinyjobs.core.job import Job
from tinyjobs.core.status import JobStatus
from tinyjobs.core.transitions import EXPIRED


async def end_unstarted(call: Caller, limit: int) -> list[Job]:
    """End jobs that have not started by their expiry; each as it stands afterwards. A script for each few megabytes."""
    ended: list[Job] = []
    goes_on = True
    while goes_on and len(ended) < limit:
        try:
            goes_on, rows, *blobs = await call("end_unstarted", limit=str(limit - len(ended)), expired=EXPIRED)
        except StoreError:
            if not ended:
                raise
            return ended  # nobody else will tell of those; whoever asks again meets the trouble
        ended += whole_jobs(rows, blobs)
    return ended


async def claim_sweep(call: Caller, interval: float) -> bool:
    """Whether the caller is the one to sweep now."""
    return bool(await call("claim_sweep", interval=repr(interval)))


async def purge(call: Caller, status: JobStatus, older_than: float, limit: int) -> int:
    """Delete the oldest of the ended jobs with their executions; how many there were."""
    return int(await call("purge", status=status, older_than=repr(older_than), limit=str(limit)))


async def purgeable(call: Caller, status: JobStatus, older_than: float) -> int:
    """How many jobs such purges would delete."""
    return int(await call("purgeable", status=status, older_than=repr(older_than)))


async def drop_results(call: Caller, task: str, older_than: float, *, since: float, limit: int) -> tuple[int, float]:
    """Drop the oldest results of a task; how many, and the end up to which there are none left."""
    dropped, until = await call(
        "drop_results", task=task, older_than=repr(older_than), since=repr(since), limit=str(limit)
    )
    return dropped, float(until)


async def delete(call: Caller, job_id: str) -> bool:
    """Delete one job that has ended; False for any other."""
    return bool(await call("delete", id=job_id))
