"""Values of store options, given as what they are or as a URL's query spells them. Errors name the option."""

import math

from tinyjobs.core.errors import ConfigurationError

_YES = ("true", "1", "yes", "on")
#: How "off" is spelled.
NO = ("false", "0", "no", "off")


def parse_seconds(name: str, value: object) -> float:
    """A number of seconds above 0, up to a day."""
    try:
        seconds = float(value) if isinstance(value, str | int | float) and not isinstance(value, bool) else math.nan
    except (ValueError, OverflowError):
        seconds = math.nan
    if not 0 < seconds <= 86_400:
        raise ConfigurationError(f"{name}: {value!r} is not a number of seconds up to 86400.")
    return seconds


def parse_switch(name: str, value: object) -> bool:
    """True or False."""
    spelled = str(value).lower() if isinstance(value, str | bool) else ""
    if spelled not in _YES + NO:
        raise ConfigurationError(f"{name}: {value!r} is neither True nor False.")
    return spelled in _YES
