"""What a fork and the end of the process do to the connections that are open. Knows no SQL.

SQLite keeps what it knows of a file and its locks in memory, which a fork copies. A child that found a connection
open would take the parent's locks for its own, and could write into a file that somebody else believes unused. So a
fork finds none open: it waits for the verbs under way, closes every connection and keeps new verbs waiting. Each is
opened again when it is next used, on either side.

The hook that runs after a fork in the parent is a method of a built-in type, so no signal handler can run in it.
"""

import atexit
import ctypes
import os
import threading
import weakref
from typing import Protocol

from tinyjobs.core.clock import SystemClock

# How long a fork waits for what other threads have under way. What lasts longer is the parent's alone, and the child
# cannot write to that file.
_PATIENCE = 10.0
_PAUSE = 0.001
# How long the end of the process waits for a verb of another thread.
_AT_EXIT = 0.1


class Closable(Protocol):
    """A connection of the driver's."""

    def close(self) -> None:
        """Let go of the file."""
        ...


class Renewable(Protocol):
    """Something with a lock that a thread of the parent's may hold when it forks."""

    def renew_in_child(self) -> None:
        """In a forked child: have a new lock, and nothing that belongs to the parent."""
        ...


class Known(Renewable, Protocol):
    """A connection as seen from here."""

    lock: "threading.RLock"

    @property
    def is_in_use(self) -> bool:
        """Whether a verb is under way. Asked with the lock held, so it is one of this very thread."""
        ...

    @property
    def may_be_shut(self) -> bool:
        """Whether nothing is lost with it."""
        ...

    def shut(self) -> None:
        """Close it until its next use."""
        ...

    def abandon(self) -> None:
        """Leave what is open to the operating system, unless it is closed in time."""
        ...


#: Whether the process is at its end: what is opened from here on is closed after each use.
is_ending = False

# All are changed by single calls of built-in types, which no interrupt can leave half done.
_known: set["weakref.ref[Known]"] = set()
_renewed: set["weakref.ref[Renewable]"] = set()
# Which thread forks at this moment. One at a time.
_forking: dict[str, int] = {}


def know(connection: Known) -> None:
    """Have the connection closed by every fork and by the end of the process."""
    _known.add(weakref.ref(connection, _known.discard))
    renew_in_children(connection)


def renew_in_children(owner: Renewable) -> None:
    """Have it renewed in every child that is forked from now on."""
    _renewed.add(weakref.ref(owner, _renewed.discard))


def must_wait() -> bool:
    """Whether a verb may not begin now, since another thread is about to fork. Asked with the connection's lock."""
    return bool(_forking) and threading.get_ident() not in _forking.values()


def wait() -> None:
    """Return once that fork is done."""
    while must_wait():
        threading.Event().wait(_PAUSE)


def close_own(raw: Closable, process: int) -> None:
    """Close a connection nobody refers to any more; in a forked child keep it as it is, for ever."""
    if os.getpid() == process:
        raw.close()
    else:
        keep_for_ever(raw)


def keep_for_ever(raw: Closable) -> None:
    """See that a connection is not even closed by the end of the interpreter.

    A child must not close what it inherited: with that SQLite might take the file for unused, and if a thread of the
    parent's had the connection's own lock when it forked, the close would never return.
    """
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(raw))


def _shut_all(patience: float) -> None:
    """Close those that are not in use, or come free in that time."""
    clock = SystemClock()
    ends = clock.monotonic() + patience
    for ref in list(_known):
        if (connection := ref()) is None:
            continue
        # Whoever begins a verb looks for a fork with the lock held. So a lock that is free now may be let go of.
        if connection.lock.acquire(timeout=max(ends - clock.monotonic(), 0.0)):
            try:
                if connection.may_be_shut and not connection.is_in_use:
                    connection.shut()
            finally:
                connection.lock.release()


def _before_fork() -> None:
    me = threading.get_ident()
    while _forking.setdefault("thread", me) != me:
        threading.Event().wait(_PAUSE)
    _shut_all(_PATIENCE)


def _renew_in_child() -> None:
    _forking.clear()
    for ref in list(_renewed):
        if (owner := ref()) is not None:
            owner.renew_in_child()


def _end() -> None:
    global is_ending
    is_ending = True
    # The threads that use one may be stopped in the middle of it, and nobody could close it after that.
    for ref in list(_known):
        if (connection := ref()) is not None:
            connection.abandon()
    _shut_all(_AT_EXIT)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_forking.clear, after_in_child=_renew_in_child)
atexit.register(_end)
