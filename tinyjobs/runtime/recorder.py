"""Outcomes on their way to the store. While one write is in flight the next group collects here.

Bounds a group, remembers which outcomes were already sent once, and settles those whose answer was lost by asking
for the execution of that very claim. Tells the hooks after the commit. Makes no claim and starts no job.
"""

import logging
from collections import deque
from collections.abc import Sequence

from tinyjobs.core.errors import JobExpired
from tinyjobs.core.job import Held, Job, Recorded
from tinyjobs.core.logs import facts_of
from tinyjobs.core.status import JobStatus
from tinyjobs.core.transitions import EXPIRED, Outcome, has_landed
from tinyjobs.runtime.attempt import Conclusion, refused
from tinyjobs.runtime.engine import Engine
from tinyjobs.runtime.hooks import HookRunner

logger = logging.getLogger("tinyjobs.worker")

GROUP = 256
GROUP_BYTES = 8 * 1024 * 1024


class Recorder:
    """Collects conclusions and settles what the store says of them. Counts what ended, for the worker's report."""

    def __init__(self, engine: Engine, hooks: HookRunner) -> None:
        self._engine = engine
        self._hooks = hooks
        self._pending: deque[Conclusion] = deque()
        self._in_flight: list[Conclusion] = []
        self._in_doubt: set[tuple[str, int]] = set()
        self._count = 0
        self.succeeded = 0
        self.failed = 0
        self.retried = 0
        self.expired = 0

    def __len__(self) -> int:
        return len(self._pending)

    def add(self, conclusion: Conclusion) -> None:
        """Hand in an outcome. Its number in the row of endings is the order in which hooks hear of it."""
        # Whatever began passes here when it ends, however that is.
        self._engine.hooks.ended(conclusion.job)
        self._count += 1
        conclusion.number = self._count
        self._pending.append(conclusion)

    def held(self) -> list[Held]:
        """The claims whose outcome is not yet recorded: their leases must hold. Callable from any thread."""
        # Copied in one step each, since the loop's thread goes on while the lease keeper asks.
        unconfirmed = list(self._pending) + list(self._in_flight)
        return [Held(entry.outcome.job_id, entry.outcome.claim) for entry in unconfirmed]

    def take(self) -> list[Conclusion]:
        """The next group: 256 outcomes or 8 MB at most, in the order of their job ids."""
        group: list[Conclusion] = []
        size = 0
        while self._pending and len(group) < GROUP and (not group or size < GROUP_BYTES):
            conclusion = self._pending.popleft()
            size += conclusion.outcome.size
            group.append(conclusion)
        # Every writer goes through the rows in the same order, so two groups can never wait for each other in a ring.
        group.sort(key=lambda conclusion: conclusion.outcome.job_id)
        self._in_flight = group
        return group

    def put_back(self, group: Sequence[Conclusion]) -> None:
        """The write did not answer: the group goes first next time, and may have landed all the same."""
        self._pending.extendleft(reversed(group))
        self._in_flight = []
        self._in_doubt.update(map(_claim, group))

    async def settle(self, group: Sequence[Conclusion], recorded: Recorded) -> None:
        """Take the store's answer: count, log and tell the hooks of what was applied; warn of what came too late."""
        self._in_flight = []
        for place in sorted(range(len(group)), key=lambda place: group[place].number):
            conclusion = group[place]
            if place in recorded.refused:
                self._refused(conclusion, recorded.refused[place])
            elif recorded.applied[place]:
                self._in_doubt.discard(_claim(conclusion))
                self._applied(conclusion)
            elif _claim(conclusion) not in self._in_doubt:
                self._stale(conclusion)
            else:
                await self._settle_doubt(conclusion)

    async def _settle_doubt(self, conclusion: Conclusion) -> None:
        """One that was sent before without an answer is refused now: has it landed then, or come too late?"""
        try:
            landed = has_landed(conclusion.outcome, await self._engine.store.executions(conclusion.job.id))
        except Exception as error:
            # The rest of the group is recorded, so only this one is asked for again.
            self._engine.hooks.report("recorder", error)
            self._pending.append(conclusion)
            return
        self._in_doubt.discard(_claim(conclusion))
        if landed:
            self._applied(conclusion)
        elif conclusion.outcome.ended_as is not None:
            # A hand-back leaves no history to tell by, and whichever it was, nobody has to know.
            self._stale(conclusion)

    def _applied(self, conclusion: Conclusion) -> None:
        hooks = self._engine.hooks
        if conclusion.is_expired:
            self.expired += 1
            log_expired(conclusion.job)
            error = conclusion.error or JobExpired(EXPIRED)
            hooks.failed(conclusion.job, error, False)
            self._hooks.add(hooks.on_failure, conclusion.recorded_job(), error, False)
        elif conclusion.error is not None:
            self.retried += conclusion.will_retry
            self.failed += not conclusion.will_retry
            _log_failure(conclusion)
            hooks.failed(conclusion.job, conclusion.error, conclusion.will_retry)
            if hooks.on_failure:
                self._hooks.add(hooks.on_failure, conclusion.recorded_job(), conclusion.error, conclusion.will_retry)
        elif conclusion.outcome.status is JobStatus.SUCCESS:
            self.succeeded += 1
            hooks.succeeded(conclusion.job, conclusion.seconds)
            if logger.isEnabledFor(logging.DEBUG):
                _log_success(conclusion)
            if hooks.on_success:
                self._hooks.add(hooks.on_success, conclusion.recorded_job(), conclusion.value, conclusion.seconds)

    def _stale(self, conclusion: Conclusion) -> None:
        logger.warning(
            "the outcome of job %s (%s) came too late and was refused: its lease was lost, or it was cancelled",
            conclusion.job.id,
            conclusion.job.task,
            extra=_facts(conclusion),
        )

    def _refused(self, conclusion: Conclusion, reason: Exception) -> None:
        logger.error(
            "the store refuses the outcome of job %s (%s), which is recorded as failed instead: %s",
            conclusion.job.id,
            conclusion.job.task,
            reason,
            extra=_facts(conclusion),
        )
        if not conclusion.is_fallback:
            self.add(refused(self._engine, conclusion, reason))


