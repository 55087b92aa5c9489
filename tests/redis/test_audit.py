"""How a server is set up, held against what the guarantees need: each fault is found on a real one, and its end."""

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.crash.workshop import until
from tests.redis.watching import watching
from tests.servers.redis import RedisPair, RedisServer
from tinyjobs.backends.redis.audit import findings
from tinyjobs.backends.redis.server import read_info
from tinyjobs.backends.registry import open_backend
from tinyjobs.core.clock import SystemClock
from tinyjobs.core.errors import StoreUnavailableError
from tinyjobs.core.inline import finish
from tinyjobs.core.watching import Finding

pytestmark = pytest.mark.redis

#: As servers of every version tell it.
SOUND = {
    "role": "master",
    "aof_enabled": "1",
    "aof_last_write_status": "ok",
    "rdb_last_bgsave_status": "ok",
    "maxmemory": "1000000",
    "maxmemory_policy": "noeviction",
    "used_memory": "100000",
}


@pytest.fixture
def audited() -> Iterator[Callable[..., list[Finding]]]:
    """Audits a server, each time through a new store that was not set up."""
    stores: list[Any] = []

    def audit(server: RedisServer, url: str = "") -> list[Finding]:
        store = open_backend(url or server.url(), clock=SystemClock()).inline()
        stores.append(store)
        return finish(store.audit())

    yield audit
    for store in stores:
        finish(store.close())


def failing(found: list[Finding]) -> list[str]:
    """The names of those that fail. All others are the last one, which passes."""
    *failed, last = found
    assert last.name == "settings" and last.ok and not last.is_warning
    assert not any(finding.ok for finding in failed)
    assert all(finding.remedy for finding in failed)
    return [finding.name for finding in failed]


def test_a_server_that_is_set_up_well_is_told_in_a_line(own_redis, audited):
    own_redis.execute("CONFIG SET", "maxmemory", "1gb")
    (finding,) = audited(own_redis)
    assert (finding.name, finding.ok, finding.is_warning, finding.is_unknown) == ("settings", True, False, False)
    for part in ("the role of a primary", "appendonly yes", "snapshot ok", "noeviction", "% of its maxmemory in use"):
        assert part in finding.message
    own_redis.execute("CONFIG SET", "maxmemory", "0")
    assert "no maxmemory" in audited(own_redis)[0].message


def test_it_is_one_command_that_writes_nothing_on_both_faces(own_redis, audited):
    own_redis.execute("ACL SETUSER", "looker", "on", "nopass", "resetkeys", "-@all", "+info", "+select")
    url = own_redis.url().replace("redis://", "redis://looker:any@")

    async def on_a_loop() -> list[Finding]:
        store = open_backend(url, clock=SystemClock())
        try:
            return await store.audit()
        finally:
            await store.close()

    with watching(own_redis) as commands:
        found = audited(own_redis, url)
    assert commands.count("INFO") == 1 and set(commands) <= {"INFO", "AUTH", "SELECT", "CLIENT", "HELLO"}
    assert failing(found) == failing(asyncio.run(on_a_loop())) == []


def test_a_server_without_an_append_only_file(make_redis, audited):
    server: RedisServer = make_redis(appendonly=False)
    assert failing(audited(server)) == ["appendonly"]
    server.execute("CONFIG SET", "appendonly", "yes")
    (finding,) = audited(server)
    assert "appendonly yes" in finding.message


def test_a_server_whose_append_only_file_cannot_be_written(make_redis, audited):
    server: RedisServer = make_redis(**{"auto-aof-rewrite-percentage": 0})
    if int(server.version()[1].partition(".")[0]) < 7:
        pytest.skip("the file has no name yet that could be taken beforehand; told by recorded fields below")
    # The file that comes after the next rewrite has no room.
    folder = server.folder / "appendonlydir"
    until(lambda: list(folder.glob("*.1.incr.aof")))
    (folder / "appendonly.aof.2.incr.aof").symlink_to("/dev/full")
    server.execute("BGREWRITEAOF")
    server.execute("SET", "something", "1")
    until(lambda: server.execute("INFO", "persistence")["aof_last_write_status"] == "err")
    assert failing(audited(server)) == ["appendonly_write"]
    until(lambda: not server.execute("INFO", "persistence")["aof_rewrite_in_progress"])
    server.execute("BGREWRITEAOF")
    until(lambda: server.execute("INFO", "persistence")["aof_last_write_status"] == "ok")
    assert failing(audited(server)) == []


@pytest.mark.parametrize("appendonly", [True, False])
def test_a_server_whose_last_snapshot_failed(make_redis, audited, appendonly):
    """Whether or not there is an append-only file beside it: with save points it takes no writes either way."""
    server: RedisServer = make_redis(appendonly=appendonly, dbfilename="gone.rdb")
    others = [] if appendonly else ["appendonly"]
    assert failing(audited(server)) == others
    (server.folder / "gone.rdb").mkdir()  # so that it cannot be written, by root neither
    server.execute("BGSAVE")
    until(lambda: server.execute("INFO", "persistence")["rdb_last_bgsave_status"] == "err")
    assert failing(audited(server)) == [*others, "snapshots"]
    (server.folder / "gone.rdb").rmdir()
    until(lambda: not server.execute("INFO", "persistence")["rdb_bgsave_in_progress"])
    server.execute("BGSAVE")
    until(lambda: server.execute("INFO", "persistence")["rdb_last_bgsave_status"] == "ok")
    assert failing(audited(server)) == others


