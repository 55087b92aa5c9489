"""What workers say and cost while their server is away, and whether all jobs are well afterwards. For any server."""

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from tests.crash.workshop import Process, Workshop, until
from tests.servers.proxy import Proxy
from tinyjobs.core.errors import StoreUnavailableError

BEGINS, ENDS = "the store is out of reach", "the store answers again"
#: What a worker may say beside those two, about jobs whose claim did not hold.
OF_JOBS = ("was taken back", "came too late and was refused", "is no longer held by this worker")
SHORT = {"lease": 3.0, "reap_interval": 0.3}
#: From the moment at which the server takes connections to the next start of a job: what a machine that is busy with
#: other things may need, and far less than a lease or a look of a worker that never connects again.
RECOVERY = 10.0


def said(worker: Process, since: int = 0) -> list[str]:
    """The lines of a worker's log, jobs aside."""
    lines = worker.errors[since:].splitlines()
    return [line for line in lines if not any(text in line for text in OF_JOBS)]


def tells_twice(lines: Sequence[str]) -> bool:
    return [text for line in lines for text in (BEGINS, ENDS) if text in line] == [BEGINS, ENDS] and len(lines) == 2


@contextmanager
def one_outage_told(workers: Sequence[Process]) -> Iterator[None]:
    """Each worker writes one line as it begins and one when it is over, both inside the block or right after it."""
    for worker in workers:
        # A part of it that has had no occasion yet may still have the outage before this one.
        until(
            lambda worker=worker: worker.errors.count(BEGINS) == worker.errors.count(ENDS),
            lambda worker=worker: worker.errors,
        )
    before = [len(worker.errors) for worker in workers]
    yield
    for worker, since in zip(workers, before, strict=True):
        until(lambda worker=worker, since=since: ENDS in worker.errors[since:], lambda worker=worker: worker.errors)
        assert tells_twice(said(worker, since)), worker.errors[since:]
        assert "WARNING" in said(worker, since)[0] and "WARNING" in said(worker, since)[1]


def processor_seconds(pid: int) -> float:
    with open(f"/proc/{pid}/stat") as stat:
        fields = stat.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def seconds_to_a_start(workshop: Workshop) -> float:
    """How long a job that is sent now takes to begin."""
    began = time.monotonic()
    job = workshop.send("note", 0)
    until(lambda: workshop.starts(job))
    return time.monotonic() - began


def all_succeeded(workshop: Workshop) -> bool:
    """Also asked right after a blow: the app that asks has connections of its own, and is told if one was hit."""
    try:
        by_status = workshop.app.stats().by_status
    except StoreUnavailableError:
        return False
    return by_status["success"] == sum(by_status.values())


def not_succeeded(workshop: Workshop) -> str:
    """The jobs that have not come to their good end, with what became of their attempts, and what the workers said."""
    odd = [job for job in workshop.jobs() if job.status != "success"]
    told = [f"{len(odd)} of {len(workshop.jobs())} jobs"]
    told += [f"{job}: {workshop.app.executions(job.id)}" for job in odd[:5]]
    return "\n".join([*told, *(process.errors for process in workshop.processes)])


def cut_the_network(proxy: Proxy, workers: Sequence[Process], seconds: float) -> None:
    """For so long nothing gets through; each worker tells of it twice, and costs next to nothing meanwhile."""
    with one_outage_told(workers):
        proxy.refuse()
        proxy.cut()
        used = [processor_seconds(worker.pid) for worker in workers]
        time.sleep(seconds)
        pairs = zip(workers, used, strict=True)
        shares = [(processor_seconds(worker.pid) - before) / seconds for worker, before in pairs]
        proxy.accept()
    assert max(shares) < 0.05, shares
