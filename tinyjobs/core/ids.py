"""Job ids: UUID version 7, made by the client, sorting by the time they were made.

Ids made in one process are strictly increasing, also within a millisecond and when the wall clock steps back, so a
listing by id is a listing by age. Text form: 36 characters, lower case.
"""

import secrets
import threading
from collections.abc import Callable

_SEQUENCE_BITS = 74
_SEQUENCE_LIMIT = 1 << _SEQUENCE_BITS
# A fresh millisecond starts in the lower half, so a burst has room to count up without touching the clock bits.
_START_BITS = _SEQUENCE_BITS - 1


class IdSource:
    """Makes job ids; one per process is enough and it is safe to share between threads."""

    def __init__(self, random_bits: Callable[[int], int] = secrets.randbits) -> None:
        self._random_bits = random_bits
        self._lock = threading.Lock()
        self._millisecond = -1
        self._sequence = 0

    def make(self, now: float) -> str:
        """An id for the instant `now` (unix seconds), greater than every id made here before."""
        return self.make_many(now, 1)[0]

    def make_many(self, now: float, count: int) -> list[str]:
        """`count` increasing ids for one instant; a random step keeps them hard to guess."""
        millisecond = max(int(now * 1000), 0)
        # Drawn in one go: asking the system for each would cost more than the rest.
        steps = memoryview(self._random_bits(32 * count).to_bytes(4 * count, "little")).cast("I")
        ids = []
        with self._lock:
            for step in steps:
                if millisecond > self._millisecond:
                    self._millisecond = millisecond
                    self._sequence = self._random_bits(_START_BITS)
                else:
                    self._sequence += 1 + step
                    if self._sequence >= _SEQUENCE_LIMIT:
                        self._millisecond += 1
                        self._sequence = self._random_bits(_START_BITS)
                ids.append(_text(self._millisecond, self._sequence))
        return ids


def _text(millisecond: int, sequence: int) -> str:
    high, low = sequence >> 62, sequence & ((1 << 62) - 1)
    number = (millisecond & ((1 << 48) - 1)) << 80 | 0x7 << 76 | high << 64 | 0b10 << 62 | low
    digits = f"{number:032x}"
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"
