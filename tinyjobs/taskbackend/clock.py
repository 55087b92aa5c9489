"""The clock that every alias tells time by: the machine's, unless a test put another in its place.

A module of its own, because tasks ask it while the first module that declares one is still being imported.
"""

from tinyjobs.core.clock import Clock, SystemClock

_clock: Clock = SystemClock()


def current_clock() -> Clock:
    """The clock in use."""
    return _clock


def set_clock(clock: Clock | None) -> None:
    """Put another clock in use; None: the machine's. What was made before goes on with the old one."""
    global _clock
    _clock = clock or SystemClock()
