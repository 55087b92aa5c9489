"""Every store answers as the model does, to whatever it is asked, in whatever order."""

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis

from tests.contract.test_sqlite import empty_store
from tests.models.machine import SideBySide, run_examples
from tests.redis.consistency import assert_consistent
from tests.teeth.variants import TakesBackWhatIsHeld, TakesNothingBack, Unfenced, Variant
from tinyjobs.backends.registry import open_backend
from tinyjobs.core.clock import Clock
from tinyjobs.core.job import ClaimRequest
from tinyjobs.core.transitions import succeeded

type Open = Callable[[Clock], Any]


def in_memory(clock: Clock) -> Any:
    return open_backend("memory://", clock=clock)


@pytest.fixture
def in_files(tmp_path_factory: pytest.TempPathFactory) -> Open:
    """A new file for each example."""
    folder = tmp_path_factory.mktemp("files")
    numbers = itertools.count()

    def opened(clock: Clock) -> Any:
        path = folder / f"{next(numbers)}.db"
        path.write_bytes(empty_store())
        return open_backend(f"sqlite:///{path}", clock=clock)

    return opened


def on_redis(url: str) -> Open:
    def opened(clock: Clock) -> Any:
        with redis.Redis.from_url(url) as client:
            client.flushdb()
        return open_backend(url, clock=clock)

    return opened


def on_postgres(url: str) -> Open:
    """The tables are made once, and emptied for each example."""
    numbers = itertools.count()

    def opened(clock: Clock) -> Any:
        if next(numbers):
            empty(url)
        return open_backend(url, clock=clock)

    return opened


def empty(url: str) -> None:
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        found = connection.execute("SELECT tablename FROM pg_tables WHERE tablename LIKE 'tinyjobs_%'").fetchall()
        for (name,) in found:
            where = " WHERE key LIKE 'last%'" if name == "tinyjobs_meta" else ""
            connection.execute(f"DELETE FROM {name}{where}".encode())


def test_sqlite(in_files):
    run_examples({"SQLite in memory": in_memory, "SQLite in a file": in_files}, 12, 30)


def test_postgres(postgres_url):
    run_examples({"Postgres": on_postgres(postgres_url)}, 6, 25)


def test_redis(redis_url):
    run_examples({"Redis": on_redis(redis_url)}, 10, 30, lambda: assert_consistent(redis_url))


def steps(machine: Any) -> Iterator[str]:
    """A claim that outlives its lease, taken one step at a time; each step's name once it is done."""
    first = machine.job({"task": "t", "queue": "a", "max_attempts": 3, "payload": b""}, None, None)
    machine.all(lambda store: store.enqueue(first))
    request = ClaimRequest(worker_id="w1", limit=1, lease=20.0)
    (early,) = machine.all(lambda store: store.claim(request)).jobs
    yield "claimed"
    machine.all(lambda store: store.reap_expired())
    yield "looked too early"
    machine.clock.advance(25.0)
    machine.all(lambda store: store.reap_expired())
    yield "taken back"
    machine.all(lambda store: store.claim(request))
    machine.all(lambda store: store.record([succeeded(early, None, machine.clock.now())]))
    yield "reported too late"


@pytest.mark.parametrize(
    ("variant", "last"),
    [
        (Variant, "reported too late"),
        (TakesBackWhatIsHeld, "claimed"),
        (TakesNothingBack, "looked too early"),
        (Unfenced, "taken back"),
    ],
    ids=lambda one: getattr(one, "__name__", ""),
)
def test_a_broken_store_answers_differently(variant, last):
    openers = {variant.__name__: lambda clock: variant(":memory:", clock=clock)}
    machine = type("Machine", (SideBySide,), {"openers": openers})()
    done = []
    try:
        done.extend(steps(machine))
    except AssertionError as error:
        assert variant.__name__ in str(error)
        assert variant is not Variant
    assert done[-1] == last


@pytest.mark.slow
def test_all_stores_side_by_side(in_files, postgres_url, redis_url):
    openers = {"SQLite": in_files, "Postgres": on_postgres(postgres_url), "Redis": on_redis(redis_url)}
    run_examples(openers, 8, 40, lambda: assert_consistent(redis_url))


@pytest.mark.slow
def test_sqlite_in_many_ways(in_files):
    run_examples({"SQLite in memory": in_memory, "SQLite in a file": in_files}, 40, 40)


@pytest.mark.slow
def test_postgres_in_many_ways(postgres_url):
    run_examples({"Postgres": on_postgres(postgres_url)}, 10, 40)


@pytest.mark.slow
def test_redis_in_many_ways(redis_url):
    run_examples({"Redis": on_redis(redis_url)}, 25, 40, lambda: assert_consistent(redis_url))
