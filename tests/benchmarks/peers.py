"""The peers' environments: one virtual environment each, every version pinned, made once and kept in a cache folder.

They must be apart from ours and from each other: one of them has this project's own import name.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

_DJANGO = ("Django==6.1.3", "asgiref==3.13.0", "sqlparse==0.6.1")

PINS: dict[str, tuple[str, ...]] = {
    "tinyjobs-0.7.1": ("tinyjobs==0.7.1",),
    "huey": ("huey==3.5.4",),
    # pyzstd: its module needs it before Python 3.14 also without its extra for another store.
    "django-vtasks": (
        "django-vtasks==3.2.0",
        "croniter==7.0.0",
        "orjson==3.13.0",
        "python-dateutil==4.0.0",
        "pyzstd==0.20.0",
        "backports.zstd==1.8.0; python_version < '3.14'",
        "tzdata==2026.6",
        *_DJANGO,
    ),
    "django-ox": ("django-ox==1.9.1", *_DJANGO),
    "django-tasks-db": (
        "django-tasks-db==0.13.0",
        "django-stubs-ext==6.1.2",
        "typing_extensions==4.16.0",
        *_DJANGO,
    ),
}


def default_cache() -> Path:
    """Where environments and results are kept when the command is not told."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tinyjobs-benchmarks"


def python_of(peer: str, cache: Path) -> Path:
    """The interpreter of a peer's environment, made now if it is not there. Raises `SystemExit` when pip cannot."""
    pins = PINS[peer]
    told = hashlib.sha256("\n".join([sys.version, *pins]).encode()).hexdigest()[:12]
    folder = cache / "environments" / f"{peer}-{told}"
    python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    if (folder / "complete").exists():
        return python
    print(f"making the environment of {peer} in {folder}", file=sys.stderr, flush=True)
    shutil.rmtree(folder, ignore_errors=True)
    venv.create(folder, with_pip=True)
    command = [str(python), "-m", "pip", "install", "--quiet", "--no-deps", "--disable-pip-version-check", *pins]
    installed = subprocess.run(command, capture_output=True, text=True)
    if installed.returncode:
        raise SystemExit(
            f"The environment of {peer} could not be made. Leave it out with --skip {peer}, or look why pip failed:\n"
            f"{installed.stderr[-2000:]}"
        )
    (folder / "complete").touch()
    return python
