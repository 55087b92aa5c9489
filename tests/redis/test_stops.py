"""Workers that are told to stop, beside a Redis that answers, one that has gone, and one that has fallen silent."""

from collections.abc import Callable

import pytest

from tests.crash.stops import (  # noqa: F401 - the tests
    test_a_second_signal_does_not_wait_for_a_silent_server,
    test_a_stop_waits_for_what_ends_in_time_and_gives_the_coroutine_back_that_does_not,
    test_a_stop_without_a_server_ends_in_time_and_says_what_was_not_recorded,
    test_an_idle_worker_stops_in_time_beside_a_silent_server,
)
from tests.crash.workshop import Workshop
from tests.servers.proxy import Proxy
from tests.servers.redis import RedisServer

pytestmark = pytest.mark.redis


@pytest.fixture
def server(own_redis: RedisServer) -> RedisServer:
    return own_redis


@pytest.fixture
def proxy(own_redis: RedisServer, make_proxy: Callable[[str], Proxy]) -> Proxy:
    return make_proxy(own_redis.url())


@pytest.fixture
def workshop(own_redis: RedisServer, proxy: Proxy, open_workshop: Callable[[str], Workshop]) -> Workshop:
    return open_workshop(proxy.url(own_redis.url()))
