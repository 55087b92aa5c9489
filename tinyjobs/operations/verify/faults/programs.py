"""Where the programs of the servers are: on PATH, and where Debian keeps what only root's PATH has."""

import glob
import os
import re
import shutil
import subprocess
from pathlib import Path

from tinyjobs.core.errors import ConfigurationError

_SYSTEM_FOLDERS = "/usr/sbin:/usr/local/sbin"
_DEBIAN = "/usr/lib/postgresql/*/bin"


def redis_program() -> Path:
    """A Redis or Valkey server. Raises `ConfigurationError`, which names the remedy."""
    for name in ("redis-server", "valkey-server"):
        found = shutil.which(name) or shutil.which(name, path=_SYSTEM_FOLDERS)
        if found:
            return Path(found)
    raise ConfigurationError(
        "--faults redis starts a server of its own, and there is neither redis-server nor valkey-server on PATH, in "
        "/usr/sbin or in /usr/local/sbin. On Debian and Ubuntu: apt-get install redis-server."
    )


def postgres_programs() -> Path:
    """The folder with `initdb` and `postgres`, the newest there is. Raises `ConfigurationError`, with the remedy."""
    for folder in _folders():
        if all(os.access(folder / name, os.X_OK) for name in ("initdb", "postgres")):
            return folder
    raise ConfigurationError(
        "--faults postgres starts a server of its own, and there is no folder with initdb and postgres: not the one "
        f"that pg_config --bindir names, none on PATH, none in {_DEBIAN}. On Debian and Ubuntu: apt-get install "
        "postgresql."
    )


def _folders() -> list[Path]:
    found = []
    if shutil.which("pg_config"):
        answer = subprocess.run(["pg_config", "--bindir"], capture_output=True, text=True, check=False)
        found.append(Path(answer.stdout.strip() or "/nowhere"))
    initdb = shutil.which("initdb")
    if initdb:
        found.append(Path(initdb).resolve().parent)
    return found + sorted(map(Path, glob.glob(_DEBIAN)), key=_number, reverse=True)


def _number(folder: Path) -> float:
    found = re.search(r"(\d+(?:\.\d+)?)", folder.parent.name)
    return float(found[1]) if found else 0.0
