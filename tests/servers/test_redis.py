"""The private Redis servers themselves: what tests rely on, and that nothing of them is left behind."""

import os
import signal
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path

import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from tests.servers.processes import ServerError, make_folder
from tests.servers.proxy import Proxy
from tests.servers.redis import MARK, Server
from tests.servers.test_postgres import PATIENCE, PYTEST, ROOT, eventually, gone

SECRET = 'pass "word" with \\ and spaces/@'


def connect(url, **options):
    """One connection, so that its end is seen: a pool would quietly make another."""
    options = {"socket_timeout": PATIENCE, "retry": Retry(NoBackoff(), 0), "single_connection_client": True} | options
    return closing(redis.Redis.from_url(url, **options))


@pytest.mark.parametrize("turn", ["first", "second"])
def test_each_test_gets_an_empty_database(redis_url, turn):
    with connect(redis_url) as client:
        assert client.keys() == []
        client.set("left behind", "1")


def test_databases_are_handed_out_once_and_emptied_when_they_come_back(redis_server):
    first, second = redis_server.create_database(), redis_server.create_database()
    assert first != second and redis_server.home not in (first, second)
    redis_server.execute("SET", "key", "value", database=first)
    assert redis_server.execute("DBSIZE", database=second) == 0
    for number in (first, second):
        redis_server.drop_database(number)
    assert redis_server.execute("DBSIZE", database=first) == 0
    assert not redis_server.execute("EXISTS", MARK.format(first), MARK.format(second))


def test_on_a_server_of_somebody_elses_only_what_is_empty_is_taken(make_redis):
    owned = make_redis(databases=4)
    owned.execute("SET", "theirs", "1", database=1)
    owned.execute("SET", MARK.format(2), "1")  # another run's
    guest = Server(owned.url(0))
    assert guest.create_database() == 3
    with pytest.raises(ServerError, match="none of the 4 databases"):
        guest.create_database()
    guest.drop_database(3)
    assert guest.create_database() == 3
    guest.close()
    assert owned.execute("GET", "theirs", database=1) == b"1"


def test_a_url_leads_to_any_database_by_either_way(own_redis):
    assert own_redis.home == 0 and Server(own_redis.socket_url(5)).home == 5
    for way, server in enumerate((Server(own_redis.url(2)), Server(own_redis.socket_url(2)))):
        with closing(server.client(7)) as client:
            client.set(f"way {way}", "1")
        server.close()
    assert own_redis.execute("DBSIZE", database=7) == 2


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_what_was_answered_survives_a_stop_and_a_kill_on_the_same_port(own_redis, end):
    with connect(own_redis.url()) as client:
        for number in range(1000):
            client.rpush("kept", number)
        getattr(own_redis, end)()
        assert not own_redis.is_running()
        with pytest.raises(redis.ConnectionError):
            client.ping()
        own_redis.start()
        assert client.llen("kept") == 1000
    with connect(own_redis.socket_url()) as client:
        assert client.llen("kept") == 1000


def test_without_an_append_only_file_a_restart_forgets(make_redis):
    server = make_redis(appendonly=False)
    server.execute("SET", "key", "value")
    server.restart()
    assert server.execute("DBSIZE") == 0


def test_a_paused_server_answers_nobody_and_goes_on(own_redis):
    with connect(own_redis.url(), socket_timeout=0.1) as client:
        client.set("key", "value")
        own_redis.pause()
        with pytest.raises(redis.TimeoutError):
            client.get("key")
        own_redis.resume()
    assert own_redis.execute("GET", "key") == b"value"


def test_settings_are_written_as_redis_reads_them(make_redis):
    server = make_redis(requirepass=SECRET, maxmemory="3mb", maxmemory_policy="noeviction", save=(900, 1), timeout=None)
    for url in (server.url(), server.socket_url()):
        with connect(url) as client:
            shown = [client.config_get(name)[name] for name in ("requirepass", "maxmemory", "maxmemory-policy", "save")]
        assert shown == [SECRET, str(3 * 1024**2), "noeviction", "900 1"]
    with pytest.raises(redis.AuthenticationError), connect(f"redis://127.0.0.1:{server.port}/0") as client:
        client.ping()


def test_a_password_does_not_show_where_no_database_is_free(make_redis):
    server = make_redis(requirepass="hush", databases=1)
    with pytest.raises(ServerError) as error:
        server.create_database()
    assert "hush" not in str(error.value) and str(server.port) in str(error.value)


