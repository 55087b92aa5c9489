"""Odd names and values: of schemas, prefixes, queues and keys; what text cannot hold; what is very large."""

from urllib.parse import quote

import psycopg
import pytest
from psycopg import sql

from tinyjobs.core.errors import ConfigurationError, SerializationError

pytestmark = pytest.mark.postgres

SCHEMAS = [
    'dou"ble',
    "sin'gle",
    "per%cent",
    "%s",
    "%(name)s",
    "a b",
    "do.ts",
    "größe 🦊",
    "s" * 63,
    "{prefix}{tables}{schema}",
    "back\\slash",
    "semi;\ncolon",
    "--",
    "$1",
    "Public",
    "SELECT",
]


def use(app):
    """Every kind of statement once: keys, bulk, success and failure, listing, figures, steering."""

    @app.task(name="sample", store_result=True, max_attempts=2, retry_base=0.001)
    def sample(value):
        if value == 2:
            raise ValueError(value)
        return value

    first = sample.with_options(key="k").enqueue(1)
    assert sample.with_options(key="k").enqueue(1).id == first.id
    sample.enqueue_many([(2,), (3,)])
    late = sample.with_options(delay=3600).enqueue(4)
    app.run_worker(until_empty=True, handle_signals=False)
    assert app.cancel(late)
    figures = app.stats().by_status
    assert {status: number for status, number in figures.items() if number} == {
        "success": 2,
        "failed": 1,
        "cancelled": 1,
    }
    (failed,) = app.list(status="failed").jobs
    assert len(app.executions(failed)) == 2
    assert app.retry(failed)
    assert app.drain() >= 1


def relations(url, schema):
    with psycopg.connect(url) as raw:
        query = "SELECT relname FROM pg_class JOIN pg_namespace AS space ON space.oid = relnamespace WHERE nspname = %s"
        return {name for (name,) in raw.execute(query, [schema]).fetchall()}


def tables(url):
    with psycopg.connect(url) as raw:
        query = "SELECT relnamespace::regnamespace::text, relname FROM pg_class WHERE relname LIKE '%\\_jobs\\_ready'"
        return raw.execute(query).fetchall()


@pytest.mark.parametrize("schema", SCHEMAS)
def test_a_schema_may_have_any_name(make_app, postgres_url, schema):
    app = make_app(f"{postgres_url}?schema={quote(schema)}")
    use(app)
    with psycopg.connect(postgres_url, autocommit=True) as raw:
        joined = app.send("sample", (5,), tx=raw)
        raw.execute(sql.SQL("DROP INDEX {}.tinyjobs_jobs_due").format(sql.Identifier(schema)))
        rows = raw.execute("SELECT nspname FROM pg_namespace JOIN pg_class ON relnamespace = pg_namespace.oid "
                           "WHERE relname = 'tinyjobs_meta'").fetchall()  # fmt: skip
        assert rows == [(schema,)]
    again = make_app(schema=schema)
    assert joined.id in {job.id for job in again.list(status="queued").jobs}
    assert {"tinyjobs_jobs_due"} <= relations(postgres_url, schema)


@pytest.mark.parametrize("prefix", ["p" * 40, "_", "a1"])
def test_a_prefix_may_have_forty_characters(make_app, postgres_url, prefix):
    use(make_app(prefix=prefix))
    with psycopg.connect(postgres_url) as raw:
        names = raw.execute("SELECT relname FROM pg_class WHERE relname LIKE %s", [f"{prefix}%"]).fetchall()
    kept = {name for (name,) in names if not name.startswith("pg_")}
    assert {f"{prefix}_jobs", f"{prefix}_jobs_unsuccessful", f"{prefix}_executions_pkey"} <= kept
    assert max(map(len, kept)) < 63, "no name is cut"


def test_stores_side_by_side_do_not_know_each_other(make_app):
    apps = [make_app(prefix=prefix, schema=schema) for prefix in ("one", "two") for schema in (None, "other")]
    for number, app in enumerate(apps):
        job = app.send("sample", (number,), key="the same")
        assert not job.existing
    for app in apps:
        ran = []
        app.task(name="sample")(ran.append)
        app.run_worker(until_empty=True, handle_signals=False)
        assert len(ran) == 1
        assert len(app.list().jobs) == 1


# --- the search path --------------------------------------------------------------------------------------------------


def on_path(url, *schemas):
    path = ",".join(schemas)
    return f"{url}?options={quote(f'-c search_path={path}')}"


