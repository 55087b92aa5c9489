"""Masks: which keys they hide, and how what was hidden is kept out of texts."""

import time
from dataclasses import dataclass
from enum import Enum

import pytest

from tinyjobs.core.errors import ConfigurationError
from tinyjobs.core.masking import HIDDEN, Mask, Veil, restored

USUAL = Mask()


@pytest.mark.parametrize(
    "key",
    ["password", "PASSWORD", "db_password", "passwordHash", "api-key", "X-Api-Key", "Authorization", "refreshToken"],
)
def test_the_usual_keys(key):
    assert USUAL.hides(key)


@pytest.mark.parametrize("key", ["", "user", "pass", "key", "order_id", 5, None, ("password",)])
def test_other_keys(key):
    assert not USUAL.hides(key)


def test_patterns_of_a_program():
    mask = Mask.parse(["card_?", "iban", "x[1]"], "here")
    assert mask.hides("CARD-1") and mask.hides("iban") and not mask.hides("iban2") and not mask.hides("password")
    assert not Mask.parse([], "here").hides("password")


@pytest.mark.parametrize("given", ["password", True, None, [5], [""], {"a": 1}, b"x"])
def test_what_is_no_list_of_patterns(given):
    with pytest.raises(ConfigurationError, match="here: "):
        Mask.parse(given, "here")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("password=abc rest", f"password={HIDDEN} rest"),
        ("Password: 'a b', x", f"Password: {HIDDEN}, x"),
        ('{"api_key": "a\\"b", "n": 1}', f'{{"api_key": {HIDDEN}, "n": 1}}'),
        ("{'token': 'abc'}", f"{{'token': {HIDDEN}}}"),
        ("Authorization: Bearer abc.def", f"Authorization: {HIDDEN}"),
        ("db_password => abc;", f"db_password => {HIDDEN};"),
        ("?access_token=abc&x=1", f"?access_token={HIDDEN}&x=1"),
        ("postgres://bob:abc@host/db", f"postgres://bob:{HIDDEN}@host/db"),
        (r"{\"password\": \"abc def\", \"n\": 1}", rf"{{\"password\": {HIDDEN}, \"n\": 1}}"),
        ("the password was wrong", "the password was wrong"),
        ("order=5", "order=5"),
    ],
)
def test_texts(text, shown):
    assert USUAL.text(text) == shown
    assert Mask(()).text(text) == text


class Colour(Enum):
    RED = "red"


@dataclass
class Login:
    user: str
    password: str


class Broken:
    def __repr__(self):
        raise ValueError("no")


def test_values_become_what_json_has():
    veil = Veil(USUAL)
    shown = veil.value(
        {"a": (1, 2.5, None, True), 5: {"x"}, "e": Colour.RED, "d": Login("bob", "abcdef"), "b": Broken(), "n": 1e999}
    )
    assert shown == {
        "a": [1, 2.5, None, True],
        "5": ["x"],
        "e": "<Colour.RED: 'red'>",
        "d": {"user": "bob", "password": HIDDEN},
        "b": "<a Broken that cannot be shown>",
        "n": "inf",
    }
    assert veil.text("bob came in with abcdef, not with RED") == f"bob came in with {HIDDEN}, not with RED"


def test_what_was_hidden_is_taken_out_of_texts():
    veil = Veil(USUAL)
    args, kwargs = veil.call(["bob", "s3cret"], {"token": {"a": ["nested1", 12345]}, "x": 1}, ["user", "password"])
    assert (args, kwargs) == (["bob", HIDDEN], {"token": HIDDEN, "x": 1})
    assert veil.text("bob used s3cret, nested1 and 12345") == f"bob used {HIDDEN}, {HIDDEN} and {HIDDEN}"


def test_short_secrets_are_no_reason_to_spoil_texts():
    veil = Veil(USUAL)
    veil.value({"password": "a", "token": True, "secret": None})
    assert veil.text("a cat") == "a cat"


