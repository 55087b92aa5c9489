"""The command around a run: how it finds its store, how it tells of progress, what it makes of its settings."""

import io
import subprocess
import sys

import pytest
from django.db import connections

from tinyjobs.app.facade import TinyJobs
from tinyjobs.cli.console import Console
from tinyjobs.cli.verify import Ticker, heading
from tinyjobs.core.clock import FrozenClock
from tinyjobs.core.errors import ConfigurationError
from tinyjobs.management.stores import store_of
from tinyjobs.operations.verify.bench import Progress
from tinyjobs.operations.verify.fleet import APP
from tinyjobs.operations.verify.settings import VerifySettings
from tinyjobs.operations.verify.surroundings import PREFIX, Surroundings

PROGRESS = Progress("sending", 12.4, 1_200, 1_190, 2)
LINE = "sending, 12 s: 1,200 sent, 1,190 done, workers stopped: 2"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def lines():
    return []


def ticker(lines, clock, *, verbosity=1, in_place=True):
    return Ticker(Console(lines.append, lines.append, verbosity=verbosity), clock, in_place=in_place)


def test_progress_is_a_line_every_few_seconds(lines, monkeypatch):
    monkeypatch.setattr("sys.stderr", io.StringIO())
    clock = FrozenClock()
    told = ticker(lines, clock)
    for _ in range(11):
        told.tell(PROGRESS)
        clock.advance(1)
    told.end()
    assert lines == [LINE, LINE]


def test_progress_on_a_terminal_is_one_line_written_over(lines, monkeypatch):
    screen = Terminal()
    monkeypatch.setattr("sys.stderr", screen)
    clock = FrozenClock()
    told = ticker(lines, clock)
    told.tell(PROGRESS)
    told.tell(PROGRESS)
    clock.advance(1)
    told.tell(PROGRESS)
    told.end()
    assert lines == []
    assert screen.getvalue() == f"\r{LINE}\x1b[K\r{LINE}\x1b[K\r\x1b[K"


def test_a_program_that_calls_the_command_gets_lines(lines, monkeypatch):
    monkeypatch.setattr("sys.stderr", Terminal())
    clock = FrozenClock()
    told = ticker(lines, clock, in_place=False)
    clock.advance(5)
    told.tell(PROGRESS)
    assert lines == [LINE]


def test_no_progress_where_only_errors_are_wanted(lines, monkeypatch):
    monkeypatch.setattr("sys.stderr", Terminal())
    told = ticker(lines, FrozenClock(), verbosity=0)
    told.tell(PROGRESS)
    told.end()
    assert lines == []


def test_a_terminal_that_has_gone_ends_nothing(lines, monkeypatch):
    screen = Terminal()
    monkeypatch.setattr("sys.stderr", screen)
    told = ticker(lines, FrozenClock())
    screen.close()
    told.tell(PROGRESS)
    told.end()


def test_a_long_lease_lengthens_the_time_to_settle_unless_that_is_given():
    assert VerifySettings.parse({"lease": 50.0}).settle == 100
    assert VerifySettings.parse({"lease": 5.0}).settle == VerifySettings().settle == 60
    assert VerifySettings.parse({"lease": 50.0, "settle": 70.0}).settle == 70
    assert VerifySettings.parse({"lease": 1.0}).reap_interval == 0.2


@pytest.mark.parametrize(
    ("given", "flag"),
    [({"kill_every": 0.0}, "--kill-every"), ({"workers": 0}, "--workers"), ({"duration": True}, "--duration")],
)
def test_settings_that_make_no_sense(given, flag):
    with pytest.raises(ConfigurationError, match=flag):
        VerifySettings.parse(given)


def test_what_is_about_to_be_done():
    told = heading("redis://:***@host/9", "verify-x", VerifySettings(workers=1))
    assert told.startswith("redis://:***@host/9: 50 jobs a second for 30 s on queue verify-x, 1 worker, ")
    assert told.endswith("one stopped every 5 s, leases of 5 s")


def test_what_workers_are_told_and_what_is_left_over_in_the_shell(tmp_path):
    inherited = {"HOME": "/home/x", f"{PREFIX}URL": "sqlite:///left-over.db", f"{PREFIX}PREFIX": "left_over"}
    told = Surroundings(url="redis://:secret@h/1", options={"prefix": "x"}, ledger=tmp_path / "l", token="t")
    environment = told.environment(inherited)
    assert environment["HOME"] == "/home/x"
    assert f"{PREFIX}PREFIX" not in environment
    assert Surroundings.read(environment) == told
    with pytest.raises(ConfigurationError, match="belongs to the workers that `tinyjobs verify` starts"):
        Surroundings.read({})


@pytest.mark.parametrize("text", ["sqlite:///scratch.db", "redis://:secret@host/9"])
def test_a_url_stands_for_itself(text):
    assert store_of(text) == (text, {})


def test_an_alias_with_a_url(settings):
    options = {"url": "redis://:secret@127.0.0.1:1/1", "prefix": "other", "retention": {"success": 60}}
    settings.TASKS = {"away": {"BACKEND": "tinyjobs.TinyJobsBackend", "OPTIONS": options}}
    assert store_of("away") == ("redis://:secret@127.0.0.1:1/1", {"prefix": "other"})
    with pytest.raises(ConfigurationError, match=r"TASKS has no 'default'. There are: away"):
        store_of("default")
    with pytest.raises(ConfigurationError, match=r"TASKS has no 'redis:\*\*\*@host'. There are: away"):
        store_of("redis:/:secret@host")  # a URL that somebody mistyped


@pytest.mark.django_db(transaction=True)
def test_an_alias_in_a_database_of_the_project(settings):
    settings.TASKS = {"default": {"BACKEND": "tinyjobs.TinyJobsBackend", "OPTIONS": {"database": "default"}}}
    url, options = store_of("default")
    assert options["prefix"] == "tinyjobs"
    with TinyJobs(url, **options) as app:
        app.send("somebody.elses")
    with connections["default"].cursor() as cursor:
        cursor.execute("SELECT count(*) FROM tinyjobs_jobs WHERE task = 'somebody.elses'")
        assert cursor.fetchone() == (1,)


@pytest.mark.parametrize("verdict", [0, 1])
def test_a_signal_after_the_verdict_does_not_change_the_exit_status(verdict):
    """As of somebody who presses Ctrl-C twice: a run that is not ok must not end as one that is."""
    code = (
        "import atexit, signal, sys\n"
        "from tinyjobs.cli import main, verify\n"
        f"verify._on_a_store_of_theirs = lambda *given: {verdict}\n"
        "atexit.register(lambda: signal.raise_signal(signal.SIGINT))\n"
        "sys.argv = ['tinyjobs', 'verify', 'sqlite:///x.db']\n"
        "main.run()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], stdin=subprocess.DEVNULL, capture_output=True, check=False)
    assert done.returncode == verdict, done.stderr


def test_the_app_of_the_workers_says_whose_it_is():
    command = [sys.executable, "-m", "tinyjobs", "worker", "--app", APP]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "belongs to the workers" in done.stderr
