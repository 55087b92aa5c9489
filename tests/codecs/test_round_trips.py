"""The same value back, of the same types all through."""

import copy
import json
from datetime import UTC, datetime, time, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.codecs.values import ONE_OF_EACH, Access, Priority, any_text, codec_with_types, scalars, shape, values
from tinyjobs.core.codecs import text
from tinyjobs.core.codecs.pickled import PickleCodec
from tinyjobs.core.codecs.tagged import MAX_DEPTH, JSONCodec

codec = codec_with_types()


def there_and_back(value: object) -> object:
    return codec.decode(codec.encode(value))


@given(values)
@settings(max_examples=300, deadline=None)
def test_any_value_comes_back_as_it_was(value):
    data = codec.encode(value)
    assert shape(codec.decode(data)) == shape(value)
    # What is stored is strict JSON in valid UTF-8 without a NUL byte, so any column and any reader takes it.
    text = data.decode("utf-8")
    assert b"\0" not in data
    json.loads(text, parse_constant=lambda token: pytest.fail(f"{token} is not JSON"))


@given(scalars)
@settings(max_examples=300, deadline=None)
def test_a_lone_scalar_comes_back_as_it_was(value):
    assert shape(there_and_back(value)) == shape(value)


@given(st.lists(values, max_size=3).map(tuple), st.dictionaries(any_text, values, max_size=3))
@settings(max_examples=150, deadline=None)
def test_arguments_come_back_as_they_were(args, kwargs):
    assert shape(codec.decode_call(codec.encode_call(args, kwargs))) == shape((args, kwargs))


@pytest.mark.parametrize("value", ONE_OF_EACH, ids=repr)
@pytest.mark.parametrize("kind", [JSONCodec, PickleCodec])
def test_each_covered_type(kind, value):
    fresh = kind()
    assert shape(fresh.decode(fresh.encode(value))) == shape(value)
    assert shape(fresh.decode_call(fresh.encode_call((value,), {"k": value}))) == shape(((value,), {"k": value}))


@pytest.mark.parametrize("name", [None, "just so"])
@pytest.mark.parametrize("microseconds", [-1_000_001, -1_000_000, -999_999, -1, 1, 999_999, 1_000_000, 1_000_001])
def test_offsets_about_a_second(microseconds, name):
    """Python reads the text of one below a second as UTC."""
    offset = timedelta(microseconds=microseconds)
    zone = timezone(offset) if name is None else timezone(offset, name)
    for value in (time(12, tzinfo=zone, fold=1), datetime(2026, 11, 30, tzinfo=zone)):
        assert shape(there_and_back(value)) == shape(value)


@pytest.mark.parametrize(
    "value", ["nan", "inf", "-inf", "-0.0", "0.0", "5e-324", "1.7976931348623157e308", "1e16", "0.1"]
)
def test_floats_keep_their_value_and_sign(value):
    assert shape(there_and_back({"deep": [float(value)]})) == shape({"deep": [float(value)]})


@pytest.mark.parametrize("value", ["NaN", "sNaN", "-sNaN12", "Infinity", "-Infinity", "-0", "0E+5", "1.10"])
def test_decimals_keep_sign_exponent_and_kind_of_nan(value):
    assert there_and_back([Decimal(value)])[0].as_tuple() == Decimal(value).as_tuple()


@pytest.mark.parametrize(
    "value",
    [2**53 + 1, 2**63, -(2**63) - 1, 10**400, 10**640 - 1, 10**640, -(10**640), 10**4300 - 1, 1 - 10**4300],
    ids=lambda value: f"{value.bit_length()} bits",
)
def test_integers_are_exact(value):
    assert there_and_back([value, {"n": value}]) == [value, {"n": value}]


@pytest.mark.parametrize(
    "value",
    [
        {1: "a", "1": "b", True and 2: "c"},
        {True: 1, None: 2, 2.5: 3, (1, 2): 4, b"x": 5},
        {"$t": "datetime", "$v": "2026-01-01"},
        {"$t": "no such kind"},
        {"$v": 1},
        {"a": {"$t": {"$t": 1, "$v": 2}}},
        {"$t": "dict", "$v": [["a", 1]]},
    ],
    ids=repr,
)
def test_odd_keys_and_look_alikes_of_a_tag(value):
    assert shape(there_and_back(value)) == shape(value)
    assert shape(codec.decode_call(codec.encode_call((value,), {}))[0][0]) == shape(value)


def test_a_keyword_may_look_like_a_tag():
    kwargs = {"$t": "set", "$v": [1]}
    assert codec.decode_call(codec.encode_call((), kwargs)) == ((), kwargs)


