"""The links to a server: what is answered, how many connections there are, and what becomes of a call that fails.

Each test runs on an event loop. A link for threads is called from threads of its own there.
"""

import asyncio
import os
import random
import socket
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress

import pytest

from tests.redis.links import KINDS, make_source
from tests.runtime.conftest import eventually
from tinyjobs.backends.redis.link import Script
from tinyjobs.backends.redis.looplink import LoopLink
from tinyjobs.backends.redis.options import parse_url
from tinyjobs.backends.redis.threadlink import ThreadLink
from tinyjobs.core.clock import FrozenClock
from tinyjobs.core.errors import DataRefusedError, StoreBusyError, StoreError, StoreUnavailableError
from tinyjobs.core.inline import finish

PATIENCE = 60.0
#: What a busy machine may take for what takes a moment, and far less than it takes where somebody waits in vain.
A_MOMENT = 10.0
ECHO = Script.of("echo", "return {KEYS[1], ARGV[1], ARGV[2], tonumber(ARGV[2]), false, {1}}")
COUNT = Script.of("count", "return redis.call('INCR', KEYS[1])")


class Caller:
    """A link of one of the kinds, called with `await` whichever it is."""

    def __init__(self, link):
        self.link = link
        self.shelf = link._shelf

    async def _call(self, coroutine):
        if isinstance(self.link, ThreadLink):
            return await asyncio.get_running_loop().run_in_executor(None, finish, coroutine)
        return await coroutine

    async def command(self, *words):
        return await self._call(self.link.command(*words))

    async def run(self, script, key="k", *arguments):
        return await self._call(self.link.run(script, [key], arguments))

    async def close(self):
        await self._call(self.link.close())


@pytest.fixture(params=KINDS)
def kind(request):
    return request.param


@pytest.fixture
def call(kind):
    """Run `body(link, …)` with a link on the URL, or with several, and close them."""

    def call(body, url, *, clock=None, source=None, count=1, **options):
        async def whole():
            with ThreadPoolExecutor(500) as executor:
                asyncio.get_running_loop().set_default_executor(executor)
                sources = [source or make_source(url, clock, **options) for _ in range(count)]
                callers = [Caller(KINDS[kind](each)) for each in sources]
                try:
                    return await asyncio.wait_for(body(*callers), PATIENCE)
                finally:
                    for caller in callers:
                        await caller.close()

        return asyncio.run(whole())

    return call


@asynccontextmanager
async def raising(kind, match):
    with pytest.raises(kind, match=match) as caught:
        yield caught
    assert type(caught.value) is kind, repr(caught.value)


def named(server, name="tinyjobs"):
    """The ids of the connections that the server shows under that name."""
    clients = server.execute("CLIENT LIST")
    return {client["id"] for client in clients if client["name"] == name}


# --- what is answered -------------------------------------------------------------------------------------------------


def test_answers_are_bytes_integers_lists_and_none(call, redis_url):
    async def body(link):
        assert await link.run(ECHO, "{t}:ü", b"\0\xff", 7) == ["{t}:ü".encode(), b"\0\xff", b"7", 7, None, [1]]
        assert await link.command("SET", "a", 0.1) == b"OK"
        assert await link.command("GET", "a") == b"0.1"
        assert await link.command("GET", "b") is None
        assert await link.command("EVAL", "return {}", 0) == []

    call(body, redis_url)


def test_large_values_go_and_come_whole(call, redis_url):
    async def body(link):
        large = os.urandom(8_000_000)
        await link.command("SET", "a", large)
        assert await link.command("GET", "a") == large
        script = Script.of("many", "local t = {} for i = 1, 50000 do t[i] = ARGV[1] end return t")
        assert await link.run(script, "k", "item") == [b"item"] * 50_000

    call(body, redis_url)


