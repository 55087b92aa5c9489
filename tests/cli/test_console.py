"""What is printed: tables, JSON and times, on streams that take everything, little or nothing."""

import io
import json
import logging
import sys

import pytest

from tinyjobs.cli.console import (
    Console,
    jsonable,
    plain,
    plain_lines,
    process_console,
    settle_streams,
    shown_seconds,
    shown_time,
)
from tinyjobs.cli.logs import CommandLog
from tinyjobs.core.url import shown_url


@pytest.fixture
def lines():
    return []


@pytest.fixture
def console(lines):
    return Console(lines.append, lines.append)


def test_a_table_is_as_wide_as_its_widest_cell(console, lines):
    console.table(("NAME", "JOBS"), [("a", 5), ("a longer one", 12345)])
    assert lines == ["NAME           JOBS", "a                 5", "a longer one  12345"]


def test_what_is_not_a_number_stands_to_the_left_and_nothing_is_a_dash(console, lines):
    console.table(("NAME", "SINCE"), [("a", None), ("b", "3 s")])
    assert lines == ["NAME  SINCE", "a     -", "b     3 s"]


def test_control_characters_of_the_store_cannot_steer_the_terminal(console, lines):
    console.table(("TASK",), [("evil\x1b[2J\nname\u202e",)])
    assert lines[1] == r"evil\x1b[2J\nname\u202e"
    assert plain_lines("a\tb\r\nc\x07") == ["a       b", r"c\x07"]
    assert plain("\ud800") == r"\ud800"


def test_json_is_ascii_and_takes_any_value(console, lines):
    console.json({"name": "ünï", "odd": {1, 2}})
    assert lines[0].isascii()
    assert json.loads(lines[0]) == {"name": "ünï", "odd": "{1, 2}"}


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ([1, {"a": None}], [1, {"a": None}]),
        (float("nan"), "nan"),
        ({(1, 2): 3}, "{(1, 2): 3}"),
        (b"x", "b'x'"),
    ],
)
def test_what_json_has_no_word_for_is_written_as_python_writes_it(value, expected):
    assert jsonable(value) == expected


@pytest.mark.parametrize(
    "error", [BrokenPipeError(), OSError("disk full"), ValueError("I/O operation on closed file"), AttributeError()]
)
def test_a_stream_that_fails_is_left_alone(error):
    def fail(text):
        raise error

    console = Console(fail, fail)
    console.line("one")
    console.warn("two")
    console.table(("A",), [(1,)])


def test_a_character_the_terminal_cannot_show_is_spelled_out(monkeypatch):
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding="ascii"))
    process_console(1).line("a – b")
    assert raw.getvalue() == b"a \\u2013 b\n"


def test_no_standard_streams_at_all(monkeypatch):
    monkeypatch.setattr(sys, "stdout", None)
    monkeypatch.setattr(sys, "stderr", None)
    console = process_console(1)
    console.line("one")
    console.warn("two")
    settle_streams()
    with CommandLog(1, None, takes_root=False, warn=print):
        logging.getLogger("tinyjobs.worker").warning("three")


def test_verbosity_0_leaves_out_what_nobody_asked_for():
    out, err = [], []
    console = Console(out.append, err.append, verbosity=0)
    console.say("hello")
    console.line("asked for")
    console.warn("careful")
    assert (out, err) == (["asked for"], ["careful"])


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-3, "0.0 s"), (0.25, "0.2 s"), (99, "99 s"), (600, "10 min"), (10_000, "3 h"), (400_000, "5 d")],
)
def test_lengths_of_time(seconds, text):
    assert shown_seconds(seconds) == text


def test_instants():
    assert shown_time(None) is None
    assert shown_time(1_700_000_000) == "2023-11-14 22:13:20Z"
    assert shown_time(1e300) == "1e+300 s after 1970"


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis://:s3cret@host:6379/0", "redis://:***@host:6379/0"),
        ("postgresql://me:s3:c@ret@host/db", "postgresql://me:***@host/db"),
        ("postgresql://me:s3/c?r#et@host/db", "postgresql://me:***@host/db"),
        (
            "postgresql://me@host/db?password=s3cret&sslmode=require",
            "postgresql://me@host/db?password=***&sslmode=require",
        ),
        ("postgresql://me@corp:s3cret@host/db", "postgresql://me@corp:***@host/db"),
        ("postgresql://me/x:s3cret@host/db", "postgresql://me/x:***@host/db"),
        (
            "postgresql://host/db?p%61ssword=s3&cret&sslmode=require",
            "postgresql://host/db?p%61ssword=***&***&sslmode=require",
        ),
        ("redis://host:6379/0?password=s3@cret", "redis://***"),
        ("postgresql:me:s3cret@host/db", "postgresql:***@host/db"),
        ("host=db password='s3 cret' user=me", "host=db password=*** user=me"),
        ("postgresql://h1:1,h2:2/db", "postgresql://h1:1,h2:2/db"),
        ("sqlite:///odd@name:here.db", "sqlite:///odd@name:here.db"),
        ("memory://", "memory://"),
    ],
)
def test_a_url_is_shown_without_its_password(url, shown):
    assert shown_url(url) == shown


def bare_logger(monkeypatch):
    """The logger `tinyjobs` as in a program that has set up no logging.

    Called by the test itself: what pytest adds to a logger that does not propagate, it adds before.
    """
    logger = logging.getLogger("tinyjobs")
    monkeypatch.setattr(logger, "propagate", False)
    monkeypatch.setattr(logger, "handlers", [])
    return logger


@pytest.mark.parametrize(
    ("verbosity", "levels"),
    [(0, ["WARNING"]), (1, ["INFO", "WARNING"]), (2, ["DEBUG", "INFO", "WARNING"]), (3, ["DEBUG", "INFO", "WARNING"])],
)
def test_the_log_goes_to_stderr_by_verbosity(monkeypatch, capsys, verbosity, levels):
    logger = bare_logger(monkeypatch)
    child = logging.getLogger("tinyjobs.worker")
    with CommandLog(verbosity, None, takes_root=False, warn=print):
        for level in (logging.DEBUG, logging.INFO, logging.WARNING):
            child.log(level, "told\x1b[2J")
    written = capsys.readouterr().err.splitlines()
    assert [line.split()[2] for line in written] == levels
    assert all(line.endswith(r"told\x1b[2J") for line in written)
    assert logger.handlers == []


def test_a_program_with_logging_of_its_own_keeps_it(monkeypatch, capsys):
    logger = bare_logger(monkeypatch)
    records = []
    own = logging.Handler(logging.ERROR)
    own.emit = records.append
    logger.addHandler(own)
    with CommandLog(2, None, takes_root=False, warn=print):
        logging.getLogger("tinyjobs.worker").error("told")
    assert [record.getMessage() for record in records] == ["told"]
    assert capsys.readouterr().err == ""
