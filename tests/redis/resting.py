"""Workers that have nothing to do, seen from outside: by the marks they leave, when each looks, and when it will next.

Their looks are further and further apart, up to the `poll` setting. A test that is to tell a wake-up from a look begins
when the next look is seconds away: right after one, a worker that hears nothing looks again within milliseconds.
"""

import time
from collections import defaultdict
from itertools import pairwise
from typing import Any

from tests.crash.workshop import until
from tests.servers.redis import RedisServer

#: Give it to the workers, so that nothing but the time since the last job bounds their waits.
POLL = 60.0
#: For how long no worker looks from then on, in seconds, and what is found sooner than that was told of.
AWAY = 1.5
WOKEN = 1.0
#: By how much a wait is longer at least than the one before: each doubles, and is spread by a quarter either way.
GROWTH = 2 * 0.75 / 1.25

_MARKS = "{tinyjobs}:asleep"


def rest(server: RedisServer, *marks: str, database: int | None = None) -> None:
    """Wait until no worker that leaves one of these marks looks within the next `AWAY` seconds.

    `*` is the mark of one that serves every queue, `qmail` that of one that serves `mail`. They stand again at the end.
    """
    marks = marks or ("*",)
    left: dict[str, Any] = {}
    looks: dict[str, list[float]] = defaultdict(list)

    def take_away() -> None:
        for mark in marks:
            if channel := server.execute("HGET", _MARKS, mark, database=database):
                server.execute("HDEL", _MARKS, mark, database=database)
                left[mark] = channel
                looks[mark].append(time.monotonic())

    def are_far_apart() -> bool:
        take_away()
        return all(_next(looks[mark]) - time.monotonic() > AWAY for mark in marks)

    until(are_far_apart)
    for mark, channel in left.items():
        server.execute("HSET", _MARKS, mark, channel, database=database)


def _next(looks: list[float]) -> float:
    """The earliest moment of the next look, as far as the latest two tell."""
    waits = [later - earlier for earlier, later in pairwise(looks)]
    return looks[-1] + waits[-1] * GROWTH if waits else float("-inf")