def test_what_cannot_be_sent_fails_alone(call, redis_url):
    async def body(link):
        async with raising(DataRefusedError, "cannot store these values"):
            await link.command("SET", "a", "\ud800")
        with pytest.raises(TypeError, match="not NoneType"):
            await link.command("SET", "a", None)
        assert await link.command("PING") == b"PONG"
        assert link.shelf.held == len(link.shelf.idle) == 1

    call(body, redis_url)


def test_a_refusal_keeps_the_connection(call, redis_url):
    async def body(link):
        first = await link.command("CLIENT", "ID")
        for _ in range(3):
            async with raising(StoreError, "unknown command"):
                await link.command("NONSENSE")
            async with raising(StoreError, "not allowed"):
                await link.run(Script.of("bad", "return redis.error_reply('ERR not allowed')"))
        assert await link.command("CLIENT", "ID") == first

    call(body, redis_url)


def test_a_script_unknown_to_the_server_is_no_error(call, own_redis):
    async def body(link):
        for number in range(1, 6):
            own_redis.execute("SCRIPT FLUSH")
            assert await link.run(COUNT) == number
        assert await link.run(COUNT) == 6
        said = own_redis.execute("INFO", "commandstats")
        assert (said["cmdstat_eval"]["calls"], said["cmdstat_evalsha"]["calls"]) == (5, 6)

    call(body, own_redis.url())


def test_the_cache_may_go_at_any_moment(call, own_redis):
    async def body(link):
        stop = threading.Event()

        def flush():
            client = own_redis.client()
            while not stop.is_set():
                client.script_flush()
            client.close()

        flushing = asyncio.get_running_loop().run_in_executor(None, flush)
        try:
            assert [await link.run(COUNT) for _ in range(500)] == list(range(1, 501))
        finally:
            stop.set()
            await flushing

    call(body, own_redis.url())


@pytest.mark.parametrize("way", ["tcp", "unix", "password"])
def test_every_way_in(call, make_redis, way):
    server = make_redis(**({"requirepass": "p@ss word"} if way == "password" else {}))

    async def body(link):
        assert await link.command("PING") == b"PONG"
        assert len(named(server)) == 1
        listed = await link.command("CLIENT", "LIST")
        assert b"db=3" in next(line for line in listed.splitlines() if b"name=tinyjobs" in line)

    call(body, server.socket_url(3) if way == "unix" else server.url(3))


def test_tls(call, make_redis, tmp_path):
    paths = _certificate(tmp_path)
    server = make_redis(
        tls_port=(port := _free_port()),
        tls_cert_file=str(paths[0]),
        tls_key_file=str(paths[1]),
        tls_ca_cert_file=str(paths[0]),
        tls_auth_clients=False,
    )

    async def body(link):
        for number in range(1, 50):
            assert await link.run(COUNT) == number
        assert len(named(server)) == 1
        server.drop_clients()
        assert await link.command("ECHO", "x" * 1_000_000) == b"x" * 1_000_000

    call(body, f"rediss://localhost:{port}/0", ssl_ca_certs=str(paths[0]))
    with pytest.raises(StoreUnavailableError, match=r"(?i)certificate"):
        call(body, f"rediss://localhost:{port}/0")


def _certificate(folder):
    paths = folder / "cert.pem", folder / "key.pem"
    command = (
        "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -addext subjectAltName=DNS:localhost"
    )
    try:
        subprocess.run([*command.split(), "-out", paths[0], "-keyout", paths[1]], check=True, capture_output=True)
    except FileNotFoundError:
        pytest.skip("openssl is not installed")
    for path in (*folder.parents, folder):
        with suppress(PermissionError):
            path.chmod(path.stat().st_mode | 0o111)
    for path in paths:
        path.chmod(0o644)
    return paths


def _free_port():
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return probe.getsockname()[1]


def test_the_kernel_looks_after_idle_connections(call, redis_url):
    async def body(link):
        await link.command("PING")
        ((wire, _),) = link.shelf.idle
        raw = wire.socket if hasattr(wire, "socket") else wire._socket
        assert raw.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        assert raw.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 15
        assert raw.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)

    call(body, redis_url)


