"""What the suite needs on disk: Django's test files from its source distribution, and an environment per release.

Everything goes into a cache folder that keeps itself out of version control. Uses pip and nothing else to reach a
package index, so a machine's own pip settings apply.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import venv
from pathlib import Path

from tests.django_suite.releases import Release

CHECKOUT = Path(__file__).resolve().parents[2]


class CannotPrepare(Exception):
    """Something could not be fetched or installed; the message has what the tool said."""


def cache_folder(path: Path) -> Path:
    """Make the cache folder, marked so that git, backups and searches pass it by."""
    path.mkdir(parents=True, exist_ok=True)
    (path / ".gitignore").write_text("*\n")
    return path


def python_for(release: Release, cache: Path) -> Path:
    """The interpreter of an environment with that Django and this checkout, made when there is none that fits."""
    home = cache / f"venv-{release.series}"
    python = home / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    stamp = home / "made-for"
    wanted = "\n".join(
        [
            release.version,
            "psycopg redis",
            sys.version,
            str(CHECKOUT),
            hashlib.sha256((CHECKOUT / "pyproject.toml").read_bytes()).hexdigest(),
        ]
    )
    if stamp.exists() and stamp.read_text() == wanted:
        return python
    shutil.rmtree(home, ignore_errors=True)
    venv.create(home, with_pip=True)
    _pip(python, "install", f"django=={release.version}", "-e", str(CHECKOUT), "psycopg[binary,pool]", "redis")
    stamp.write_text(wanted)
    return python


def tests_of(release: Release, cache: Path, python: Path) -> Path:
    """The folder `tests/tasks` of the release's source distribution, with the licence it comes under."""
    archive = cache / release.sdist_name
    if _digest(archive) != release.sha256:
        archive.unlink(missing_ok=True)
        pinned = f"django=={release.version}"
        _pip(python, "download", "--no-deps", "--no-binary", "django", "--dest", str(cache), pinned)
        if _digest(archive) != release.sha256:
            raise CannotPrepare(f"{archive} is not the source distribution that releases.py pins: its SHA-256 differs")
    home = cache / f"django-{release.version}"
    if not home.exists():
        with tarfile.open(archive) as tar, tempfile.TemporaryDirectory(dir=cache) as unpacked:
            inside = (f"{home.name}/tests/tasks/", f"{home.name}/LICENSE")
            tar.extractall(unpacked, [member for member in tar if member.name.startswith(inside)], filter="data")
            (Path(unpacked) / home.name).rename(home)
    return home / "tests" / "tasks"


def _digest(archive: Path) -> str | None:
    if not archive.exists():
        return None
    with archive.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _pip(python: Path, *arguments: str) -> None:
    command = [str(python), "-m", "pip", "--disable-pip-version-check", arguments[0], "--quiet", *arguments[1:]]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise CannotPrepare(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
