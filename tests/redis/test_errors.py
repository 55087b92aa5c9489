"""What a server's refusals mean: the kind of trouble, the remedy in the message, and no password."""

import os
import threading
import time

import pytest
import redis
from redis import exceptions as driver

from tests.redis.links import answer, link_to
from tests.servers.processes import free_port
from tinyjobs.backends.redis.errors import code_of, translate
from tinyjobs.backends.redis.link import Script
from tinyjobs.backends.redis.replies import InvalidReply, ReplyError
from tinyjobs.core.errors import (
    ConfigurationError,
    DataRefusedError,
    StoreBusyError,
    StoreError,
    StoreUnavailableError,
)
from tinyjobs.core.trouble import Trouble, kind_of

WHERE = "redis://host/0"
WRITING = Script.of("writing", "redis.call('SET', KEYS[1], ARGV[1]) return 1")


@pytest.mark.parametrize(
    ("error", "kind", "code", "said"),
    [
        (ReplyError("LOADING Redis is loading the dataset in memory"), StoreUnavailableError, "LOADING", "from disk"),
        (driver.BusyLoadingError("Redis is loading the dataset in memory"), StoreUnavailableError, "LOADING", "disk"),
        (ReplyError("MISCONF Redis is configured to save RDB snapshots"), StoreUnavailableError, "MISCONF", "its log"),
        (ReplyError("OOM command not allowed"), StoreUnavailableError, "OOM", "maxmemory"),
        (ReplyError("READONLY You can't write"), StoreUnavailableError, "READONLY", "as a replica"),
        (ReplyError("MASTERDOWN Link with MASTER is down"), StoreUnavailableError, "MASTERDOWN", "lost its primary"),
        (ReplyError("NOREPLICAS Not enough good replicas"), StoreUnavailableError, "NOREPLICAS", "min-replicas"),
        (ReplyError("NOAUTH Authentication required."), StoreUnavailableError, "NOAUTH", "user name and password"),
        (driver.AuthenticationError("invalid username-password"), StoreUnavailableError, "NOAUTH", "ACL"),
        (ReplyError("WRONGPASS invalid username-password"), StoreUnavailableError, "WRONGPASS", "password"),
        (ReplyError("DENIED Redis is running in protected mode"), StoreUnavailableError, "DENIED", "protected mode"),
        (ReplyError("CLUSTERDOWN Hash slot not served"), StoreUnavailableError, "CLUSTERDOWN", "node of a cluster"),
        (ReplyError("MOVED 3999 127.0.0.1:6381"), ConfigurationError, "MOVED", "node of a cluster"),
        (ReplyError("CROSSSLOT Keys in request"), ConfigurationError, "CROSSSLOT", "one slot"),
        (ReplyError("BUSY Redis is busy running a script."), StoreBusyError, "BUSY", "SCRIPT KILL"),
        (ReplyError("ERR max number of clients reached"), StoreBusyError, "ERR", "maxclients"),
        (driver.ConnectionError("max number of clients reached"), StoreBusyError, "", "maxclients"),
        (ReplyError("NOPERM this user has no permissions"), StoreError, "NOPERM", "Grant the user"),
        (ReplyError("WRONGTYPE Operation against a key"), StoreError, "WRONGTYPE", "same prefix"),
        (ReplyError("ERR string exceeds maximum allowed size"), DataRefusedError, "ERR", "proto-max-bulk-len"),
        (ReplyError("ERR unknown command 'X'"), StoreError, "ERR", "unknown command"),
        (driver.ConnectionError("Error 111 connecting"), StoreUnavailableError, "", "Error 111"),
        (driver.TimeoutError("Timeout connecting to server"), StoreUnavailableError, "", "Timeout"),
        (InvalidReply("no reply"), StoreUnavailableError, "", "no reply"),
        (ConnectionResetError(104, "Connection reset by peer"), StoreUnavailableError, "", "reset by peer"),
    ],
)
def test_each_refusal_has_its_kind_its_remedy_and_its_source(error, kind, code, said):
    told = translate(error, WHERE)
    assert type(told) is kind and told.__cause__ is error
    assert said in str(told) and str(told).startswith(f"{WHERE}: ") | isinstance(told, DataRefusedError)
    assert told.code == code == code_of(error)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        # As Redis 6.2 tells of an error inside a script, and as 7 does.
        (
            (
                "ERR Error running script (call to f_5f2d): @user_script:1: @user_script: 1: "
                "-OOM command not allowed when used memory > 'maxmemory'. "
            ),
            "OOM",
        ),
        ("ERR Error running script (call to f_5f2d): @user_script:1: -READONLY You can't write", "READONLY"),
        ("WRONGTYPE Operation against a key script: 5f2d, on @user_script:1.", "WRONGTYPE"),
        ("ERR user_script:1: attempt to index a nil value script: 5f2d, on @user_script:1.", "ERR"),
        ("ERR value of -ABC is no integer", "ABC"),
    ],
)
def test_an_error_inside_a_script_is_known_by_its_own_word(text, code):
    assert code_of(ReplyError(text)) == code


