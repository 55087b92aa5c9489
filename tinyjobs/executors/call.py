"""What an executor is given and what it answers.

A `Call` is a job ready to run, its arguments decoded; an `Ending` says how the run ended. Both are made in great
numbers, so they are plain slotted objects.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from tinyjobs.core.job import Job
from tinyjobs.core.task import Around, TaskSpec


class End(Enum):
    """The ways a run can end."""

    RETURNED = "returned"
    RAISED = "raised"
    TIMED_OUT = "timed out"
    CUT = "cut short"  # by us, on purpose: the job goes back to the queue
    NOT_STARTED = "not started"


@dataclass(slots=True, eq=False)
class Call:
    """One run of one job. `around` is entered in the thread or task that runs it."""

    job: Job
    spec: TaskSpec
    args: Sequence[Any]
    kwargs: Mapping[str, Any]
    around: Around | None = None


@dataclass(slots=True)
class Ending:
    """How a call ended: its value, or its error; `seconds` is how long it ran."""

    call: Call
    end: End
    seconds: float
    value: Any = None
    error: BaseException | None = None


type Deliver = Callable[[Sequence[Ending]], None]
