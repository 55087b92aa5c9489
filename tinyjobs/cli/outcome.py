"""How a command ends: the exit statuses, and the exception that carries one with what there is to say.

0: done. 1: not done, for instance because there is no such job, or the answer could not be written. 2: the command line
or the configuration is wrong. 130: a second signal ended a worker. 3 is between a worker and the process that starts it
again on changes.
"""

from tinyjobs.core.errors import TinyJobsError
from tinyjobs.core.trouble import Trouble, kind_of
from tinyjobs.runtime.signals import EXIT_STATUS

DONE, FAILED, MISUSED, RELOAD, FORCED = 0, 1, 2, 3, EXIT_STATUS


class CommandFailed(Exception):
    """A command that did not do what it was asked to do, and why."""

    def __init__(self, message: str, status: int = FAILED) -> None:
        super().__init__(message)
        self.status = status


def failure(error: TinyJobsError) -> CommandFailed:
    """An error of the engine as the end of a command."""
    return CommandFailed(str(error), MISUSED if kind_of(error) is Trouble.MISCONFIGURATION else FAILED)
