"""URLs and options of the Postgres store: what they mean, what is refused, and that no password is ever shown."""

import logging
import os
import subprocess
import sys
import textwrap
from urllib.parse import quote, urlsplit

import psycopg
import pytest

from tinyjobs.app.facade import TinyJobs
from tinyjobs.backends.postgres.options import parse_url
from tinyjobs.backends.registry import known_schemes, open_backend
from tinyjobs.core.clock import FrozenClock
from tinyjobs.core.errors import ConfigurationError, StoreError

pytestmark = pytest.mark.postgres

SECRET = "s3cr3t"


def opened(url, **options):
    return open_backend(url, clock=FrozenClock(), **options)


def test_the_schemes_are_known():
    assert {"postgresql", "postgres"} <= set(known_schemes())


@pytest.mark.parametrize("scheme", ["postgresql", "postgres", "PostgreSQL"])
def test_every_spelling_of_the_scheme(make_app, postgres_url, scheme):
    app = make_app(postgres_url.replace("postgresql", scheme))
    assert app.drain() == 0


def test_options_may_stand_in_the_url_or_beside_it():
    query = "prefix=mail&schema=a%20b&min_connections=2&max_connections=4"
    query += "&pool_timeout=1.5&statement_timeout=none&notify=off"
    beside = {"prefix": "mail", "schema": "a b", "min_connections": 2, "max_connections": 4, "pool_timeout": 1.5}
    beside |= {"statement_timeout": None, "notify": False}
    first = opened(f"postgresql://me@host/db?{query}").options
    second = opened("postgresql://me@host/db?prefix=other&schema=c&notify=on", **beside).options
    assert first == second
    assert (first.prefix, first.schema, first.max_connections, first.notify) == ("mail", "a b", 4, False)
    assert (first.pool_timeout, first.statement_timeout) == (1.5, None)


@pytest.mark.parametrize(
    ("text", "value"), [("true", True), ("1", True), ("On", True), ("False", False), ("0", False), ("no", False)]
)
def test_a_switch_in_a_url_is_read_as_one(text, value):
    assert opened(f"postgresql:///db?notify={text}").options.notify is value


def test_the_parameters_of_libpq_are_handed_on():
    keywords, _ = parse_url(
        "postgresql://me:pw@one:1,two:2/db?sslmode=require&connect_timeout=3&target_session_attrs=read-write"
        "&application_name=mine&prefix=x",
        {"options": "-c search_path=a", "keepalives_idle": 5, "dbname": "other", "sslrootcert": "/x"},
    )
    assert keywords == {
        "user": "me",
        "password": "pw",
        "host": "one,two",
        "port": "1,2",
        "dbname": "other",
        "sslmode": "require",
        "connect_timeout": "3",
        "target_session_attrs": "read-write",
        "application_name": "mine",
        "options": "-c search_path=a",
        "keepalives_idle": 5,
        "sslrootcert": "/x",
    }


@pytest.mark.parametrize(
    ("query", "said"), [("pool_timeout=abc", "pool_timeout: 'abc' is not"), ("notify=maybe", "notify: 'maybe' is")]
)
def test_a_wrong_option_in_a_url_names_the_url(query, said):
    with pytest.raises(ConfigurationError) as told:
        TinyJobs(f"postgresql://me:{SECRET}@host/db?{query}")
    assert f"the store URL 'postgresql://me:***@host/db?{query}': {said}" in str(told.value)


