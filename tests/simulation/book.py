"""What a store answered, entered at the instant it did, and held against what it may answer.

A plain model of the jobs: who holds which claim until when, which keys are held, what was recorded. It is exact, since
every verb of a store takes place at one instant; so each answer is either right or wrong. Knows no store and no worker.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace

from tinyjobs.core.clock import Clock
from tinyjobs.core.job import Execution, Held, Job, Recorded, ScheduleMove
from tinyjobs.core.status import ExecutionStatus, JobStatus
from tinyjobs.core.transitions import Outcome, can_cancel, can_retry, may_expire


class Broken(AssertionError):
    """A guarantee does not hold."""


@dataclass(slots=True)
class Known:
    """A job as it must be, and what its history must hold: claim and status, in order."""

    job: Job
    lease_ends: float = 0.0
    history: dict[int, ExecutionStatus] = field(default_factory=dict)
    #: What its attempts were when it was last put in the queue by hand.
    runs_since_retry: int = 0


class Book:
    """See the module."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.jobs: dict[str, Known] = {}
        self.acknowledged: set[str] = set()
        #: By the claim, how often its function began and how often it came to its end.
        self.began: Counter[tuple[str, int]] = Counter()
        self.ended: Counter[tuple[str, int]] = Counter()
        self.told: Counter[tuple[str, int]] = Counter()
        self.schedules: dict[str, float] = {}
        self.fired: dict[str, list[float]] = defaultdict(list)
        self.lines: list[str] = []
        #: Outcomes that were rightly refused, and enqueues that were given the holder of their key.
        self.refused = self.existing = 0
        #: The world is over: what its processes still do while they are cleared away counts for nothing.
        self.is_closed = False
        #: What was found, and what else ended a process that should have gone on.
        self.errors: list[BaseException] = []
        self._latest = clock.now()

    # --- what happens -----------------------------------------------------------------------------------------------

    def write(self, who: str, what: str) -> None:
        """A line of the history."""
        if not self.is_closed:
            self.lines.append(f"{self._clock.monotonic():9.3f} {who:10} {what}")

    def failed(self, error: BaseException) -> None:
        """Keep an error for the verdict."""
        if not self.is_closed:
            self.errors.append(error)

    def now(self) -> float:
        now = self._clock.now()
        self._latest = max(self._latest, now)
        return now

    def sent(self, asked: Sequence[Job], kept: Sequence[Job]) -> None:
        """An enqueue answered."""
        now = self.now()
        group = {job.id for job in asked}
        for wanted, answer in zip(asked, kept, strict=True):
            holder = self._holder(wanted.key)
            # Jobs of one call that share a key are the first of them, even if that one has come too late.
            if holder is not None and holder.job.id not in group and self._is_expired(holder.job, now):
                self._end(holder, JobStatus.CANCELLED)
                holder = None
            if answer.existing:
                self.existing += 1
                if holder is None or holder.job.id != answer.id:
                    raise Broken(f"job {answer.id} was given as holder of the key {wanted.key!r}, which it is not")
            elif holder is not None:
                raise Broken(f"two active jobs hold the key {wanted.key!r}: {holder.job.id} and {answer.id}")
            else:
                self.jobs[answer.id] = Known(answer)

    def claimed(self, jobs: Sequence[Job], worker_id: str, lease: float) -> None:
        """A claim answered these jobs."""
        now = self.now()
        for job in jobs:
            known = self._known(job.id)
            if known.job.status is JobStatus.RUNNING:
                raise Broken(
                    f"{worker_id} was given job {job.id}, which {known.job.worker_id} holds under claim "
                    f"{known.job.claims} for {known.lease_ends - now:.3f} s more"
                )
            if known.job.status is not JobStatus.QUEUED:
                raise Broken(f"{worker_id} was given job {job.id}, which has ended: {known.job.status.value}")
            if job.claims != known.job.claims + 1:
                raise Broken(f"claim {job.claims} of job {job.id} follows claim {known.job.claims}")
            if known.job.run_at > self._latest:
                raise Broken(f"job {job.id} was started {known.job.run_at - now:.3f} s before its time")
            if job.attempts != known.job.attempts + 1 or job.attempts > job.max_attempts:
                raise Broken(f"attempt {job.attempts} of {job.max_attempts} of job {job.id} follows {known.job}")
            known.job = job
            known.lease_ends = now + lease

    def renewed(self, held: Sequence[Held], answer: Collection[Held], lease: float) -> None:
        """A heartbeat answered."""
        now = self.now()
        for entry in held:
            stands = self._stands(entry.job_id, entry.claim)
            if stands != (entry in answer):
                raise Broken(f"a heartbeat of claim {entry.claim} of job {entry.job_id} was answered {not stands}")
            if stands:
                self.jobs[entry.job_id].lease_ends = now + lease

    def recorded(self, outcomes: Sequence[Outcome], answer: Recorded) -> None:
        """A group of outcomes was answered, one by one."""
        self.now()
        for place, outcome in enumerate(outcomes):
            stands = self._stands(outcome.job_id, outcome.claim) and place not in answer.refused
            if stands != answer.applied[place]:
                raise Broken(
                    f"an outcome of claim {outcome.claim} of job {outcome.job_id} ({outcome.status.value}) was "
                    f"{'refused' if stands else 'applied'}, though that claim {'stands' if stands else 'is over'}"
                )
            if stands:
                self._apply(outcome)
            self.refused += not stands

    def taken_back(self, jobs: Sequence[Job]) -> None:
        """A reaper was given these."""
        now = self.now()
        for job in jobs:
            known = self._known(job.id)
            if not self._stands(job.id, job.claims):
                raise Broken(f"job {job.id} was taken back, and nobody held it")
            if known.lease_ends > now:
                raise Broken(f"job {job.id} was taken back {known.lease_ends - now:.3f} s before its lease ran out")
            if job.status is not JobStatus.CANCELLED:
                known.history[job.claims] = ExecutionStatus.LOST
                used = job.attempts >= job.max_attempts
                if job.attempts != known.job.attempts or used != (job.status is JobStatus.FAILED):
                    raise Broken(f"job {job.id} lost its worker and became {job}")
            known.job = job

    def ended_unstarted(self, jobs: Sequence[Job]) -> None:
        """Expired jobs were ended."""
        now = self.now()
        for job in jobs:
            known = self._known(job.id)
            if not may_expire(known.job) or (known.job.expires_at or now) > self._latest:
                raise Broken(f"job {job.id} was ended as expired, which it is not")
            known.job = job

    def cancelled(self, job_id: str, answer: bool) -> None:
        """A cancel was answered."""
        known = self.jobs.get(job_id)
        if answer != (known is not None and can_cancel(known.job.status)):
            raise Broken(f"a cancel of job {job_id} was answered {answer}: {known}")
        if known is not None and answer:
            if known.job.status is JobStatus.RUNNING:
                known.history[known.job.claims] = ExecutionStatus.CANCELLED
            self._end(known, JobStatus.CANCELLED)

    def retried(self, job_id: str, answer: bool) -> None:
        """A retry by hand was answered."""
        now = self.now()
        known = self.jobs.get(job_id)
        may = known is not None and can_retry(known.job.status) and self._holder(known.job.key) is None
        if answer != may:
            raise Broken(f"a retry of job {job_id} was answered {answer}: {known}")
        if known is not None and answer:
            run_at = known.job.run_at if known.job.claims == 0 else now
            keeps = known.job.claims == 0 and (known.job.expires_at or 0.0) > now
            expires_at = known.job.expires_at if keeps else None
            known.job = replace(
                known.job, status=JobStatus.QUEUED, attempts=0, hand_backs=0, run_at=run_at, expires_at=expires_at
            )

    def deleted(self, job_id: str, answer: bool) -> None:
        """A job was to be deleted. From then on nobody has to know it."""
        known = self.jobs.get(job_id)
        if answer != (known is not None and known.job.status.is_final):
            raise Broken(f"to delete job {job_id} was answered {answer}: {known}")
        if answer:
            del self.jobs[job_id]
            self.acknowledged.discard(job_id)

    def registered(self, names_and_times: Sequence[tuple[str, float]]) -> None:
        """Where the schedules stand after they were registered."""
        for name, next_run_at in names_and_times:
            self.schedules.setdefault(name, next_run_at)

    def moved(self, moves: Sequence[ScheduleMove], answer: Sequence[Sequence[Job] | None]) -> None:
        """A firing was answered."""
        for move, jobs in zip(moves, answer, strict=True):
            if (self.schedules.get(move.name) == move.expected) != (jobs is not None):
                raise Broken(f"the schedule {move.name} stands at {self.schedules.get(move.name)}: {move}, {jobs}")
            if jobs is None:
                continue
            self.schedules[move.name] = move.next_run_at
            self.sent(move.jobs, jobs)
            for job in jobs:
                self.acknowledged.add(job.id)
                if not job.existing and job.scheduled_for is not None:
                    if job.scheduled_for in self.fired[move.name]:
                        raise Broken(f"the schedule {move.name} fired twice for {job.scheduled_for}")
                    self.fired[move.name].append(job.scheduled_for)

    def body_began(self, job: Job) -> None:
        """The task's function was entered."""
        claim = job.id, job.claims
        self.began[claim] += 1
        if self.began[claim] > 1:
            raise Broken(f"claim {job.claims} of job {job.id} was run twice")

    def body_ended(self, job: Job) -> None:
        """The task's function came to its end."""
        self.ended[job.id, job.claims] += 1

    def told_success(self, job: Job) -> None:
        """A hook was told of a success."""
        claim = job.id, job.claims
        self.told[claim] += 1
        known = self.jobs.get(job.id)  # None: it was deleted since
        if self.told[claim] > 1 or (known and known.history.get(job.claims) is not ExecutionStatus.SUCCESS):
            raise Broken(
                f"a hook was told of the success of claim {claim}, {self.told[claim]} times: {self.jobs[job.id]}"
            )

    # --- what must hold in the end ------------------------------------------------------------------------------------

    @property
    def unfinished(self) -> list[Job]:
        return [known.job for known in self.jobs.values() if not known.job.status.is_final]

    def check(self, jobs: dict[str, Job], executions: dict[str, list[Execution]]) -> None:
        """Hold the store, as it is read back, against the book."""
        if lost := self.acknowledged - set(jobs):
            raise Broken(f"acknowledged and not there: {sorted(lost)}")
        if set(jobs) != set(self.jobs):
            raise Broken(f"there are jobs nobody sent, or not all: {sorted(set(jobs) ^ set(self.jobs))}")
        for job_id, known in self.jobs.items():
            found, must = jobs[job_id], known.job
            if not found.status.is_final:
                raise Broken(f"stuck: {found}")
            told = (found.status, found.claims, found.attempts, found.hand_backs, found.key)
            if told != (must.status, must.claims, must.attempts, must.hand_backs, must.key):
                raise Broken(f"the store has {found}\nand the answers were {must}")
            self._check_history(found, known, executions[job_id])

    def _check_history(self, found: Job, known: Known, executions: Sequence[Execution]) -> None:
        history = {entry.claim: entry.status for entry in executions}
        if len(history) != len(executions) or history != known.history:
            raise Broken(f"the history of job {found.id} is {executions}\nand must be {known.history}")
        runs = {claim for job_id, claim in self.began if job_id == found.id}
        if not runs <= set(history):
            raise Broken(f"job {found.id} ran under the claims {runs}, and its history tells of {sorted(history)}")
        done = [claim for claim, status in history.items() if status is ExecutionStatus.SUCCESS]
        if (len(done) == 1) != (found.status is JobStatus.SUCCESS) or len(done) > 1:
            raise Broken(f"job {found.id} is {found.status.value} with {len(done)} successes")
        if any(not self.ended[found.id, claim] for claim in done):
            raise Broken(f"job {found.id} has succeeded, and its function never came to its end")

    # --- the model ----------------------------------------------------------------------------------------------------

    def _known(self, job_id: str) -> Known:
        if job_id not in self.jobs:
            raise Broken(f"nobody sent job {job_id}")
        return self.jobs[job_id]

    def _stands(self, job_id: str, claim: int) -> bool:
        known = self.jobs.get(job_id)
        return known is not None and known.job.status is JobStatus.RUNNING and known.job.claims == claim

    def _holder(self, key: str | None) -> Known | None:
        if key is None:
            return None
        for known in self.jobs.values():
            if known.job.key == key and not known.job.status.is_final:
                return known
        return None

    def _is_expired(self, job: Job, now: float) -> bool:
        return may_expire(job) and (job.expires_at or now + 1.0) <= now

    def _end(self, known: Known, status: JobStatus) -> None:
        known.job = replace(known.job, status=status, finished_at=self._clock.now())

    def _apply(self, outcome: Outcome) -> None:
        known = self.jobs[outcome.job_id]
        if outcome.ended_as is not None:
            known.history[outcome.claim] = outcome.ended_as
        known.job = replace(
            known.job,
            status=outcome.status,
            attempts=outcome.attempts,
            hand_backs=outcome.hand_backs,
            run_at=outcome.run_at,
            finished_at=outcome.finished_at,
        )