def test_tables_are_found_along_the_search_path(make_app, postgres_url):
    with psycopg.connect(postgres_url, autocommit=True) as raw:
        raw.execute("CREATE SCHEMA early; CREATE SCHEMA late")
    make_app(on_path(postgres_url, "late")).send("sample")
    found = make_app(on_path(postgres_url, "early", "late"))
    assert len(found.list().jobs) == 1
    assert tables(postgres_url) == [("late", "tinyjobs_jobs_ready")]
    # Whoever finds none makes them where tables are made.
    make_app(on_path(postgres_url, "nowhere", "early")).setup()
    assert sorted(tables(postgres_url)) == [("early", "tinyjobs_jobs_ready"), ("late", "tinyjobs_jobs_ready")]


def test_a_table_made_earlier_on_the_path_takes_no_jobs(make_app, postgres_url):
    with psycopg.connect(postgres_url, autocommit=True) as raw:
        raw.execute("CREATE SCHEMA early; CREATE SCHEMA late")
        make_app(on_path(postgres_url, "late")).setup()
        app = make_app(on_path(postgres_url, "early", "late"))
        job = app.send("sample")
        for table in ("jobs", "meta", "executions"):
            raw.execute(f"CREATE TABLE early.tinyjobs_{table} (LIKE late.tinyjobs_{table} INCLUDING ALL)")
        later = app.send("sample")
        ran = []
        app.task(name="sample")(lambda: ran.append(1))
        app.run_worker(until_empty=True, handle_signals=False)
        app.drain()
        assert len(ran) == 2
        assert {app.get(job).status, app.get(later).status} == {"success"}
        assert raw.execute("SELECT count(*) FROM early.tinyjobs_jobs").fetchone() == (0,)
        assert raw.execute("SELECT count(*) FROM early.tinyjobs_executions").fetchone() == (0,)


# --- other databases --------------------------------------------------------------------------------------------------


@pytest.fixture
def make_database(postgres_cluster):
    """Makes databases of another encoding or locale, and answers their URLs."""
    made = []

    def make(encoding, locale="C"):
        name = f"tinyjobs_{encoding.lower()}_{id(made)}"
        statement = "CREATE DATABASE {} TEMPLATE template0 ENCODING {} LC_COLLATE {} LC_CTYPE {}"
        parts = sql.Identifier(name), sql.Literal(encoding), sql.Literal(locale), sql.Literal(locale)
        postgres_cluster.execute(sql.SQL(statement).format(*parts))
        made.append(name)
        return postgres_cluster.url(name)

    yield make
    for name in made:
        postgres_cluster.drop_database(name)


def test_a_database_without_an_encoding_of_its_own_works(make_app, make_database):
    app = make_app(make_database("SQL_ASCII"))
    use(app)
    check_texts(app)


def check_texts(app):
    """Texts of every script come back, and order is that of the bytes."""
    ran = []
    text = "größe 🦊 \u05d0"
    app.task(name=text)(lambda given: ran.append(given))
    job = app.send(text, (text,), queue=text, key=text)
    assert app.send(text, (text,), queue=text, key=text).id == job.id
    assert app.get(job).key == text

    @app.task(name="failing")
    def failing():
        raise ValueError(text)

    failed = failing.enqueue()
    app.run_worker(until_empty=True, handle_signals=False)
    assert ran == [text]
    assert text in app.get(failed).last_error
    assert text in app.executions(failed)[0].traceback


def test_a_database_that_cannot_hold_every_text_is_refused(make_app, make_database):
    app = make_app(make_database("LATIN1"))
    with pytest.raises(ConfigurationError, match=r"encoding LATIN1.*UTF8"):
        app.setup()


@pytest.mark.parametrize("name", ["größe", "Ä", "zebra"])
def test_order_is_the_same_whatever_the_locale(make_app, postgres_url, name):
    """The test's databases have a locale in which "a" comes before "B"."""
    app = make_app()
    for queue in (name, "a", "B", "_"):
        app.send("sample", queue=queue)
    names = [queue.name for queue in app.stats().queues]
    assert names == sorted(names, key=str.encode)


# --- values -----------------------------------------------------------------------------------------------------------

NUL, HALF = "a\x00b", "\ud800 half"


