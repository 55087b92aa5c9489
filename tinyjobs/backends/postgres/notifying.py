"""What is said to idle workers, and how often. Knows no driver.

A notification carries a topic: a hash of the queue's name, or `ANY`. Of one queue at most one goes out in 50 ms, at the
beginning of that time and never at its end, so nobody who sends jobs needs a timer. A worker that was woken looks a few
times more, for what came without a word of its own.
"""

import hashlib
from collections.abc import Collection
from typing import Any

from tinyjobs.backends.sql.statements import Statement
from tinyjobs.core.clock import SystemClock

#: Seconds in which one notification of a queue is enough.
WINDOW = 0.05
#: The topic of jobs whose queue is not known.
ANY = "*"
#: What the topic of a notification begins with that is only to show that notifications arrive.
PROBE = "?"

# Names remembered before those are forgotten that may be told again anyway.
_REMEMBERED = 1_000


def topic_of(queue: str) -> str:
    """What stands for a queue in a notification. Never its name: that is the user's, and may be of any kind."""
    return hashlib.sha256(queue.encode("utf-8", "surrogatepass")).hexdigest()[:16]


class Debounce:
    """Says which queues are to be told of now. Time is real, also for an app whose clock stands still.

    Safe from any thread: two that ask at the same moment may both be told yes, which costs a notification.
    """

    def __init__(self) -> None:
        self._now = SystemClock().monotonic
        self._told_at: dict[str, float] = {}

    def topics(self, queues: Collection[str] = ()) -> list[str]:
        """The topics of these queues (none named: of any) that were not told lately; from now on they were."""
        now = self._now()
        due = [queue for queue in queues or ("",) if now - self._told_at.get(queue, -WINDOW) >= WINDOW]
        if due:
            if len(self._told_at) > _REMEMBERED:
                self._told_at = {queue: at for queue, at in self._told_at.copy().items() if now - at < WINDOW}
            self._told_at.update(dict.fromkeys(due, now))
        return [topic_of(queue) if queue else ANY for queue in due]


class Announcer:
    """Tells of jobs on a connection of somebody else's: any driver's, in autocommit and between two transactions."""

    def __init__(self, statement: Statement) -> None:
        self._statement = statement
        self._debounce = Debounce()

    def __call__(self, connection: Any, queues: Collection[str] = ()) -> None:
        """Tell that jobs of these queues (none named: of any) were added. Raises what the driver does."""
        topics = self._debounce.topics(queues)
        if topics:
            with connection.cursor() as cursor:
                cursor.execute(self._statement.format, [",".join(topics)])
