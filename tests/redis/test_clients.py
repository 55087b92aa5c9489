"""A client that is handed in gives the store its settings, and is left as it was."""

import copy

import pytest
import redis
import redis.asyncio
from redis.backoff import ExponentialBackoff
from redis.retry import Retry
from redis.sentinel import Sentinel

from tinyjobs import TinyJobs
from tinyjobs.backends.redis.clients import is_client, settings_of
from tinyjobs.backends.redis.options import RedisOptions
from tinyjobs.backends.redis.source import Source
from tinyjobs.backends.redis.threadlink import ThreadLink
from tinyjobs.core.clock import SystemClock
from tinyjobs.core.errors import ConfigurationError
from tinyjobs.core.inline import finish

CLASSES = [redis.Redis, redis.asyncio.Redis]


@pytest.fixture(params=CLASSES, ids=["sync", "asyncio"])
def made(request):
    return request.param


def test_a_server_by_its_name(made):
    client = made(host="host", port=7, db=3, username="me", password="s3cr3t", socket_timeout=3, client_name="mine")
    address, options, place = settings_of(client, {})
    assert address.kind == "tcp"
    wanted = {"host": "host", "port": 7, "db": 3, "username": "me", "password": "s3cr3t", "client_name": "mine"}
    assert {name: address.keywords[name] for name in wanted} == wanted
    assert options.socket_timeout == 3 and options.prefix == "tinyjobs"
    assert place == "redis://me@host:7/3" and "s3cr3t" not in repr(address)


def test_tls(made):
    address, _, place = settings_of(made(host="::1", ssl=True, ssl_ca_certs="/x", ssl_cert_reqs="none"), {})
    assert (address.kind, place) == ("tls", "rediss://[::1]:6379/0")
    assert (address.keywords["ssl_ca_certs"], address.keywords["ssl_cert_reqs"]) == ("/x", "none")


def test_a_socket(made):
    address, _, place = settings_of(made(unix_socket_path="/run/redis.sock", db=2), {})
    assert (address.kind, address.keywords["path"], place) == ("unix", "/run/redis.sock", "unix:///run/redis.sock?db=2")


def test_a_client_made_from_a_url(made):
    address, _, place = settings_of(made.from_url("rediss://me:pw@host:1/2?ssl_cert_reqs=none"), {})
    assert (address.kind, place, address.keywords["password"]) == ("tls", "rediss://me@host:1/2", "pw")


def test_the_stores_own_options_count_over_the_clients(made):
    options = {"prefix": "mail", "timeout": 2, "socket_timeout": 4, "db": "5"}
    address, found, place = settings_of(made(socket_timeout=3, socket_connect_timeout=9), options)
    assert (found.prefix, found.pool_timeout, found.socket_timeout, found.socket_connect_timeout) == ("mail", 2, 4, 9)
    assert address.keywords["db"] == 5 and place.endswith("/5")
    with pytest.raises(ConfigurationError, match="the store's client does not take 'colour'"):
        settings_of(made(), {"colour": "red"})


def test_what_the_client_leaves_open_is_as_usual(made):
    found = settings_of(made(socket_timeout=None, socket_connect_timeout=None), {})[1]
    assert (found.socket_timeout, found.pool_timeout) == (RedisOptions().socket_timeout, RedisOptions().pool_timeout)
    assert 0 < found.max_connections <= 100


def test_a_pools_own_size_and_patience_are_taken():
    pool = redis.BlockingConnectionPool(host="host", max_connections=7, timeout=3)
    found = settings_of(redis.Redis(connection_pool=pool), {})[1]
    assert (found.max_connections, found.pool_timeout) == (7, 3)


def test_a_client_that_tries_again_and_decodes_is_used_and_left_as_it_was(redis_url):
    client = redis.Redis.from_url(
        redis_url, retry=Retry(ExponentialBackoff(), 3), retry_on_timeout=True, decode_responses=True
    )
    client.set("a", "b")
    before = copy.copy(client.connection_pool.connection_kwargs)
    mine = client.client_id()
    address, options, place = settings_of(client, {})
    source = Source(address=lambda: address, options=options, where=place, clock=SystemClock())
    link = ThreadLink(source)
    assert finish(link.command("GET", "a")) == b"b"
    assert finish(link.command("CLIENT", "ID")) != mine
    finish(link.close())
    assert client.connection_pool.connection_kwargs == before
    assert client.client_id() == mine and client.get("a") == "b"
    client.close()


@pytest.mark.parametrize(
    ("client", "said"),
    [
        (Sentinel([("host", 1)]).master_for("main"), "in a way of its own"),
        (redis.Redis.from_url("redis://host", redis_connect_func=print), "in a way of its own"),
        (object(), "a client of type 'object' cannot be used"),
        ("redis://host", "a client of type 'str' cannot be used"),
    ],
)
def test_what_cannot_be_used_is_refused(client, said):
    with pytest.raises(ConfigurationError, match=said):
        settings_of(client, {})


def test_what_is_a_client(made):
    assert is_client(made())
    assert not is_client("redis://host") and not is_client(redis.RedisCluster)


def test_an_app_is_given_a_client(redis_url):
    client = redis.Redis.from_url(redis_url, decode_responses=True)
    with TinyJobs("redis://", client=client, notify=False) as app:
        noop = app.task(name="noop")(lambda: None)
        job = noop.enqueue()
        assert app.drain() == 1
        assert client.exists(f"{{tinyjobs}}:job:{job.id}") == 1
    assert client.ping()
    client.close()


def test_a_client_beside_an_address_is_refused():
    with pytest.raises(ConfigurationError, match=r"client= both say where .* write 'redis://' alone"):
        TinyJobs("redis://elsewhere/1", client=redis.Redis())
