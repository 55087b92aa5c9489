"""Django's rule for arguments and results: what JSON has words for, anything else is a `TypeError`.

Django lets subclasses of text and numbers through (marked-up strings, members of choices), which JSON then writes as
what they are made of. Here they become that at once, so that a result tells the same before and after it is stored.
What each value becomes is asked of Django; the walk is ours, so that no entry of a dictionary is lost on the way.
"""

from collections.abc import Mapping, Sequence
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
        return _plain(value)
    except RecursionError:
        raise SerializationError(
            f"A value of type {kind.__name__} is nested too deep to be stored, or contains itself."
        ) from None


def _plain(value: Any) -> Any:
    kind = type(value)
    if kind in _PLAIN:
        return value
    if kind is list or kind is tuple:
        return [_plain(entry) for entry in value]
    if isinstance(value, Mapping):
        return _plain_mapping(value)
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return [_plain(entry) for entry in value]
    leaf: Any = normalize_json(value)
    if isinstance(leaf, str):
        return str.__str__(leaf)
    if leaf is None or isinstance(leaf, bool):
        return leaf
    return int.__pos__(leaf) if isinstance(leaf, int) else float.__pos__(leaf)


def _plain_mapping(value: Mapping[Any, Any]) -> dict[Any, Any]:
    made: dict[Any, Any] = {}
    for key, entry in value.items():
        plain_key = _plain(key)
        if type(plain_key) not in _PLAIN:
            raise TypeError(f"Unsupported type of a key in a dictionary: {type(key)}")
        if plain_key in made:
            raise SerializationError(f"Two keys of a dictionary would both be stored as {plain_key!r:.100}.")
        made[plain_key] = _plain(entry)
    return made
