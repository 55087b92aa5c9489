"""Keeps a private server for as long as its standard input is open: `python -m tests.servers redis [--version 8]`.

For whoever starts the tests in several rounds that share it. With TINYJOBS_TEST_POSTGRES or TINYJOBS_TEST_REDIS set,
the server that it names is looked at instead. A line of JSON says what there is: `url`, `version`, `is_private`,
`program` (or the folder of several, null without any), and in `lacking` which tests will miss something. Or `error`
alone, when there is no server.
"""

import argparse
import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import redis

from tests.servers import postgres as on_postgres
from tests.servers import redis as on_redis
from tests.servers.processes import MissingProgramError, ServerError
from tests.servers.programs import pgbouncer_program, postgres_programs, redis_program


def main() -> int:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the tests, which need the server to the end
    parser = argparse.ArgumentParser()
    parser.add_argument("store", choices=["postgres", "redis"])
    parser.add_argument("--version")
    options = parser.parse_args()
    keep = keep_postgres if options.store == "postgres" else keep_redis
    try:
        server, found = keep(options.version)
    except ServerError as error:
        say(error=str(error))
        return 1
    say(url=server.url(), **found)
    sys.stdin.read()
    server.close()
    return 0


def keep_postgres(version: str | None) -> tuple[on_postgres.Server, dict[str, object]]:
    """A server and what there is to say of it."""
    url = os.environ.get(on_postgres.URL_VARIABLE)
    number = int(version) if version else None
    programs, no_programs = look_for(lambda: postgres_programs(number))
    _, no_pgbouncer = look_for(pgbouncer_program)
    server = reach_postgres(url) if url else on_postgres.Cluster(programs=postgres_programs(number))
    missing = {
        "the tests that stop and kill a Postgres of their own": no_programs,
        "the tests through PgBouncer": no_pgbouncer,
    }
    return server, told(f"Postgres {server.version()}", isinstance(server, on_postgres.Cluster), programs, missing)


def keep_redis(version: str | None) -> tuple[on_redis.Server, dict[str, object]]:
    """A server and what there is to say of it."""
    url = os.environ.get(on_redis.URL_VARIABLE)
    program, no_program = look_for(lambda: redis_program(version))
    server = reach_redis(url) if url else on_redis.RedisServer(program=redis_program(version))
    name, number = server.version()
    missing = {"the tests that stop and kill a Redis of their own": no_program}
    return server, told(f"{name.title()} {number}", server.is_private, program, missing)


def told(version: str, is_private: bool, program: Path | None, missing: dict[str, str | None]) -> dict[str, object]:
    lacking = [f"{tests}: {reason}." for tests, reason in missing.items() if reason]
    return {
        "version": version,
        "is_private": is_private,
        "program": str(program) if program else None,
        "lacking": lacking,
    }


def reach_postgres(url: str) -> on_postgres.Server:
    """The server of a URL, if databases can be made there."""
    if not url.startswith(("postgresql://", "postgres://")):
        raise ServerError(
            f"--postgres-url or {on_postgres.URL_VARIABLE} takes a URL such as postgresql://user@localhost:5432/"
        )
    server = on_postgres.Server(url)
    try:
        server.drop_database(server.create_database())
    except psycopg.Error as error:
        raise ServerError(f"at the server of --postgres-url no database can be made: {error}") from None
    return server


def reach_redis(url: str) -> on_redis.Server:
    """The server of a URL, if it has a database that is empty."""
    if not url.startswith(("redis://", "rediss://", "unix://")):
        raise ServerError(f"--redis-url or {on_redis.URL_VARIABLE} takes a URL such as redis://localhost:6379/0")
    server = on_redis.Server(url)
    try:
        server.drop_database(server.create_database())
    except redis.RedisError as error:
        raise ServerError(f"at the server of --redis-url no database can be used: {error}") from None
    return server


def look_for(search: Callable[[], Path]) -> tuple[Path | None, str | None]:
    try:
        return search(), None
    except MissingProgramError as missing:
        return None, str(missing)


def say(**what: Any) -> None:
    print(json.dumps(what), flush=True)


if __name__ == "__main__":
    sys.exit(main())