def test_what_cannot_be_sent_is_refused_for_what_it_is():
    with pytest.raises(UnicodeEncodeError) as caught:
        "\ud800".encode()
    assert kind_of(translate(caught.value, WHERE)) is Trouble.DATA
    assert isinstance(translate(driver.DataError("Invalid input"), WHERE), DataRefusedError)


def test_what_is_not_the_stores_passes():
    error = KeyError("x")
    assert translate(error, WHERE) is error


def failing_write(module):
    """The error of a write to a transport that was reset, as asyncio on Python 3.12 raises it."""
    space = {"__name__": module}
    exec("def write(ready=None):\n    ready()", space)
    with pytest.raises(TypeError) as caught:
        space["write"]()
    return caught.value


def test_asyncios_own_fall_over_a_reset_connection_is_a_lost_connection():
    told = translate(failing_write("asyncio.selector_events"), WHERE)
    assert type(told) is StoreUnavailableError and "reset" in str(told)
    ours = failing_write("tests.somewhere")
    assert translate(ours, WHERE) is ours
    other = TypeError("'NoneType' object is not iterable")
    assert translate(other, WHERE) is other


# --- by real servers --------------------------------------------------------------------------------------------------


@pytest.fixture(params=["threads", "loop"])
def make_link(request):
    return lambda url, **options: link_to(request.param, url, **options)


def refused(link, *words, script=None, kind=StoreUnavailableError):
    with pytest.raises(kind) as caught:
        answer(link, *words, script=script)
    assert type(caught.value) is kind, repr(caught.value)
    return caught.value


def test_memory_that_is_full(own_redis, make_link):
    own_redis.execute("CONFIG SET", "maxmemory", "1")
    with make_link(own_redis.url()) as link:
        for told in (refused(link, "SET", "a", "b"), refused(link, "a", "b", script=WRITING)):
            assert told.code == "OOM" and "maxmemory is reached" in str(told)
        assert answer(link, "PING") == b"PONG"
        own_redis.execute("CONFIG SET", "maxmemory", "0")
        assert answer(link, "a", "b", script=WRITING) == 1


def test_a_server_that_cannot_save(make_redis, make_link):
    server = make_redis(appendonly=False, save=(3600, 1))
    server.execute("SET", "a", "b")
    server.execute("CONFIG SET", "rdbcompression", "yes")
    (server.folder / "dump.rdb").mkdir()
    with pytest.raises(redis.ResponseError):
        server.execute("SAVE")
    server.execute("BGSAVE")
    deadline = time.monotonic() + 20
    while server.execute("INFO", "persistence")["rdb_last_bgsave_status"] == "ok" and time.monotonic() < deadline:
        time.sleep(0.02)
    with make_link(server.url()) as link:
        for told in (refused(link, "SET", "a", "b"), refused(link, "a", "b", script=WRITING)):
            assert told.code == "MISCONF" and "cannot save to disk" in str(told)


def test_a_replica(make_redis, make_link):
    primary = make_redis()
    replica = make_redis(replicaof=primary)
    replica.wait_until_it_has_all_of(primary)
    with make_link(replica.url()) as link:
        for told in (refused(link, "SET", "a", "b"), refused(link, "a", "b", script=WRITING)):
            assert told.code == "READONLY" and "replica" in str(told)


def test_a_password_that_is_wrong_or_missing(make_redis, make_link):
    server = make_redis(requirepass="s3cr3t")
    with make_link(server.url().replace("s3cr3t", "0th3r")) as link:
        told = refused(link, "PING")
        assert "user name and password" in str(told) and "0th3r" not in f"{told} {told.__cause__!r}"
    with make_link(f"redis://127.0.0.1:{server.port}") as link:
        assert "user name and password" in str(refused(link, "PING"))
    with make_link(server.url()) as link:
        assert answer(link, "PING") == b"PONG"


