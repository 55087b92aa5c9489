"""How a run of the harness goes: its settings, checked at once, each error naming the option it came from."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from tinyjobs.core.errors import ConfigurationError, refuse_unknown

#: From a worker's stop signal to its end, and what the machine may add to that before the worker counts as stuck.
SHUTDOWN_TIMEOUT = 10.0
STOP_PATIENCE = 3 * SHUTDOWN_TIMEOUT

_BOUNDS = {
    "duration": (0.5, 604_800.0),
    "rate": (0.1, 10_000.0),
    "kill_every": (0.1, 604_800.0),
    "settle": (0.1, 604_800.0),
    "lease": (1.0, 3_600.0),
}
_SETTLE = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifySettings:
    """One run. Seconds, but for `rate`, jobs a second, and `workers`, how many run at a time.

    `duration`: how long jobs are sent. `kill_every`: from one stop of a worker to the next. `settle`: how long the
    last jobs may take once no more are sent. `lease`: that of the workers. `keep`: leave the run's jobs in the store.
    """

    duration: float = 30.0
    rate: float = 50.0
    workers: int = 3
    kill_every: float = 5.0
    settle: float = _SETTLE
    lease: float = 5.0
    keep: bool = False

    @property
    def reap_interval(self) -> float:
        """How often a worker looks for jobs of vanished ones."""
        return min(1.0, self.lease / 5)

    @classmethod
    def parse(cls, given: Mapping[str, Any]) -> "VerifySettings":
        """Check each setting; None stands for the default. A long lease makes the default of `settle` longer."""
        refuse_unknown(given, frozenset(field.name for field in fields(cls)), "verify")
        checked = {name: value for name, value in given.items() if value is not None}
        for name, (least, most) in _BOUNDS.items():
            if name in checked:
                checked[name] = _number(checked[name], least, most, _flag(name))
        workers = checked.get("workers", 1)
        if isinstance(workers, bool) or not isinstance(workers, int) or not 1 <= workers <= 64:
            raise ConfigurationError(f"--workers: {workers!r} is not a whole number from 1 to 64.")
        if "settle" not in checked:
            checked["settle"] = max(_SETTLE, 2 * checked.get("lease", 0.0))
        settings = cls(**checked)
        if settings.settle <= settings.lease + settings.reap_interval:
            raise ConfigurationError(
                f"--settle: {settings.settle:g} s is too short. The job of a killed worker comes back when its lease "
                f"of {settings.lease:g} s has run out and somebody looks, up to {settings.reap_interval:g} s later; "
                f"give more than both."
            )
        return settings


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")


def _number(value: object, least: float, most: float, source: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
        raise ConfigurationError(f"{source}: {value!r} is not a number from {least:g} to {most:g}.")
    return float(value)