@pytest.mark.parametrize(
    "value", ["a\0b", "\ud800", "x\udc80y", "\ud83d\ude00", "😀", "\ud83d" + "😀", "\ud83d\\ude00"]
)
def test_text_that_stores_choke_on(value):
    sent = [value, {value: value}, (value,), Path("p" + value.replace("\0", ""))]
    assert shape(there_and_back(sent)) == shape(sent)
    codec.encode(sent).decode("utf-8")


def test_two_nans_in_a_set_stay_two():
    assert len(there_and_back({float("nan"), float("nan")})) == 2


def test_a_moment_keeps_its_zone_offset_name_and_fold():
    rome = ZoneInfo("Europe/Rome")
    for moment in (
        datetime(2026, 10, 25, 2, 30, tzinfo=rome, fold=0),
        datetime(2026, 10, 25, 2, 30, tzinfo=rome, fold=1),
        datetime(2026, 3, 29, 2, 30, tzinfo=rome),  # in the gap
        datetime(2026, 1, 1, tzinfo=ZoneInfo("UTC")),
        datetime(2026, 1, 1, tzinfo=UTC),
        datetime(2026, 1, 1, tzinfo=timezone(timedelta(hours=1), "CET")),
        datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=14))),
        datetime(2026, 1, 1, fold=1),
        time(2, 30, tzinfo=rome, fold=1),
    ):
        back = there_and_back(moment)
        assert shape(back) == shape(moment)
        assert back.utcoffset() == moment.utcoffset()
    assert there_and_back(datetime(2026, 1, 1, tzinfo=rome)).tzinfo is rome


def test_enums_come_back_as_themselves():
    assert there_and_back(Priority.URGENT) is Priority.HIGH
    assert there_and_back(Access.READ | Access.RUN) is Access.READ | Access.RUN
    assert there_and_back(Access(0)) == Access(0)


def test_the_deepest_value_allowed_passes():
    for wrap in (lambda v: [v], lambda v: (v,), lambda v: {"k": v}, lambda v: {1: v}, lambda v: frozenset([v])):
        value: object = 1
        for _ in range(MAX_DEPTH):
            value = wrap(value)
        assert there_and_back(value) == value
        assert codec.decode_call(codec.encode_call((value,), {"k": value})) == ((value,), {"k": value})


def test_bytes_are_made_at_once():
    value = {"list": [1, {"a": 2}]}
    before = copy.deepcopy(value)
    data = codec.encode_call((value,), {})
    value["list"].append(3)
    value["list"][1]["a"] = "changed"
    assert codec.decode_call(data) == ((before,), {})


def test_every_decode_gives_its_own_objects():
    data = codec.encode([[1], {"a": {2}}])
    first, second = codec.decode(data), codec.decode(data)
    first[0].append(2)
    first[1]["a"].add(3)
    assert second == [[1], {"a": {2}}]


@pytest.mark.parametrize(
    ("args", "kwargs", "stored"),
    [
        ((123,), {}, "[[123],{}]"),
        ((), {"order_id": 42, "note": "déjà vu"}, '[[],{"order_id":42,"note":"déjà vu"}]'),
        (([1, 2.5, None, True], {"a": {"b": []}}), {}, '[[[1,2.5,null,true],{"a":{"b":[]}}],{}]'),
        ((Decimal("19.99"),), {}, '[[{"$t":"decimal","$v":"19.99"}],{}]'),
        (
            (datetime(2026, 8, 31, 17, 34, tzinfo=timezone(timedelta(hours=2))),),
            {},
            '[[{"$t":"datetime","$v":"2026-08-31T17:34:00+02:00"}],{}]',
        ),
        (("a\0\ud800é",), {}, '[["a\\u0000\\ud800é"],{}]'),
    ],
)
def test_plain_values_are_stored_as_plain_json(args, kwargs, stored):
    assert codec.encode_call(args, kwargs).decode() == stored


def test_a_payload_edited_by_hand_is_read():
    assert codec.decode_call('\n [[1, {"$t": "uuid", "$v": "00000000-0000-0000-0000-000000000001"}], {"a": 2}]\n')[
        1
    ] == {"a": 2}
    assert codec.decode_call(b'[ [ "\\u00e9" ] , { } ]') == (("é",), {})
    assert codec.decode(memoryview(b"[1]")) == [1]


def _changed(*arguments):
    raise TypeError("it takes other arguments now")


@pytest.mark.parametrize("make", [None, _changed, lambda *arguments: lambda tree, indent: ["something else"]])
def test_the_text_is_the_same_without_the_inner_encoder_of_python(monkeypatch, make):
    monkeypatch.setattr(text, "_written", text.text_writer(make))
    sent = [1, "é\0\ud800", {"a": [None, 1.5]}]
    assert codec.encode(sent) == '[1,"é\\u0000\\ud800",{"a":[null,1.5]}]'.encode()
    assert there_and_back(sent) == sent
