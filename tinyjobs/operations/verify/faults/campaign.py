"""Brings one fault after the other upon a store while jobs run, and reckons for each what became of its jobs.

No worker is stopped meanwhile, and no fault lasts as long as a lease: so nothing has to run a second time, and what
comes back late has only the fault, and at most one lease, to blame.
"""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tinyjobs.core.clock import Clock
from tinyjobs.core.errors import TinyJobsError
from tinyjobs.core.status import JobStatus
from tinyjobs.operations.verify import store
from tinyjobs.operations.verify.bench import Bench
from tinyjobs.operations.verify.faults.places import Fault
from tinyjobs.operations.verify.reckoning import Kept, read_all, reckon

#: The lease of the workers, above any fault's length.
LEASE = 15.0
#: Seconds of sending before a fault and after it.
_AROUND = 1.5
#: What the machine may add to a job's way, beyond the fault and a lease.
_MARGIN = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What one fault did; numbers of jobs, but for `lasted`, seconds.

    `lost`, `doubled`, `late` and `stuck` have to be 0. `repeated`: ran again once a lease had run out, as it may.
    `refused`: the enqueue raised an error, and whoever sent it knows.
    """

    name: str
    what: str
    lasted: float
    sent: int
    refused: int
    succeeded: int
    lost: int
    doubled: int
    late: int
    stuck: int
    repeated: int

    @property
    def problems(self) -> list[str]:
        """What is not as it should be, in words."""
        found = [f"{count} {word}" for word in ("lost", "doubled", "late", "stuck") if (count := getattr(self, word))]
        return found + ([] if self.succeeded else ["no job ran"])


class Campaign:
    """Over one bench whose workers run."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench

    def suffer(self, fault: Fault) -> Row:
        """Send, let the fault come and go, send on, and wait until all is done. Its jobs are those sent meanwhile."""
        sent = self._bench.sender.sent
        before, failures = sent.numbers | sent.failed, len(sent.failures)
        spell = _Spell(fault, self._bench.clock)
        self._send(fault.name, lambda elapsed: elapsed < _AROUND)
        spell.start()
        try:
            self._send(fault.name, lambda elapsed: spell.is_alive())
            self._send(fault.name, lambda elapsed: elapsed < _AROUND)
        finally:
            spell.end()
        self._bench.wait(fault.name, self._is_settled, self._bench.settings.settle)
        return self._row(spell, len(sent.failures) - failures, lambda number: number not in before)

    def _send(self, phase: str, goes_on: Callable[[float], bool]) -> None:
        bench = self._bench
        began = next_send = bench.clock.monotonic()
        while not bench.was_cut_short and goes_on(bench.clock.monotonic() - began):
            now = bench.clock.monotonic()
            if now >= next_send:
                bench.sender.send()
                # What a send was held up by is not made up for.
                next_send = max(next_send + 1 / bench.settings.rate, now)
            bench.rest(phase, next_send - bench.clock.monotonic())

    def _is_settled(self) -> bool:
        try:
            return store.is_settled(self._bench.app, self._bench.queue)
        except TinyJobsError:
            return False

    def _row(self, spell: "_Spell", refused: int, matters: Callable[[int], bool]) -> Row:
        bench, lease = self._bench, self._bench.settings.lease
        every = read_all(bench.app, bench.queue)
        kept = [entry for entry in every if entry.number is None or matters(entry.number)]
        runs = [run for run in bench.ledger.runs() if matters(run.number)]
        found = reckon(bench.sender.sent, kept, bench.ledger.applied(), runs, lease, matters)
        allowance = spell.lasted + lease + bench.settings.reap_interval + _MARGIN
        return Row(
            name=spell.fault.name,
            what=spell.fault.what,
            lasted=spell.lasted,
            sent=sum(map(matters, bench.sender.sent.numbers)),
            refused=refused,
            succeeded=found.by_status[JobStatus.SUCCESS],
            lost=len(found.lost if found.unfinished else found.lost | found.missing),
            doubled=len(found.twice | found.too_early | found.overlapping | found.untraced | found.usurped),
            late=_late(kept, allowance),
            stuck=found.unfinished,
            repeated=len(found.repeated),
        )


def _late(kept: Sequence[Kept], allowance: float) -> int:
    ended = [entry.job for entry in kept if entry.job.finished_at is not None]
    return sum((job.finished_at or 0.0) - job.created_at > allowance for job in ended)


class _Spell:
    """A fault while it lasts, on a thread of its own. `lasted`: seconds from its beginning to the end of its end."""

    def __init__(self, fault: Fault, clock: Clock) -> None:
        self.fault = fault
        self.lasted = 0.0
        self._clock = clock
        self._error: Exception | None = None
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"verify-{fault.name}")

    def start(self) -> None:
        """Let it begin."""
        self._thread.start()

    def is_alive(self) -> bool:
        """Whether it still lasts."""
        return self._thread.is_alive()

    def end(self) -> None:
        """Let it end before its time, if it has not ended. Raises what went wrong with it."""
        self._is_over.set()
        self._thread.join()
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        began = self._clock.monotonic()
        try:
            try:
                self.fault.begin()
                self._is_over.wait(self.fault.seconds)
            finally:
                self.fault.end()
        except Exception as error:
            self._error = error
        self.lasted = self._clock.monotonic() - began
