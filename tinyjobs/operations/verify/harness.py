"""One run, from the look at the store to its clearing: what `tinyjobs verify` does."""

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

from tinyjobs.core.clock import Clock, SystemClock
from tinyjobs.core.errors import TinyJobsError
from tinyjobs.operations.verify import store
from tinyjobs.operations.verify.bench import Bench, Pause, Tell
from tinyjobs.operations.verify.ledger import LedgerError
from tinyjobs.operations.verify.probe import Probe
from tinyjobs.operations.verify.reader import Reader
from tinyjobs.operations.verify.reckoning import Kept, read_all, reckon
from tinyjobs.operations.verify.report import Report
from tinyjobs.operations.verify.settings import VerifySettings

#: From one try to stop a worker to the next, when there was none to be stopped.
_STOP_AGAIN = 0.25
#: What a send may be late by and still be made up for.
_STALL = 1.0


class Run:
    """One run on the store of `url`. `pause` waits so many seconds, and answers whether the run is to be cut short."""

    def __init__(
        self,
        url: str,
        settings: VerifySettings,
        *,
        options: Mapping[str, Any] | None = None,
        pause: Pause,
        tell: Tell = lambda progress: None,
        clock: Clock | None = None,
    ) -> None:
        self._settings = settings
        self._clock = clock or SystemClock()
        self._bench = bench = Bench(url, options or {}, settings, self._clock, pause, tell)
        self._reader = Reader(bench.app, bench.queue)
        self._probe = Probe(bench.fleet, bench.sender, bench.ledger, self._clock, settings)
        self._store_errors: list[str] = []
        self._trouble = ""
        self._has_run = self._has_settled = False

    @property
    def where(self) -> str:
        """The store as people may see it."""
        return self._bench.app.where

    @property
    def queue(self) -> str:
        """The queue of the run's jobs."""
        return self._bench.queue

    def run(self, begins: Callable[[], None] = lambda: None) -> Report:
        """Do it all, and call `begins` first, once the store has been looked at.

        Raises `ConfigurationError` for a store that cannot be used, before that.
        """
        with self._bench:
            store.open_empty(self._bench.app)
            begins()
            try:
                with self._noting_errors():
                    self._work()
            finally:
                self._reader.end()
                self._probe.end()
                self._bench.stop_workers()
            return self._report()

    def _work(self) -> None:
        bench = self._bench
        self._reader.start()
        self._has_run = bench.start_workers()
        if self._has_run and not bench.was_cut_short:
            self._probe.start()
            self._send_and_stop()
            has_settled = bench.wait("settling", self._is_settled, self._settings.settle)
            self._has_settled = has_settled and not bench.was_cut_short

    def _send_and_stop(self) -> None:
        settings, clock, bench = self._settings, self._clock, self._bench
        began = next_send = clock.monotonic()
        next_stop = began + settings.kill_every
        while not bench.was_cut_short and bench.fleet.is_alive():
            now = clock.monotonic()
            if now - began > settings.duration and not self._lacks_a_kill(now - began):
                return
            if now >= next_send:
                bench.sender.send()
                next_send = max(next_send + 1 / settings.rate, now - _STALL)
            if now >= next_stop:
                # From now on and not from when it was due: what was missed is not made up for.
                next_stop = clock.monotonic() + (settings.kill_every if self._stop_one() else _STOP_AGAIN)
            bench.rest("sending", min(next_send, next_stop) - clock.monotonic())

    def _lacks_a_kill(self, elapsed: float) -> bool:
        """Whether a machine too slow for one SIGKILL within the duration is given more time for it."""
        settings = self._settings
        wanted = 2 * settings.kill_every <= settings.duration
        return wanted and not self._bench.fleet.ends().killed and elapsed < settings.duration + settings.settle

    def _stop_one(self) -> bool:
        bench, stopped = self._bench, None
        with self._noting_errors():
            stopped = bench.fleet.stop_one(bench.ledger.tokens(), lambda: store.holders(bench.app, bench.queue))
        bench.stops += stopped is not None
        return stopped is not None

    def _is_settled(self) -> bool:
        is_settled = False
        if self._probe.is_done():
            with self._noting_errors():
                is_settled = store.is_settled(self._bench.app, self._bench.queue)
        return is_settled

    def _report(self) -> Report:
        bench = self._bench
        report = Report(
            where=self.where,
            queue=self.queue,
            settings=asdict(self._settings),
            sent=bench.sender.sent,
            ends=bench.fleet.ends(),
            halves=len(self._reader.halves),
            was_suspended=self._probe.has_succeeded,
            has_run=self._has_run,
            has_settled=self._has_settled,
            was_cut_short=bench.was_cut_short,
            store_errors=self._store_errors,
            log_tail=bench.fleet.log_tail(),
        )
        with self._noting_errors():
            kept: Sequence[Kept] = list(read_all(bench.app, self.queue))
            with self._noting_errors():
                runs, applied = bench.ledger.runs(), bench.ledger.applied()
                report.reckoning = reckon(bench.sender.sent, kept, applied, runs, self._settings.lease)
            store.cancel_rest(bench.app, self.queue)
            report.is_cleared, report.clearing = store.clear(bench.app, self.queue, len(kept), keep=self._settings.keep)
        report.trouble = self._trouble
        return report

    @contextmanager
    def _noting_errors(self) -> Generator[None]:
        """Take down what goes wrong with the store, or with the ledger, and go on behind the block."""
        try:
            yield
        except LedgerError as error:
            self._trouble = self._trouble or str(error)
        except TinyJobsError as error:
            self._store_errors.append(f"{type(error).__name__}: {error}")
