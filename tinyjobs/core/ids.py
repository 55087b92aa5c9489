"""Job ids: UUID version 7, made by the client, sorting by the time they were made.

Ids made in one process are strictly increasing, also within a millisecond and when the wall clock steps back, so a
listing by id is a listing by age. Text form: 36 characters, lower case.
"""

import os
import re
import secrets
import threading
from collections.abc import Callable

from tinyjobs.core.errors import ConfigurationError

_SEQUENCE_BITS = 74
_SEQUENCE_LIMIT = 1 << _SEQUENCE_BITS
# A fresh millisecond starts in the lower half, so a burst has room to count up without touching the clock bits.
_START_BITS = _SEQUENCE_BITS - 1

# Random words of 32 bits, drawn from the system many at a time: a single id would wait for it longer than for the rest.
# A forked child draws its own.
_words: list[int] = []
_DRAWN = 256


def random_bits(bits: int) -> int:
    """So many bits of the system's randomness. From any thread."""
    count = -(-bits // 32)
    if count > _DRAWN:
        return secrets.randbits(bits)
    value = 0
    for _ in range(count):
        value = value << 32 | _word()
    return value >> (32 * count - bits)


def _word() -> int:
    while True:
        try:
            return _words.pop()
        except IndexError:
            _words.extend(memoryview(os.urandom(4 * _DRAWN)).cast("I"))


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_words.clear)


_FORM = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def is_job_id(text: str) -> bool:
    """Whether a text has the form of an id."""
    return _FORM.fullmatch(text) is not None


def check_cursor(cursor: str | None) -> None:
    """Raise `ConfigurationError` for a text that no page can have named, where a cursor is the id of its last job."""
    if cursor is not None and not is_job_id(cursor):
        raise ConfigurationError(f"cursor: {cursor[:100]!r} is none; give the one that the page before it named.")


class IdSource:
    """Makes job ids; one per process is enough and it is safe to share between threads.

    A signal handler may ask for ids while its own thread is being given some: the lock lets it in, and whoever finds
    that ids were made meanwhile begins anew behind them.
    """

    def __init__(self, random_bits: Callable[[int], int] = random_bits) -> None:
        self._random_bits = random_bits
        self._lock = threading.RLock()
        # The millisecond and the rest of the latest id. Replaced as a whole, so no interrupt leaves half of it.
        self._last = (-1, 0)

    def make(self, now: float) -> str:
        """An id for the instant `now` (unix seconds), greater than every id made here before."""
        millisecond = int(now * 1000)
        with self._lock:
            before = self._last
            # A new millisecond: the usual case where jobs are sent one by one.
            if millisecond > before[0] and millisecond >= 0:
                last = millisecond, self._random_bits(_START_BITS)
                if self._last is before:
                    self._last = last
                    return _text(*last)
        return self.make_many(now, 1)[0]

    def make_many(self, now: float, count: int) -> list[str]:
        """`count` increasing ids for one instant; a random step keeps them hard to guess."""
        now_millisecond = max(int(now * 1000), 0)
        # Drawn in one go: asking the system for each would cost more than the rest.
        steps = memoryview(self._random_bits(32 * count).to_bytes(4 * count, "little")).cast("I")
        with self._lock:
            while True:
                before = self._last
                millisecond, sequence = before
                ids = []
                for step in steps:
                    if now_millisecond > millisecond:
                        millisecond, sequence = now_millisecond, self._random_bits(_START_BITS)
                    else:
                        sequence += 1 + step
                        if sequence >= _SEQUENCE_LIMIT:
                            millisecond, sequence = millisecond + 1, self._random_bits(_START_BITS)
                    ids.append(_text(millisecond, sequence))
                if self._last is before:
                    self._last = millisecond, sequence
                    return ids


def _text(millisecond: int, sequence: int) -> str:
    high, low = sequence >> 62, sequence & ((1 << 62) - 1)
    number = (millisecond & ((1 << 48) - 1)) << 80 | 0x7 << 76 | high << 64 | 0b10 << 62 | low
    digits = f"{number:032x}"
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"
