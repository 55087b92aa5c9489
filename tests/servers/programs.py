"""Where the programs of a Postgres server and of PgBouncer are on this machine, and how to get them if they are not."""

import glob
import os
import re
import shutil
import subprocess
from pathlib import Path

from tests.servers.processes import MissingProgramError

#: A folder that holds `initdb` and `postgres`, to be used whatever else there is.
PROGRAMS_VARIABLE = "TINYJOBS_TEST_POSTGRES_PROGRAMS"
NO_POSTGRES = (
    "no programs of a Postgres server here; on Debian and Ubuntu: apt-get install postgresql "
    "(initdb and postgres have to be on PATH, in /usr/lib/postgresql/*/bin, or where pg_config --bindir says)"
)
NO_PGBOUNCER = "no pgbouncer here; on Debian and Ubuntu: apt-get install pgbouncer"


def postgres_programs() -> Path:
    """The folder with `initdb` and `postgres`: the one named, else what pg_config names, else PATH's, else the newest.

    Raises `MissingProgramError`.
    """
    named = os.environ.get(PROGRAMS_VARIABLE)
    if named:
        if not _has_server(Path(named)):
            raise MissingProgramError(f"{PROGRAMS_VARIABLE} names {named}, which has no initdb and postgres")
        return Path(named)
    for folder in (_told_by_pg_config(), _on_path(), *_of_debian()):
        if folder is not None and _has_server(folder):
            return folder
    raise MissingProgramError(NO_POSTGRES)


def pgbouncer_program() -> Path:
    """PgBouncer's program. Debian keeps it where only root's PATH looks. Raises `MissingProgramError`."""
    found = shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin:/usr/local/sbin")
    if found is None:
        raise MissingProgramError(NO_PGBOUNCER)
    return Path(found)


def _has_server(folder: Path) -> bool:
    return all(os.access(folder / name, os.X_OK) for name in ("initdb", "postgres"))


def _told_by_pg_config() -> Path | None:
    try:
        answer = subprocess.run(["pg_config", "--bindir"], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return Path(answer.stdout.strip()) if answer.returncode == 0 and answer.stdout.strip() else None


def _on_path() -> Path | None:
    found = shutil.which("initdb")
    return Path(found).resolve().parent if found else None


def _of_debian() -> list[Path]:
    def version(folder: str) -> tuple[int, ...]:
        return tuple(map(int, re.findall(r"\d+", folder)))

    return [Path(folder) for folder in sorted(glob.glob("/usr/lib/postgresql/*/bin"), key=version, reverse=True)]
