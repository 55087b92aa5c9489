"""What goes around every job, so that none leaves anything behind for the next one on its thread or connections.

In a worker: connections are kept from job to job for a minute or more and health-checked before they are used again,
as Django does around a request; one with an open or aborted transaction, or with autocommit off, is closed, which
rolls back what its job did not commit, and so is one whose session its job has changed. One of Django's pool goes back
to it after each job. In a drain the connection is the caller's own: there the job runs inside a
savepoint where the caller has a transaction open, and the connection is left as it was.

Language, time zone and other context need nothing here: each job runs in a context of its own. Nothing is done for
connections that nobody opened.
"""

import asyncio
import threading
import weakref
from collections.abc import Generator
from contextlib import ExitStack, contextmanager, suppress
from types import TracebackType
from typing import Any, Self

from django.db import DatabaseError, InterfaceError, connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created

from tinyjobs.core.job import Job
from tinyjobs.taskbackend import sessions
from tinyjobs.taskbackend.lanes import Lanes

#: Seconds for which a connection is kept at least, also where CONN_MAX_AGE says less: a request may open one each, a
#: worker that did would spend longer connecting than working.
KEPT = 60.0
_KEPT_MARK = "_tinyjobs_kept"


class Hygiene:
    """Goes around the jobs of one worker: `Engine.around`. `close` lets go of the connections it has seen."""

    def __init__(self) -> None:
        self._seen: weakref.WeakSet[BaseDatabaseWrapper] = weakref.WeakSet()
        self._lock = threading.Lock()
        self._lanes = Lanes(self.tidy)
        _have_pools_checked()
        # Before a connection's first statement, which may be the first of a job.
        connection_created.connect(_watch, dispatch_uid=f"tinyjobs.hygiene {id(self)}")

    def __call__(self, job: Job) -> "_Around":
        """What to enter around a job, in the thread or the asyncio task that runs it."""
        return _Around(self)

    def tidy(self) -> None:
        """Put this thread's connections into the state in which a job should find them."""
        for connection in connections.all(initialized_only=True):
            if connection not in self._seen:
                with self._lock:
                    self._seen.add(connection)
            _tidy(connection)

    def close(self) -> None:
        """Close the connections of every thread and lane. For when no job runs any more."""
        connection_created.disconnect(dispatch_uid=f"tinyjobs.hygiene {id(self)}")
        self._lanes.close()
        with self._lock:
            seen = list(self._seen)
        for connection in seen:
            connection.inc_thread_sharing()
            try:
                _close(connection)
            finally:
                connection.dec_thread_sharing()


class _Around:
    """One job's turn. Slotted and without a generator, since it is made for every job."""

    __slots__ = ("_hygiene", "_lane")

    def __init__(self, hygiene: Hygiene) -> None:
        self._hygiene = hygiene
        self._lane: Any = None

    def __enter__(self) -> None:
        # A thread needs nothing here: the job before it has left its connections as a job should find them.
        if _is_on_loop():
            self._lane = self._hygiene._lanes.enter()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._lane is not None:
            self._hygiene._lanes.leave(self._lane)
        else:
            self._hygiene.tidy()


@contextmanager
def fence() -> Generator[None]:
    """Around one job of a drain: every connection of this thread is afterwards as it was before.

    An error passes through. What the job wrote stays, unless it left a transaction open or aborted.
    """
    with ExitStack() as stack:
        for connection in connections.all(initialized_only=True):
            stack.enter_context(_Fence(connection))
        yield