def test_a_name_and_keepalive_of_the_urls_count(call, own_redis):
    async def body(link):
        await link.command("PING")
        assert named(own_redis, "mine") and not named(own_redis)

    call(body, own_redis.url() + "?client_name=mine&socket_keepalive=no")


# --- how many there are -----------------------------------------------------------------------------------------------


def test_four_hundred_calls_share_a_hundred_connections(call, own_redis):
    async def body(link):
        most = 0

        async def one(number):
            nonlocal most
            assert await link.command("ECHO", number) == str(number).encode()
            most = max(most, link.shelf.held)

        await asyncio.gather(*(one(number) for number in range(400)))
        assert 1 < most <= 100 and len(named(own_redis)) <= 100

    call(body, own_redis.url())


def test_no_more_than_were_asked_for(call, own_redis):
    async def body(link):
        numbers = await asyncio.gather(*(link.run(COUNT) for _ in range(200)))
        assert sorted(numbers) == list(range(1, 201))
        assert len(named(own_redis)) == link.shelf.held <= 3

    call(body, own_redis.url(), max_connections=3)


def test_a_call_fails_once_none_came_free_for_as_long_as_it_may_wait(call, redis_url):
    async def body(link):
        slow = asyncio.create_task(link.command("BLPOP", "nothing", 4))
        await eventually(lambda: link.link._in_use)
        begun = time.monotonic()
        async with raising(StoreBusyError, r"all 1 connections were in use for 0.2 s\. Raise max_connections"):
            await link.command("PING")
        assert time.monotonic() - begun > 0.15
        assert await slow is None
        assert await link.command("PING") == b"PONG"
        assert not link.shelf.waiting

    call(body, redis_url, max_connections=1, pool_timeout=0.2)


def test_nobody_is_starved(call, redis_url):
    async def body(link):
        stop = False

        async def busy():
            while not stop:
                await link.command("PING")

        running = [asyncio.create_task(busy()) for _ in range(4)]
        for _ in range(20):
            assert await link.command("ECHO", "mine") == b"mine"
        stop = True
        await asyncio.gather(*running)

    call(body, redis_url, max_connections=1, pool_timeout=PATIENCE)


def test_a_clock_that_stands_still_ends_no_wait_and_keeps_none_open(call, redis_url):
    async def body(link):
        slow = asyncio.create_task(link.command("BLPOP", "nothing", 4))
        await eventually(lambda: link.link._in_use)
        async with raising(StoreBusyError, "max_connections"):
            await link.command("PING")
        await slow

    call(body, redis_url, clock=FrozenClock(), max_connections=1, pool_timeout=0.1)


def test_an_idle_connection_is_replaced_rather_than_trusted(call, redis_url):
    clock = FrozenClock()

    async def body(link):
        await asyncio.gather(*(link.command("BLPOP", "nothing", 1) for _ in range(3)))
        assert link.shelf.held == 3
        used = await link.command("CLIENT", "ID")
        clock.advance(20)
        assert await link.command("CLIENT", "ID") == used
        clock.advance(20)
        # The others go on the way.
        assert await link.command("CLIENT", "ID") == used and link.shelf.held == 1
        clock.advance(31)
        assert await link.command("CLIENT", "ID") != used and link.shelf.held == 1

    call(body, redis_url, clock=clock, health_check_interval=30)


def test_a_password_may_change_between_two_connections(call, make_redis):
    server = make_redis(requirepass="one")
    source = make_source(server.url())

    async def body(link):
        await link.command("PING")
        server.execute("CONFIG SET", "requirepass", "two")
        server.drop_clients()
        changed = parse_url(f"redis://:two@127.0.0.1:{server.port}", {})[0]
        async with raising(StoreUnavailableError, "password"):
            await link.command("PING")
        source.address = lambda: changed
        assert await link.command("PING") == b"PONG"

    call(body, server.url(), source=source)


