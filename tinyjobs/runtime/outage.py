"""What workers say of a store that is out of reach: one line when that begins, and one when it is over.

Several loops meet the same outage, each at its own moments, one of them on a thread of its own. The first to fail
speaks for all of them, and so does the last that finds the store there again. Other trouble is told elsewhere.
"""

import logging
import threading

from tinyjobs.core.clock import Clock, SystemClock
from tinyjobs.core.trouble import Trouble, kind_of

logger = logging.getLogger("tinyjobs.worker")

# For so many seconds nothing may have failed before it is called over: a server ends its sessions one by one.
_CALM = 0.5


class Outage:
    """The outage of one store, if there is one, as the loops over it meet it. Safe to share between threads."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._failed_at = 0.0
        self._lock = threading.Lock()
        self._failing: set[str] = set()
        self._is_told = False
        #: How many there have been.
        self.count = 0

    @property
    def is_under_way(self) -> bool:
        """Whether one has begun and is not over."""
        return self._is_told

    def met(self, loop: str, error: Exception) -> bool:
        """Note that a loop's call failed. True: it met the outage, of which nothing more need be said."""
        if kind_of(error) is not Trouble.OUTAGE:
            return False
        with self._lock:
            self._failing.add(loop)
            self._failed_at = self._clock.monotonic()
            if not self._is_told:
                self._is_told = True
                self.count += 1
                logger.warning("the store is out of reach, trying again: %s", error)
        return True

    def over(self, *loops: str) -> bool:
        """Note that calls of these loops are answered. True: one of them had met the outage."""
        is_told = self._is_told
        if not is_told:
            return False
        with self._lock:
            has_met = not self._failing.isdisjoint(loops)
            self._failing.difference_update(loops)
            if self._is_told and not self._failing and self._clock.monotonic() - self._failed_at >= _CALM:
                self._is_told = False
                logger.warning("the store answers again")
        return has_met

    def forget(self, loop: str) -> None:
        """The loop has nothing to ask any more, so it will not find out when it is over."""
        with self._lock:
            self._failing.discard(loop)
