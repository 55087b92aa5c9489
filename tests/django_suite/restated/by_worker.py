"""What stands in the place of an immediate run: a worker runs the job and ends, then the job is read again.

Copied into Django's package `tasks`, as its module `running`. The worker has its own connections, so the job has to be
committed, and the database a file.
"""

from io import StringIO

from asgiref.sync import sync_to_async
from django.core.management import call_command


def ran(result):
    call_command("tinyjobs", "worker", "--until-empty", "--no-reload", stdout=StringIO(), stderr=StringIO())
    result.refresh()
    return result


async def aran(result):
    return await sync_to_async(ran)(result)
