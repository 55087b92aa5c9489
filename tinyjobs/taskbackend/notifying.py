"""Tells workers of jobs that were added through Django's connection, as soon as they can be seen and not before.

Outside of a transaction that is at once, inside of one at the outermost commit. How a worker is told is the vendor's:
it gets the driver's own connection, so no query log, wrapper or counter of the project's ever sees it. A hint, so
whatever goes wrong is passed over.
"""

import logging
from collections.abc import Callable, Collection
from typing import Any
from weakref import ReferenceType, WeakKeyDictionary, ref

from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper

logger = logging.getLogger("tinyjobs.tasks")

#: Tells, on a driver's connection in autocommit, that jobs of these queues (none named: of any) were added.
type Announce = Callable[[Any, Collection[str]], None]
type _Registered = tuple[int, ReferenceType[Callable[[], None]]]


class Notifier:
    """Decides when the workers of one database are told. Safe from any thread."""

    def __init__(self, alias: str, announce: Announce) -> None:
        self._alias = alias
        self._announce = announce
        # By connection and queue: what was registered last, and where in the list of its callbacks.
        self._registered: WeakKeyDictionary[BaseDatabaseWrapper, dict[str, _Registered]] = WeakKeyDictionary()

    def added(self, queues: Collection[str] = ()) -> None:
        """Jobs of these queues (none named: of any) were written on this thread's connection."""
        wrapper = connections[self._alias]
        if not wrapper.in_atomic_block:
            # With autocommit off nobody says when the project commits.
            if wrapper.autocommit:
                self._tell(wrapper, queues)
        elif not any(getattr(block, "_from_testcase", False) for block in wrapper.atomic_blocks):
            for queue in queues or ("",):
                self._tell_at_commit(wrapper, queue)

    def _tell_at_commit(self, wrapper: BaseDatabaseWrapper, queue: str) -> None:
        """Once per transaction and queue. What a savepoint takes back with it is registered again.

        Callbacks stand in the order of time, and a savepoint takes back those at the end: so ours is where it was put.
        """
        registered = self._registered.setdefault(wrapper, {})
        pending = wrapper.run_on_commit
        if not pending:
            registered.clear()
        elif queue in registered:
            place, callback = registered[queue]
            if place < len(pending) and pending[place][1] is callback():
                return

        def tell() -> None:
            self._tell(wrapper, (queue,) if queue else ())

        registered[queue] = len(pending), ref(tell)
        wrapper.on_commit(tell, robust=True)

    def _tell(self, wrapper: BaseDatabaseWrapper, queues: Collection[str]) -> None:
        if wrapper.connection is None:
            return
        try:
            self._announce(wrapper.connection, queues)
        except Exception as error:
            logger.debug("no worker was told of new jobs, so an idle one will find them by polling: %s", error)