def _claim(conclusion: Conclusion) -> tuple[str, int]:
    return conclusion.outcome.job_id, conclusion.outcome.claim


def _facts(conclusion: Conclusion) -> dict[str, object]:
    return facts_of(conclusion.job, duration_ms=round(conclusion.seconds * 1000, 3))


def _log_success(conclusion: Conclusion) -> None:
    job = conclusion.job
    logger.debug("job %s (%s) succeeded in %.3f s", job.id, job.task, conclusion.seconds, extra=_facts(conclusion))


def log_expired(job: Job) -> None:
    """Say that a job ended without having run."""
    logger.warning(
        "job %s (%s) expired in its queue and was not run",
        job.id,
        job.task,
        extra=facts_of(job),
    )


def _log_failure(conclusion: Conclusion) -> None:
    job, outcome = conclusion.job, conclusion.outcome
    facts = _facts(conclusion)
    facts["error"] = outcome.error_type
    facts["error_message"] = _message(outcome)
    facts["will_retry"] = conclusion.will_retry
    if conclusion.will_retry:
        logger.warning(
            "job %s (%s) failed at attempt %d of %d and runs again: %s",
            job.id,
            job.task,
            job.attempts,
            job.max_attempts,
            _short(outcome.last_error),
            extra=facts,
        )
        return
    facts["traceback"] = outcome.traceback
    logger.error(
        "job %s (%s) failed for good at attempt %d of %d: %s",
        job.id,
        job.task,
        job.attempts,
        job.max_attempts,
        _short(outcome.last_error),
        extra=facts,
        # For who reports errors; with frames that this process still has.
        exc_info=conclusion.error,
    )


def _message(outcome: Outcome) -> str | None:
    """The error's own text, without its type in front of it."""
    kind = (outcome.error_type or "").rpartition(".")[2]
    told = outcome.last_error
    return "" if told == kind else told and told.removeprefix(f"{kind}: ")


def _short(text: str | None) -> str:
    line = " ".join((text or "").split())
    return line if len(line) <= 300 else line[:297] + "..."
