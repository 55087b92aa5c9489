"""Reads that answer within a budget, whatever state the store is in.

A page must not hang with a store that does not answer. On a connection of Django's the reads run in the request's own
thread, and at the deadline the connection is cut off from outside, which ends the wait. Stores with connections of
their own are asked in a thread that nobody waits for any longer than the budget.
"""

import contextlib
import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import copy_context
from typing import Any

from django.db import connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper

from tinyjobs.core.errors import StoreUnavailableError
from tinyjobs.core.sentences import say

#: Seconds that a page waits for its store.
BUDGET = 5.0
# Threads that still wait for a store after their page has given up; with so many the next page does not even ask.
_MOST_LEFT_WAITING = 8
# Seconds for which a server is asked to drop a statement, before its connection is cut off in any case.
_CANCELLED_WITHIN = 1.0

_waiting = threading.BoundedSemaphore(_MOST_LEFT_WAITING)


def no_answer(where: str, budget: float) -> StoreUnavailableError:
    """The error of a store that took too long."""
    return StoreUnavailableError(
        say("%(where)s gave no answer within %(seconds)s s.", where=where, seconds=f"{budget:g}")
    )


def within_thread[T](read: Callable[[], T], where: str, budget: float) -> T:
    """What `read` returns or raises, if it does so in time; in a thread of its own, with the caller's context."""
    if not _waiting.acquire(blocking=False):
        raise no_answer(where, budget)
    answers: list[T] = []
    errors: list[BaseException] = []
    context = copy_context()

    def run() -> None:
        try:
            answers.append(context.run(read))
        except BaseException as error:
            errors.append(error)
        finally:
            _waiting.release()

    thread = threading.Thread(target=run, name="tinyjobs-dashboard", daemon=True)
    thread.start()
    thread.join(budget)
    if errors:
        raise errors[0]
    if not answers:
        raise no_answer(where, budget)
    return answers[0]


@contextmanager
def cut_off_after(alias: str, where: str, budget: float) -> Iterator[None]:
    """Around reads on this thread's connection of a database of Django's.

    Inside a transaction of the request's the reads get a savepoint, so that one that fails leaves it usable.
    """
    wrapper = connections[alias]
    knife = _Knife(wrapper)
    alarm = threading.Timer(budget, knife.cut)
    alarm.daemon = True
    alarm.start()
    try:
        with transaction.atomic(using=alias) if wrapper.in_atomic_block else contextlib.nullcontext():
            yield
    except Exception as error:
        if knife.put_away():
            raise
        raise no_answer(where, budget) from error
    finally:
        alarm.cancel()
        if not knife.put_away():
            _drop(wrapper)


class _Knife:
    """Ends whatever a connection waits for, from another thread, as long as the reads on it are not over."""

    def __init__(self, wrapper: BaseDatabaseWrapper) -> None:
        self._wrapper = wrapper
        self._lock = threading.Lock()
        self._is_over = self._has_cut = False

    def put_away(self) -> bool:
        """The reads are over; whether nothing was cut."""
        with self._lock:
            self._is_over = True
            return not self._has_cut

    def cut(self) -> None:
        """Cut it off. On Postgres the server is told first, so that it does not work on for nobody."""
        with self._lock:
            if self._is_over:
                return
            self._has_cut = True
            raw: Any = self._wrapper.connection
            with contextlib.suppress(Exception):  # it may be opened or broken at this very moment
                if self._wrapper.vendor == "sqlite":
                    raw.interrupt()
                elif self._wrapper.vendor == "postgresql":
                    with socket.socket(fileno=os.dup(raw.fileno())) as copy:
                        _cancel(raw)
                        copy.shutdown(socket.SHUT_RDWR)


def _cancel(raw: Any) -> None:
    with contextlib.suppress(Exception):
        if hasattr(raw, "cancel_safe"):
            raw.cancel_safe(timeout=_CANCELLED_WITHIN)
        else:
            raw.cancel()


def _drop(wrapper: BaseDatabaseWrapper) -> None:
    if not wrapper.in_atomic_block and wrapper.vendor != "sqlite":
        with contextlib.suppress(Exception):
            wrapper.close()  # the next to use it gets one that works
