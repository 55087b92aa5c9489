"""SIGINT and SIGTERM for a worker that owns its process.

The first asks for a clean stop. The second ends the waiting: coroutines are cut and given back. When the event loop
does not answer that within a second, or at a third press, the process ends at once with status 130 and leaves its
jobs to the reaper. Handlers are installed on the main thread only, and what was there before is put back.

A process that a job forks gets back the handlers from before, since whoever signals it means it to end: the pools of
`multiprocessing` end their processes by SIGTERM and wait for them.
"""

import _thread
import os
import signal
import threading
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any

EXIT_STATUS = 130
_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_PATIENCE = 1.0


class StopSignals:
    """Installs the handlers for the length of a `with` block. `presses` counts the signals taken."""

    def __init__(
        self,
        stop: Callable[[], None],
        force: Callable[[threading.Event], None],
        numbers: Sequence[signal.Signals] = _SIGNALS,
    ) -> None:
        self._stop = stop
        self._force = force
        self._numbers = numbers
        self._previous: dict[signal.Signals, Any] = {}
        self._process = os.getpid()
        self.presses = 0

    def __enter__(self) -> "StopSignals":
        if threading.current_thread() is threading.main_thread():
            _forks.watch()
            _forks.active.append(self)
            for number in self._numbers:
                self._previous[number] = signal.signal(number, self._press)
        return self

    def __exit__(self, *exc: object) -> None:
        if self in _forks.active:
            _forks.active.remove(self)
        self.put_back()

    def put_back(self) -> None:
        """Have the handlers from before again."""
        for number, handler in self._previous.items():
            # A handler set outside Python reads as None and cannot be put back from here.
            signal.signal(number, handler if handler is not None else signal.SIG_DFL)
        self._previous.clear()

    def _press(self, number: int, frame: FrameType | None) -> None:
        if os.getpid() != self._process:
            # A process that a job has forked: it is no worker, and whoever signals it means it to end.
            self._die_of(signal.Signals(number))
            return
        # Which press this is stays so, also when the next one comes before it is answered.
        self.presses = press = self.presses + 1
        if press == 1:
            self._stop()
        elif press == 2:
            answered = threading.Event()
            # First the watch, without a lock that what the signal interrupted may hold; then what it watches.
            _thread.start_new_thread(_leave_unless, (answered,))
            self._force(answered)
        else:
            os._exit(EXIT_STATUS)

    def _die_of(self, number: signal.Signals) -> None:
        """Do what a process without these handlers would have done."""
        previous = self._previous.get(number)
        signal.signal(number, previous if previous is not None else signal.SIG_DFL)
        os.kill(os.getpid(), number)


class _Forks:
    """Takes the handlers of a worker off a forked child.

    Python forgets signals that arrive between a fork and its own first steps in the child, so they are held back
    until the child has the handlers it should have.
    """

    def __init__(self) -> None:
        self.active: list[StopSignals] = []
        self._is_watching = False
        self._masks = threading.local()

    def watch(self) -> None:
        """Be called at every fork from now on; once for good, since that cannot be undone."""
        if not self._is_watching and hasattr(os, "register_at_fork"):
            self._is_watching = True
            os.register_at_fork(
                before=self._before, after_in_parent=self._after_in_parent, after_in_child=self._after_in_child
            )

    def _before(self) -> None:
        self._masks.before = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS) if self.active else None

    def _after_in_parent(self) -> None:
        if self._masks.before is not None:
            signal.pthread_sigmask(signal.SIG_SETMASK, self._masks.before)

    def _after_in_child(self) -> None:
        while self.active:
            self.active.pop().put_back()
        self._after_in_parent()


_forks = _Forks()


def _leave_unless(answered: threading.Event) -> None:
    if not answered.wait(_PATIENCE):
        os._exit(EXIT_STATUS)
