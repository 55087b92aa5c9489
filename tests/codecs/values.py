"""Values to send through a codec: every covered type, nested in every covered container, and how to compare them."""

import dataclasses
import enum
import string
from collections.abc import Mapping
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from pathlib import Path, PurePath, PurePosixPath, PureWindowsPath
from uuid import UUID

from hypothesis import strategies as st

from tinyjobs.core.codecs.tagged import JSONCodec


def shape(value: object) -> str:
    """A text that is equal for two values exactly when they have the same value and the same types all through.

    `==` is not enough: it takes 1 for True and 0.0 for -0.0, and NaN for nothing at all.
    """
    kind = type(value)
    name = f"{kind.__module__}.{kind.__qualname__}"
    if isinstance(value, Mapping):
        inside = ", ".join(f"{shape(key)}: {shape(item)}" for key, item in value.items())
    elif isinstance(value, set | frozenset):
        inside = ", ".join(sorted(map(shape, value)))
    elif isinstance(value, list | tuple):
        inside = ", ".join(map(shape, value))
    elif isinstance(value, datetime | time):
        offset_name = value.tzinfo.tzname(None) if value.tzinfo is not None else None
        inside = f"{value.isoformat()} {value.tzinfo!r} {offset_name!r} {value.fold}"
    elif isinstance(value, Decimal):
        inside = repr(value.as_tuple())
    elif dataclasses.is_dataclass(value):
        inside = ", ".join(f"{field.name}={shape(getattr(value, field.name))}" for field in dataclasses.fields(value))
    elif kind is int:
        inside = hex(value)
    else:
        inside = repr(value)
    return f"{name}({inside})"


class Priority(enum.Enum):
    LOW = "low"
    HIGH = ("very", "high")
    URGENT = HIGH  # an alias


class Size(enum.IntEnum):
    SMALL = 1
    BIG = 2


class Colour(enum.StrEnum):
    RED = "red"
    BLUE = "blue"


class Access(enum.Flag):
    READ = enum.auto()
    WRITE = enum.auto()
    RUN = enum.auto()


@dataclasses.dataclass
class Line:
    title: str
    amount: object
    tags: list[object] = dataclasses.field(default_factory=list)


@dataclasses.dataclass(frozen=True, slots=True)
class Money:
    amount: Decimal
    currency: str = "EUR"


def codec_with_types() -> JSONCodec:
    codec = JSONCodec()
    for cls in (Priority, Size, Colour, Access):
        codec.register_enum(cls)
    codec.register_dataclass(Line)
    codec.register_dataclass(Money)
    return codec


any_text = st.text(st.characters(exclude_categories=()), max_size=12) | st.sampled_from(
    ["", "$t", "$v", "\0", "a\0b", "\ud83d", "\ude00", "\ud83d\ude00", "😀\udc00", "\ud83d\\ude00", "\u2028", '"$t"']
)
offsets = st.builds(
    timezone, st.timedeltas(timedelta(hours=-23, minutes=-59), timedelta(hours=23, minutes=59, seconds=59))
)
named_offsets = st.builds(timezone, st.sampled_from([timedelta(0), timedelta(hours=2)]), any_text)
zones = st.none() | st.just(UTC) | offsets | named_offsets | st.timezones()
datetimes = st.builds(datetime.replace, st.datetimes(timezones=zones, allow_imaginary=True), fold=st.integers(0, 1))
times = st.builds(time.replace, st.times(timezones=zones), fold=st.integers(0, 1))
path_text = st.text(string.ascii_letters + " .\\/:é\udc80", max_size=8)
digits = st.integers(1, 4300).flatmap(lambda count: st.sampled_from([10**count - 1, 1 - 10**count, 10 ** (count - 1)]))

hashable_scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    digits,
    st.floats(),
    any_text,
    st.binary(max_size=12),
    datetimes,
    st.dates(),
    times,
    st.timedeltas(),
    st.decimals(allow_nan=False),
    st.sampled_from([Decimal("-0"), Decimal("NaN123"), Decimal("-Infinity"), Decimal("1E+400"), Decimal("-0E-9")]),
    st.uuids(),
    path_text.map(Path),
    path_text.map(PurePosixPath),
    st.sampled_from([PureWindowsPath("C:\\a\\b"), PureWindowsPath("//host/share/x"), PureWindowsPath("a/b")]),
    *(st.sampled_from(cls) for cls in (Priority, Size, Colour)),
    st.integers(0, 7).map(Access),
    st.builds(Money, st.decimals(allow_nan=False), any_text),
)
scalars = hashable_scalars | st.decimals(allow_nan=True) | st.sampled_from([Decimal("sNaN"), Decimal("-sNaN7")])
keys = st.recursive(
    hashable_scalars,
    lambda inner: st.lists(inner, max_size=3).map(tuple) | st.frozensets(inner, max_size=3),
    max_leaves=4,
)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.lists(inner, max_size=4).map(tuple),
        st.dictionaries(any_text, inner, max_size=4),
        st.dictionaries(keys, inner, max_size=4),
        st.sets(keys, max_size=4),
        st.frozensets(keys, max_size=4),
        st.builds(Line, any_text, inner, st.lists(inner, max_size=2)),
    ),
    max_leaves=12,
)

ONE_OF_EACH: list[object] = [
    "text",
    1,
    1.5,
    True,
    None,
    [1, [2]],
    {"a": {"b": 1}},
    (1, (2,)),
    {1, 2},
    frozenset({"x"}),
    b"\x00\xff",
    datetime(2026, 8, 31, 17, 34, tzinfo=UTC),
    date(2026, 8, 31),
    time(17, 34),
    timedelta(days=-1, microseconds=1),
    Decimal("19.990"),
    UUID(int=7),
    Path("a/b"),
    PurePath("a"),
]
