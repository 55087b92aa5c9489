"""That a stop was asked for: while a worker's command starts, waits or runs, and until its process has ended."""

import os
import signal
import threading
from collections.abc import Generator
from contextlib import contextmanager
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
    """Collects what is asked of a worker from the first moment of its command on, and hands it to the worker."""

    def __init__(self) -> None:
        self.asked = threading.Event()
        self.for_reload = False
        self._worker: Stoppable | None = None

    def attach(self, worker: Stoppable) -> None:
        """The worker or scheduler that is about to run; it does not begin when a stop was asked before."""
        self._worker = worker
        if self.asked.is_set():
            worker.stop()

    def stop(self) -> None:
        """End cleanly."""
        self.asked.set()
        if self._worker is not None:
            self._worker.stop()

    def force(self, answered: threading.Event) -> None:
        """End without waiting for coroutines. Before there is a worker, nobody answers."""
        self.asked.set()
        if self._worker is not None:
            self._worker.force(answered)

    def reload(self) -> None:
        """End cleanly, to be started again."""
        self.for_reload = True
        self.stop()


@contextmanager
def stop_by_signals(request: StopRequest, *, owns_process: bool) -> Generator[None]:
    """SIGINT and SIGTERM become the request. In a process of our own they stay harmless once the work is done."""
    before = {}
    if owns_process and threading.current_thread() is threading.main_thread():
        # What the handlers below put back: a signal that comes after a clean end does not make it an unclean one.
        before = {number: signal.signal(number, lambda *_: os._exit(0)) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        with StopSignals(request.stop, request.force):
            yield
    except BaseException:
        for number, handler in before.items():
            signal.signal(number, handler)
        raise
