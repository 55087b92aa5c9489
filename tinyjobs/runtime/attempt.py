"""One attempt of a job, from the stored row to a call and from the call's end to an outcome.

Pure but for the log: a worker, a drain and an eager call all decide here, so a job means the same under each.
"""

import logging
from dataclasses import dataclass
from typing import Any

from tinyjobs.core import transitions
from tinyjobs.core.errors import JobExpired, ResultTooLarge, SerializationError, TinyJobsError, UnencodableResult
from tinyjobs.core.job import Job
from tinyjobs.core.logs import facts_of
from tinyjobs.core.retry import retry_at
from tinyjobs.core.status import ExecutionStatus, JobStatus
from tinyjobs.core.storable import describe_exception
from tinyjobs.core.transitions import ExecutionError, Outcome
from tinyjobs.executors.call import Call, End, Ending
from tinyjobs.runtime.engine import Engine

logger = logging.getLogger("tinyjobs.worker")


@dataclass(slots=True)
class Conclusion:
    """An outcome on its way to the store, with what the hooks are told once it is recorded."""

    job: Job
    outcome: Outcome
    value: Any = None
    error: BaseException | None = None
    seconds: float = 0.0
    is_fallback: bool = False
    #: Its place in the row of endings, given by the recorder.
    number: int = 0
    #: For how many seconds the job was handed back because nobody here knows its task.
    unknown_for: float | None = None

    @property
    def is_expired(self) -> bool:
        """Whether the job was not run, since it was claimed after its expiry."""
        return self.outcome.status is JobStatus.CANCELLED

    @property
    def will_retry(self) -> bool:
        """Whether the job runs again."""
        return self.outcome.status is JobStatus.QUEUED

    def recorded_job(self) -> Job:
        """The job as the store holds it once the outcome is applied; nothing is read back for it."""
        job, outcome = self.job, self.outcome
        # Field by field: `dataclasses.replace` takes five times as long, and there is one for every job.
        return Job(
            id=job.id,
            task=job.task,
            queue=job.queue,
            status=outcome.status,
            priority=job.priority,
            attempts=outcome.attempts,
            max_attempts=job.max_attempts,
            hand_backs=outcome.hand_backs,
            claims=job.claims,
            run_at=outcome.run_at,
            created_at=job.created_at,
            started_at=outcome.started_at,
            finished_at=outcome.finished_at,
            expires_at=job.expires_at,
            scheduled_for=job.scheduled_for,
            worker_id=job.worker_id if outcome.status.is_final else None,
            key=job.key,
            codec=job.codec,
            runs_after=job.runs_after,
            waiting_on=job.waiting_on,
            last_error=outcome.last_error,
            metadata=job.metadata,
            payload=job.payload,
            result=outcome.result,
            existing=job.existing,
            delay=job.delay,
            expires_in=job.expires_in,
        )


def prepare(engine: Engine, job: Job) -> Call | Conclusion:
    """The call a claimed job stands for, or how it ends without one: expired, unknown task, unreadable arguments."""
    if transitions.has_expired(job):
        return Conclusion(job, transitions.expired(job, engine.clock.now()), None, JobExpired(transitions.EXPIRED))
    spec = engine.catalogue.find(job.task)
    if spec is None:
        return _hand_back_unknown(engine, job)
    try:
        args, kwargs = engine.codecs.get(job.codec).decode_call(job.payload or b"")
    except Exception as error:
        wrapped = error if isinstance(error, TinyJobsError) else SerializationError(f"unreadable arguments: {error}")
        return _failed(engine, job, wrapped, 0.0, retry=None)
    around = engine.around if engine.tracing is None else engine.tracing(engine.around)
    return Call(job, spec, args, kwargs, around)


def conclude(engine: Engine, ending: Ending) -> Conclusion:
    """What becomes of the job after its call ended. There is always an answer: a job without one would run again."""
    try:
        return _concluded(engine, ending)
    except Exception as error:
        job = ending.call.job
        text = "the outcome of job %s (%s) cannot be made; it counts as failed"
        logger.exception(text, job.id, job.task, extra=facts_of(job))
        return _failed(engine, job, error, ending.seconds, retry=None)


