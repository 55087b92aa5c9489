"""The leases of jobs that are run without a worker, renewed while they run. One thread for any number of them."""

import logging
import threading
import weakref
from queue import Empty, SimpleQueue

from tinyjobs.core.inline import finish
from tinyjobs.core.job import Held, Job
from tinyjobs.core.trouble import Backoff
from tinyjobs.runtime.engine import Engine

logger = logging.getLogger("tinyjobs.worker")

#: The job of a drain or of an eager call is leased for so many seconds, and its lease is renewed at a third of them.
LEASE = 60.0


class LeaseRenewal:
    """Renews the leases of the jobs that run, from one thread, started when there is a job and it is not running.

    The thread ends with the block, with this object, or by itself once it has found nothing to renew.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._held: set[Held] = set()
        # Not an `Event`, which has a lock: this is written to also while an object is being collected.
        self._stopped: SimpleQueue[None] = SimpleQueue()
        self._is_started = False
        self._trouble = Backoff(first=LEASE / 60, ceiling=LEASE / 12)

    def stop(self) -> None:
        """Let the thread end. For good: what is kept from here on has the lease it was claimed with."""
        self._stopped.put(None)

    def __enter__(self) -> "LeaseRenewal":
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()

    def kept(self, job: Job) -> "_Kept":
        """Keep this job's lease during the block."""
        return _Kept(self, Held(job.id, job.claims))

    def hold(self, held: Held) -> None:
        """Renew its lease from here on."""
        self._held.add(held)
        if not self._is_started:
            self._is_started = True
            self._start()

    def drop(self, held: Held) -> None:
        """Renew it no more."""
        self._held.discard(held)

    def _start(self) -> None:
        # It does not hold this object: an interrupt may keep it from being told to stop.
        stopped = self._stopped
        given = (weakref.ref(self, lambda _: stopped.put(None)), stopped)
        try:
            threading.Thread(target=_renew, args=given, name="tinyjobs-drain-lease", daemon=True).start()
        except RuntimeError:
            # At the end of the interpreter no thread begins any more. The job has the lease it was claimed with.
            self._is_started = False

    def renew(self) -> float | None:
        """Renew what is held; the seconds until the next time, or None: the thread may end."""
        held = list(self._held)
        if not held:
            # Said before it is looked again: a job that comes in between starts another thread, or is seen here.
            self._is_started = False
            if not self._held:
                return None
            self._is_started = True
        try:
            finish(self._engine.store.inline().heartbeat(held, LEASE))
        except Exception as error:
            # Without a renewal the job would run a second time, beside this run of it.
            self._engine.hooks.report("leases", error)
            if self._trouble.failures == 0:
                names = ", ".join(entry.job_id for entry in held)
                logger.warning("the lease of job %s is not renewed, trying again: %s", names, error)
            return self._trouble.failed()
        self._trouble.succeeded()
        return LEASE / 3


class _Kept:
    """See `LeaseRenewal.kept`. A class of its own, since there is one for every job: a generator takes three times as
    long.
    """

    __slots__ = ("_held", "_leases")

    def __init__(self, leases: LeaseRenewal, held: Held) -> None:
        self._leases = leases
        self._held = held

    def __enter__(self) -> None:
        try:
            self._leases.hold(self._held)
        except BaseException:
            self._leases.drop(self._held)
            raise

    def __exit__(self, *exc: object) -> None:
        self._leases.drop(self._held)


def _renew(renewal: "weakref.ref[LeaseRenewal]", stopped: "SimpleQueue[None]") -> None:
    pause: float | None = LEASE / 3
    while pause is not None and not _is_told(stopped, pause) and (leases := renewal()) is not None:
        pause = leases.renew()
        del leases


def _is_told(stopped: "SimpleQueue[None]", seconds: float) -> bool:
    try:
        stopped.get(timeout=seconds)
    except Empty:
        return False
    stopped.put(None)  # for another thread, should there be one
    return True