def test_clients_are_dropped_and_subscribers_too(own_redis):
    own_redis.execute("PING")
    with connect(own_redis.url()) as client, connect(own_redis.url()) as other:
        client.ping()
        subscription = other.pubsub()
        subscription.subscribe("channel")
        assert own_redis.drop_clients() == 3  # the other one's two
        with pytest.raises(redis.ConnectionError):
            client.ping()


def test_flush_empties_every_database(own_redis):
    for number in (0, 5):
        own_redis.execute("SET", "key", "value", database=number)
    own_redis.flush()
    assert [own_redis.execute("DBSIZE", database=number) for number in (0, 5)] == [0, 0]


def test_a_proxy_stands_before_it(own_redis, make_proxy):
    proxy = make_proxy(own_redis.url())
    with connect(proxy.url(own_redis.url(3))) as client:
        client.set("key", "value")
        assert proxy.cut() == 1
        with pytest.raises(redis.ConnectionError):
            client.ping()
    assert own_redis.execute("GET", "key", database=3) == b"value"


@pytest.mark.parametrize("options", [{}, {"requirepass": SECRET}])
def test_a_pair_changes_places_behind_one_url_and_loses_nothing(make_redis_pair, options):
    pair = make_redis_pair(**options)
    url = pair.url(3)
    with connect(url) as client:
        for turn in range(2):
            for number in range(500):
                client.rpush(f"turn {turn}", number)
            before = pair.primary
            pair.failover()
            assert pair.replica is before and not before.is_running() and pair.url(3) == url
            with pytest.raises(redis.ConnectionError):
                client.ping()
            assert client.llen(f"turn {turn}") == 500
            client.set("written to", "the new one")
            pair.rejoin()
            assert pair.replica.execute("GET", "written to", database=3) == b"the new one"
            with pytest.raises(redis.ReadOnlyError):
                pair.replica.execute("SET", "key", "value")


def test_a_primary_that_is_killed_loses_what_it_had_not_sent(make_redis_pair):
    pair = make_redis_pair()
    proxy = Proxy.before(pair.primary.url())
    with proxy:
        pair.replica.execute("REPLICAOF", "127.0.0.1", proxy.port)
        pair.replica.wait_until_it_has_all_of(pair.primary)
        proxy.stall()
        pair.primary.execute("SET", "unsent", "1")
        pair.failover(loses_nothing=False)
    assert not pair.replica.is_running()
    assert pair.primary.execute("DBSIZE") == 0
    with connect(pair.url()) as client:
        assert client.set("key", "value")


def test_it_does_not_run_as_root(own_redis):
    assert os.stat(own_redis.folder).st_uid != 0
    if os.path.exists("/proc"):
        assert os.stat(f"/proc/{own_redis.pid}").st_uid != 0


def test_a_server_that_cannot_start_says_why_and_leaves_nothing(make_redis, monkeypatch):
    made = []

    def make_and_remember(prefix, **options):
        made.append(make_folder(prefix, **options))
        return made[-1]

    monkeypatch.setattr("tests.servers.processes.make_folder", make_and_remember)
    with pytest.raises(ServerError, match="no-such-setting"):
        make_redis(no_such_setting="1")
    assert [folder.exists() for folder in made] == [False]


def test_two_threads_may_ask_the_administrator_at_once(redis_server):
    answers = []
    threads = [threading.Thread(target=lambda: answers.append(redis_server.execute("PING"))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert answers == [True] * 8


SESSION = """
import sys
def test_it(own_redis):
    print("", own_redis.pid, own_redis.folder, file=sys.__stdout__, flush=True)
    own_redis.pause()
    sys.__stdin__.read()
"""


@pytest.mark.redis
@pytest.mark.parametrize("signalled", [signal.SIGKILL, signal.SIGTERM, None])
def test_nothing_is_left_when_the_process_that_started_it_ends(signalled, tmp_path, redis_server):
    (tmp_path / "test_it.py").write_text(SESSION)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    environment = {name: set_to for name, set_to in os.environ.items() if not name.startswith(("PYTEST", "DJANGO"))}
    with subprocess.Popen(
        [sys.executable, *PYTEST, str(tmp_path)],
        cwd=ROOT,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as owner:
        while len(words := owner.stdout.readline().split()) != 2:
            assert owner.poll() is None, owner.stdout.read()
        pid, folder = int(words[0]), Path(words[1])
        assert not gone(pid) and folder.exists()
        if signalled is None:
            owner.stdin.close()
        else:
            owner.send_signal(signalled)
        owner.wait(PATIENCE)
    assert eventually(lambda: gone(pid))
    assert eventually(lambda: not folder.exists())