def _concluded(engine: Engine, ending: Ending) -> Conclusion:
    job, now = ending.call.job, engine.clock.now()
    if ending.end is End.RETURNED:
        try:
            result = _encode_result(engine, ending)
        except BaseException as refusal:
            return _failed(engine, job, refusal, ending.seconds, retry=None)
        return Conclusion(job, transitions.succeeded(job, result, now), ending.value, None, ending.seconds)
    if ending.end is End.CUT:
        return Conclusion(job, transitions.released(job, now))
    if ending.end is End.NOT_STARTED:
        return Conclusion(job, transitions.handed_back(job, now))
    error = ending.error or RuntimeError("the attempt ended without an error to show")
    status = ExecutionStatus.TIMEOUT if ending.end is End.TIMED_OUT else ExecutionStatus.FAILED
    return _failed(engine, job, error, ending.seconds, retry=_when_again(engine, ending, error), status=status)


def hand_back(engine: Engine, job: Job) -> Conclusion:
    """Undo a claim that cannot become a run here and now."""
    return Conclusion(job, transitions.handed_back(job, engine.clock.now()))


def refused(engine: Engine, conclusion: Conclusion, reason: Exception) -> Conclusion:
    """What to record instead of an outcome whose data the store refuses: failed for good, since the task ran."""
    error = UnencodableResult(f"the store refuses what the attempt left behind: {reason}")
    fallback = _failed(engine, conclusion.job, error, conclusion.seconds, retry=None)
    fallback.is_fallback = True
    return fallback


def _when_again(engine: Engine, ending: Ending, error: BaseException) -> float | None:
    factor = 0.5 + engine.random.random() / 2
    try:
        return retry_at(ending.call.spec.options, ending.call.job, error, engine.clock.now(), factor)
    except Exception:
        text = "the retry policy of %s raised; the attempt counts as the last"
        logger.exception(text, ending.call.spec.name, extra=facts_of(ending.call.job))
        return None


def _encode_result(engine: Engine, ending: Ending) -> bytes | None:
    spec = ending.call.spec
    value = ending.value
    if spec.clean_result is not None:
        try:
            value = ending.value = spec.clean_result(value)
        except SerializationError:
            raise
        except TypeError as error:
            # Of the kind that the rule behind it raises, and told apart from what the function itself may raise.
            raise TypeError(f"the result of {spec.name} cannot be stored: {error}") from error
    if not spec.options.store_result:
        return None
    try:
        encoded = engine.codecs.get(ending.call.job.codec).encode(value, root="result")
    except (SerializationError, RecursionError, MemoryError, OverflowError, ValueError) as error:
        raise UnencodableResult(f"the result of {spec.name} cannot be stored: {error}") from error
    if engine.max_result_bytes is not None and len(encoded) > engine.max_result_bytes:
        raise ResultTooLarge(
            f"the result of {spec.name} takes {len(encoded)} bytes encoded; max_result_bytes allows "
            f"{engine.max_result_bytes}. Keep large results elsewhere and return a reference."
        )
    return encoded


def _failed(
    engine: Engine,
    job: Job,
    error: BaseException,
    seconds: float,
    *,
    retry: float | None,
    status: ExecutionStatus = ExecutionStatus.FAILED,
) -> Conclusion:
    text = describe_exception(error)
    told = ExecutionError(error_type=text.error_type, message=text.message, traceback=text.traceback)
    outcome = transitions.failed(job, told, retry, engine.clock.now(), status)
    return Conclusion(job, outcome, None, error, seconds)


def _hand_back_unknown(engine: Engine, job: Job) -> Conclusion:
    delay = min(engine.unknown_task_delay * 2.0 ** min(job.hand_backs, 64), engine.unknown_task_max_delay)
    outcome = transitions.handed_back(job, engine.clock.now(), delay)
    return Conclusion(job, outcome, unknown_for=delay)
