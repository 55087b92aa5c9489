"""What a `TinyJobs` app is given beside its URL, checked once. Options of the store pass through untouched."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any, Self

from tinyjobs.core.clock import Clock, SystemClock
from tinyjobs.core.cron import zone_of
from tinyjobs.core.errors import ConfigurationError, UnsupportedCapabilityError
from tinyjobs.core.masking import Mask
from tinyjobs.core.options import check_flag
from tinyjobs.core.retention import DEFAULT_RETENTION, Retention
from tinyjobs.core.schedules import Schedule, parse_entries

# Of the design, for later releases. Without this list they would be taken for options of the store.
_NOT_BUILT = frozenset({"loops", "isolation_setup"})


@dataclass(frozen=True, slots=True, kw_only=True)
class AppSettings:
    """How an app behaves, whatever its store. Delays are in seconds."""

    clock: Clock = field(default_factory=SystemClock)
    random: Random = field(default_factory=Random)
    eager: bool = False
    allow_pickle: bool = False
    refuse_pickle: bool = False
    max_result_bytes: int | None = None
    retention: Retention = DEFAULT_RETENTION
    schedules: Mapping[str, Schedule] = field(default_factory=dict)
    timezone: str = "UTC"
    mask: Mask = field(default_factory=Mask)
    unknown_task_delay: float = 60.0
    unknown_task_max_delay: float = 3600.0

    @classmethod
    def parse(cls, given: Mapping[str, Any]) -> Self:
        """Check every value; None stands for the default."""
        kept = {name: value for name, value in given.items() if value is not None}
        for name in ("eager", "allow_pickle", "refuse_pickle"):
            check_flag(kept.get(name, False), f"TinyJobs: {name}")
        for name in ("unknown_task_delay", "unknown_task_max_delay"):
            if name in kept:
                kept[name] = _seconds(kept[name], name)
        if "mask" in kept:
            kept["mask"] = Mask.parse(kept["mask"], "TinyJobs: mask")
        if "retention" in kept:
            kept["retention"] = Retention.parse(kept["retention"], "TinyJobs: retention")
        size = kept.get("max_result_bytes", 0)
        if isinstance(size, bool) or not isinstance(size, int) or size < 0:
            raise ConfigurationError(f"TinyJobs: max_result_bytes: {size!r} is not a whole number of bytes.")
        if not isinstance(kept.setdefault("random", Random()), Random):
            raise ConfigurationError(f"TinyJobs: random: {kept['random']!r} is not a random.Random.")
        try:
            zone_of(kept.setdefault("timezone", "UTC"))
        except ConfigurationError as error:
            raise ConfigurationError(f"TinyJobs: {error}") from None
        if "schedules" in kept:
            kept["schedules"] = parse_entries(kept["schedules"], "TinyJobs: schedules", kept["timezone"])
        return cls(**kept)


def refuse_not_built(options: Mapping[str, Any]) -> None:
    """Raise for what a later release brings, so that nobody relies on it meanwhile."""
    for name in sorted(options.keys() & _NOT_BUILT):
        raise UnsupportedCapabilityError(f"TinyJobs: {name} is not available in this release of tinyjobs.")


def _seconds(value: object, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
        raise ConfigurationError(f"TinyJobs: {name}: {value!r} is not a positive number of seconds.")
    return float(value)
