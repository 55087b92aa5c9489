"""The connection that subscribes to wake-ups: who is woken, and how soon it is known that it hears nothing any more."""

import asyncio
import logging
import socket
import time
from contextlib import suppress

import pytest

from tests.redis.links import make_source
from tests.runtime.conftest import eventually
from tinyjobs.backends import listening
from tinyjobs.backends.redis import listener as listener_module
from tinyjobs.backends.redis.listener import ANY, PROBE, Listener
from tinyjobs.backends.redis.looplink import LoopLink
from tinyjobs.backends.waiters import Waiters
from tinyjobs.core.errors import StoreUnavailableError
from tinyjobs.core.sight import out_of_sight

PATIENCE = 60.0
#: What a busy machine may take for what takes a moment, and far less than a wait to its end.
A_MOMENT = 10.0
CHANNEL = "{mine}:wake"


class Ear:
    """A listener with what it needs, on the running loop."""

    def __init__(self, url, **options):
        self.source = make_source(url, **options)
        self.link = LoopLink(self.source)
        self.waiters = Waiters()
        self.listener = Listener(self.source, self.waiters, CHANNEL, self.link)

    def waiter(self, *topics):
        return self.waiters.mine(topics)

    async def wait(self, seconds, *topics):
        return await self.listener.wait(self.waiter(*topics), seconds)

    async def until_it_hears(self, *topics):
        async with asyncio.timeout(PATIENCE):
            while not self.listener.hears:
                with suppress(StoreUnavailableError):
                    await self.wait(0.02, *topics)
            while await self.wait(0.02, *topics):
                pass

    async def publish(self, topic):
        return await self.link.command("PUBLISH", CHANNEL, topic)

    async def close(self):
        await self.listener.close()
        await self.link.close()


def run(body, url, *, hears=True, **options):
    """Run `body(ear)` with a listener that hears already, unless told otherwise."""

    async def main():
        ear = Ear(url, **options)
        try:
            if hears:
                await ear.until_it_hears()
            return await asyncio.wait_for(body(ear), 2 * PATIENCE)
        finally:
            await ear.close()

    return asyncio.run(main())


def subscribed(server):
    return [client for client in server.execute("CLIENT LIST") if client["name"] == "tinyjobs-listener"]


async def in_a_task(coroutine_function, *arguments):
    """In a task of its own, which is a waiter of its own."""
    return await asyncio.create_task(coroutine_function(*arguments))


# --- who is woken -----------------------------------------------------------------------------------------------------


def test_a_wake_up_ends_a_wait_at_once(redis_url):
    async def body(ear):
        waiting = asyncio.create_task(ear.wait(PATIENCE))
        await asyncio.sleep(0.1)
        begun = time.monotonic()
        assert await ear.publish("mail") == 1
        assert await waiting is True
        assert time.monotonic() - begun < A_MOMENT
        assert await in_a_task(ear.wait, 0.05) is False

    run(body, redis_url)


def test_each_waits_for_its_own_topics(redis_url):
    async def body(ear):
        async def tell(topic, woken, others):
            tasks = [asyncio.create_task(ear.wait(PATIENCE, *topics)) for topics in (*woken, *others)]
            await asyncio.sleep(0.1)
            await ear.publish(topic)
            assert await asyncio.gather(*tasks[: len(woken)]) == [True] * len(woken)
            assert not [task for task in tasks[len(woken) :] if task.done()]
            for task in tasks[len(woken) :]:
                task.cancel()
            await asyncio.gather(*tasks[len(woken) :], return_exceptions=True)

        await tell("mail", [(), ("mail",), ("other", "mail")], [("other",), ("é",)])
        await tell("é", [(), ("é",)], [("other",)])
        await tell(ANY, [(), ("mail",)], [])

    run(body, redis_url)


def test_what_is_told_between_two_waits_is_not_lost(redis_url):
    async def body(ear):
        await ear.publish("mail")
        await asyncio.sleep(0.1)
        assert await ear.wait(PATIENCE) is True

    run(body, redis_url)


def test_it_hears_only_once_a_message_of_its_own_has_come_back(redis_url):
    async def body(ear):
        assert not ear.listener.hears
        # Whatever was told before it subscribed counts as told.
        assert await ear.wait(PATIENCE) is True
        await ear.until_it_hears()
        # The probe of another one wakes nobody.
        await ear.publish(PROBE + "somebody's")
        assert await ear.wait(0.1) is False

    run(body, redis_url, hears=False)


def test_many_messages_at_once_and_one_in_pieces(redis_url, make_proxy):
    proxy = make_proxy(redis_url)

    async def body(ear):
        other = LoopLink(make_source(redis_url))
        for topic in ("x" * 70_000, *("abc" * 200)):
            await other.command("PUBLISH", CHANNEL, topic)
        waiting = asyncio.create_task(ear.wait(PATIENCE, "mail"))
        await asyncio.sleep(0.05)
        await other.command("PUBLISH", CHANNEL, "mail")
        assert await waiting is True
        await other.close()

    run(body, proxy.url(redis_url))