def test_a_server_that_drops_jobs_when_it_is_full(own_redis, audited):
    for policy in ("allkeys-lru", "allkeys-lfu", "allkeys-random"):
        own_redis.execute("CONFIG SET", "maxmemory-policy", policy)
        own_redis.execute("CONFIG SET", "maxmemory", "1gb")
        found = audited(own_redis)
        assert failing(found) == ["eviction"] and policy in found[0].message
        own_redis.execute("CONFIG SET", "maxmemory", "0")
        assert failing(audited(own_redis)) == [], "it is never full"
    own_redis.execute("CONFIG SET", "maxmemory", "1gb")
    for policy in ("volatile-lru", "volatile-lfu", "volatile-random", "volatile-ttl", "noeviction"):
        own_redis.execute("CONFIG SET", "maxmemory-policy", policy)
        found = audited(own_redis)
        assert failing(found) == [], "no job expires by itself"
        assert policy in found[0].message
        assert ("figures may go" in found[0].message) is policy.startswith("volatile")


def test_a_server_that_is_nearly_full(own_redis, audited):
    used = own_redis.execute("INFO", "memory")["used_memory"]
    own_redis.execute("CONFIG SET", "maxmemory", int(used * 1.03))
    found = audited(own_redis)
    assert failing(found) == ["memory"] and "maxmemory" in found[0].message
    own_redis.execute("CONFIG SET", "maxmemory", used * 3)
    assert failing(audited(own_redis)) == []


def test_a_replica_names_its_primary_until_it_is_one(make_redis_pair, audited):
    pair: RedisPair = make_redis_pair()
    assert failing(audited(pair.primary)) == []
    found = audited(pair.replica)
    assert failing(found) == ["role"] and f"127.0.0.1:{pair.primary.port}" in found[0].remedy
    pair.replica.follow(None)
    assert failing(audited(pair.replica)) == []


def test_several_faults_are_a_finding_each(make_redis, audited):
    server: RedisServer = make_redis(appendonly=False, maxmemory="100mb", **{"maxmemory-policy": "allkeys-lru"})
    server.execute("REPLICAOF", "127.0.0.1", 1)
    found = audited(server)
    assert failing(found) == ["role", "appendonly", "eviction"]
    assert "primary" not in found[-1].message and "appendonly" not in found[-1].message


def test_a_user_who_may_not_ask_is_told_so(own_redis, audited):
    """Nothing fails: the server may be set up as well as any. One who may not see the configuration sees all."""
    own_redis.execute("ACL SETUSER", "blind", "on", "nopass", "~*", "&*", "+@all", "-info")
    (finding,) = audited(own_redis, own_redis.url().replace("redis://", "redis://blind:any@"))
    assert (finding.name, finding.ok, finding.is_unknown) == ("settings", True, True)
    assert "Not checked" in finding.message and "+info" in finding.remedy
    own_redis.execute("ACL SETUSER", "shop", "on", "nopass", "~*", "&*", "+@all", "-@dangerous", "-@admin", "+info")
    (finding,) = audited(own_redis, own_redis.url().replace("redis://", "redis://shop:any@"))
    assert finding.ok and not finding.is_unknown


def test_a_server_out_of_reach_is_an_error(own_redis, audited):
    own_redis.kill()
    with pytest.raises(StoreUnavailableError):
        audited(own_redis)


def test_servers_tell_each_field_in_its_known_form(own_redis):
    """Of whatever version the tests run on."""
    told = read_info(b"".join(_answer(own_redis)))
    assert SOUND.keys() <= told.keys()
    assert findings(SOUND)[0].is_unknown is False
    assert failing(findings({**SOUND, "aof_last_write_status": "err"})) == ["appendonly_write"]


@pytest.mark.parametrize("value", [None, "", "maybe", "-1", "1.5", "1k"])
@pytest.mark.parametrize("name", SOUND)
def test_what_is_not_told_or_in_another_form_is_not_checked(name, value):
    told = {**SOUND, name: value or ""}
    if value is None:
        del told[name]
    (finding,) = findings(told)
    assert finding.is_unknown and f"does not tell: {name}" in finding.message
    faults = {
        "role": "slave",
        "aof_enabled": "0",
        "rdb_last_bgsave_status": "err",
        "maxmemory_policy": "allkeys-lru",
        "used_memory": "950000",
    }
    others = failing(findings({**SOUND, **faults, name: told.get(name, "")}))
    assert len(others) == len(faults) - (2 if name == "maxmemory" else name in faults), "the rest is looked at"


def test_nothing_is_asked_of_the_append_only_file_where_there_is_none():
    without = {name: value for name, value in SOUND.items() if name != "aof_last_write_status"}
    assert failing(findings({**without, "aof_enabled": "0"})) == ["appendonly"]
    assert not findings({**without, "aof_enabled": "0"})[-1].is_unknown


@pytest.mark.parametrize(("used", "fails"), [(899_999, False), (900_000, True), (1_000_000, True), (2_000_000, True)])
def test_nine_tenths_of_the_memory_are_too_many(used, fails):
    assert failing(findings({**SOUND, "used_memory": str(used)})) == ["memory"] * fails


def _answer(server: RedisServer) -> Iterator[bytes]:
    client = server.client()
    with client:
        connection = client.connection_pool.get_connection()
        connection.send_command("INFO")
        yield connection.read_response(disable_decoding=True)
        client.connection_pool.release(connection)
