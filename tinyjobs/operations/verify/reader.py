"""Reads along while the workers write: what is recorded together must never be seen by halves.

The outcome of a job and the row of its history are one write. So whoever sees the one, and looks then, sees the other;
in either order. This catches a store that writes them apart without a worker having to die in between.
"""

import threading

from tinyjobs.app.facade import TinyJobs
from tinyjobs.core.errors import TinyJobsError
from tinyjobs.core.job import Execution, Job
from tinyjobs.core.status import ExecutionStatus, JobStatus
from tinyjobs.operations.verify.tasks import TASK

_REST = 0.005
_AT_ONCE = 20


class Reader:
    """A thread that looks at what is new. `halves` are the ids of jobs that it saw by halves."""

    def __init__(self, app: TinyJobs, queue: str) -> None:
        self._app = app
        self._queue = queue
        self._is_over = threading.Event()
        self._seen: set[str] = set()
        self._thread = threading.Thread(target=self._run, name="verify-reader", daemon=True)
        self.halves: set[str] = set()

    def start(self) -> None:
        """Begin; returns at once."""
        self._thread.start()

    def end(self) -> None:
        """Stop looking."""
        self._is_over.set()
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        while not self._is_over.wait(_REST):
            try:
                self._look()
            except TinyJobsError:
                # A store out of reach shows nothing, by halves or whole.
                continue

    def _look(self) -> None:
        for job in self._jobs(JobStatus.RUNNING):
            if self._has_ended(job, self._app.executions(job.id)):
                later = self._app.get(job.id)
                if later is not None and later.status is JobStatus.RUNNING and later.claims == job.claims:
                    self.halves.add(job.id)
        for job in self._jobs(JobStatus.SUCCESS):
            if job.id not in self._seen:
                self._seen.add(job.id)
                if not self._has_ended(job, self._app.executions(job.id)):
                    self.halves.add(job.id)

    def _jobs(self, status: JobStatus) -> list[Job]:
        return self._app.list(status=status, queue=self._queue, task=TASK, limit=_AT_ONCE).jobs

    def _has_ended(self, job: Job, executions: list[Execution]) -> bool:
        return any(
            execution.claim == job.claims and execution.status is not ExecutionStatus.RUNNING
            for execution in executions
        )