def test_deep_and_endless_values():
    deep = []
    for _ in range(5_000):
        deep = [deep]
    endless = {}
    endless["self"] = endless
    assert Veil(USUAL).value([deep, endless, {"password": deep, "token": endless}])


def test_more_arguments_than_parameters():
    assert Veil(USUAL).call([1, 2, 3], {}, ["password"])[0] == [HIDDEN, 2, 3]
    assert Veil(USUAL).call([], {}, ["password"])[0] == []


def test_an_edit_brings_back_what_it_did_not_show():
    kept = {"password": "p", "list": ["a", {"token": "t"}], "url": "x://u:pw@h", "gone": 1}
    shown = Veil(USUAL).value(kept)
    assert restored(shown, kept, USUAL) == kept
    shown["list"].append("new")
    del shown["gone"]
    shown["url"] = "y"
    assert restored(shown, kept, USUAL) == {
        "password": "p",
        "list": ["a", {"token": "t"}, "new"],
        "url": "y",
    }


def test_a_value_whose_quote_is_never_closed_is_hidden_to_the_end():
    assert USUAL.text("a password='abc def\\") == f"a password={HIDDEN}"


def test_keys_of_several_words_are_found_in_texts():
    mask = Mask(("credit card*", "x[1]"))
    assert mask.text("a Credit Card-No: 4111, b") == f"a Credit Card-No: {HIDDEN}, b"
    assert mask.text("x[1]=abc x[2]=def") == f"x[1]={HIDDEN} x[2]=def"


EVIL = {
    "a key repeated": "secret-token.",
    "a key without gaps": "tokentoken",
    "keys with values": "password=x ",
    "keys and quotes": "password=\"'",
    "keys with escaped quotes": 'token=\\"\\',
    "separators": "token::==>",
    "gaps": "token    \n\t  ",
    "addresses": "://a:b:",
    "words": "some words ",
    "one word": "aaaaaaaaaa",
    "bearers": "token: bearer  ",
}


def seconds(shape, size):
    text = (shape * (size // len(shape) + 1))[:size]
    began = time.process_time()
    USUAL.text(text)
    return time.process_time() - began


@pytest.mark.parametrize("shape", EVIL.values(), ids=EVIL)
def test_a_long_text_takes_no_longer_than_in_proportion(shape):
    # First sizes at which quadratic work is plain and yet ends; then what an argument may hold.
    few = min(seconds(shape, 5_000) for _ in range(3))
    assert min(seconds(shape, 40_000) for _ in range(2)) < 8 * 3 * max(few, 0.002)
    assert seconds(shape, 1_000_000) < 200 * 5 * max(few, 0.002)


def test_the_end_of_an_immense_text_is_not_shown(monkeypatch):
    monkeypatch.setattr("tinyjobs.core.masking._LONGEST", 30)
    assert USUAL.text("a" * 30) == "a" * 30
    assert USUAL.text("first second postgres://u:pw-pw@host end") == f"first second {HIDDEN}"
    assert USUAL.text("first token='one two three four five' end") == f"first token={HIDDEN}{HIDDEN}"
    assert USUAL.text("a" * 31) == HIDDEN
    assert Mask(()).text("a" * 31) == "a" * 31


def test_more_secrets_than_can_be_sought_hide_the_text(monkeypatch):
    monkeypatch.setattr("tinyjobs.core.masking._MOST_WORK", 1_000)
    veil = Veil(USUAL)
    veil.value({"tokens": [f"number-{number}" for number in range(20)]})
    assert veil.text("number-7 and more") == f"{HIDDEN} and more"
    assert veil.text("number-7 and more" * 10) == HIDDEN


def test_an_edit_keeps_what_json_has_no_words_for():
    kept = [float("inf"), Colour.RED, 10**400, {"a": Login("bob", "abcdef")}, 1]
    shown = Veil(USUAL).value(kept)
    shown[4] = 2
    assert restored(shown, kept, USUAL) == [*kept[:4], 2]
    assert restored(["nan", True], [1.5, 1], USUAL) == ["nan", True]