# --- long waits -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["option", "client"])
def test_a_socket_timeout_shorter_than_a_wait_means_nothing(redis_url, caplog, where):
    caplog.set_level(logging.INFO, "tinyjobs")

    async def body(ear):
        before = ear.listener._writer
        assert await ear.wait(1.5) is False
        waiting = asyncio.create_task(ear.wait(PATIENCE))
        await asyncio.sleep(0.5)
        begun = time.monotonic()
        await ear.publish("mail")
        assert await waiting is True and time.monotonic() - begun < A_MOMENT
        assert ear.listener._writer is before

    query = "?socket_timeout=0.2" if where == "option" else ""
    run(body, redis_url + query, **({} if query else {"socket_timeout": 0.2, "pool_timeout": 0.2}))
    assert not caplog.records


def test_an_idle_listener_costs_a_command_each_quarter_of_a_minute(redis_url, own_redis, monkeypatch):
    assert (listener_module._CHECK, listener_module._PATIENCE) == (15.0, 5.0)

    async def body(ear):
        before = own_redis.execute("INFO", "stats")["total_commands_processed"]
        assert await ear.wait(1) is False
        assert own_redis.execute("INFO", "stats")["total_commands_processed"] - before <= 1

    run(body, own_redis.url())
    monkeypatch.setattr(listener_module, "_CHECK", 0.1)

    async def often(ear):
        before = own_redis.execute("INFO", "commandstats")["cmdstat_ping"]["calls"]
        assert await ear.wait(1) is False
        assert 2 <= own_redis.execute("INFO", "commandstats")["cmdstat_ping"]["calls"] - before <= 11
        assert ear.listener.hears

    own_redis.execute("PING")
    run(often, own_redis.url())


# --- how it is lost ---------------------------------------------------------------------------------------------------


def test_a_lost_connection_is_told_to_each_waiter_once_and_opened_again(own_redis):
    async def body(ear):
        told = []

        async def wait():
            waiter = ear.waiter()
            while len(told) < 3 or not ear.listener.hears:
                try:
                    if await ear.listener.wait(waiter, 0.3) and ear.listener.hears and len(told) >= 3:
                        return
                except StoreUnavailableError as error:
                    assert "the connection that listens was lost" in str(error)
                    told.append(waiter)

        waiting = [asyncio.create_task(wait()) for _ in range(3)]
        await asyncio.sleep(0.1)
        own_redis.execute("CLIENT KILL", "TYPE", "pubsub")
        await asyncio.gather(*waiting)
        assert len(told) == len(set(told)) == 3
        assert len(subscribed(own_redis)) == 1
        assert await in_a_task(ear.wait, 0.05) is False

    run(body, own_redis.url())


def test_every_reopening_wakes_whoever_waits_since_what_was_told_meanwhile_is_gone(own_redis):
    async def body(ear):
        for _ in range(5):
            own_redis.execute("CLIENT KILL", "TYPE", "pubsub")
            with pytest.raises(StoreUnavailableError):
                await ear.wait(PATIENCE)
            assert await ear.wait(PATIENCE) is True
            await ear.until_it_hears()

    run(body, own_redis.url())


def test_a_server_that_is_gone_is_told_at_the_end_of_each_wait(own_redis):
    async def body(ear):
        await asyncio.to_thread(own_redis.kill)
        with pytest.raises(StoreUnavailableError):
            await ear.wait(PATIENCE)
        begun = time.monotonic()
        with pytest.raises(StoreUnavailableError, match="Error 111"):
            await ear.wait(0.1)
        assert time.monotonic() - begun < A_MOMENT and not ear.listener.hears
        await asyncio.to_thread(own_redis.start)
        await ear.until_it_hears()
        waiting = asyncio.create_task(ear.wait(PATIENCE))
        await asyncio.sleep(0.05)
        await ear.publish("mail")
        assert await waiting is True

    run(body, own_redis.url())


def test_five_restarts_within_ten_seconds(own_redis):
    async def body(ear):
        for _ in range(5):
            await asyncio.to_thread(own_redis.kill)
            await asyncio.to_thread(own_redis.start)
            await ear.until_it_hears()
            waiting = asyncio.create_task(ear.wait(PATIENCE))
            await asyncio.sleep(0.02)
            await ear.publish("mail")
            assert await waiting is True
        assert len(subscribed(own_redis)) == 1

    run(body, own_redis.url())


def test_a_half_open_connection_is_found_within_the_bound(redis_url, make_proxy, monkeypatch):
    monkeypatch.setattr(listener_module, "_CHECK", 0.4)
    monkeypatch.setattr(listener_module, "_PATIENCE", 0.3)
    proxy = make_proxy(redis_url)

    async def body(ear):
        proxy.swallow()
        begun = time.monotonic()
        with pytest.raises(StoreUnavailableError, match=r"did not answer within 0.3 s"):
            await ear.wait(PATIENCE)
        assert time.monotonic() - begun < A_MOMENT
        proxy.restore()
        monkeypatch.setattr(listener_module, "_PATIENCE", PATIENCE)
        assert await ear.wait(PATIENCE) is True
        await ear.until_it_hears()

    run(body, proxy.url(redis_url), socket_timeout=1)


