"""What stands in the place of an immediate run: a worker runs the job and ends, then the job is read again.

Copied into Django's package `tasks`, as its module `running`. The worker has its own connections, so the job has to be
committed, and the database a file.
"""

from asgiref.sync import sync_to_async

from tinyjobs.runtime.worker import run_worker
from tinyjobs.taskbackend.working import open_engine, worker_settings


def ran(result):
    with open_engine("default") as engine:
        run_worker(engine, worker_settings("default", until_empty=True))
    result.refresh()
    return result


async def aran(result):
    return await sync_to_async(ran)(result)
