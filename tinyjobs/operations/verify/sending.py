"""Sends the jobs of a run, and remembers by number what the store said to each.

A number belongs to one attempt to send, so one that failed after the store had kept the job shares its number with no
other. Now and then several threads send one job under one key at the same moment, of which the store may keep one.
"""

import itertools
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from tinyjobs.app.task import Task
from tinyjobs.core.clock import Clock
from tinyjobs.core.errors import TinyJobsError

#: How many send one job at once, and how often: every so many jobs.
CONTENDERS = 4
EVERY = 4
#: How long the job of such a race waits. Until it has run, its key is held.
_DELAY = 1.0


@dataclass
class Sent:
    """What became of each number: the ids that the store answered, the numbers whose send failed.

    `contested`: sent under a key by several at once, and `delayed` for that. `excused`: those of them whose race took
    so long that the key may have been free again before its end.
    """

    ids: dict[int, set[str]] = field(default_factory=dict)
    failed: set[int] = field(default_factory=set)
    contested: set[int] = field(default_factory=set)
    excused: set[int] = field(default_factory=set)
    probes: set[int] = field(default_factory=set)
    failures: list[str] = field(default_factory=list)

    @property
    def numbers(self) -> frozenset[int]:
        """Every number that the store has acknowledged."""
        return frozenset(self.ids)


class Sender:
    """Sends by the task of the app, on the run's queue. Safe to use from several threads."""

    def __init__(self, task: Task[[int, bool], str], queue: str, clock: Clock, *, with_keys: bool) -> None:
        self._task = task
        self._queue = queue
        self._clock = clock
        self._with_keys = with_keys
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        self._contenders = ThreadPoolExecutor(CONTENDERS, thread_name_prefix="verify-contender")
        self.sent = Sent()

    def send(self) -> None:
        """Send the next job, by one or by several at once."""
        number = next(self._numbers)
        if self._with_keys and number % EVERY == 0:
            self._contest(number)
        else:
            self._acknowledge(number, self._attempt(lambda: self._enqueue(number)))

    def send_probe(self) -> int | None:
        """Send a job whose first run waits to be told; its number, or None: it could not be sent."""
        number = next(self._numbers)
        self.sent.probes.add(number)
        self._acknowledge(number, self._attempt(lambda: self._enqueue(number, is_probe=True)))
        return None if number in self.sent.failed else number

    def close(self) -> None:
        """End the threads."""
        self._contenders.shutdown(cancel_futures=True)

    def _enqueue(self, number: int, *, is_probe: bool = False) -> str:
        return self._task.with_options(queue=self._queue).enqueue(number, is_probe).id

    def _contest(self, number: int) -> None:
        barrier = threading.Barrier(CONTENDERS)
        task = self._task.with_options(queue=self._queue, key=f"{self._queue}:{number}", delay=_DELAY)

        def send() -> str | None:
            barrier.wait()
            return self._attempt(lambda: task.enqueue(number, False).id)

        self.sent.contested.add(number)
        began = self._clock.monotonic()
        answers = [future.result() for future in [self._contenders.submit(send) for _ in range(CONTENDERS)]]
        if self._clock.monotonic() - began > _DELAY / 2:
            self.sent.excused.add(number)
        for answer in answers:
            self._acknowledge(number, answer)

    def _attempt(self, enqueue: Callable[[], str]) -> str | None:
        try:
            return enqueue()
        except TinyJobsError as error:
            with self._lock:
                self.sent.failures.append(str(error))
            return None

    def _acknowledge(self, number: int, job_id: str | None) -> None:
        with self._lock:
            if job_id is None:
                self.sent.failed.add(number)
            else:
                self.sent.ids.setdefault(number, set()).add(job_id)
