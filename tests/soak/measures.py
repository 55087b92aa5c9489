"""How large things are: a process by /proc, a store by what it says of itself. Linux only."""

import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import NamedTuple


class Size(NamedTuple):
    """Of a process: megabytes of memory, open descriptors, threads."""

    memory: float
    descriptors: int
    threads: int


#: Not looked at yet.
NOTHING = Size(0.0, 0, 0)


def size_of(pid: int) -> Size:
    status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines() if ":" in line)
    memory = int(status["VmRSS"].split()[0]) / 1024
    return Size(memory, len(os.listdir(f"/proc/{pid}/fd")), int(status["Threads"]))


def megabytes_of(url: str) -> float:
    """What the store takes, its log of changes included."""
    kind, _, rest = url.partition("://")
    if kind == "sqlite":
        path = rest.removeprefix("/")
        return sum(os.path.getsize(found) for end in ("", "-wal") if os.path.exists(found := path + end)) / 2**20
    if kind == "redis":
        import redis

        with redis.Redis.from_url(url) as client:
            return int(client.info("memory")["used_memory"]) / 2**20
    import psycopg

    with psycopg.connect(url) as connection:
        found = connection.execute("SELECT pg_database_size(current_database())").fetchone()
    return 0.0 if found is None else found[0] / 2**20


def versions_of(url: str) -> str:
    """The store and its version."""
    kind = url.partition("://")[0]
    if kind == "sqlite":
        with closing(sqlite3.connect(":memory:")) as connection:
            return f"SQLite {connection.execute('SELECT sqlite_version()').fetchone()[0]}"
    if kind == "redis":
        import redis

        with redis.Redis.from_url(url) as client:
            return f"Redis {client.info('server')['redis_version']}"
    import psycopg

    with psycopg.connect(url) as connection:
        return f"Postgres {connection.info.server_version // 10_000}"