@pytest.mark.parametrize(
    ("url", "options", "said"),
    [
        (
            "postgresql://me@host/db?max_conections=3",
            {},
            r"does not take 'max_conections'\. It takes the store's options",
        ),
        ("postgresql://me:s3cr3t@host/db", {"colour": "red"}, r"does not take 'colour'.*libpq"),
        ("postgresql://host/db", {"cursor_factory": psycopg.ClientCursor}, "does not take 'cursor_factory'"),
        ("postgresql://host/db?cursor_factory=x", {}, "does not take 'cursor_factory'"),
        ("postgresql://host/db", {"row_factory": None}, "does not take 'row_factory'"),
        ("postgresql://host/db", {"autocommit": True}, "does not take 'autocommit'"),
        ("postgresql://host/db", {"prepare_threshold": 0}, "does not take 'prepare_threshold'"),
        ("postgresql://host/db?prefix=a&prefix=b", {}, "gives 'prefix' twice"),
        ("postgresql://host:port/db", {}, "port is no number"),
        ("postgresql://host:70000/db", {}, "port is no number"),
        ("postgresql://host:0/db", {}, "port is no number"),
        ("postgresql://ho st/db", {}, "a blank"),
        ("postgresql://host/db?sslmode", {}, "cannot be read"),
        ("postgresql:/host/db", {}, "is no store URL"),
        ("host=db user=me", {}, "is no store URL"),
        ("postgresql://host/db?prefix=Bad-Name", {}, "prefix: 'Bad-Name' cannot name tables"),
        ("postgresql://host/db", {"prefix": "p" * 41}, "up to 40"),
        ("postgresql://host/db?schema=", {}, "schema: '' cannot be a schema's name"),
        ("postgresql://host/db", {"schema": "s" * 64}, "1 to 63 bytes"),
        ("postgresql://host/db", {"schema": "ü" * 32}, "1 to 63 bytes"),
        ("postgresql://host/db", {"schema": "a\0b"}, "no NUL"),
        ("postgresql://host/db", {"schema": "\ud800"}, "cannot be a schema's name"),
        ("postgresql://host/db", {"schema": 7}, "schema: 7 cannot"),
        (
            "postgresql://host/db?min_connections=5&max_connections=4",
            {},
            r"min_connections: 5 is more than max_conn.*4",
        ),
        ("postgresql://host/db", {"min_connections": 11}, "min_connections: 11 is more than"),
        ("postgresql://host/db?max_connections=0", {}, "max_connections: '0' is not a number of connections"),
        ("postgresql://host/db?max_connections=" + "9" * 5000, {}, "is not a number of connections"),
        ("postgresql://host/db", {"max_connections": True}, "max_connections: True is not"),
        ("postgresql://host/db", {"max_connections": 2.5}, r"max_connections: 2\.5 is not"),
        ("postgresql://host/db?pool_timeout=soon", {}, "pool_timeout: 'soon' is not a number of seconds"),
        ("postgresql://host/db", {"pool_timeout": None}, "pool_timeout: None is not"),
        ("postgresql://host/db", {"pool_timeout": float("nan")}, "pool_timeout: nan is not"),
        ("postgresql://host/db", {"statement_timeout": -1}, "statement_timeout: -1 is not"),
        ("postgresql://host/db", {"statement_timeout": 10**400}, "is not a number of seconds"),
        ("postgresql://host/db?notify=maybe", {}, "notify: 'maybe' is neither"),
    ],
)
def test_what_means_nothing_is_refused_by_the_app_itself(url, options, said):
    with pytest.raises(ConfigurationError, match=said) as told:
        TinyJobs(url, **options)
    assert SECRET not in str(told.value)


# --- passwords --------------------------------------------------------------------------------------------------------

AWKWARD = "@/?#: %&=+[]\\'\"é\n$;"


@pytest.mark.parametrize("character", AWKWARD)
@pytest.mark.parametrize("shape", ["s3{}cr3t", "{}s3cr3t", "12{}s3cr3t", "s3cr3t{}", "s3{0}12{0}cr3t"])
def test_a_raw_character_in_a_password_is_meant_or_refused_and_never_shown(character, shape):
    password = shape.format(character)
    for query in ("", "?sslmode=require", "?prefix=x"):
        url = f"postgresql://me:{password}@host:5432/db{query}"
        try:
            keywords, options = parse_url(url, {})
        except ConfigurationError as error:
            told = f"{error} {error.__cause__}"
            assert "%40" in str(error) and "%2F" in str(error), "the remedy is named"
        else:
            told = TinyJobs(url).where
            assert (keywords["host"], keywords["port"], keywords["dbname"]) == ("host", "5432", "db")
            assert keywords["password"] == password or character == "%"
            assert options.prefix == ("x" if query == "?prefix=x" else "tinyjobs")
        for part in ("s3", "cr3t", "12"):
            assert part not in told


