"""Whatever stands in the payload column, reading it ends in a value or in `SerializationError`; nothing is imported."""

import json
import sys

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.codecs.values import Line, codec_with_types, values
from tinyjobs.core.codecs.kinds import BUILT_IN
from tinyjobs.core.codecs.pickled import PickleCodec
from tinyjobs.core.codecs.registry import CodecRegistry
from tinyjobs.core.codecs.tagged import MAX_DEPTH, JSONCodec
from tinyjobs.core.errors import SerializationError

codec = codec_with_types()
TAGS = sorted({kind.name for kind in BUILT_IN} | {"Priority", "Size", "Colour", "Access", "Line", "Money"})


def read(data: bytes, reader=codec) -> None:
    for decode in (reader.decode, reader.decode_call):
        try:
            decode(data)
        except SerializationError as error:
            str(error).encode("utf-8")  # the text itself can be stored as the job's error
            assert len(str(error)) < 1_000


@given(st.binary(max_size=200))
@settings(max_examples=300, deadline=None)
@example(b"")
@example(b"\xff\xfe")
@example(b"NaN")
@example(b"[[1],{}] x")
@example(b"{")
@example(b'{"$t":1e999,"$v":0}')
def test_any_bytes(data):
    read(data)


NAMES = ["$t", "$v", "a", "zone", "fold", "name", "offset", "amount"]
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.sampled_from(TAGS),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(NAMES), inner, max_size=3)
        | st.builds(lambda tag, value: {"$t": tag, "$v": value}, st.sampled_from(TAGS), inner)
    ),
    max_leaves=10,
)
near_misses = st.sampled_from(
    [
        *("2026-13-01", "2026-01-01T00:00:00+99:00", "9999-12-31T24:00", "../../etc/passwd", "Europe", "..os/path"),
        *("0x", "0b1", "-0x" + "f" * 5000, "1_0", "9" * 50, "sNaN9999", "1e99999999999999999999"),
        *("====", "é", "a\0b", "\ud800"),
    ]
)


@given(st.builds(lambda tag, value: {"$t": tag, "$v": value}, st.sampled_from(TAGS), json_values | near_misses))
@settings(max_examples=500, deadline=None)
@example({"$t": "datetime", "$v": ["2026-01-01", {"zone": "..os/path"}]})
@example({"$t": "datetime", "$v": ["2026-01-01", {"zone": "Europe"}]})
@example({"$t": "datetime", "$v": ["2026-01-01", {"zone": "No/Where"}]})
@example({"$t": "datetime", "$v": ["2026-01-01", {"zone": "../../../etc/passwd"}]})
@example({"$t": "datetime", "$v": ["2026-01-01", {"fold": 2}]})
@example({"$t": "time", "$v": ["00:00:00+00:00:00.000001", {"offset": 86_400_000_000}]})
@example({"$t": "time", "$v": ["00:00:00+00:00:00.000001", {"offset": 10**30, "name": "x"}]})
@example({"$t": "timedelta", "$v": [10**30, 0, 0]})
@example({"$t": "set", "$v": [[]]})
@example({"$t": "set", "$v": [{"$t": "decimal", "$v": "sNaN"}]})
@example({"$t": "dict", "$v": [[[], 1]]})
@example({"$t": "int", "$v": "0x" + "f" * 100_000})
def test_any_value_under_any_tag(tree):
    read(json.dumps(tree).encode())


@given(values, st.data())
@settings(max_examples=200, deadline=None)
def test_a_good_payload_with_something_changed(value, data):
    stored = bytearray(codec.encode_call((value,), {"k": value}))
    for _ in range(data.draw(st.integers(1, 3))):
        position = data.draw(st.integers(0, len(stored) - 1))
        stored[position : position + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=3))
    read(bytes(stored))