def test_what_a_user_may_not_do(own_redis, make_link):
    own_redis.execute("ACL SETUSER", "few", "on", ">pw", "~*", "+get", "+evalsha", "+eval")
    with make_link(own_redis.url().replace("://", "://few:pw@")) as link:
        for told in (
            refused(link, "SET", "a", "b", kind=StoreError),
            refused(link, "a", "b", script=WRITING, kind=StoreError),
        ):
            assert told.code == "NOPERM" and "Grant the user" in str(told)
        # Nor may it give its connection a name, which is no reason to fail.
        assert answer(link, "GET", "a") is None


def test_a_key_of_somebody_elses(own_redis, make_link):
    own_redis.execute("RPUSH", "a", "b")
    incrementing = Script.of("incrementing", "return redis.call('INCR', KEYS[1])")
    with make_link(own_redis.url()) as link:
        for told in (
            refused(link, "INCR", "a", kind=StoreError),
            refused(link, "a", script=incrementing, kind=StoreError),
        ):
            assert told.code == "WRONGTYPE" and "another program uses the same prefix" in str(told)


def test_a_script_that_runs_for_too_long(own_redis, make_link):
    own_redis.execute("CONFIG SET", "busy-reply-threshold" if _is_seven(own_redis) else "lua-time-limit", "50")
    endless = Script.of("endless", "while true do end")
    with make_link(own_redis.url()) as link, make_link(own_redis.url()) as other:
        running = threading.Thread(target=lambda: refused(other, "a", script=endless, kind=StoreError))
        running.start()
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            try:
                answer(link, "PING")
            except StoreBusyError as told:
                assert told.code == "BUSY" and "SCRIPT KILL" in str(told)
                break
        else:
            pytest.fail("never busy")
        own_redis.execute("SCRIPT KILL")
        running.join()
        assert answer(link, "PING") == b"PONG"


def _is_seven(server):
    return int(server.version()[1].partition(".")[0]) >= 7


def test_a_server_with_no_connection_left(own_redis, make_link):
    with make_link(own_redis.url(), max_connections=10) as link:
        own_redis.execute("CONFIG SET", "maxclients", "1")
        told = []
        while not any(isinstance(error, StoreBusyError) for error in told):
            # Or it has hung up before we could read why.
            with pytest.raises((StoreBusyError, StoreUnavailableError)) as caught:
                answer(link, "PING")
            told.append(caught.value)
            assert len(told) < 100
        assert "maxclients" in str(told[-1])
        own_redis.execute("CONFIG SET", "maxclients", "100")
        assert answer(link, "PING") == b"PONG"


def test_a_node_of_a_cluster(redis_server, make_redis, make_link):
    if not _is_seven(redis_server):
        pytest.skip("the port of its bus cannot be chosen, and may be taken")
    server = make_redis(cluster_enabled=True, cluster_port=free_port())
    with make_link(server.url()) as link:
        assert "single server" in str(refused(link, "a", "b", script=WRITING))


def test_a_value_that_is_too_large_for_the_server(own_redis, make_link):
    own_redis.execute("CONFIG SET", "proto-max-bulk-len", str(1 << 20))
    with make_link(own_redis.url()) as link:
        # The server ends the connection rather than read it.
        with pytest.raises((DataRefusedError, StoreUnavailableError)):
            answer(link, "SET", "a", "x" * (1 << 21))
        assert answer(link, "PING") == b"PONG"


def test_something_that_is_no_redis(make_link, http_port):
    with make_link(f"redis://127.0.0.1:{http_port}") as link:
        assert "127.0.0.1" in str(refused(link, "PING"))


@pytest.fixture
def http_port():
    import http.server

    with http.server.HTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler) as server:
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        yield server.server_address[1]
        server.shutdown()
        serving.join()


def test_nobody_there(make_link, tmp_path):
    with make_link("redis://127.0.0.1:1") as link:
        assert str(refused(link, "PING")).startswith("redis://127.0.0.1:1: ")
    with make_link(f"unix://:s3cr3t@{tmp_path}/none") as link:
        told = refused(link, "PING")
        assert "s3cr3t" not in str(told) and os.fspath(tmp_path) in str(told)
    with make_link("redis://host.invalid") as link:
        refused(link, "PING")
