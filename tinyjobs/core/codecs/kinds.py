"""The types beyond JSON that the tagged codec knows by itself: what each is written as, and how it is built again.

A kind takes a value apart into something simpler (text, a list, a dict), which the codec writes beside the kind's
name, and builds an equal value from it. A value that would come back changed is refused. What `build` raises on a
doctored row is turned into a `SerializationError` by the codec.
"""

import base64
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta, timezone, tzinfo
from decimal import Decimal
from pathlib import Path, PosixPath, PurePath, PurePosixPath, PureWindowsPath, WindowsPath
from typing import Any, Final
from uuid import UUID
from zoneinfo import ZoneInfo

MAX_INT_DIGITS: Final = 4_300
"""Decimal digits of the largest integer that is stored: as many as Python prints, so that no log trips over it."""

_INT_BOUND: Final = 10**MAX_INT_DIGITS
_ZONE_KEY = re.compile(r"[A-Za-z0-9_+\-]+(/[A-Za-z0-9_+\-]+)*")


class Refused(Exception):
    """Why a value is not stored. `steps` collects the way to it, from the inside out; only the codec catches this."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.steps: list[str] = []


@dataclass(frozen=True, slots=True)
class Kind:
    """One type, under the name its values are tagged with. `take_apart` may answer with anything the codec covers."""

    name: str
    type: type[Any]
    take_apart: Callable[[Any], object]
    build: Callable[[Any], object]


def expect[T](value: object, wanted: type[T]) -> T:
    """Return `value` if its type is exactly `wanted`: stored text must not pass for a list of characters."""
    if type(value) is not wanted:
        raise TypeError(f"it holds {type(value).__name__} where {wanted.__name__} belongs")
    return value


# Numbers that JSON has no word for, or that a reader with a lower limit on digits could not parse.


def int_apart(value: int) -> object:
    """Return the digits in hex, or refuse an integer that Python itself would not print."""
    if not -_INT_BOUND < value < _INT_BOUND:
        raise Refused(f"the integer has more than {MAX_INT_DIGITS:,} digits; pass it as text or bytes")
    return hex(value)


def _int_built(stored: object) -> int:
    value = int(expect(stored, str), 16)
    if not -_INT_BOUND < value < _INT_BOUND:
        raise ValueError(f"it has more than {MAX_INT_DIGITS:,} digits")
    return value


def _float_built(stored: object) -> float:
    if stored not in ("nan", "inf", "-inf"):
        raise ValueError("it is none of nan, inf, -inf")
    return float(expect(stored, str))  # a new one each time: two NaNs in a set stay two


# Moments. What ISO text cannot say travels beside it: the key of the zone, the name of an offset, the fold. So does an
# offset of less than a second, which Python writes, and reads as none.


def _moment_apart(value: datetime | time) -> object:
    more: dict[str, object] = {"fold": value.fold} if value.fold else {}
    zone = value.tzinfo
    if zone is not None:
        more |= _zone_apart(zone)
    return [value.isoformat(), more] if more else value.isoformat()


def _zone_apart(zone: tzinfo) -> dict[str, object]:
    if type(zone) is ZoneInfo:
        if _ZONE_KEY.fullmatch(zone.key or "") is None:
            raise Refused(f"its time zone has no key to find it by ({zone!r})")
        return {"zone": zone.key}
    if type(zone) is timezone:
        offset = zone.utcoffset(None)
        name = zone.tzname(None)
        more: dict[str, object] = {} if name == timezone(offset).tzname(None) else {"name": str.__str__(name)}
        if offset and abs(offset) < timedelta(seconds=1):
            more["offset"] = offset // timedelta(microseconds=1)
        return more
    raise Refused(
        f"its time zone is a {type(zone).__module__}.{type(zone).__qualname__}, which could not be built again; "
        "convert it with astimezone() to a zoneinfo.ZoneInfo or a datetime.timezone"
    )


def _moment_built[M: (datetime, time)](parse: Callable[[str], M]) -> Callable[[object], M]:
    def build(stored: object) -> M:
        if type(stored) is str:
            return parse(stored)
        text, more = expect(stored, list)
        moment = parse(expect(text, str))
        zone: tzinfo | None = moment.tzinfo
        if "zone" in more:
            # The wall clock and the key are the value. The offset is there for whoever reads the row.
            key = expect(more["zone"], str)
            if _ZONE_KEY.fullmatch(key) is None:
                raise ValueError("it names no time zone")
            zone = ZoneInfo(key)
        elif zone is not None and ("name" in more or "offset" in more):
            zone = _offset_built(zone.utcoffset(None) or timedelta(0), more)
        return moment.replace(tzinfo=zone, fold=more.get("fold", 0))

    return build


def _offset_built(offset: timedelta, more: dict[str, object]) -> timezone:
    if "offset" in more:
        offset = timedelta(microseconds=expect(more["offset"], int))
    return timezone(offset, expect(more["name"], str)) if "name" in more else timezone(offset)


def _timedelta_built(stored: object) -> timedelta:
    days, seconds, microseconds = (expect(part, int) for part in expect(stored, list))
    return timedelta(days, seconds, microseconds)


# Paths.


def _path_apart(value: PurePath) -> str:
    return value.as_posix()  # also on Windows: the same row means the same path on both


def _path_kind(name: str, kind: type[PurePath], builder: type[PurePath] | None = None) -> Kind:
    make = builder or kind
    return Kind(name, kind, _path_apart, lambda stored: make(expect(stored, str)))


def _bytes_apart(value: bytes) -> str:
    return base64.b64encode(value).decode("ascii")


def _bytes_built(stored: object) -> bytes:
    return base64.b64decode(expect(stored, str), validate=True)


def _surrogates_built(stored: object) -> str:
    return "".join(expect(piece, str) for piece in expect(stored, list))


BUILT_IN: Final = (
    Kind("int", int, int_apart, _int_built),
    Kind("float", float, repr, _float_built),
    # Only for text with two halves of a surrogate pair side by side, which JSON would read as one character.
    Kind("str", str, list, _surrogates_built),
    Kind("tuple", tuple, list, lambda stored: tuple(expect(stored, list))),
    Kind("set", set, list, lambda stored: set(expect(stored, list))),
    Kind("frozenset", frozenset, list, lambda stored: frozenset(expect(stored, list))),
    Kind("dict", dict, lambda value: [*map(list, value.items())], lambda stored: dict(expect(stored, list))),
    Kind("bytes", bytes, _bytes_apart, _bytes_built),
    Kind("datetime", datetime, _moment_apart, _moment_built(datetime.fromisoformat)),
    Kind("date", date, date.isoformat, lambda stored: date.fromisoformat(expect(stored, str))),
    Kind("time", time, _moment_apart, _moment_built(time.fromisoformat)),
    Kind("timedelta", timedelta, lambda value: [value.days, value.seconds, value.microseconds], _timedelta_built),
    Kind("decimal", Decimal, str, lambda stored: Decimal(expect(stored, str))),
    Kind("uuid", UUID, str, lambda stored: UUID(expect(stored, str))),
    _path_kind("path", PosixPath, Path),
    _path_kind("path", WindowsPath, Path),
    _path_kind("pure_posix_path", PurePosixPath),
    _path_kind("pure_windows_path", PureWindowsPath),
)
