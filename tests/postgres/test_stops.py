"""Workers that are told to stop, beside a Postgres that answers, one that has gone, and one that has fallen silent."""

from collections.abc import Callable

import pytest

from tests.crash.stops import (  # noqa: F401 - the tests
    test_a_second_signal_does_not_wait_for_a_silent_server,
    test_a_stop_waits_for_what_ends_in_time_and_gives_the_coroutine_back_that_does_not,
    test_a_stop_without_a_server_ends_in_time_and_says_what_was_not_recorded,
    test_an_idle_worker_stops_in_time_beside_a_silent_server,
)
from tests.crash.workshop import Workshop
from tests.servers.postgres import Cluster
from tests.servers.proxy import Proxy

pytestmark = pytest.mark.postgres


@pytest.fixture
def server(own_cluster: Cluster) -> Cluster:
    return own_cluster


@pytest.fixture
def database(own_cluster: Cluster) -> str:
    return own_cluster.create_database()


@pytest.fixture
def proxy(own_cluster: Cluster, database: str, make_proxy: Callable[[str], Proxy]) -> Proxy:
    return make_proxy(own_cluster.url(database))


@pytest.fixture
def workshop(own_cluster: Cluster, database: str, proxy: Proxy, open_workshop: Callable[[str], Workshop]) -> Workshop:
    return open_workshop(proxy.url(own_cluster.url(database)))
