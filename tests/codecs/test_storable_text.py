"""Text made storable: no NUL, no half characters, never longer than asked for."""

import sqlite3

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tinyjobs.core.storable import storable

anything = st.text(st.characters(exclude_categories=()) | st.sampled_from("\0\ud800\udfff"), max_size=300)


def test_what_is_storable_already_stays_as_it_is():
    for text in ("", "plain", "déjà vu 😀\n\t\x1b[0m\u2028\uffff", "x" * 4_000):
        assert storable(text, 4_000) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [("a\0b", "a\\x00b"), ("\ud800", "\\ud800"), ("é\udfff\0", "é\\udfff\\x00"), ("\ud83d\ude00", "\\ud83d\\ude00")],
)
def test_what_no_store_takes_is_spelled_out(text, shown):
    assert storable(text, 100) == shown


@given(anything, st.integers(0, 320))
@settings(max_examples=400, deadline=None)
@example("\0" * 300, 100)
@example("\ud800" * 300, 61)
@example("x" * 41, 40)
def test_any_text_fits_and_can_be_stored(text, limit):
    made = storable(text, limit)
    assert type(made) is str
    assert len(made) <= limit
    assert "\0" not in made
    assert made.encode("utf-8").decode("utf-8") == made
    connection = sqlite3.connect(":memory:")
    try:
        assert connection.execute("SELECT ?, length(?)", (made, made)).fetchone() == (made, len(made))
    finally:
        connection.close()
    assert storable(made, limit) == made


def test_a_long_text_keeps_head_and_tail_and_counts_the_rest():
    text = "".join(chr(65 + index % 26) for index in range(10_000))
    made = storable(text, 500)
    head, rest = made.split("\n[… ")
    count, tail = rest.split(" characters left out …]\n")
    assert text.startswith(head) and text.endswith(tail)
    assert len(head) > 200 and len(tail) > 200
    assert len(head) + int(count) + len(tail) == len(text)


def test_what_is_spelled_out_is_cut_between_characters_and_counted_as_itself():
    text = "\0" * 1_000
    made = storable(text, 200)
    head, rest = made.split("\n[… ")
    count, tail = rest.split(" characters left out …]\n")
    kept = head.count("\\x00") + tail.count("\\x00")
    assert head + tail == "\\x00" * kept
    assert kept + int(count) == 1_000


def test_the_escapes_themselves_may_make_it_too_long():
    made = storable("\0" * 100, 100)
    assert len(made) <= 100 and "left out" in made


def test_a_room_too_small_for_a_note():
    assert storable("abcdefghij", 4) == "abcd"
    assert storable("\0bc", 4) == "\\x00"
    assert storable("abc", 0) == ""


def test_a_subclass_of_str_becomes_text():
    class Sly(str):
        def __getitem__(self, key):
            raise AssertionError

        def __len__(self):
            return 1

        def __str__(self):
            raise AssertionError

    made = storable(Sly("x" * 100), 50)
    assert type(made) is str and len(made) <= 50


def test_fifty_megabytes_are_not_searched():
    made = storable("\0" * 50_000_000, 4_000)
    assert len(made) <= 4_000
    assert "left out" in made
