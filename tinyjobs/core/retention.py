"""For how long ended jobs are kept: the rule, parsed once, and the order in which a sweep goes about it.

How a store deletes is not known here, nor who sweeps when.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from datetime import timedelta

from tinyjobs.core.errors import ConfigurationError, refuse_unknown
from tinyjobs.core.options import LAST_INSTANT, shown
from tinyjobs.core.status import JobStatus

DAY = 86_400.0
#: Jobs that one write deletes at most, so that no claim waits for longer than that takes.
BATCH = 500


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Retention:
    """Seconds for which jobs of each final status are kept after their end; 0 keeps them for ever."""

    success: float = 7 * DAY
    cancelled: float = 7 * DAY
    failed: float = 30 * DAY

    def __repr__(self) -> str:
        # As it is written in settings.
        return repr(asdict(self))

    @classmethod
    def parse(cls, value: object, source: str) -> "Retention":
        """From a mapping of statuses to seconds or timedeltas. What is not named keeps its default."""
        if isinstance(value, cls):
            return value
        if not isinstance(value, Mapping):
            raise ConfigurationError(
                f"{source}: {shown(value)} is not a mapping such as {{'success': 86400, 'failed': timedelta(days=30)}}."
            )
        refuse_unknown({str(name): age for name, age in value.items()}, _STATUSES, source)
        return cls(**{name: check_age(age, f"{source}: {name}") for name, age in value.items()})

    @property
    def rules(self) -> dict[JobStatus, float]:
        """The age from which jobs are deleted, for each status that is not kept for ever."""
        ages = {status: float(getattr(self, status.value)) for status in FINAL_STATUSES}
        return {status: age for status, age in ages.items() if age > 0}


FINAL_STATUSES = tuple(JobStatus(entry.name) for entry in fields(Retention))
_STATUSES = frozenset(status.value for status in FINAL_STATUSES)
#: What holds where nothing else is said.
DEFAULT_RETENTION = Retention()
#: Nothing is ever deleted.
KEEP_EVERYTHING = Retention(success=0.0, cancelled=0.0, failed=0.0)


def check_age(value: object, source: str) -> float:
    """Seconds or a timedelta, not below 0."""
    age = value.total_seconds() if isinstance(value, timedelta) else value
    if isinstance(age, bool) or not isinstance(age, int | float) or not 0 <= age <= LAST_INSTANT:
        raise ConfigurationError(f"{source}: {shown(value)} is neither a number of seconds from 0 up nor a timedelta.")
    return float(age)


def check_final_statuses(value: object, source: str) -> tuple[JobStatus, ...]:
    """Statuses in which a job has ended, by their names."""
    named = (value,) if isinstance(value, str) else value
    if not isinstance(named, Sequence | set | frozenset) or not all(name in _STATUSES for name in named):
        raise ConfigurationError(f"{source}: {shown(value)} names none; there are {', '.join(sorted(_STATUSES))}.")
    return tuple(status for status in FINAL_STATUSES if status in named)


@dataclass(frozen=True, slots=True, kw_only=True)
class Purged:
    """What a purge did, or, where `is_dry_run`, would have done: jobs of each final status, deleted and kept.

    `rules` has the age for each status that was purged.
    """

    rules: Mapping[JobStatus, float]
    deleted: Mapping[JobStatus, int]
    kept: Mapping[JobStatus, int]
    is_dry_run: bool = False


@dataclass(slots=True)
class Sweep:
    """A sweep, batch by batch: each status in turn, so that a busy one does not keep the others waiting.

    Ask `status` which comes next, purge a `batch` of it, and report with `took`. Stops at `most` jobs.
    """

    rules: Mapping[JobStatus, float]
    most: int | None = None
    deleted: dict[JobStatus, int] = field(default_factory=dict)
    _turn: list[JobStatus] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._turn = list(self.rules)
        self.deleted = dict.fromkeys(self.rules, 0)

    @property
    def total(self) -> int:
        """How many jobs were deleted so far."""
        return sum(self.deleted.values())

    @property
    def batch(self) -> int:
        """How many the next batch may have."""
        return BATCH if self.most is None else min(BATCH, self.most - self.total)

    @property
    def status(self) -> JobStatus | None:
        """The status whose turn it is; None: nothing is left to delete, or it is enough."""
        return self._turn[0] if self._turn and self.batch > 0 else None

    def took(self, count: int) -> None:
        """So many jobs of that status were deleted; fewer than a batch means there are no more of them."""
        is_done = count < self.batch
        status = self._turn.pop(0)
        self.deleted[status] += count
        if not is_done:
            self._turn.append(status)


def chosen_rules(
    retention: Retention, older_than: float | None, statuses: Sequence[JobStatus] = ()
) -> dict[JobStatus, float]:
    """What a purge by hand goes by: one age for each status, or else the retention; of some statuses or of all."""
    rules = retention.rules if older_than is None else dict.fromkeys(FINAL_STATUSES, older_than)
    return {status: age for status, age in rules.items() if not statuses or status in statuses}
