"""Django's rule for arguments and results: what JSON has words for, anything else is a `TypeError`.

Django lets subclasses of text and numbers through (marked-up strings, members of choices), which JSON then writes as
what they are made of. Here they become that at once, so that a result tells the same before and after it is stored.
"""

from typing import Any

from django.utils.json import normalize_json

from tinyjobs.core.errors import SerializationError

_PLAIN = frozenset({str, int, float, bool, type(None)})


def normalised(value: Any) -> Any:
    """A copy of the value made of plain lists, dicts, text and numbers; raises `TypeError` for what does not fit."""
    kind = type(value)
    if kind in _PLAIN:
        return value
    if (kind is list or kind is tuple) and _PLAIN.issuperset(map(type, value)):
        return list(value)
    try:
        return _plain(normalize_json(value))
    except RecursionError:
        # Said here, since Django's walk ends with an error that names neither the value nor the reason.
        raise SerializationError(
            f"A value of type {kind.__name__} is nested too deep to be stored, or contains itself."
        ) from None


def _plain(value: Any) -> Any:
    kind = type(value)
    if kind in _PLAIN:
        return value
    if kind is list:
        return [_plain(entry) for entry in value]
    if kind is dict:
        return {_plain(key): _plain(entry) for key, entry in value.items()}
    if isinstance(value, str):
        return str.__str__(value)
    return int.__pos__(value) if isinstance(value, int) else float.__pos__(value)
