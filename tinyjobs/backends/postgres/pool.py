"""What both pools of the store hold to: how long connections live, what is tried again, what is not said twice.

`looppool` runs verbs on connections of an event loop, `threadpool` on those of threads; both are psycopg's own pools.
"""

import logging

from tinyjobs.backends.postgres.errors import is_lost, is_outdated, is_worth_retrying
from tinyjobs.backends.sql.connection import Verb
from tinyjobs.core.errors import StoreError

logger = logging.getLogger("tinyjobs.store")

NAME = "tinyjobs"
#: A connection beyond the smallest number goes after this long without use; each one is replaced after half an hour.
IDLE = 10.0
LIFETIME = 1800.0
# How often a transaction runs again that the server undid for the sake of another one.
_TRIES = 3
# How many connections in a row may have prepared what they run for tables as they were.
_OUTDATED = 20
#: After this long without success an attempt to connect begins anew, or the pauses between its tries would grow.
RECONNECT = 2.0
#: How long a pool that is closed waits for its own threads or tasks.
CLOSING = 0.5
#: Pools that a forked child found. Closing them would talk on the parent's connections.
inherited: list[object] = []


class Retrying:
    """A runner that runs a verb again where that is safe and of use."""

    async def run[T](self, verb: Verb[T], *, write: bool) -> T:
        """Run the verb on a connection of the pool. Raises `StoreBusyError` where none came free in time."""
        tries = 0
        while True:
            try:
                return await self._run(verb)
            except StoreError as error:
                tries += 1
                if not _may_try_again(error, write, tries):
                    raise

    async def _run[T](self, verb: Verb[T]) -> T:
        raise NotImplementedError


def _may_try_again(error: StoreError, write: bool, tries: int) -> bool:
    """Whether the verb runs once more. What the server undid is told of, a read that lost its connection is not."""
    if is_worth_retrying(error):
        if tries <= _TRIES:
            logger.warning("%s Running it again.", error)
        return tries <= _TRIES
    if is_outdated(error):
        # Nothing was done, and the connection is gone; each of the others may have to go as well.
        return tries <= _OUTDATED
    return not write and is_lost(error) and tries == 1


class _OursOnly(logging.Filter):
    """Silences what psycopg's pools say of ours: the same is told once by whoever meets it."""

    def filter(self, record: logging.LogRecord) -> bool:
        return not any(
            str(argument).lstrip("'<").startswith(NAME) or f"'{NAME}" in str(argument) for argument in record.args or ()
        )


logging.getLogger("psycopg.pool").addFilter(_OursOnly())
