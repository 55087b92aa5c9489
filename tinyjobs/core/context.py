"""Which job the code that is running right now belongs to.

Set by whoever runs a job, read by task code and by the Django side. One context variable, so it follows a job into
its coroutine, its thread and what they start with a copied context.
"""

from contextvars import ContextVar

from tinyjobs.core.job import Job

running_job: ContextVar[Job | None] = ContextVar("tinyjobs_running_job", default=None)


def current_job() -> Job | None:
    """The job being run by the calling code, or None outside of one."""
    return running_job.get()
