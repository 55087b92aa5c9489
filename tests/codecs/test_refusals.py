"""What would not come back the same is refused where it is sent, with the path to it."""

import collections
import datetime
import enum
import threading
import typing
from dataclasses import dataclass
from importlib.resources import files
from pathlib import PurePosixPath
from zoneinfo import ZoneInfo

import pytest
from django.utils.safestring import mark_safe

from tinyjobs.core.codecs.pickled import PickleCodec
from tinyjobs.core.codecs.tagged import MAX_DEPTH, JSONCodec
from tinyjobs.core.errors import SerializationError

Pair = collections.namedtuple("Pair", "left right")


class TypedPair(typing.NamedTuple):
    left: int


class Text(str):
    """A parser's string: it knows where it came from, and that knows it."""


class Number(int):
    pass


class Ratio(float):
    pass


class Level(enum.IntEnum):
    LOW = 1


class Word(enum.StrEnum):
    HELLO = "hello"


class Plain(enum.Enum):
    A = 1


@dataclass
class Point:
    x: int


class HomeMadeZone(datetime.tzinfo):
    def utcoffset(self, moment):
        return datetime.timedelta(hours=1)


class OwnPath(PurePosixPath):
    pass


parsed = Text("parsed")
parsed.tree = [parsed]


@pytest.mark.parametrize(
    ("value", "named"),
    [
        (object(), "builtins.object"),
        (threading.Lock(), "lock"),
        ((n for n in range(3)), "builtins.generator"),
        (1j, "builtins.complex"),
        (range(3), "builtins.range"),
        (len, "builtins.builtin_function_or_method"),
        (Point, "builtins.type"),
        (bytearray(b"x"), "pass bytes(value)"),
        (memoryview(b"x"), "pass bytes(value)"),
        (mark_safe("<b>"), "SafeString"),
        (parsed, "subclass of str"),
        (Number(3), "subclass of int"),
        (Ratio(0.5), "subclass of float"),
        (Level.LOW, "register_enum"),
        (Word.HELLO, "register_enum"),
        (Plain.A, "register_enum"),
        (Point(1), "register_dataclass"),
        (Pair(1, 2), "subclass of tuple"),
        (TypedPair(1), "subclass of tuple"),
        (collections.OrderedDict(a=1), "subclass of dict"),
        (collections.defaultdict(list), "subclass of dict"),
        (collections.Counter("a"), "subclass of dict"),
        (collections.deque([1]), "collections.deque"),
        (OwnPath("a"), "OwnPath"),
        (datetime.datetime(2026, 1, 1, tzinfo=HomeMadeZone()), "HomeMadeZone"),
        (10**4300, "4,300 digits"),
        (-(10**5000), "4,300 digits"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_each_refusal_names_the_type_and_the_path(value, named):
    codec = JSONCodec()
    for args, kwargs, path in [
        ((value,), {}, "args[0]: "),
        ((1, {"x": [0, (1, value)]}), {}, 'args[1]["x"][1][1]: '),
        ((), {"k": {3: value}}, 'kwargs["k"][3]: '),
    ]:
        with pytest.raises(SerializationError) as caught:
            codec.encode_call(args, kwargs)
        assert str(caught.value).startswith(path)
        assert named in str(caught.value)
    with pytest.raises(SerializationError, match=r"^result\[0\]: "):
        codec.encode([value], root="result")
    with pytest.raises(TypeError):  # so that whoever expects Django's error catches ours
        codec.encode(value)


def test_the_remedies_are_named():
    with pytest.raises(SerializationError) as caught:
        JSONCodec().encode(object())
    for remedy in ("register_dataclass", "register_enum", "register_type", "id of an object"):
        assert remedy in str(caught.value)


@pytest.mark.parametrize(
    ("value", "path"),
    [
        ({object(): 1}, "value (a key): "),
        ({(1, object()): 1}, "value (a key)[1]: "),
        ({1: {"a": object()}}, 'value[1]["a"]: '),
        ({(1, 2): object()}, "value[a key of type tuple]: "),
        ([{frozenset([object()])}], "value[0] (an element) (an element): "),
        ({"a\0\ud800": object()}, 'value["a\\x00\\ud800"]: '),
        ({"k" * 500: object()}, 'value["k'),
        ({"$t": object()}, 'value["$t"]: '),
    ],
)
def test_paths_through_keys_and_sets(value, path):
    with pytest.raises(SerializationError) as caught:
        JSONCodec().encode(value)
    message = str(caught.value)
    assert message.startswith(path)
    assert len(message) < 800
    message.encode("utf-8")


def test_a_dataclass_field_is_part_of_the_path():
    codec = JSONCodec()
    codec.register_dataclass(Point)
    with pytest.raises(SerializationError, match=r'^args\[0\]\["x"\]\[0\]: '):
        codec.encode_call((Point([object()]),), {})


@pytest.mark.parametrize("levels", [MAX_DEPTH + 1, 500, 990, 2_000, 100_000])
@pytest.mark.parametrize("wrap", [list, tuple, dict, "pairs", frozenset], ids=str)
def test_too_deep(levels, wrap):
    if wrap is frozenset and levels > 1_000:
        levels = 1_000  # hashing one costs its depth
    value: object = 1
    for _ in range(levels):
        value = {"k": value} if wrap is dict else {1: value} if wrap == "pairs" else wrap([value])
    for encode in (JSONCodec().encode, lambda v: JSONCodec().encode_call((v,), {"k": v})):
        with pytest.raises(SerializationError) as caught:
            encode(value)
        assert "200 levels" in str(caught.value)
        assert len(str(caught.value)) < 1_000


def test_cycles():
    ring: list = [1]
    ring.append({"again": (ring,)})
    loop: dict = {}
    loop[1] = loop
    for value in (ring, loop, {"a": [ring, ring]}):
        with pytest.raises(SerializationError, match="contains itself"):
            JSONCodec().encode(value)


def test_little_stack_left_is_an_error_too():
    nested: object = 1
    for _ in range(MAX_DEPTH):
        nested = [nested]

    def send(levels):
        return send(levels - 1) if levels else JSONCodec().encode(nested)

    with pytest.raises(SerializationError, match="call stack"):
        send(750)


def test_a_value_that_changes_while_it_is_read():
    codec = JSONCodec()
    sent: dict = {}

    class Meddler:
        type = Plain
        name = "meddler"

        def encode(self, value):
            sent["new"] = 1
            return 1

        def decode(self, value):
            return Plain.A

    codec.register_type(Meddler())
    sent["first"] = Plain.A
    sent["second"] = 2
    with pytest.raises(SerializationError, match=r"^args: .*changed size"):
        codec.encode_call((sent,), {})


def test_names_of_keyword_arguments_are_text():
    for codec in (JSONCodec(), PickleCodec()):
        with pytest.raises(SerializationError, match="keyword argument"):
            codec.encode_call((), {1: "x"})


def test_what_an_adapter_raises_is_told_with_the_path():
    class Sulky:
        type = Point
        name = "point"

        def encode(self, value):
            raise RuntimeError("not today")

        def decode(self, value):
            raise AssertionError

    codec = JSONCodec()
    codec.register_type(Sulky())
    with pytest.raises(SerializationError, match=r"^args\[1\]: .*'point'.*not today") as caught:
        codec.encode_call((1, Point(2)), {})
    assert isinstance(caught.value.__cause__, RuntimeError)


def test_an_adapter_that_answers_with_its_own_type_ends():
    class Narcissus:
        type = Point
        name = "point"

        def encode(self, value):
            return [value]

        def decode(self, value):
            return value[0]

    codec = JSONCodec()
    codec.register_type(Narcissus())
    with pytest.raises(SerializationError, match="200 levels"):
        codec.encode(Point(1))


def test_pickle_names_the_argument_that_fails():
    with pytest.raises(SerializationError, match=r"^args\[1\]: "):
        PickleCodec().encode_call((1, threading.Lock()), {})
    with pytest.raises(SerializationError, match=r'^kwargs\["b"\]: '):
        PickleCodec().encode_call((1,), {"a": 1, "b": lambda: 0})
    with pytest.raises(SerializationError, match=r"^result: "):
        PickleCodec().encode(lambda: 0, root="result")


def test_a_zone_without_a_key_cannot_be_found_again():
    with (files("tzdata.zoneinfo") / "Europe" / "Rome").open("rb") as file:
        nameless = ZoneInfo.from_file(file)
    with pytest.raises(SerializationError, match=r"^value\[0\]: its time zone has no key"):
        JSONCodec().encode([datetime.datetime(2026, 1, 1, tzinfo=nameless)])