# --- what is lost -----------------------------------------------------------------------------------------------------


def test_a_server_restarted_while_idle_is_no_error(call, own_redis):
    async def body(link):
        for end in (own_redis.kill, own_redis.stop, own_redis.kill):
            await asyncio.gather(*(link.command("BLPOP", "nothing", 0.1) for _ in range(5)))
            await asyncio.to_thread(end)
            await asyncio.to_thread(own_redis.start)
            for _ in range(6):
                assert await link.command("PING") == b"PONG"

    call(body, own_redis.url())


def test_idle_connections_that_an_administrator_ends_are_no_error(call, own_redis):
    async def body(link):
        for _ in range(20):
            await asyncio.gather(*(link.command("PING") for _ in range(3)))
            own_redis.drop_clients()
            assert await link.command("PING") == b"PONG"

    call(body, own_redis.url())


def test_a_server_that_dies_under_a_call(call, own_redis):
    async def body(link):
        waiting = asyncio.create_task(link.command("BLPOP", "nothing", 0))
        await eventually(lambda: link.link._in_use)
        await eventually(lambda: own_redis.execute("INFO", "clients")["blocked_clients"])
        await asyncio.to_thread(own_redis.kill)
        async with raising(StoreUnavailableError, "127.0.0.1"):
            await waiting
        async with raising(StoreUnavailableError, "Error 111"):
            await link.command("PING")
        assert link.shelf.held == 0
        await asyncio.to_thread(own_redis.start)
        assert await link.command("PING") == b"PONG"

    call(body, own_redis.url())


def test_what_was_sent_is_never_sent_again(call, own_redis, make_proxy):
    proxy = make_proxy(own_redis.url())

    async def body(link):
        await link.run(COUNT)
        for number in range(2, 30):
            await link.command("PING")
            proxy.cut_after(1, "to_client")
            async with raising(StoreUnavailableError, "127.0.0.1"):
                await link.run(COUNT)
            assert own_redis.execute("GET", "k") == str(number).encode()

    call(body, proxy.url(own_redis.url()))


def test_what_was_cut_on_its_way_is_told(call, own_redis, make_proxy):
    proxy = make_proxy(own_redis.url())

    async def body(link):
        await link.command("PING")
        for count in (1, 10, 40):
            proxy.cut_after(count, "to_server")
            async with raising(StoreUnavailableError, "127.0.0.1"):
                await link.command("SET", "a", "b" * 1000)
            assert await link.command("PING") == b"PONG"
        assert own_redis.execute("GET", "a") is None

    call(body, proxy.url(own_redis.url()))


@pytest.mark.parametrize("way", ["stall", "swallow"])
def test_a_silent_server_fails_a_call_in_time(call, redis_url, make_proxy, way):
    proxy = make_proxy(redis_url)

    async def body(link):
        await link.command("SET", "a", "first")
        getattr(proxy, way)()
        begun = time.monotonic()
        async with raising(StoreUnavailableError, r"no answer within 1.5 s \(socket_timeout\)"):
            await link.command("GET", "a")
        assert 1.4 < time.monotonic() - begun < A_MOMENT and link.shelf.held == 0
        begun = time.monotonic()
        async with raising(StoreUnavailableError, r"[Tt]imeout|no connection could be opened within"):
            await link.command("GET", "a")
        assert time.monotonic() - begun < A_MOMENT and link.shelf.held == 0
        (proxy.resume if way == "stall" else proxy.restore)()
        assert await link.command("ECHO", "second") == b"second"

    call(body, proxy.url(redis_url), socket_timeout=1.5, socket_connect_timeout=1.5)


