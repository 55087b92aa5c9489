"""That a stop was asked for: while a worker's command starts, waits or runs, and until its process has ended."""

import os
import signal
import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress
from queue import Empty, SimpleQueue
from typing import Protocol

from tinyjobs.runtime.signals import StopSignals


class Stoppable(Protocol):
    """What runs until it is told to stop: a worker, or a scheduler."""

    def stop(self) -> None:
        """End cleanly."""
        ...

    def force(self, answered: threading.Event) -> None:
        """End without waiting; `answered` is set once that has begun."""
        ...


class StopRequest:
    """Collects what is asked of a worker from the first moment of its command on, and hands it to the worker.

    A plain field and a queue that may be put into while it is being put into: a signal handler asks, and the next
    signal may interrupt it there. An Event's lock would then be waited for by the one who holds it.
    """

    def __init__(self) -> None:
        #: The exit status of a process that a signal ends after the work is done: the command's own, once it is known.
        self.status = 0
        self.is_asked = False
        self.for_reload = False
        self._told: SimpleQueue[None] = SimpleQueue()
        self._worker: Stoppable | None = None

    def attach(self, worker: Stoppable) -> None:
        """The worker or scheduler that is about to run; it does not begin when a stop was asked before."""
        self._worker = worker
        if self.is_asked:
            worker.stop()

    def wait(self, seconds: float | None = None) -> bool:
        """Return once a stop is asked for (True), or after so many seconds (False)."""
        with suppress(Empty):
            self._told.get(timeout=seconds)
            # For whoever else waits.
            self._told.put(None)
        return self.is_asked

    def stop(self) -> None:
        """End cleanly."""
        self._ask()
        if self._worker is not None:
            self._worker.stop()

    def force(self, answered: threading.Event) -> None:
        """End without waiting for coroutines. Before there is a worker, nobody answers."""
        self._ask()
        if self._worker is not None:
            self._worker.force(answered)

    def _ask(self) -> None:
        self.is_asked = True
        self._told.put(None)

    def reload(self) -> None:
        """End cleanly, to be started again."""
        self.for_reload = True
        self.stop()


@contextmanager
def stop_by_signals(request: StopRequest, *, owns_process: bool) -> Generator[None]:
    """SIGINT and SIGTERM become the request. In a process of our own they stay harmless once the work is done."""
    before = {}
    if owns_process and threading.current_thread() is threading.main_thread():
        # What the handlers below put back: a signal that comes after the end does not change how that was.
        numbers = (signal.SIGINT, signal.SIGTERM)
        before = {number: signal.signal(number, lambda *_: os._exit(request.status)) for number in numbers}
    try:
        with StopSignals(request.stop, request.force):
            yield
    except BaseException:
        for number, handler in before.items():
            signal.signal(number, handler)
        raise
