"""What a store can tell of those who use it, beside its jobs: the workers it sees, tallies by the minute, findings.

Plain values, as in `core/job.py`. Instants are unix seconds, durations are seconds.
"""

from collections.abc import Sequence
from dataclasses import dataclass

#: A worker that has not been seen for so long is silent: it beats three times in that time.
SILENT_AFTER = 30.0
#: For so long a silent worker is still listed.
FORGOTTEN_AFTER = 3_600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSeen:
    """A worker as it last told of itself. `queues` is empty for one that serves every queue.

    `seen_at` is by the clock that decides in the store, which sets it; what a caller gives is not looked at.
    `scheduled_at` is when its scheduler last made a pass, by the same clock (None: it runs none).
    """

    worker_id: str
    host: str
    pid: int
    version: str
    started_at: float
    seen_at: float = 0.0
    queues: tuple[str, ...] = ()
    threads: int = 0
    coroutines: int = 0
    running: int = 0
    is_stopping: bool = False
    scheduled_at: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """What ended in one queue during one span of time, which began at `start` and is `seconds` long.

    `succeeded` and `unsuccessful` count attempts, by when they ended; an unsuccessful one failed, ran out of time or
    lost its worker, whether the job was tried again or not. `cancelled` counts jobs. `waited` is the sum over those
    attempts of the time from when each was due to its start, `ran` that of their run times; `longest_wait` and
    `longest_run` are the largest of each.
    """

    start: float
    seconds: float
    queue: str
    succeeded: int = 0
    unsuccessful: int = 0
    cancelled: int = 0
    waited: float = 0.0
    ran: float = 0.0
    longest_wait: float = 0.0
    longest_run: float = 0.0

    @property
    def attempts(self) -> int:
        """How many attempts ended; what `waited` and `ran` are divided by for a mean."""
        return self.succeeded + self.unsuccessful


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One line of a check: what was looked at, and what was found. `name` is stable, for programs to compare.

    `ok` False fails the check. `is_warning` marks what should be known and fails nothing. `remedy` says what to do
    about it. `is_unknown`: it could not be looked at, so it may hold or not. Both texts are English; one that is a
    `Sentence` can be said in another language.
    """

    name: str
    ok: bool
    message: str
    remedy: str = ""
    is_warning: bool = False
    is_unknown: bool = False


def add_up(tallies: Sequence[Tally], start: float, seconds: float) -> list[Tally]:
    """Tallies of whatever spans, summed into spans of `seconds` that begin at `start`; by time, then queue.

    Each goes whole to the span in which it began.
    """
    spans: dict[tuple[float, str], Tally] = {}
    for tally in tallies:
        place = start + (tally.start - start) // seconds * seconds
        known = spans.get((place, tally.queue))
        spans[place, tally.queue] = Tally(
            start=place,
            seconds=seconds,
            queue=tally.queue,
            succeeded=tally.succeeded + (known.succeeded if known else 0),
            unsuccessful=tally.unsuccessful + (known.unsuccessful if known else 0),
            cancelled=tally.cancelled + (known.cancelled if known else 0),
            waited=tally.waited + (known.waited if known else 0.0),
            ran=tally.ran + (known.ran if known else 0.0),
            longest_wait=max(tally.longest_wait, known.longest_wait if known else 0.0),
            longest_run=max(tally.longest_run, known.longest_run if known else 0.0),
        )
    return [spans[key] for key in sorted(spans)]