@pytest.mark.parametrize("character", AWKWARD)
def test_an_escaped_password_is_what_was_escaped(character):
    password = f"s3{character}cr3t"
    keywords, _ = parse_url(f"postgresql://me:{quote(password, safe='')}@host/db", {})
    assert keywords["password"] == password


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://me:{SECRET}@127.0.0.1:1/db",
        f"postgresql://me@127.0.0.1:1/db?password={SECRET}",
        f"postgresql://127.0.0.1:1/db?user=me&p%61ssword={SECRET}",
        f"postgresql://me:{SECRET}@127.0.0.1:1,127.0.0.1:2/db?sslpassword={SECRET}",
    ],
)
def test_a_password_is_in_no_error_no_log_and_no_representation(url, caplog):
    caplog.set_level(logging.DEBUG)
    app = TinyJobs(url, pool_timeout=0.5)
    shown = [repr(app), app.where, repr(app.store), repr(app.engine)]
    for call in (app.setup, app.stats, lambda: app.send("x"), lambda: app.run_worker(until_empty=True)):
        with pytest.raises(StoreError) as caught:
            call()
        error = caught.value
        while error is not None:
            shown += [str(error), repr(error)]
            error = error.__cause__ or error.__context__
    app.close()
    assert SECRET not in "\n".join([*shown, caplog.text])


def test_a_password_beside_the_url_is_not_shown_either(caplog):
    with pytest.raises(ConfigurationError) as caught:
        TinyJobs("postgresql://me@host/db", password=SECRET, colour="red")
    assert SECRET not in str(caught.value)
    app = TinyJobs("postgresql://me@127.0.0.1:1/db", password=SECRET, pool_timeout=0.5)
    with pytest.raises(StoreError) as failed:
        app.setup()
    assert SECRET not in f"{failed.value!r} {failed.value.__cause__!r} {app!r} {app.store!r} {caplog.text}"
    app.close()


# --- ways to a server -------------------------------------------------------------------------------------------------


def test_of_several_hosts_the_one_that_answers_is_used(make_app, postgres_url):
    parts = urlsplit(postgres_url)
    url = f"postgresql://{parts.username}@127.0.0.1:1,{parts.hostname}:{parts.port}{parts.path}"
    app = make_app(url)
    app.send("sample")
    assert len(app.list().jobs) == 1


def test_a_service_file(make_app, postgres_url, tmp_path, monkeypatch):
    parts = urlsplit(postgres_url)
    file = tmp_path / "services.conf"
    file.write_text(
        f"[jobs]\nhost={parts.hostname}\nport={parts.port}\nuser={parts.username}\ndbname={parts.path[1:]}\n", "utf-8"
    )
    monkeypatch.setenv("PGSERVICEFILE", str(file))
    for app in (make_app("postgresql://?service=jobs&prefix=first"), make_app("postgresql://", service="jobs")):
        app.send("sample")
        assert len(app.list().jobs) == 1


def test_what_the_url_says_of_a_connection_wins_over_what_is_assumed(make_app, postgres_url):
    app = make_app(f"{postgres_url}?application_name=mine&connect_timeout=7")
    app.setup()
    keywords = app.store._source.connect_keywords()
    assert (keywords["application_name"], keywords["connect_timeout"]) == ("mine", "7")


# --- the driver -------------------------------------------------------------------------------------------------------

WITHOUT = """
    import sys

    for name in sys.argv[1].split():
        sys.modules[name] = None
    from tinyjobs import TinyJobs

    TinyJobs("memory://").close()
    try:
        TinyJobs("postgresql://host/db")
    except Exception as error:
        print(type(error).__name__, error, "because of", type(error.__cause__).__name__)
"""


@pytest.mark.parametrize("missing", ["psycopg", "psycopg_pool", "psycopg psycopg_pool"])
def test_without_the_driver_the_error_names_the_extra(missing):
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(WITHOUT), missing],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env=os.environ | {"PYTHONPATH": ":".join(sys.path)},
    )
    assert done.stdout.startswith("ConfigurationError postgresql:// needs a driver"), done.stderr
    assert "pip install 'tinyjobs[postgres]'" in done.stdout
    assert done.stdout.rstrip().endswith(("because of ModuleNotFoundError", "because of ImportError"))


def test_the_root_and_other_stores_do_without_the_driver():
    program = """
        import sys
        from tinyjobs import TinyJobs

        app = TinyJobs("memory://")
        app.send("sample")
        app.close()
        print(sorted(name for name in sys.modules if name.startswith(("psycopg", "tinyjobs.backends.postgres"))))
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "[]\n"
