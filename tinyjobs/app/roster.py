"""Who works on an opened store: its workers and drains, and how a close stops them and waits for them.

It knows nothing of stores, nor of how one is closed.
"""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tinyjobs.app.loop import closed
from tinyjobs.core.context import current_job
from tinyjobs.runtime.hooks import telling

# For what comes after the last job: hooks, the worker's own end.
_MARGIN = 5.0
# For a coroutine that was cut to go, and its job to go back.
_CUTTING = 1.0
# How often a close looks whether everybody has gone.
_GLANCE = 0.01


@dataclass(slots=True, eq=False)
class _Entry:
    """How to stop somebody, for how long to wait then, under which id jobs are claimed, and what cuts it short.

    `thread`: the one a drain has for itself, on which its hooks and a signal handler may close the app.
    """

    stop: Callable[[], None]
    patience: float
    worker_id: str | None
    cut: Callable[[], None] | None
    thread: int | None


class Roster:
    """Who is working on one opened store right now. Once a close has begun nobody enters any more; each opening has
    a roster of its own, so that a closer who comes late stops nobody who works on the store that was opened since.

    A drain is here as a coroutine, which says by itself whether it has ended, so no interrupt can leave it here. There
    is no lock: a signal handler that closes the app waits for another thread, which could not get one that is held
    where the handler struck. All is changed by single calls of built-in types.
    """

    def __init__(self) -> None:
        self._working: dict[Any, _Entry] = {}
        self._is_closing = False
        self._close_when_idle = False

    def refuse_closing(self) -> None:
        """Raise `AppClosedError` once a close has begun."""
        if self._is_closing:
            raise closed()

    def shut(self) -> None:
        """Let nobody begin from now on; a close has begun."""
        self._is_closing = True

    def enter(
        self,
        who: object,
        stop: Callable[[], None],
        patience: float,
        worker_id: str | None = None,
        cut: Callable[[], None] | None = None,
        thread: int | None = None,
    ) -> None:
        """Note that `who` works now. Raises `AppClosedError` once a close has begun."""
        self._working[who] = _Entry(stop, patience + _MARGIN, worker_id, cut, thread)
        # Looked at after it was noted: whichever of this and a close comes last finds the other.
        if self._is_closing:
            self._working.pop(who, None)
            raise closed()

    def leave(self, who: object) -> bool:
        """Note that `who` has ended. True: it was the last one a close waits for, and has to close the app."""
        self._working.pop(who, None)
        must_close = self._close_when_idle and self.is_idle
        if must_close:
            self._close_when_idle = False
        return must_close

    def dismiss(self, caller: int | None = None) -> bool:
        """Stop everybody, let nobody begin, and wait. False: a job or a hook of theirs asked, and ends before they do.

        Then the close is left to whoever ends last. `caller`: the thread that waits, which may be that of a drain.
        """
        self.shut()
        entries = self._entries()
        is_own = _is_one_of(entries, caller)
        self._close_when_idle = self._close_when_idle or is_own
        for entry in entries:
            entry.stop()
        # Looked at once more after that was noted: a worker that has left a hook behind may just be ending.
        if is_own and not self.is_idle:
            return False
        if not self._wait_until_idle(max((entry.patience for entry in entries), default=0.0)):
            for entry in self._entries():
                if entry.cut is not None:
                    entry.cut()
            self._wait_until_idle(_CUTTING)
        return True

    def _wait_until_idle(self, seconds: float) -> bool:
        while not self.is_idle and seconds > 0:
            threading.Event().wait(_GLANCE)
            seconds -= _GLANCE
        return self.is_idle

    @property
    def is_idle(self) -> bool:
        """Whether nobody works."""
        return not self._entries()

    def _entries(self) -> list[_Entry]:
        """Of those who have not ended."""
        return [entry for who, entry in list(self._working.items()) if getattr(who, "cr_frame", who) is not None]


def _is_one_of(entries: Sequence[_Entry], caller: int | None) -> bool:
    """Whether this code is a job or a hook of one of them, or on the thread of one: they end only after it."""
    job = current_job()
    own = {telling.get(), None if job is None else job.worker_id} - {None}
    return any(entry.worker_id in own or (caller is not None and entry.thread == caller) for entry in entries)
