"""Whose clock decides in a store: the server's where there is one, the app's otherwise.

A server is asked for its time inside each statement or script, so nobody follows it and no reading grows old. An app
whose clock is not the machine's own, as in tests, is its own world: then that clock decides on every store.
"""

from dataclasses import dataclass

from tinyjobs.core.clock import Clock, SystemClock

#: An instant for a statement, in unix seconds; None: the server's own when that begins.
type Now = float | None


@dataclass(frozen=True, slots=True)
class StoreTime:
    """The clock of one store. `by_server`: its statements know the time themselves."""

    clock: Clock
    by_server: bool = False

    def now(self) -> Now:
        """What a statement is given for the present."""
        return None if self.by_server and isinstance(self.clock, SystemClock) else self.clock.now()

    def told(self) -> float:
        """The present on the caller's own clock, by which the instants it reports are to be read."""
        return self.clock.now()

    def on_callers_clock(self, instant: float | None, now: float | None) -> float | None:
        """An instant of the store's as the caller's clock will show it. `now` is the store's present, if it has one."""
        if instant is None or now is None:
            return instant
        return instant - now + self.clock.now()
