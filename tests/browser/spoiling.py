"""A store whose every text tries to be markup and script."""

import json

from django.contrib.admin.utils import quote

from tinyjobs.backends.base import Backend
from tinyjobs.core.ids import IdSource
from tinyjobs.core.inline import finish
from tinyjobs.core.job import ClaimRequest, Job, ScheduleState
from tinyjobs.core.transitions import ExecutionError, failed, succeeded
from tinyjobs.core.watching import WorkerSeen

EVIL = "</script><script>window.ran = true</script>\"'><img src=x onerror=window.ran=true>"
_IDS = IdSource()


def spoil(kept: Backend) -> list[str]:
    """Put two jobs, a schedule and a worker there; the ids of the jobs, of which one has failed."""
    now = kept.clock.now()
    made = []
    for _ in range(2):
        payload = json.dumps({"args": [EVIL], "kwargs": {EVIL: EVIL}}).encode()
        job = Job(id=_IDS.make(now), task=EVIL, queue=EVIL, max_attempts=1, key=None, payload=payload)
        made.append(finish(kept.enqueue(job)).id)
    jobs = finish(kept.claim(ClaimRequest(worker_id=EVIL, limit=2, lease=60))).jobs
    error = ExecutionError(error_type=EVIL, traceback=f"Traceback\n  File {EVIL}, line 1\n{EVIL}: {EVIL}", message=EVIL)
    finish(kept.record([failed(jobs[0], error, None, now), succeeded(jobs[1], json.dumps(EVIL).encode(), now)]))
    schedule = ScheduleState(
        name=EVIL, cron="0 3 * * *", timezone="UTC", next_run_at=now + 60, task=EVIL, source="data", error=EVIL
    )
    finish(kept.save_schedule(schedule))
    finish(kept.beat(WorkerSeen(worker_id=EVIL, host=EVIL, pid=1, version=EVIL, started_at=now, queues=(EVIL,))))
    return made


def pages_of(jobs: list[str]) -> list[str]:
    """Every page that has something of it."""
    name = quote(EVIL)
    return [
        "",
        "job/",
        *(f"job/{job}/" for job in jobs),
        "schedule/",
        f"schedule/{name}/change/",
        f"schedule/{name}/edit/",
        "queues/",
        "workers/",
    ]