@pytest.mark.parametrize("value", [NUL, HALF, {"k": NUL}, {NUL: 1}, [HALF]])
@pytest.mark.parametrize("how", ["drain", "worker"])
def test_a_value_comes_back_as_it_was_or_is_refused(app, value, how):
    got = []

    @app.task(name="sample", store_result=True)
    def sample(given):
        got.append(given)
        return given

    try:
        job = sample.enqueue(value)
    except SerializationError:
        assert app.list().jobs == []
        return
    app.drain() if how == "drain" else app.run_worker(until_empty=True, handle_signals=False)
    assert got == [value]
    assert app.get(job).status == "success"
    assert app.get(job).result() == value


@pytest.mark.parametrize("text", [NUL, HALF, NUL * 10_000 + HALF])
@pytest.mark.parametrize("how", ["drain", "worker"])
def test_an_error_with_any_text_ends_its_job(app, text, how):
    @app.task(name="plain", max_attempts=2, retry_base=0.001)
    def plain():
        raise ValueError(text)

    @app.task(name="awaited")
    async def awaited():
        raise KeyError({text: text})

    jobs = [plain.enqueue(), awaited.enqueue()]
    app.drain() if how == "drain" else app.run_worker(until_empty=True, handle_signals=False)
    while app.drain():
        continue
    for job in jobs:
        ended = app.get(job)
        assert ended.status in ("failed", "queued")
        assert "\x00" not in ended.last_error
        assert "Error" in app.executions(job)[0].traceback


@pytest.mark.parametrize("text", [NUL, HALF, ""])
def test_a_name_with_such_a_text_is_refused_where_it_is_given(app, text):
    for options in ({"key": text}, {"queue": text}):
        with pytest.raises(ConfigurationError):
            app.send("sample", **options)
    with pytest.raises(ConfigurationError):
        app.send(text)
    assert app.get(text or "x") is None
    assert app.list().jobs == []


QUEUES = [
    "a b",
    "a:b",
    "'quoted\"",
    "{x}",
    "%s",
    "x" * 255,
    "é" * 32,
    "\U0001f680" * 255,
    "\u05d0\u05d1",
    "-",
    "q" * 64,
]


def test_queues_may_have_any_printable_name(app):
    ran = []
    app.task(name="sample")(ran.append)
    for queue in QUEUES:
        app.send("sample", (queue,), queue=queue)
    assert {queue.name for queue in app.stats().queues} == set(QUEUES)
    app.run_worker(queues=QUEUES, until_empty=True, handle_signals=False)
    assert sorted(ran) == sorted(QUEUES)
    for wrong in ("a,b", "*", " a", "x" * 256):
        with pytest.raises(ConfigurationError):
            app.send("sample", queue=wrong)


def test_keys_have_the_length_that_they_may_have(app):
    longest = "🦊" * 1023
    first, second = (app.send("sample", key=longest + end) for end in "ab")
    assert first.id != second.id
    for end, job in (("a", first), ("b", second)):
        again = app.send("sample", key=longest + end)
        assert (again.id, again.existing, again.key) == (job.id, True, longest + end)
    with pytest.raises(ConfigurationError, match="1024 characters"):
        app.send("sample", key=longest + "ab")


@pytest.mark.parametrize("codec", ["json", "pickle"])
def test_a_hundred_megabytes_there_and_back(make_app, codec):
    app = make_app(allow_pickle=True)
    size = 100_000_000

    @app.task(name="sample", store_result=True, codec=codec)
    def sample(text):
        return text[::-1]

    job = sample.enqueue("x" + "ü" * (size // 2))
    app.run_worker(until_empty=True, handle_signals=False)
    ended = app.get(job)
    assert ended.status == "success"
    assert len(ended.payload) > size
    assert len(ended.record.result) > size
    assert len(app.list().jobs) == 1


def test_what_is_too_large_is_refused_before_it_is_sent(app, monkeypatch):
    can = app.store.capabilities
    assert can.max_payload_bytes == 500_000_000
    object.__setattr__(can, "max_payload_bytes", 1_000)
    try:
        with pytest.raises(SerializationError, match=r"app\.send\('sample'\): .*this store keeps 1000 at most"):
            app.send("sample", ("x" * 1_000,))

        @app.task(name="large", store_result=True)
        def large():
            return "x" * 1_000

        job = large.enqueue()
        app.run_worker(until_empty=True, handle_signals=False)
    finally:
        object.__setattr__(can, "max_payload_bytes", 500_000_000)
    assert app.get(job).status == "failed"
    assert "1000" in app.get(job).last_error
    assert len(app.list().jobs) == 1
