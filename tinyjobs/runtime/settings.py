"""A worker's settings, parsed once at the door. Every knob here is a flag of the command and an option of the call."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from tinyjobs.core.errors import ConfigurationError, refuse_unknown
from tinyjobs.core.firing import MISFIRE_GRACE
from tinyjobs.core.options import check_flag, check_queue


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSettings:
    """How a worker works. Seconds are floats.

    `queues`: the ones to serve, none named: every one. `concurrency`: threads for plain functions.
    `async_concurrency`: coroutines at once. `lease`: how long a claim holds without renewal; it is renewed at a third.
    `reap_interval`: how often expired leases are looked for. `poll`: the longest wait of an idle worker between two
    looks. `shutdown_timeout`: from the stop signal to the end. `stall`: for how long leases are renewed on behalf of
    an event loop that does not answer. `scheduler`: whether to fire schedules beside the jobs; never `until_empty`.
    `misfire_grace`: how late a firing may be and still be on time. `until_empty`: end when nothing is due or running
    and the hooks have been told.
    """

    queues: tuple[str, ...] = ()
    concurrency: int = 8
    async_concurrency: int = 128
    lease: float = 60.0
    reap_interval: float = 15.0
    poll: float = 0.5
    shutdown_timeout: float = 30.0
    stall: float = 300.0
    scheduler: bool = True
    misfire_grace: float = MISFIRE_GRACE
    until_empty: bool = False
    handle_signals: bool = True

    @property
    def fires_schedules(self) -> bool:
        """Whether a scheduler runs beside the worker. One that ends with its jobs cannot be relied on to fire any."""
        return self.scheduler and not self.until_empty

    @classmethod
    def parse(cls, given: Mapping[str, Any], source: str) -> "WorkerSettings":
        """Check each setting; raise `ConfigurationError` naming `source` and the setting."""
        refuse_unknown(given, frozenset(field.name for field in fields(cls)), source)
        checked = dict(given)
        for name, (lowest, highest) in _WHOLE.items():
            if name in checked:
                checked[name] = _whole(checked[name], lowest, highest, f"{source}: {name}")
        for name, (least, most) in _SECONDS.items():
            if name in checked:
                checked[name] = _seconds(checked[name], least, most, f"{source}: {name}")
        for name in ("scheduler", "until_empty", "handle_signals"):
            check_flag(checked.get(name, False), f"{source}: {name}")
        if "queues" in checked:
            checked["queues"] = _queues(checked["queues"], f"{source}: queues")
        return cls(**checked)


_WHOLE = {"concurrency": (1, 1_000), "async_concurrency": (1, 10_000)}
_SECONDS = {
    "lease": (1.0, 86_400.0),
    "reap_interval": (0.1, 86_400.0),
    "poll": (0.001, 3_600.0),
    "shutdown_timeout": (0.0, 86_400.0),
    "stall": (1.0, 86_400.0),
    "misfire_grace": (1.0, 86_400.0),
}


def _whole(value: object, lowest: int, highest: int, source: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not lowest <= value <= highest:
        raise ConfigurationError(f"{source}: {value!r} is not a whole number from {lowest} to {highest}.")
    return value


def _seconds(value: object, least: float, most: float, source: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
        raise ConfigurationError(f"{source}: {value!r} is not a number of seconds from {least:g} to {most:g}.")
    return float(value)


def _queues(value: object, source: str) -> tuple[str, ...]:
    if isinstance(value, str) or not isinstance(value, tuple | list | set | frozenset):
        raise ConfigurationError(f"{source}: {value!r} is not a list of queue names.")
    return tuple(dict.fromkeys(check_queue(name, source) for name in value))