@pytest.mark.parametrize("levels", [203, 500, 990, 2_000, 100_000, 1_000_000])
@pytest.mark.parametrize("opening", ["[", '{"a":', '[{"a":', '{"$t":"tuple","$v":['])
def test_deep_nesting_is_an_error_of_the_row(levels, opening):
    closing = opening.replace('{"a":', "}").replace('{"$t":"tuple","$v":', "}")[::-1].replace("[", "]")
    with pytest.raises(SerializationError):
        codec.decode((opening * levels + "1" + closing * levels).encode())
    with pytest.raises(SerializationError):
        codec.decode((opening * levels).encode())


def test_wide_is_not_deep():
    wide = [{"a": [index, {}]} for index in range(500)]
    for value in (wide, tuple(wide), Line("t", wide, [Line("u", wide)]), {(index,) for index in range(500)}, "[" * 500):
        assert codec.decode(codec.encode(value)) == value
        assert codec.decode_call(codec.encode_call((value,), {})) == ((value,), {})


def test_the_first_level_too_many():
    def nested(levels):
        return b"[" * levels + b"]" * levels

    assert codec.decode(nested(MAX_DEPTH + 2))  # the call around the arguments adds two
    with pytest.raises(SerializationError, match="200 levels"):
        codec.decode(nested(MAX_DEPTH + 3))
    key = b'{"$t":"tuple","$v":[' * MAX_DEPTH + b"]}" * MAX_DEPTH
    with pytest.raises(SerializationError, match="200 levels"):
        codec.decode(b'[[[{"$t":"dict","$v":[[' + key + b",1]]}]]]")


@pytest.mark.parametrize("text", ["NaN", "[Infinity]", '{"a":-Infinity}', '[{"$t":"set","$v":[NaN]}]'])
def test_only_strict_json_is_read(text):
    with pytest.raises(SerializationError, match="is not JSON"):
        codec.decode(text.encode())


def test_a_number_of_any_length():
    with pytest.raises(SerializationError):
        codec.decode(b"1" + b"0" * 5_000)
    with pytest.raises(SerializationError, match="4,300 digits"):
        codec.decode(json.dumps({"$t": "int", "$v": hex(10**4300)}).encode())


@pytest.mark.parametrize(
    "stored",
    ["1", "[]", "[[],{},1]", "{}", "[{},{}]", "[[],[]]", '["a",{}]', '[[],{"$t":"dict","$v":[[1,2]]}]', "null"],
)
def test_a_payload_that_is_not_the_arguments_of_a_call(stored):
    with pytest.raises(SerializationError, match="not the arguments of a call"):
        codec.decode_call(stored.encode())


@pytest.mark.parametrize(
    "tree",
    [{"$t": "set"}, {"$t": "set", "$v": [], "x": 1}, {"$t": 1, "$v": 1}, {"$t": ["set"], "$v": []}, {"$t": None}],
)
def test_a_malformed_tag(tree):
    with pytest.raises(SerializationError, match="malformed tag"):
        codec.decode(json.dumps([tree]).encode())


def test_nothing_is_imported_on_the_word_of_a_payload():
    candidates = [name for name in ("wave", "chunk", "sndhdr", "mailbox", "nntplib") if name not in sys.modules]
    assert candidates
    for name in candidates:
        for tag in (name, f"{name}.open", f"{name}:open"):
            with pytest.raises(SerializationError):
                JSONCodec().decode(json.dumps({"$t": tag, "$v": name}).encode())
        for kind in TAGS:
            read(json.dumps({"$t": kind, "$v": ["2026-01-01T00:00:00+00:00", {"zone": name}]}).encode())
    assert not set(candidates) & set(sys.modules)


@pytest.mark.parametrize(
    "data",
    [b"", b"[[1],{}]", b"\x80\x05", b"cbuiltins\nint\n(S'x'\ntR.", b"cno_such_module\nX\n.", b"\x80\xff.", b"K\x01."],
)
def test_pickle_answers_the_same_way(data):
    with pytest.raises(SerializationError):
        PickleCodec().decode_call(data)


def test_a_row_that_names_another_codec():
    for name in ("msgpack", "", "json\0", "JSON"):
        with pytest.raises(SerializationError, match="cannot be used here") as caught:
            CodecRegistry().get(name)
        str(caught.value).encode()
        assert "\0" not in str(caught.value)