class _Fence:
    """The fence of one connection."""

    def __init__(self, connection: BaseDatabaseWrapper) -> None:
        self._connection = connection
        self._was_atomic = connection.in_atomic_block
        self._depth = len(connection.savepoint_ids)
        self._blocks = list(connection.atomic_blocks)
        self._savepoint: str | None = None

    def __enter__(self) -> Self:
        if self._was_atomic and self._connection.connection is not None:
            self._savepoint = self._connection.savepoint()
            if self._savepoint is not None:
                # As atomic() does, so that a roll back drops what the job registered for the commit.
                self._connection.savepoint_ids.append(self._savepoint)
        return self

    def __exit__(self, *exc: object) -> None:
        if self._was_atomic:
            self._restore_block()
        else:
            self._restore_autocommit()

    def _restore_block(self) -> None:
        connection = self._connection
        beyond: list[Any] = connection.savepoint_ids[self._depth :]
        # An inner block without a savepoint stands there as None.
        left_open = [sid for sid in beyond if sid is not None and sid != self._savepoint]
        is_broken = connection.needs_rollback
        del connection.savepoint_ids[self._depth :]
        connection.atomic_blocks[:] = self._blocks
        connection.in_atomic_block = True
        connection.needs_rollback = False
        if self._savepoint is None or connection.connection is None:
            return
        if is_broken:
            connection.savepoint_rollback(self._savepoint)
            return
        try:
            if left_open:
                connection.savepoint_rollback(left_open[0])
            connection.savepoint_commit(self._savepoint)
        except DatabaseError:
            # An aborted transaction takes nothing but this.
            connection.savepoint_rollback(self._savepoint)

    def _restore_autocommit(self) -> None:
        connection = self._connection
        if connection.connection is None:
            return
        if connection.in_atomic_block or _is_left_open(connection):
            _forget_block(connection)
            with suppress(DatabaseError, InterfaceError):
                connection.rollback()
        if _is_dead(connection):
            connection.close()
        elif connection.get_autocommit() != connection.settings_dict["AUTOCOMMIT"]:
            connection.set_autocommit(connection.settings_dict["AUTOCOMMIT"])


def _tidy(connection: BaseDatabaseWrapper) -> None:
    # As Django does at every request; otherwise DEBUG would keep the queries of a worker's whole life.
    connection.queries_log.clear()
    if connection.connection is None:
        return
    if sessions.has_changed(connection):
        # For good, also where it would go back to a pool.
        with suppress(Exception):
            connection.connection.close()
    if connection.in_atomic_block or _is_left_open(connection) or _is_dead(connection):
        _close(connection)
        return
    _keep(connection)
    # Asked before the next use, by Django itself: a server may have gone away since.
    connection.health_check_enabled = True  # type: ignore[attr-defined]
    connection.close_if_unusable_or_obsolete()


def _watch(*, connection: BaseDatabaseWrapper, **_signal: Any) -> None:
    if connection.vendor != "sqlite":
        sessions.watch(connection)


def _have_pools_checked() -> None:
    """A server may have ended the connections that wait in Django's pools, which ask only where they are told to."""
    for connection in connections.all():
        place = connection.settings_dict
        if _is_pooled(connection) and not place["CONN_HEALTH_CHECKS"]:
            place["CONN_HEALTH_CHECKS"] = True
            connection.close_pool()  # type: ignore[attr-defined]


def _is_pooled(connection: BaseDatabaseWrapper) -> bool:
    return hasattr(connection, "close_pool") and bool(connection.settings_dict["OPTIONS"].get("pool"))


def _keep(connection: BaseDatabaseWrapper) -> None:
    if _is_pooled(connection):
        return
    longest = connection.settings_dict["CONN_MAX_AGE"]
    raw = connection.connection
    if connection.close_at is None or longest is None or longest >= KEPT:
        return
    if getattr(connection, _KEPT_MARK, None) is not raw:
        connection.close_at += KEPT - longest
        setattr(connection, _KEPT_MARK, raw)


def _close(connection: BaseDatabaseWrapper) -> None:
    _forget_block(connection)
    with suppress(DatabaseError, InterfaceError):
        connection.close()


def _forget_block(connection: BaseDatabaseWrapper) -> None:
    connection.in_atomic_block = False
    connection.savepoint_ids = []
    connection.atomic_blocks = []
    connection.needs_rollback = False
    connection.closed_in_transaction = False
    connection.run_on_commit = []


def _is_left_open(connection: BaseDatabaseWrapper) -> bool:
    """Whether the driver has a transaction open that Django knows nothing of, or autocommit is off with work undone."""
    raw: Any = connection.connection
    with suppress(Exception):
        if hasattr(raw, "in_transaction"):  # sqlite3
            return bool(raw.in_transaction)
        if hasattr(raw, "info"):  # psycopg
            return bool(raw.info.transaction_status)
    return False


def _is_dead(connection: BaseDatabaseWrapper) -> bool:
    """Whether the job closed the driver's connection behind Django's back."""
    raw: Any = connection.connection
    try:
        if getattr(raw, "closed", False):  # psycopg
            return True
        getattr(raw, "in_transaction", None)  # sqlite3 answers questions to a closed connection with an error
    except Exception:
        return True
    return False


def _is_on_loop() -> bool:
    return asyncio._get_running_loop() is not None  # the public question answers "no" with an exception
