"""Suspends a worker in the middle of a job for longer than its lease, and lets it go on while the job runs elsewhere.

That is what a machine does that swaps, sleeps or is moved. The worker then reports for a claim that it no longer has,
and the store has to refuse it. Everything here waits for what has happened and for no length of time: the first run
ends once its worker goes on, the second once that worker has told all that it had to tell and has ended.
"""

import threading
from collections.abc import Callable
from contextlib import suppress

from tinyjobs.core.clock import Clock
from tinyjobs.operations.verify.fleet import Fleet, Suspension, WorkerProcess
from tinyjobs.operations.verify.ledger import Ledger, LedgerError, Run
from tinyjobs.operations.verify.sending import Sender
from tinyjobs.operations.verify.settings import VerifySettings
from tinyjobs.operations.verify.tasks import resumed, settled

_TRIES = 5
_LOOKS = 0.02
#: A worker may be caught while it holds a lock that everybody needs. It is let go when a write takes so long.
_PATIENCE_WITH_LOCKS = 3.0
#: Or a lock on that job alone. How long beyond the lease another worker may take to run it before that is believed.
_PATIENCE_WITH_OTHERS = 20.0


class Probe:
    """One suspended worker, on a thread of its own. `has_succeeded` once another took its job and it came back."""

    def __init__(self, fleet: Fleet, sender: Sender, ledger: Ledger, clock: Clock, settings: VerifySettings) -> None:
        self._fleet = fleet
        self._sender = sender
        self._ledger = ledger
        self._clock = clock
        self._settings = settings
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="verify-probe", daemon=True)
        self.has_succeeded = False

    def start(self) -> None:
        """Begin; returns at once."""
        self._thread.start()

    def is_done(self) -> bool:
        """Whether it has come to its end, with or without success."""
        return not self._thread.is_alive()

    def end(self) -> None:
        """Give up what is not done, and let everything go on that was held."""
        self._is_over.set()
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        # Whoever waits for the run meets that error as well, and reports it.
        with suppress(LedgerError):
            for _ in range(_TRIES):
                number = self._sender.send_probe()
                if number is not None:
                    try:
                        self.has_succeeded = self._suspend(number)
                    finally:
                        self._ledger.tell(resumed(number))
                        self._ledger.tell(settled(number))
                if self.has_succeeded or self._is_over.wait(0.5):
                    return

    def _suspend(self, number: int) -> bool:
        if not self._wait(lambda: bool(self._ledger.runs(number)), self._settings.settle):
            return False
        first = self._ledger.runs(number)[0]
        worker = self._fleet.reserve(first.token)
        if worker is None:
            return False
        try:
            return self._hold(worker, number, first)
        finally:
            self._ledger.tell(resumed(number))
            self._fleet.retire(worker)

    def _hold(self, worker: WorkerProcess, number: int, first: Run) -> bool:
        suspension = Suspension(worker)
        try:
            if not self._others_can_write():
                return False
            patience = self._settings.lease + self._settings.reap_interval + _PATIENCE_WITH_OTHERS
            return self._wait(lambda: any(run.token != first.token for run in self._ledger.runs(number)), patience)
        finally:
            # First the word, so that the run ends the moment its worker goes on.
            self._tell_without_waiting(resumed(number))
            suspension.resume()

    def _others_can_write(self) -> bool:
        """Whether the store and the ledger take a write, which they would not while the worker has their lock."""
        has_written = threading.Event()

        def write() -> None:
            with suppress(LedgerError):
                self._ledger.tell("still writable")
                self._sender.send()
                has_written.set()

        threading.Thread(target=write, name="verify-write", daemon=True).start()
        return has_written.wait(_PATIENCE_WITH_LOCKS)

    def _tell_without_waiting(self, word: str) -> None:
        # If the worker has the ledger's lock, the word waits until it has gone on, and no longer than that.
        def tell() -> None:
            with suppress(LedgerError):
                self._ledger.tell(word)

        told = threading.Thread(target=tell, name="verify-word", daemon=True)
        told.start()
        told.join(_PATIENCE_WITH_LOCKS)

    def _wait(self, ready: Callable[[], bool], patience: float) -> bool:
        deadline = self._clock.monotonic() + patience
        while not ready():
            if self._is_over.wait(_LOOKS) or self._clock.monotonic() > deadline:
                return False
        return True
