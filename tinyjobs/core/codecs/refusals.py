"""The words for a value that is not stored: the path to it, what it is, and what to do instead.

Everything here meets values of unknown classes, so nothing is asked of them but their type.
"""

import dataclasses
import enum

from tinyjobs.core.codecs.kinds import Refused
from tinyjobs.core.errors import SerializationError
from tinyjobs.core.storable import describe_exception, storable

_REGISTER = "register the type with codec.register_dataclass, codec.register_enum or codec.register_type"
_ADVICE = f"Pass plain values, such as the id of an object to load inside the task, or {_REGISTER}."
_SHOWN_STEPS = 12


def unsupported(value: object) -> Refused:
    """Why a value of a type that nobody registered is refused, and which of the remedies fits it."""
    kind = type(value)
    return Refused(f"a value of type {kind.__module__}.{kind.__qualname__} cannot be stored{_hint(kind)}. {_ADVICE}")


def _hint(kind: type) -> str:
    if issubclass(kind, bytearray | memoryview):
        return " (only bytes come back as they were: pass bytes(value))"
    if issubclass(kind, enum.Enum):
        return " (an enum that is not registered: codec.register_enum)"
    if dataclasses.is_dataclass(kind):
        return " (a dataclass that is not registered: codec.register_dataclass)"
    for base in (str, bool, int, float, dict, list, tuple, set, frozenset, bytes):
        if issubclass(kind, base):
            return f" (a subclass of {base.__name__} would come back as {base.__name__}: pass {base.__name__}(value))"
    return ""


def step(key: object) -> str:
    """The part of a path that a dict key adds."""
    if type(key) is str:
        return f'["{storable(key, 60)}"]'
    # Of the other keys only these are shown: the `repr` of a class of the user's could do anything.
    shown = repr(key) if type(key) in (int, float, bool, bytes, type(None)) else f"a key of type {type(key).__name__}"
    return f"[{storable(shown, 60)}]"


def located(error: Exception, root: str) -> SerializationError:
    """The error that the caller gets, for what stopped the encoding of `root`."""
    if isinstance(error, Refused):
        steps = error.steps[::-1]
        if len(steps) > 2 * _SHOWN_STEPS:
            steps = [*steps[:_SHOWN_STEPS], "…", *steps[-_SHOWN_STEPS:]]
        return SerializationError(storable(f"{root}{''.join(steps)}: {error.reason}", 3_000))
    if isinstance(error, RecursionError):
        return SerializationError(f"{root}: it is nested too deep for the call stack that was left")
    return SerializationError(f"{root}: it could not be encoded, {in_short(error)}")


def in_short(error: BaseException) -> str:
    """One exception on one line, bounded."""
    told = describe_exception(error)
    return storable(f"{told.error_type}: {told.message}" if told.message else told.error_type, 500)
