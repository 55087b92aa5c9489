"""The Redis server under a run, seen from outside the queue that uses it.

It must know nothing of a queue but the names of its keys, and must import in any environment that has redis-py.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import redis

# A script that held the server up for longer than this, in microseconds, is a slow one.
SLOW = 100


class RedisStore:
    """A server that nobody else uses."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.client = redis.Redis.from_url(url)
        self._watch: Watch | None = None

    @contextmanager
    def reading(self) -> Iterator[redis.Redis]:
        yield self.client

    def version(self) -> dict[str, str]:
        said: Any = self.client.info("server")
        return {"redis": str(said["redis_version"])}

    def settle(self) -> None:
        """Write out what the filling left to be written, which the next sync of the append-only file would wait for."""
        os.sync()

    def statements(self) -> int:
        """How many commands clients have sent since this was asked first. What a script calls is not counted.

        The server's own counters do not tell the two apart; `MONITOR` does.
        """
        if self._watch is None:
            self._watch = Watch(self.url)
        return self._watch.count()

    def busy_seconds(self) -> float:
        """What the server has used of the cores so far. It has one thread for everybody's commands."""
        said: Any = self.client.info("cpu")
        return float(said["used_cpu_user"] + said["used_cpu_sys"])

    def watch_slow(self) -> None:
        """Have the server note from now on how long its slow commands take."""
        self.client.config_set("slowlog-log-slower-than", SLOW)
        self.client.config_set("slowlog-max-len", 1_000_000)
        self.client.slowlog_reset()

    def slow(self) -> list[float]:
        """How long each noted script took, in milliseconds, in rising order: for so long the server served nobody."""
        told: Any = self.client.slowlog_get(1_000_000)
        mine = (b"EVAL", b"FCALL")
        return sorted(one["duration"] / 1000 for one in told if one["command"].upper().startswith(mine))


class Watch:
    """Reads `MONITOR` on a thread of its own and counts what clients send, its own questions aside."""

    def __init__(self, url: str) -> None:
        self._client = redis.Redis.from_url(url)
        self._mark = f"watch-{os.urandom(4).hex()}"
        self._seen = 0
        self._counted = 0
        self._asked = 0
        threading.Thread(target=self._read, args=(url,), daemon=True).start()
        self.count()

    def count(self) -> int:
        """The count as of now: a mark is sent, and waited for in the stream."""
        self._asked += 1
        limit = time.monotonic() + 10
        while self._seen < self._asked and time.monotonic() < limit:
            self._client.echo(f"{self._mark}-{self._asked}")
            time.sleep(0.01)
        return self._counted

    def _read(self, url: str) -> None:
        # The server may go before this program does.
        with suppress(redis.RedisError), redis.Redis.from_url(url).monitor() as stream:
            for told in stream.listen():
                command = str(told["command"])
                if self._mark in command:
                    self._seen = max(self._seen, int(command.rpartition("-")[2].strip('"')))
                elif told["client_type"] != "lua":
                    self._counted += 1
