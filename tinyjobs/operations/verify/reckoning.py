"""Matches by number what was sent, what the store holds and what the ledger says, and reads each job's history.

Never by count, so that a loss and a phantom cannot cancel out. Works on what was read; `read_all` alone asks the store.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from tinyjobs.app.facade import TinyJobs
from tinyjobs.core.errors import SerializationError
from tinyjobs.core.job import Execution, Job
from tinyjobs.core.status import ExecutionStatus, JobStatus
from tinyjobs.operations.verify.ledger import Run
from tinyjobs.operations.verify.sending import Sent

#: How far the store's times may be off from each other: they are stored as decimal fractions.
_ROUNDING = 0.05


@dataclass(frozen=True, slots=True)
class Kept:
    """One job as the store has it: its number (None: its arguments cannot be read), its result and its history."""

    job: Job
    number: int | None
    result: object
    executions: Sequence[Execution]


@dataclass(kw_only=True)
class Reckoning:
    """What came out. Numbers but for `by_status`, a count, and `latencies`, in seconds and ascending.

    `lost`: acknowledged and not in the store. `unacknowledged`: in the store though the send was reported as failed.
    `unknown`: in the store and never sent. `twice`: more than one job carries the number. `missing`: acknowledged, and
    its side effect never happened. `phantoms`: a side effect of a number that was not sent. `repeated`: claimed more
    than once. `too_early`: taken from a worker before its lease had run out. `overlapping`: an attempt began before the
    one before it had ended. `untraced`: it ran, and its history does not say so, or says that it succeeded twice.
    `usurped`: recorded by a run whose claim no longer held.
    """

    by_status: Counter[JobStatus] = field(default_factory=Counter)
    lost: set[int] = field(default_factory=set)
    unacknowledged: set[int] = field(default_factory=set)
    unknown: set[int] = field(default_factory=set)
    twice: set[int] = field(default_factory=set)
    missing: set[int] = field(default_factory=set)
    phantoms: set[int] = field(default_factory=set)
    repeated: set[int] = field(default_factory=set)
    too_early: set[int] = field(default_factory=set)
    overlapping: set[int] = field(default_factory=set)
    untraced: set[int] = field(default_factory=set)
    usurped: set[int] = field(default_factory=set)
    latencies: list[float] = field(default_factory=list)

    @property
    def unfinished(self) -> int:
        """How many jobs have not ended."""
        return sum(count for status, count in self.by_status.items() if not status.is_final)


def read_all(app: TinyJobs, queue: str) -> Iterator[Kept]:
    """Every job of the queue."""
    cursor = None
    while True:
        page = app.list(queue=queue, limit=1_000, cursor=cursor)
        for listed in page.jobs:
            handle = app.get(listed.id)
            if handle is not None:
                yield Kept(handle.record, _number(app, handle.record), handle.result(), app.executions(listed.id))
        cursor = page.cursor
        if cursor is None:
            return


def _number(app: TinyJobs, job: Job) -> int | None:
    try:
        args, _ = app.engine.codecs.get(job.codec).decode_call(job.payload or b"")
    except SerializationError:
        return None
    return args[0] if args and isinstance(args[0], int) else None


def reckon(
    sent: Sent,
    kept: Sequence[Kept],
    applied: frozenset[int],
    runs: Sequence[Run],
    lease: float,
    matters: Callable[[int], bool] = lambda number: True,
) -> Reckoning:
    """Hold the three against each other. `lease` in seconds; `matters` leaves numbers out."""
    found = Reckoning()
    claimed: dict[str, list[Run]] = {}
    for run in runs:
        claimed.setdefault(run.job_id, []).append(run)
    carried = Counter(entry.number for entry in kept if entry.number is not None)
    for entry in kept:
        number = -1 if entry.number is None else entry.number
        if number == -1 or matters(number):
            _reckon_one(found, entry, number, sent, claimed.get(entry.job.id, ()), lease)
    acknowledged = {number for number in sent.numbers if matters(number)}
    everything = sent.numbers | sent.failed
    found.lost = acknowledged - carried.keys()
    found.unacknowledged = {number for number in carried if matters(number)} & sent.failed - sent.numbers
    found.unknown |= carried.keys() - everything
    found.twice = {number for number, count in carried.items() if count > _allowed(number, sent) and matters(number)}
    found.missing = acknowledged - applied
    found.phantoms = set(applied - everything)
    found.latencies.sort()
    return found


def _allowed(number: int, sent: Sent) -> int:
    return len(sent.ids.get(number, ())) if number in sent.excused else 1


def _reckon_one(found: Reckoning, entry: Kept, number: int, sent: Sent, runs: Sequence[Run], lease: float) -> None:
    job = entry.job
    found.by_status[job.status] += 1
    if number == -1:
        found.unknown.add(number)
    if job.claims > 1:
        found.repeated.add(number)
    if job.status is JobStatus.SUCCESS and job.finished_at is not None:
        if number not in sent.contested | sent.probes:
            found.latencies.append(job.finished_at - job.created_at)
    history = {execution.claim: execution for execution in entry.executions}
    _look_at_times(found, number, sorted(history.values(), key=lambda execution: execution.claim), lease)
    # Of a job that has not ended, a worker may have begun a run since it was read.
    if any(run.claim not in history and (job.status.is_final or run.claim <= job.claims) for run in runs):
        found.untraced.add(number)
    if job.status is JobStatus.SUCCESS:
        _look_at_ending(found, number, entry, history, runs)


def _look_at_times(found: Reckoning, number: int, history: Sequence[Execution], lease: float) -> None:
    for execution in history:
        lasted = (execution.finished_at or execution.started_at) - execution.started_at
        if execution.status is ExecutionStatus.LOST and lasted < lease - _ROUNDING:
            found.too_early.add(number)
    for earlier, later in pairwise(history):
        if earlier.finished_at is None or later.started_at < earlier.finished_at - _ROUNDING:
            found.overlapping.add(number)


def _look_at_ending(
    found: Reckoning, number: int, entry: Kept, history: Mapping[int, Execution], runs: Sequence[Run]
) -> None:
    """What succeeded did so once, under its last claim, and keeps the result of that run."""
    succeeded = [claim for claim, execution in history.items() if execution.status is ExecutionStatus.SUCCESS]
    if succeeded != [entry.job.claims]:
        found.untraced.add(number)
    if entry.result not in [run.token for run in runs if run.claim == entry.job.claims]:
        found.usurped.add(number)
