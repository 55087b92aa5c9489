"""What a worker, a drain and an eager call have in common: the store, the tasks, the codecs, the clock, the hooks."""

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random, SystemRandom

from tinyjobs.backends.base import Backend
from tinyjobs.core.clock import Clock, SystemClock
from tinyjobs.core.codecs.registry import CodecRegistry
from tinyjobs.core.logs import shield_loggers
from tinyjobs.core.retention import DEFAULT_RETENTION, Retention
from tinyjobs.core.schedules import Timetable
from tinyjobs.core.task import Around, Catalogue
from tinyjobs.runtime.hooks import Hooks
from tinyjobs.runtime.outage import Outage

# Before anything runs: whatever a program hangs on the loggers, no job is to feel it.
shield_loggers()


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """The parts a job needs to be run. `around` is entered in the thread or asyncio task that runs each job.

    `tracing` may put something around that, and is asked for each job. Without a `timetable` nobody here fires
    schedules.
    """

    store: Backend
    catalogue: Catalogue
    codecs: CodecRegistry = field(default_factory=CodecRegistry)
    clock: Clock = field(default_factory=SystemClock)
    random: Random = field(default_factory=SystemRandom)
    hooks: Hooks = field(default_factory=Hooks)
    outage: Outage = field(default_factory=Outage)
    around: Around | None = None
    tracing: Callable[[Around | None], Around | None] | None = None
    timetable: Timetable | None = None
    max_result_bytes: int | None = None
    retention: Retention = DEFAULT_RETENTION
    unknown_task_delay: float = 60.0
    unknown_task_max_delay: float = 3_600.0
