"""Fixtures that give a test a server. `tests/conftest.py` registers them; what uses one is marked `postgres`.

A run has one server: what `runtests.py` or the settings name in TINYJOBS_TEST_POSTGRES, else a private cluster.
Where a program is missing, the tests that need it are skipped, with the way to get it as the reason.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from tests.servers.postgres import URL_VARIABLE, Cluster, Server
from tests.servers.processes import MissingProgramError


@pytest.fixture(scope="session")
def postgres_cluster() -> Iterator[Server]:
    """The run's server. Shared: a test may make databases here, but not stop or change it."""
    named = os.environ.get(URL_VARIABLE)
    server = Server(named) if named else start()
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
    with ExitStack() as stack:
        yield lambda **options: stack.enter_context(start(**options))


@pytest.fixture
def own_cluster(make_cluster: Callable[..., Cluster]) -> Cluster:
    """A cluster that nobody else uses, to be stopped, killed and changed at will."""
    return make_cluster()


def start(**options: object) -> Cluster:
    try:
        return Cluster(**options)
    except MissingProgramError as missing:
        pytest.skip(str(missing))