def test_no_lock_is_held_while_connecting(call, redis_url):
    """One call waits for a server that does not greet; the others go on meanwhile."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        source = make_source(redis_url, socket_connect_timeout=PATIENCE)
        right = source.address()
        wrong = parse_url(f"redis://127.0.0.1:{silent.getsockname()[1]}", {})[0]

        async def body(link):
            await link.command("PING")
            source.address = lambda: wrong
            occupied = asyncio.create_task(link.command("BLPOP", "nothing", 2))
            await eventually(lambda: link.link._in_use)
            stuck = asyncio.create_task(link.command("PING"))
            await eventually(lambda: link.shelf.held == 2)
            await occupied
            assert [await link.command("PING") for _ in range(20)] == [b"PONG"] * 20
            assert not stuck.done()
            source.address = lambda: right
            silent.close()
            with pytest.raises(StoreUnavailableError):
                await stuck
            assert link.shelf.held == 1

        call(body, redis_url, source=source)


def test_an_answer_nobody_asked_for_is_read_by_nobody(call):
    """What a server sends between two calls belongs to neither."""

    def serve(listener, stop):
        while not stop.is_set():
            with suppress(TimeoutError):
                client, _ = listener.accept()
                threading.Thread(target=talk, args=(client,), daemon=True).start()

    def talk(client):
        with client, suppress(OSError):
            while data := client.recv(1 << 16):
                for _ in range(data.count(b"*")):
                    client.sendall(b"+PONG\r\n" if b"PING" in data else b"+OK\r\n")
                if b"PING" in data:
                    client.sendall(b"+stray\r\n")

    async def body(link):
        for _ in range(5):
            with suppress(StoreUnavailableError):
                assert await link.command("PING") == b"PONG"
            await asyncio.sleep(0.05)
            assert await link.command("SET", "a", "b") == b"OK"

    stop = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(0.2)
        serving = threading.Thread(target=serve, args=(listener, stop))
        serving.start()
        try:
            call(body, f"redis://127.0.0.1:{listener.getsockname()[1]}")
        finally:
            stop.set()
            serving.join()


def test_after_a_failover_the_address_is_looked_up_again(call, make_redis):
    primary = make_redis()
    replica = make_redis(replicaof=primary)
    replica.wait_until_it_has_all_of(primary)
    source = make_source(primary.url())
    replicas = parse_url(replica.url(), {})[0]

    async def body(link):
        await asyncio.gather(*(link.command("BLPOP", "nothing", 1) for _ in range(4)))
        assert link.shelf.held == 4
        replica.follow(None)
        primary.follow(replica)
        source.address = lambda: replicas
        async with raising(StoreUnavailableError, "replica"):
            await link.run(COUNT)
        assert link.shelf.held == 0 and not link.shelf.idle
        assert await link.run(COUNT) == 1

    call(body, primary.url(), source=source)


def test_a_managed_pair_through_failovers(call, make_redis_pair):
    pair = make_redis_pair()

    async def body(link):
        landed = []

        async def count():
            while len(landed) < 300:
                try:
                    landed.append(await link.run(COUNT))
                except StoreUnavailableError:
                    await asyncio.sleep(0.005)

        counting = asyncio.create_task(count())
        await eventually(lambda: len(landed) > 50)
        await asyncio.to_thread(pair.failover)
        await counting
        assert landed == sorted(set(landed)), "no call was carried out twice for one answer"

    call(body, pair.url())


# --- cancelled and hurried --------------------------------------------------------------------------------------------


def test_a_cancelled_call_leaves_no_answer_behind(redis_url):
    async def main():
        link = LoopLink(make_source(redis_url, max_connections=2))
        dice = random.Random(7)
        for number in range(200):
            doomed = asyncio.create_task(link.run(ECHO, ["doomed"], [number, "x" * dice.choice([1, 100_000])]))
            for _ in range(dice.randrange(6)):
                await asyncio.sleep(0)
            if dice.random() < 0.3:
                await asyncio.sleep(dice.random() / 1000)
            doomed.cancel()
            answers = await asyncio.gather(*(link.command("ECHO", f"{number}-{each}") for each in range(3)))
            assert answers == [f"{number}-{each}".encode() for each in range(3)]
            with suppress(asyncio.CancelledError):
                await doomed
            assert link._shelf.held <= 2 and not link._in_use and not link._shelf.waiting
        await link.close()

    asyncio.run(main())


def test_a_call_cancelled_while_it_waits_or_connects_gives_its_turn_on(redis_url):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        source = make_source(redis_url, max_connections=1, socket_connect_timeout=PATIENCE)
        right, wrong = source.address(), parse_url(f"redis://127.0.0.1:{silent.getsockname()[1]}", {})[0]

        async def main():
            link = LoopLink(source)
            for _ in range(50):
                source.address = lambda: wrong
                connecting = asyncio.create_task(link.command("PING"))
                await eventually(lambda: link._shelf.held == 1)
                waiting = [asyncio.create_task(link.command("PING")) for _ in range(3)]
                await eventually(lambda: len(link._shelf.waiting) == 3)
                source.address = lambda: right
                waiting[0].cancel()
                connecting.cancel()
                assert await waiting[1] == await waiting[2] == b"PONG"
                for task in (connecting, waiting[0]):
                    with pytest.raises(asyncio.CancelledError):
                        await task
                assert link._shelf.held == len(link._shelf.idle) == 1
                link._shelf.empty()[0].close()
            await link.close()

        asyncio.run(main())


def test_a_call_cancelled_in_the_moment_it_is_served_gives_its_turn_on(redis_url):
    async def main():
        link = LoopLink(make_source(redis_url, max_connections=1))
        await link.command("PING")
        occupying = asyncio.create_task(link.command("BLPOP", "nothing", 0.3))
        await eventually(lambda: link._in_use)
        waiting = asyncio.create_task(link.command("PING"))
        await eventually(lambda: link._shelf.waiting)
        put = link._shelf.put

        def put_and_cancel(wire, now):
            put(wire, now)
            waiting.cancel()

        link._shelf.put = put_and_cancel
        assert await occupying is None
        link._shelf.put = put
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert link._shelf.held == len(link._shelf.idle) == 1
        assert await link.command("ECHO", "b") == b"b"
        await link.close()

    asyncio.run(main())


def test_an_interrupt_takes_the_connection_with_it(redis_url):
    link = ThreadLink(make_source(redis_url))

    class Interrupt(BaseException):
        pass

    def interrupt(*args):
        raise Interrupt

    import signal

    finish(link.command("PING"))
    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        for _ in range(20):
            signal.setitimer(signal.ITIMER_REAL, 0.02)
            with pytest.raises(Interrupt):
                finish(link.command("BLPOP", "nothing", 5))
            assert link._shelf.held == 0 and not link._in_use
            assert finish(link.command("ECHO", "mine")) == b"mine"
    finally:
        signal.signal(signal.SIGALRM, before)
    finish(link.close())


def test_a_hurry_ends_every_wait(call, own_redis):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        source = make_source(own_redis.url(), max_connections=2, pool_timeout=PATIENCE, socket_connect_timeout=PATIENCE)
        wrong = parse_url(f"redis://127.0.0.1:{silent.getsockname()[1]}", {})[0]

        async def body(link):
            answering = asyncio.create_task(link.command("BLPOP", "nothing", 0))
            await eventually(lambda: len(link.link._in_use) == 1)
            source.address = lambda: wrong
            connecting = asyncio.create_task(link.command("PING"))
            await eventually(lambda: link.shelf.held == 2)
            waiting = asyncio.create_task(link.command("PING"))
            await eventually(lambda: link.shelf.waiting)
            begun = time.monotonic()
            source.deadline = begun + 0.7
            link.link.hurry()
            tasks = {answering, waiting} | ({connecting} if isinstance(link.link, LoopLink) else set())
            done, pending = await asyncio.wait(tasks, timeout=PATIENCE)
            assert not pending and 0.6 < time.monotonic() - begun < A_MOMENT
            for task in done:
                with pytest.raises(StoreError):
                    task.result()
            # Calls from now on have a moment each.
            begun = time.monotonic()
            with pytest.raises(StoreError):
                await link.command("PING")
            assert time.monotonic() - begun < A_MOMENT
            source.deadline = None
            link.link.hurry()
            silent.close()
            with suppress(StoreError):
                await connecting

        call(body, own_redis.url(), source=source)


def test_a_hurry_ends_a_wait_behind_a_connection_that_does_not_come(call):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"redis://127.0.0.1:{silent.getsockname()[1]}"
        source = make_source(url, max_connections=1, pool_timeout=PATIENCE, socket_connect_timeout=PATIENCE)

        async def body(link):
            connecting = asyncio.create_task(link.command("PING"))
            await eventually(lambda: link.shelf.held == 1)
            waiting = asyncio.create_task(link.command("PING"))
            await eventually(lambda: link.shelf.waiting)
            begun = time.monotonic()
            source.deadline = begun
            link.link.hurry()
            with pytest.raises(StoreUnavailableError):
                await waiting
            assert 0.4 < time.monotonic() - begun < A_MOMENT
            silent.close()
            with pytest.raises(StoreUnavailableError):
                await connecting

        call(body, url, source=source)


# --- the end ----------------------------------------------------------------------------------------------------------


def test_closing(call, own_redis):
    async def body(link):
        slow = asyncio.create_task(link.command("BLPOP", "nothing", 1.5))
        await eventually(lambda: link.link._in_use)
        waiting = asyncio.create_task(link.command("PING"))
        await eventually(lambda: link.shelf.waiting)
        closing = asyncio.create_task(link.close())
        async with raising(StoreUnavailableError, "the store was closed"):
            await waiting
        assert not slow.done()
        try:
            assert await slow is None
        except StoreUnavailableError:
            # A loop may end at any moment after a close, so there a call has half a second.
            assert isinstance(link.link, LoopLink)
        await closing
        async with raising(StoreUnavailableError, "the store was closed"):
            await link.command("PING")
        await link.close()
        await eventually(lambda: not named(own_redis))

    call(body, own_redis.url(), max_connections=1)


def test_closing_does_not_wait_for_an_answer_that_does_not_come(redis_url):
    async def main():
        link = LoopLink(make_source(redis_url))
        slow = asyncio.create_task(link.command("BLPOP", "nothing", 0))
        await eventually(lambda: link._in_use)
        begun = time.monotonic()
        await link.close()
        assert time.monotonic() - begun < A_MOMENT
        with pytest.raises(StoreUnavailableError, match="the store was closed"):
            await slow

    asyncio.run(main())


def test_from_another_loop_it_is_closed_on_its_own(own_redis):
    async def main():
        link = LoopLink(make_source(own_redis.url()))
        await link.command("PING")
        await asyncio.to_thread(lambda: asyncio.run(link.close()))
        await eventually(lambda: not named(own_redis))
        with pytest.raises(StoreUnavailableError, match="the store was closed"):
            await link.command("PING")

    asyncio.run(main())


def test_a_loop_that_has_ended_is_left_behind(redis_url):
    link = LoopLink(make_source(redis_url))
    with asyncio.Runner() as first:
        mine = first.run(link.command("CLIENT", "ID"))
        with asyncio.Runner() as second, pytest.raises(RuntimeError, match="belongs to another event loop"):
            second.run(link.command("PING"))
        assert first.run(link.command("CLIENT", "ID")) == mine
        for wire in link._shelf.empty():
            wire.close()
    with asyncio.Runner() as third:
        assert third.run(link.command("CLIENT", "ID")) != mine
        third.run(link.close())
