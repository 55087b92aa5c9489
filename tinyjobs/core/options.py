"""What can be asked of a task and of one job of it, parsed once into frozen values.

Every error names where the option came from (a decorator, a settings path, a call). Options of features that are not
part of this release are refused by name rather than ignored. This module does not know how an option takes effect.
"""

import math
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from typing import Any

from tinyjobs.core.errors import ConfigurationError, UnsupportedCapabilityError, refuse_unknown
from tinyjobs.core.expiry import Expiry

PRIORITY_RANGE = (-(2**31), 2**31 - 1)
MAX_ATTEMPTS = 2**31 - 1
# The last instant of the year 9998: every zone can show it as a datetime.
LAST_INSTANT = 253_370_764_799.0
LONGEST_EXPIRY = 1_000 * 365.25 * 86_400
NAME_LIMIT = 255
KEY_LIMIT = 1024

type Backoff = str | Callable[[int], float]

#: Options of the design that later releases bring. Refused until then, so nobody relies on a limit that is not kept.
NOT_BUILT = frozenset(
    {
        "concurrency",
        "rate",
        "isolated",
        "after",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskOptions:
    """How a task runs. Times are seconds, as floats.

    `queue` and `priority` (larger first) are what its jobs get unless an enqueue says otherwise; `max_attempts` counts
    the first attempt too. `timeout`: how long an attempt may run, None for as long as it takes. `retry_on`: exception
    classes or their dotted paths, after which a failed attempt runs again. `retry_backoff`: the wait before that,
    "exponential" (`retry_base`, doubled with every attempt, `retry_max` at most), "fixed" (`retry_base`), or a function
    of the number of the failed attempt, or its path; with `retry_jitter` by chance between half of that and all of it.
    `codec`: how arguments and result are stored. `store_result`: whether the return value is kept,
    and `result_ttl` for how long after the end, None for as long as the job. `expires`: a job that has not started so
    long after its enqueue ends cancelled.
    """

    queue: str = "default"
    priority: int = 0
    max_attempts: int = 1
    timeout: float | None = None
    retry_on: tuple[type[BaseException] | str, ...] = (Exception,)
    retry_backoff: Backoff = "exponential"
    retry_base: float = 1.0
    retry_max: float = 600.0
    retry_jitter: bool = True
    codec: str = "json"
    store_result: bool = False
    result_ttl: float | None = None
    expires: float | None = None

    @classmethod
    def parse(cls, given: Mapping[str, Any], source: str) -> "TaskOptions":
        """Check every option; raise `ConfigurationError` (or `UnsupportedCapabilityError`) naming `source`."""
        refuse_not_built(given, source)
        refuse_unknown(given, _TASK_OPTION_NAMES, source)
        checked = {name: _CHECKS[name](value, f"{source}: {name}") for name, value in given.items()}
        return cls(**checked)


_TASK_OPTION_NAMES = frozenset(field.name for field in fields(TaskOptions))


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOptions:
    """What one enqueue overrides. It is kept with the job and holds at every attempt. None: the task's own value.

    `run_at` is an instant; where it came from a `delay`, that stands beside it, in seconds from the enqueue on.
    """

    queue: str | None = None
    priority: int | None = None
    run_at: float | None = None
    delay: float | None = None
    key: str | None = None
    max_attempts: int | None = None
    codec: str | None = None
    expires: Expiry | None = None

    @classmethod
    def parse(cls, given: Mapping[str, Any], source: str, now: float) -> "JobOptions":
        """Check every override; `delay` (seconds or timedelta) and `run_at` (aware datetime) both give an instant."""
        refuse_not_built(given, source)
        kept = {name: value for name, value in given.items() if value is not None}
        for name in kept.keys() & _TASK_ONLY:
            raise ConfigurationError(
                f"{source}: {name} belongs to the task and cannot be kept with one job. Set it where the task is "
                f"declared, or declare a second task over the same function."
            )
        refuse_unknown(kept, _JOB_OPTION_NAMES, source)
        if "delay" in kept and "run_at" in kept:
            raise ConfigurationError(f"{source}: give delay or run_at, not both.")
        delay = kept.pop("delay", None)
        checked = {name: _JOB_CHECKS[name](value, f"{source}: {name}") for name, value in kept.items()}
        if delay is not None:
            checked["delay"] = _delay(delay, f"{source}: delay")
            checked["run_at"] = _instant(now + checked["delay"], f"{source}: delay")
        return cls(**checked)


_JOB_OPTION_NAMES = frozenset(field.name for field in fields(JobOptions))
_TASK_ONLY = _TASK_OPTION_NAMES - _JOB_OPTION_NAMES


def refuse_not_built(given: Mapping[str, Any], source: str) -> None:
    """Raise for options of the design whose feature this release does not have."""
    for name in sorted(given.keys() & NOT_BUILT):
        if given[name] is not None:
            raise UnsupportedCapabilityError(f"{source}: {name} is not available in this release of tinyjobs.")


def check_queue(value: object, source: str) -> str:
    """A queue name: 1 to 255 characters, printable, no comma or asterisk, no blank at either end."""
    name = _name(value, source)
    if "," in name or "*" in name or name != name.strip():
        raise ConfigurationError(
            f"{source}: {name!r} is no queue name. A name has no comma or asterisk (they separate and match names on "
            f"the command line) and no blank at either end."
        )
    return name


def check_task_name(value: object, source: str) -> str:
    """A task name: 1 to 255 printable characters."""
    return _name(value, source)


def check_priority(value: object, source: str) -> int:
    """A whole number of 32 bits; larger runs first."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise ConfigurationError(f"{source}: {shown(value)} is not a whole number; larger numbers run first.")
    if not PRIORITY_RANGE[0] <= value <= PRIORITY_RANGE[1]:
        raise ConfigurationError(f"{source}: {shown(value)} is outside {PRIORITY_RANGE[0]} to {PRIORITY_RANGE[1]}.")
    return int(value)


def check_run_at(value: object, source: str) -> float:
    """An aware datetime as unix seconds; a time in the past means due at once."""
    if isinstance(value, datetime):
        if value.utcoffset() is None:
            raise ConfigurationError(
                f"{source}: {value!r} has no time zone, so it names no instant. Give an aware datetime."
            )
        # timestamp() of an aware datetime near year 1 or 9999 is plain arithmetic and cannot overflow.
        return _instant(value.timestamp(), source)
    raise ConfigurationError(f"{source}: {value!r} is not an aware datetime.")


def shown(value: object) -> str:
    """A value as a message shows it, in part when it is long."""
    try:
        return f"{value!r:.100}"
    except ValueError:  # Python writes no number of more than 4,300 digits
        return "a number of thousands of digits"


def check_flag(value: object, source: str) -> bool:
    """True or False, and nothing that only counts as one of them."""
    if not isinstance(value, bool):
        raise ConfigurationError(f"{source}: {value!r} is not True or False.")
    return value


def _name(value: object, source: str) -> str:
    if not isinstance(value, str) or not value:
        raise ConfigurationError(f"{source}: {value!r} is no name; give a text that is not empty.")
    if len(value) > NAME_LIMIT:
        raise ConfigurationError(f"{source}: a name of {len(value)} characters; {NAME_LIMIT} are allowed.")
    if not value.isprintable():
        raise ConfigurationError(f"{source}: {value!r} holds characters that cannot be printed.")
    return _plain(value)


def _key(value: object, source: str) -> str:
    if not isinstance(value, str) or not value or len(value) > KEY_LIMIT:
        raise ConfigurationError(f"{source}: {value!r:.100} is no key; give a text of 1 to {KEY_LIMIT} characters.")
    if "\x00" in value or any("\ud800" <= character <= "\udfff" for character in value):
        raise ConfigurationError(f"{source}: a key cannot hold NUL characters or lone surrogates.")
    return _plain(value)


def _plain(value: str) -> str:
    """The text itself of a text of any class: `str()` of an enum's member may be the member's name."""
    return str.__str__(value)


def _instant(value: float, source: str) -> float:
    if not math.isfinite(value) or value > LAST_INSTANT:
        raise ConfigurationError(f"{source}: that is later than the year 9998, which no store keeps.")
    return max(value, 0.0)


def _delay(value: object, source: str) -> float:
    seconds = value.total_seconds() if isinstance(value, timedelta) else value
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or seconds != seconds:  # NaN is not itself
        raise ConfigurationError(f"{source}: {shown(value)} is neither a number of seconds nor a timedelta.")
    # Bounded before it becomes a float: a large enough whole number has none.
    return float(max(min(seconds, LAST_INSTANT), 0))


def _whole(value: object, source: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MAX_ATTEMPTS:
        raise ConfigurationError(f"{source}: {shown(value)} is not a whole number from 1 to {MAX_ATTEMPTS}.")
    return int(value)


def _seconds(value: object, source: str) -> float:
    number = value.total_seconds() if isinstance(value, timedelta) else value
    if isinstance(number, bool) or not isinstance(number, int | float) or not 0 < number <= sys.float_info.max:
        raise ConfigurationError(f"{source}: {shown(value)} is not a positive number of seconds.")
    return float(number)


def _seconds_or_none(value: object, source: str) -> float | None:
    return None if value is None else _seconds(value, source)


def _usual_expiry(value: object, source: str) -> float | None:
    if isinstance(value, datetime):
        raise ConfigurationError(
            f"{source}: {value!r} is one instant, and a task has many jobs. Give the seconds from the enqueue on, or "
            f"the instant with each enqueue."
        )
    return None if value is None else _expiry(value, source).seconds


def _expiry(value: object, source: str) -> Expiry:
    if isinstance(value, Expiry):
        return value
    if isinstance(value, datetime):
        return Expiry(at=check_run_at(value, source))
    seconds = _seconds(value, source)
    if seconds > LONGEST_EXPIRY:
        raise ConfigurationError(f"{source}: {shown(value)} is more than a thousand years. Leave it out for ever.")
    return Expiry(seconds=seconds)


def _codec(value: object, source: str) -> str:
    if not isinstance(value, str) or value not in ("json", "pickle"):
        raise ConfigurationError(f"{source}: {value!r} is no codec; there are 'json' and 'pickle'.")
    return _plain(value)


def _backoff(value: object, source: str) -> Backoff:
    if callable(value):
        return value
    if value in ("exponential", "fixed") or (isinstance(value, str) and is_dotted_path(value)):
        return str(value)
    raise ConfigurationError(
        f"{source}: {value!r} is no backoff; give 'exponential', 'fixed', a function of the attempt, or its path."
    )


def _retry_on(value: object, source: str) -> tuple[type[BaseException] | str, ...]:
    if not isinstance(value, tuple | list):
        value = (value,)
    for entry in value:
        is_class = isinstance(entry, type) and issubclass(entry, BaseException)
        if not is_class and not (isinstance(entry, str) and is_dotted_path(entry)):
            raise ConfigurationError(f"{source}: {entry!r} is neither an exception class nor the dotted path of one.")
    return tuple(value)


def is_dotted_path(value: str) -> bool:
    """Whether the text has the shape of `module.name`."""
    return "." in value and all(part.isidentifier() for part in value.split("."))


_CHECKS: dict[str, Callable[[Any, str], Any]] = {
    "queue": check_queue,
    "priority": check_priority,
    "max_attempts": _whole,
    "timeout": _seconds_or_none,
    "retry_on": _retry_on,
    "retry_backoff": _backoff,
    "retry_base": _seconds,
    "retry_max": _seconds,
    "retry_jitter": check_flag,
    "codec": _codec,
    "store_result": check_flag,
    "result_ttl": _seconds_or_none,
    "expires": _usual_expiry,
    "run_at": check_run_at,
    "key": _key,
}
#: What an enqueue may say in more ways than a task.
_JOB_CHECKS = {**_CHECKS, "expires": _expiry}
