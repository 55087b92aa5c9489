"""How a store's connections are made, how long a call waits for one or for an answer, and what is said when none comes.

Knows no pool. Shared by all connections of one store.
"""

from collections.abc import Callable
from dataclasses import dataclass

from tinyjobs.backends.redis.options import Address, RedisOptions
from tinyjobs.core.clock import Clock
from tinyjobs.core.errors import StoreBusyError, StoreUnavailableError

NAME = "tinyjobs"
# What a call that is told to hurry may still take.
_LEAST = 0.5


@dataclass(slots=True, kw_only=True)
class Source:
    """How connections are made. `address` is called for each, since a password may have changed meanwhile."""

    address: Callable[[], Address]
    options: RedisOptions
    where: str
    clock: Clock
    #: Until when a call may wait (clock.monotonic); None: as long as it usually does.
    deadline: float | None = None

    def left(self) -> float | None:
        """For how many seconds a call may go on that was told to hurry; None: nobody is in a hurry."""
        return None if self.deadline is None else max(self.deadline - self.clock.monotonic(), _LEAST)

    def within(self, seconds: float) -> float:
        """That many seconds, or what is left of the hurry where that is less."""
        left = self.left()
        return seconds if left is None else min(seconds, left)

    def none_free(self, held: int) -> StoreBusyError | StoreUnavailableError:
        """The error of a call that got no connection in time, while so many were held by others."""
        most, waited = self.options.max_connections, self.options.pool_timeout
        if held >= most:
            return StoreBusyError(
                f"{self.where}: all {most} connections were in use for {waited:g} s. Raise max_connections, or run "
                f"fewer calls at once."
            )
        return self.unopened()

    def unopened(self) -> StoreUnavailableError:
        """The error of a call for which no connection was opened in time."""
        return StoreUnavailableError(
            f"{self.where}: no connection could be opened within {self.options.socket_connect_timeout:g} s "
            f"(socket_connect_timeout)."
        )

    def late(self) -> StoreUnavailableError:
        """The error of a call whose answer did not come in time."""
        limit = f"within {self.options.socket_timeout:g} s (socket_timeout)"
        if self.deadline is not None:
            limit = "in what time was left"
        return StoreUnavailableError(f"{self.where}: no answer {limit}; whether the call was carried out is not known.")

    def closed(self) -> StoreUnavailableError:
        """The error of a call on a store that was closed."""
        return StoreUnavailableError(f"{self.where}: the store was closed.")
