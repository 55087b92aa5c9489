"""That the benchmark's programs and its command work on Redis. Nothing here looks at how fast they were."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from tests.benchmarks.__main__ import main
from tests.benchmarks.keyspaces import RedisServers
from tests.benchmarks.pairs import PROGRAMS, Runner
from tests.benchmarks.plan import DJANGO, FACADE, Work
from tests.benchmarks.rows_redis import BARE, FACADE_ASYNC
from tests.benchmarks.test_smoke import DRAINED, SENT, TINY, no_peers
from tests.servers.fixtures import skipping_what_is_missing

pytestmark = pytest.mark.redis


@pytest.fixture(scope="module")
def servers() -> Iterator[RedisServers]:
    with skipping_what_is_missing():
        servers = RedisServers()
    yield servers
    servers.close()


@pytest.fixture
def store(servers: RedisServers, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A fresh server, as a program sees it."""
    monkeypatch.syspath_prepend(str(PROGRAMS))
    from store_redis import RedisStore  # type: ignore[import-not-found]

    yield RedisStore(servers.fresh())
    sys.modules.pop("store_redis")


@pytest.mark.parametrize(
    ("work", "keys"),
    [
        (Work(FACADE, "enqueue"), SENT | {"p50_us", "p99_us"}),
        (Work(FACADE_ASYNC, "enqueue"), SENT | {"p50_us", "p99_us"}),
        (Work(DJANGO, "enqueue"), SENT | {"p50_us", "p99_us"}),
        (Work(BARE, "enqueue"), SENT | {"p50_us", "p99_us"}),
        (Work(FACADE, "bulk"), SENT),
        (Work(DJANGO, "bulk"), SENT),
        (Work(BARE, "bulk"), SENT),
        (Work(FACADE, "drain", "thread", workers=2, slots=4), DRAINED),
        (Work(DJANGO, "drain", "coroutine"), DRAINED),
        (Work(BARE, "drain"), DRAINED),
        (Work(FACADE, "drain", filled=True, priority=1), DRAINED),
        (Work(DJANGO, "drain", "thread", filled=True, priority=1), DRAINED),
        (Work(FACADE, "latency"), {"p50_ms", "p95_ms", "max_ms"}),
        (Work(FACADE, "idle"), {"cpu_percent", "statements_per_second"}),
        (Work(DJANGO, "lateness", "thread"), {"p50_ms", "max_ms", "min_ms"}),
        (Work(FACADE, "pressure"), {"rate", "slowest_ms", "ping_max_ms"}),
    ],
    ids=lambda given: (
        f"{given.subject.script}-{given.shape}-{given.kind}-{given.subject.variant}" if isinstance(given, Work) else ""
    ),
)
def test_a_program_answers_with_its_figures(work: Work, keys: set[str], servers: RedisServers, tmp_path: Path) -> None:
    answer = Runner(TINY, no_peers, lambda folder: servers, tmp_path).run(work)
    assert keys <= set(answer)
    assert answer["redis"]
    if work.shape == "drain":
        assert answer["runs"] == TINY.jobs
    if work.filled:
        assert answer["filled"] == {"finished": TINY.finished, "delayed": TINY.delayed, "priority": work.priority}


def test_a_filled_server_is_copied_for_each_run(servers: RedisServers) -> None:
    with redis.Redis.from_url(servers.fresh()) as client:
        client.set("kept", "1")
    servers.keep("one")
    for _ in range(2):
        with redis.Redis.from_url(servers.fresh("one")) as client:
            assert client.keys() == [b"kept"]
            client.set("more", "2")
    with redis.Redis.from_url(servers.fresh()) as client:
        assert client.keys() == []


def test_the_server_of_a_run_keeps_what_it_was_told(servers: RedisServers) -> None:
    with redis.Redis.from_url(servers.fresh()) as client:
        told = {name: client.config_get(name)[name] for name in ("appendonly", "appendfsync", "save")}
    assert told == {"appendonly": "yes", "appendfsync": "everysec", "save": ""}
    assert set(servers.settings()) == {"redis_version", "appendonly", "appendfsync"}


def test_commands_of_clients_are_counted_and_those_of_scripts_are_not(store: Any) -> None:
    store.client.ping()
    before = store.statements()
    assert store.statements() == before
    store.client.get("one")
    store.client.eval("redis.call('GET', 'a') redis.call('GET', 'b')", 0)
    assert store.statements() - before == 2


def test_slow_scripts_are_told_with_their_times(store: Any) -> None:
    store.watch_slow()
    assert store.slow() == []
    store.client.eval("for i = 1, 1000000 do local a = i end", 0)
    store.client.ping()
    (took,) = store.slow()
    assert 0 < took < 1000


def test_the_command_measures_on_a_server_of_its_own(
    servers: RedisServers, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--store", "redis", "--quick", "--singles", "20", "--only", "enqueue-facade"]
    folders = ["--out", str(tmp_path / "out"), "--scratch", str(tmp_path), "--cache", str(tmp_path / "cache")]
    assert main([*arguments, *folders]) == 0
    assert "bare redis-py loop" in capsys.readouterr().out
    kept = json.loads((tmp_path / "out" / "benchmark.json").read_text())
    assert kept["machine"]["appendonly"] == "yes"
