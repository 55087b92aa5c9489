"""A store with something of everything, as a shop would have it after a busy hour. For tests and for pictures."""

import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from tests.dashboard.conftest import store
from tinyjobs.backends.base import Backend
from tinyjobs.core.clock import FrozenClock
from tinyjobs.core.codecs.tagged import JSONCodec
from tinyjobs.core.ids import IdSource
from tinyjobs.core.inline import finish
from tinyjobs.core.job import ClaimRequest, Job, ScheduleState
from tinyjobs.core.transitions import ExecutionError, failed, succeeded
from tinyjobs.core.watching import WorkerSeen
from tinyjobs.taskbackend.shared import use_clock

_CODEC = JSONCodec()
_WORKER = "web-1:4117:9b1c"
_TASKS = (
    ("shop.tasks.send_receipt", "mail", lambda draw: ([draw.randint(1_000, 9_999)], {})),
    ("shop.tasks.resize_picture", "pictures", lambda draw: ([f"shoe-{draw.randint(1, 80)}.png", 640], {})),
    ("shop.tasks.update_stock", "default", lambda draw: ([], {"sku": f"B-{draw.randint(100, 999)}"})),
)
_TRACEBACK = """\
Traceback (most recent call last):
  File "/srv/shop/tasks.py", line 41, in send_receipt
    mailer.send(receipt_of(order), to=order.email)
  File "/srv/shop/mailer.py", line 17, in send
    raise ConnectionRefusedError("smtp.example.com:587 refuses connections")
ConnectionRefusedError: smtp.example.com:587 refuses connections
"""
_ERROR = ExecutionError(
    error_type="builtins.ConnectionRefusedError",
    message="smtp.example.com:587 refuses connections",
    traceback=_TRACEBACK,
)


@dataclass(frozen=True)
class Filled:
    """Ids of what there is."""

    failed: str
    succeeded: str
    schedule: str


def fill(now: float, jobs: int = 40) -> Filled:
    """Fill the store of the alias `default`, which is a file of SQLite: what ended did so in the hour before `now`."""
    with _time(now - 3_400) as clock:
        return fill_store(store(), clock, now, jobs)


def fill_store(kept: Backend, clock: FrozenClock, now: float, jobs: int = 40) -> Filled:
    """Fill a store that goes by that clock, which stands an hour before `now`."""
    draw, ids = random.Random(7), IdSource()
    step = 3_300 / jobs
    bad = _run(kept, ids, clock, draw, 0, attempts=3, fails=True)
    good = ""
    for number in range(jobs):
        good = _run(kept, ids, clock, draw, number, attempts=1 + (number % 11 == 5))
        clock.advance(max(now - 60 - (jobs - number - 1) * step - clock.now(), 0.0))
    clock.advance(max(now - 20 - clock.now(), 0.0))
    for number in range(5):
        _send(kept, ids, clock, draw, number)
        clock.advance(1.0)
    finish(kept.claim(ClaimRequest(worker_id=_WORKER, limit=2, lease=300.0)))
    clock.advance(max(now - clock.now(), 0.0))
    _send_later(kept, ids, now)
    _beat(kept, now)
    return Filled(failed=bad, succeeded=good, schedule="nightly_report")


@contextmanager
def _time(start: float) -> Iterator[FrozenClock]:
    clock = FrozenClock(start)
    use_clock(clock)
    try:
        yield clock
    finally:
        use_clock(None)


def _send(kept: Backend, ids: IdSource, clock: FrozenClock, draw: random.Random, number: int, attempts: int = 3) -> Job:
    task, queue, arguments = _TASKS[number % 3]
    now = clock.now()
    job = Job(
        id=ids.make(now),
        task=task,
        queue=queue,
        max_attempts=attempts,
        run_at=now,
        created_at=now,
        payload=_CODEC.encode_call(*arguments(draw)),
        priority=draw.choice((0, 0, 5)),
    )
    return finish(kept.enqueue(job))


def _run(
    kept: Backend,
    ids: IdSource,
    clock: FrozenClock,
    draw: random.Random,
    number: int,
    *,
    attempts: int,
    fails: bool = False,
) -> str:
    """A job that is sent and tried so many times, of which the last goes well unless it fails for good."""
    job = _send(kept, ids, clock, draw, number)
    for attempt in range(1, attempts + 1):
        clock.advance(0.2 + draw.random() * 2)
        (claimed,) = finish(kept.claim(ClaimRequest(worker_id=_WORKER, limit=1, lease=300.0))).jobs
        clock.advance(0.1 + draw.random() * (4 if job.queue == "pictures" else 1))
        now = clock.now()
        if attempt < attempts or fails:
            outcome = failed(claimed, _ERROR, now if attempt < attempts else None, now)
        else:
            outcome = succeeded(claimed, _CODEC.encode({"sent": True}), now)
        finish(kept.record([outcome]))
    return job.id


def _send_later(kept: Backend, ids: IdSource, now: float) -> None:
    job = Job(
        id=ids.make(now),
        task="shop.tasks.remind",
        queue="mail",
        max_attempts=3,
        run_at=now + 5_400,
        created_at=now,
        payload=_CODEC.encode_call([4711], {"password": "not to be shown"}),
        key="remind:4711",
    )
    finish(kept.enqueue(job))
    for name, cron, task in (
        ("nightly_report", "0 3 * * 1-5", "shop.tasks.report"),
        ("exchange_rates", "*/15 * * * *", "shop.tasks.fetch_rates"),
    ):
        state = ScheduleState(
            name=name,
            cron=cron,
            timezone="Europe/Rome",
            next_run_at=now + 600,
            last_run_at=now - 300,
            task=task,
            payload=_CODEC.encode_call([], {}),
            source="data",
        )
        finish(kept.save_schedule(state))


def _beat(kept: Backend, now: float) -> None:
    for name, queues in ((_WORKER, ()), ("web-2:811:77e0", ("mail", "pictures"))):
        host, pid, _ = name.split(":")
        worker = WorkerSeen(
            worker_id=name,
            host=host,
            pid=int(pid),
            version="0.1",
            started_at=now - 7_200,
            queues=queues,
            threads=4,
            coroutines=32,
            running=0 if queues else 2,
            scheduled_at=now,
        )
        finish(kept.beat(worker))