def test_a_server_that_does_not_greet_is_given_up_in_time(redis_url):
    with socket.create_server(("127.0.0.1", 0)) as silent:

        async def body(ear):
            begun = time.monotonic()
            with pytest.raises(StoreUnavailableError, match="socket_connect_timeout"):
                await ear.wait(PATIENCE)
            assert time.monotonic() - begun < A_MOMENT

        run(body, f"redis://127.0.0.1:{silent.getsockname()[1]}", hears=False, socket_connect_timeout=0.3)


def test_something_that_sends_what_is_no_message(caplog):
    async def main():
        async def talk(reader, writer):
            with suppress(OSError):
                while data := await reader.read(1 << 16):
                    for _ in range(data.count(b"*")):
                        writer.write(b"HTTP/1.1 400\r\n" if b"SUBSCRIBE" in data else b"+OK\r\n")
            writer.close()

        server = await asyncio.start_server(talk, "127.0.0.1", 0)
        ear = Ear(f"redis://127.0.0.1:{server.sockets[0].getsockname()[1]}")
        with pytest.raises(StoreUnavailableError, match="no reply"):
            await ear.wait(PATIENCE)
        await ear.close()
        server.close()

    asyncio.run(main())
    assert not caplog.records


# --- doing without ----------------------------------------------------------------------------------------------------


def test_messages_that_do_not_arrive_are_said_once_and_waits_go_on(redis_url, monkeypatch, caplog):
    monkeypatch.setattr(listener_module, "_ARRIVAL", 0.1)
    monkeypatch.setattr(listener_module, "_DEAF", 0.2)
    caplog.set_level(logging.INFO, "tinyjobs")

    async def body(ear):
        told = ear.listener._tell

        async def nowhere(probe):
            return None

        ear.listener._tell = nowhere
        assert await ear.wait(PATIENCE) is True
        for _ in range(8):
            await ear.wait(0.1)
        assert not ear.listener.hears
        assert [record.levelname for record in caplog.records] == ["WARNING"]
        assert "finds jobs by polling alone" in caplog.text
        ear.listener._tell = told
        await ear.until_it_hears()
        assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]

    run(body, redis_url, hears=False)


@pytest.mark.parametrize("channels", ["resetchannels", "resetchannels &other*"])
def test_a_user_who_may_not_use_the_channel_polls(own_redis, caplog, channels):
    own_redis.execute("ACL SETUSER", "few", "on", ">s3cr3t", "~*", "+@all", *channels.split())

    async def body(ear):
        assert await ear.wait(0.3) is False
        await eventually(lambda: ear.listener._work is None)
        assert not ear.listener.hears and not subscribed(own_redis)
        assert await ear.wait(0.1) is False
        (record,) = caplog.records
        assert record.levelname == "WARNING" and "polling alone" in caplog.text and f"&{CHANNEL}" in caplog.text
        assert "s3cr3t" not in caplog.text

    run(body, own_redis.url().replace("://", "://few:s3cr3t@"), hears=False)


# --- the end ----------------------------------------------------------------------------------------------------------


def test_closing_ends_the_connection_at_once_and_twice_is_harmless(own_redis):
    async def body(ear):
        assert len(subscribed(own_redis)) == 1
        await ear.listener.close()
        await ear.listener.close()
        await eventually(lambda: not subscribed(own_redis))
        assert not ear.listener.hears

    run(body, own_redis.url())


def test_closing_while_it_opens(redis_url):
    async def body(ear):
        for steps in range(30):
            fresh = Ear(redis_url)
            waiting = asyncio.create_task(fresh.wait(0.2))
            for _ in range(steps):
                await asyncio.sleep(0)
            begun = time.monotonic()
            await fresh.close()
            assert time.monotonic() - begun < A_MOMENT
            waiting.cancel()
            with suppress(asyncio.CancelledError, StoreUnavailableError):
                await waiting

    run(body, redis_url)


def test_from_another_loop_it_is_closed_on_its_own(own_redis):
    async def main():
        ear = Ear(own_redis.url())
        await ear.until_it_hears()
        await asyncio.to_thread(lambda: asyncio.run(ear.listener.close()))
        await eventually(lambda: not subscribed(own_redis))
        await ear.close()
        assert ear.listener.is_usable
        return ear

    assert not asyncio.run(main()).listener.is_usable


def test_a_job_that_cancels_all_the_tasks_it_sees_does_not_see_its_work(redis_url, monkeypatch):
    seen = []

    def noting(task):
        hidden = out_of_sight(task)
        seen.append(hidden in asyncio.all_tasks())
        return hidden

    monkeypatch.setattr(listening, "out_of_sight", noting)

    async def body(ear):
        await ear.wait(PATIENCE)
        assert seen
        assert not any(seen)

    run(body, redis_url, hears=False)
