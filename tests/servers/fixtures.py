"""Fixtures that give a test a server. `tests/conftest.py` registers them, and marks what uses one for its store.

A run has one server of each kind: what `runtests.py` or the settings name in TINYJOBS_TEST_POSTGRES and
TINYJOBS_TEST_REDIS, else a private one. Where a program is missing, the tests that need it are skipped, with the way to
get it as the reason.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

from tests.servers.pgbouncer import PgBouncer
from tests.servers.postgres import URL_VARIABLE, Cluster, Server
from tests.servers.processes import MissingProgramError
from tests.servers.proxy import Proxy
from tests.servers.redis import URL_VARIABLE as REDIS_URL_VARIABLE
from tests.servers.redis import RedisPair, RedisServer
from tests.servers.redis import Server as SomeRedis


@pytest.fixture(scope="session")
def postgres_cluster() -> Iterator[Server]:
    """The run's server. Shared: a test may make databases here, but not stop or change it."""
    named = os.environ.get(URL_VARIABLE)
    with skipping_what_is_missing():
        server = Server(named) if named else Cluster()
    yield server
    server.close()


@pytest.fixture
def postgres_url(postgres_cluster: Server) -> Iterator[str]:
    """The URL of an empty database of the test's own."""
    name = postgres_cluster.create_database()
    yield postgres_cluster.url(name)
    postgres_cluster.drop_database(name)


@pytest.fixture
def make_cluster() -> Iterator[Callable[..., Cluster]]:
    """Starts private clusters, with the options of `Cluster`, and closes them after the test."""

    def start_one(**options: Any) -> Cluster:
        with skipping_what_is_missing():
            return stack.enter_context(Cluster(**options))

    with ExitStack() as stack:
        yield start_one


@pytest.fixture
def own_cluster(make_cluster: Callable[..., Cluster]) -> Cluster:
    """A cluster that nobody else uses, to be stopped, killed and changed at will."""
    return make_cluster()


@pytest.fixture
def make_pgbouncer(postgres_cluster: Server) -> Iterator[Callable[..., PgBouncer]]:
    """Starts PgBouncers before the run's server, or before `server_url`, with the options of `PgBouncer`."""

    def start_one(server_url: str = postgres_cluster.url(), **options: Any) -> PgBouncer:
        with skipping_what_is_missing():
            return stack.enter_context(PgBouncer(server_url, **options))

    with ExitStack() as stack:
        yield start_one


@pytest.fixture(scope="session")
def redis_server() -> Iterator[SomeRedis]:
    """The run's server. Shared: a test may take databases here, but not stop it, flush it whole or change it."""
    named = os.environ.get(REDIS_URL_VARIABLE)
    with skipping_what_is_missing():
        server = SomeRedis(named) if named else RedisServer()
    yield server
    server.close()


@pytest.fixture
def redis_url(redis_server: SomeRedis) -> Iterator[str]:
    """The URL of an empty database of the test's own. Channels are the whole server's, as everywhere on Redis."""
    number = redis_server.create_database()
    yield redis_server.url(number)
    redis_server.drop_database(number)


@pytest.fixture
def make_redis() -> Iterator[Callable[..., RedisServer]]:
    """Starts private servers, with the options of `RedisServer`, and closes them after the test."""

    def start_one(**options: Any) -> RedisServer:
        with skipping_what_is_missing():
            return stack.enter_context(RedisServer(**options))

    with ExitStack() as stack:
        yield start_one


@pytest.fixture
def own_redis(make_redis: Callable[..., RedisServer]) -> RedisServer:
    """A server that nobody else uses, to be stopped, killed and changed at will."""
    return make_redis()


@pytest.fixture
def make_redis_pair() -> Iterator[Callable[..., RedisPair]]:
    """Starts a primary and its replica, with the options of `RedisServer`, and closes them after the test."""

    def start_one(**options: Any) -> RedisPair:
        with skipping_what_is_missing():
            return stack.enter_context(RedisPair(**options))

    with ExitStack() as stack:
        yield start_one


@pytest.fixture
def make_proxy() -> Iterator[Callable[[str], Proxy]]:
    """Makes proxies before the servers that URLs name."""
    with ExitStack() as stack:
        yield lambda url: stack.enter_context(Proxy.before(url))


@contextmanager
def skipping_what_is_missing() -> Iterator[None]:
    try:
        yield
    except MissingProgramError as missing:
        pytest.skip(str(missing))
