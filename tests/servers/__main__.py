"""Keeps a private cluster for as long as its standard input is open: `python -m tests.servers [--version 18]`.

For whoever starts the tests in several rounds that share it. With TINYJOBS_TEST_POSTGRES set, the server that it names
is looked at instead. A line of JSON says what there is: `url`, `version`, `is_private`, `programs`, and in `lacking`
which tests will miss something. Or `error` alone, when there is no server.
"""

import argparse
import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import psycopg

from tests.servers.postgres import URL_VARIABLE, Cluster, Server
from tests.servers.processes import MissingProgramError, ServerError
from tests.servers.programs import pgbouncer_program, postgres_programs


def main() -> int:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the tests, which need the server to the end
    parser = argparse.ArgumentParser()
    parser.add_argument("--version", type=int)
    version = parser.parse_args().version
    url = os.environ.get(URL_VARIABLE)
    programs, no_programs = look_for(lambda: postgres_programs(version))
    _, no_pgbouncer = look_for(pgbouncer_program)
    try:
        server = reach(url) if url else Cluster(programs=postgres_programs(version))
    except ServerError as error:
        say(error=str(error))
        return 1
    missing = {
        "the tests that stop and kill a server of their own": no_programs,
        "the tests through PgBouncer": no_pgbouncer,
    }
    say(
        url=server.url(),
        version=server.version(),
        is_private=isinstance(server, Cluster),
        programs=str(programs) if programs else None,
        lacking=[f"{tests}: {reason}." for tests, reason in missing.items() if reason],
    )
    sys.stdin.read()
    server.close()
    return 0


def reach(url: str) -> Server:
    """The server of a URL, if databases can be made there."""
    if not url.startswith(("postgresql://", "postgres://")):
        raise ServerError(f"--postgres-url or {URL_VARIABLE} takes a URL such as postgresql://user@localhost:5432/")
    server = Server(url)
    try:
        server.drop_database(server.create_database())
    except psycopg.Error as error:
        raise ServerError(f"at the server of --postgres-url no database can be made: {error}") from None
    return server


def look_for(search: Callable[[], Path]) -> tuple[Path | None, str | None]:
    try:
        return search(), None
    except MissingProgramError as missing:
        return None, str(missing)


def say(**what: object) -> None:
    print(json.dumps(what), flush=True)


if __name__ == "__main__":
    sys.exit(main())
