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

_REDIS = ("redis==8.1.0",)

_PSYCOPG = ("psycopg==3.3.9", "psycopg-binary==3.3.9", "typing_extensions==4.16.0")
_PSYCOPG_POOL = (*_PSYCOPG, "psycopg-pool==3.3.3")

_VTASKS_NEEDS = (
    "croniter==7.0.0",
    "orjson==3.13.0",
    "python-dateutil==4.0.0",
    # Its module needs it before Python 3.14 also without its extra for another store.
    "pyzstd==0.20.0",
    "backports.zstd==1.8.0; python_version < '3.14'",
    "tzdata==2026.6",
)

PINS: dict[str, tuple[str, ...]] = {
    "tinyjobs-0.7.1": ("tinyjobs==0.7.1",),
    "huey": ("huey==3.5.4",),
    # typer and what it needs: its own module imports its command.
    "pgqueuer": (
        "pgqueuer==1.6.0",
        "asyncpg==0.32.0",
        "uvloop==0.23.0",
        "anyio==4.16.0",
        "croniter==7.0.0",
        "python-dateutil==4.0.0",
        "tabulate==0.10.0",
        "idna==3.20",
        "pydantic==2.14.4",
        "pydantic_core==2.50.5",
        "pydantic-settings==2.16.3",
        "annotated-types==0.8.0",
        "typing-inspection==0.4.5",
        "python-dotenv==1.2.4",
        "typer==0.29.2",
        "annotated-doc==0.0.7",
        "shellingham==1.5.4",
        "rich==15.0.0",
        "markdown-it-py==4.3.0",
        "mdurl==0.1.2",
        "Pygments==2.21.0",
        "tzdata==2026.6",
        *_PSYCOPG_POOL,
    ),
    "procrastinate": (
        "procrastinate==3.10.0",
        "asgiref==3.13.0",
        "attrs==26.1.0",
        "croniter==7.0.0",
        "packaging==26.4",
        "python-dateutil==4.0.0",
        "tzdata==2026.6",
        *_PSYCOPG_POOL,
    ),
    "oban": (
        "oban==0.7.0",
        "click==8.5.1",
        "erlpack==1.0.1",
        "six==1.17.0",
        "orjson==3.13.0",
        "uvloop==0.23.0",
        *_PSYCOPG_POOL,
    ),
    "chancy": ("chancy==0.26.0", "click==8.5.1", *_PSYCOPG_POOL),
    "dj-queue": ("dj-queue==0.14.2", *_DJANGO, *_PSYCOPG),
    "django-vtasks": (
        "django-vtasks==3.2.0",
        *_VTASKS_NEEDS,
        *_DJANGO,
        *_PSYCOPG,
    ),
    "django-ox": ("django-ox==1.9.1", *_DJANGO, *_PSYCOPG),
    # From here on for the queues on Redis. Each has the newest redis-py that it allows, also where it needs none: the
    # benchmark looks into the store by it.
    "tinyjobs-0.7.1-redis": ("tinyjobs==0.7.1", "hiredis==3.5.0", *_REDIS),
    "huey-redis": ("huey==3.5.4", "hiredis==3.5.0", *_REDIS),
    "dramatiq": ("dramatiq==2.2.1", "hiredis==3.5.0", *_REDIS),
    "taskiq": (
        "taskiq==0.13.0",
        "taskiq-redis==1.2.4",
        "taskiq-dependencies==1.5.7",
        "aiohappyeyeballs==2.7.1",
        "aiohttp==3.14.5",
        "aiosignal==1.4.0",
        "annotated-types==0.8.0",
        "anyio==4.16.0",
        "attrs==26.1.0",
        "frozenlist==1.8.0",
        "idna==3.20",
        "multidict==7.2.1",
        "propcache==0.5.4",
        "pycron==3.3.0",
        "pydantic==2.14.4",
        "pydantic_core==2.50.5",
        "typing-inspection==0.4.5",
        "typing_extensions==4.16.0",
        "yarl==1.25.1",
        "uvloop==0.23.0",
        "hiredis==3.5.0",
        *_REDIS,
    ),
    "saq": (
        "saq==0.26.4",
        "typing_extensions==4.16.0",
        "croniter==7.0.0",
        "python-dateutil==4.0.0",
        "tzdata==2026.6",
        "hiredis==3.5.0",
        "redis==7.4.1",
        "uvloop==0.23.0",
    ),
    "streaq": (
        "streaq==7.2.0",
        "coredis==6.9.0",
        "Deprecated==3.0.1",
        "wrapt==2.5.2",
        "annotated-doc==0.0.7",
        "annotated-types==0.8.0",
        "anyio==4.16.0",
        "beartype==0.23.1",
        "crontab==1.0.5",
        "exceptiongroup==1.3.2",
        "idna==3.20",
        "markdown-it-py==4.3.0",
        "mdurl==0.1.2",
        "packaging==26.4",
        "pydantic==2.14.4",
        "pydantic_core==2.50.5",
        "Pygments==2.21.0",
        "rich==15.0.0",
        "shellingham==1.5.4",
        "typer==0.29.2",
        "typing-inspection==0.4.5",
        "typing_extensions==4.16.0",
        "watchfiles==1.3.0",
        "uvloop==0.23.0",
        *_REDIS,
    ),
    "arq": ("arq==0.28.0", "PyJWT==2.15.1", "click==8.5.1", "hiredis==3.5.0", "redis==5.3.1", "uvloop==0.23.0"),
    "celery": (
        "celery==5.7.0",
        "kombu==5.7.0",
        "billiard==4.3.2",
        "amqp==5.4.2",
        "vine==5.1.0",
        "click==8.5.1",
        "click-didyoumean==0.3.1",
        "click-plugins==1.1.1.2",
        "click-repl==0.4.1",
        "packaging==26.3",
        "prompt_toolkit==3.0.53",
        "python-dateutil==2.9.0.post0",
        "six==1.17.0",
        "typing_extensions==4.16.0",
        "tzlocal==5.4.5",
        "wcwidth==0.9.4",
        "hiredis==3.5.0",
        *_REDIS,
    ),
    "rq": ("rq==3.0.0", "click==8.5.1", "croniter==7.0.0", "python-dateutil==4.0.0", "tzdata==2026.6", *_REDIS),
    "django-tasks-rq": (
        "django-tasks-rq==0.12.0",
        "django-tasks==0.12.0",
        "django-rq==4.2.0",
        "rq==3.0.0",
        "click==8.5.1",
        "croniter==7.0.0",
        "crontab==1.0.5",
        "django-stubs-ext==6.1.2",
        "freezegun==1.5.5",
        "python-dateutil==4.0.0",
        "rq-scheduler==0.14.0",
        "typing_extensions==4.16.0",
        "tzdata==2026.6",
        *_REDIS,
        *_DJANGO,
    ),
    "django-vtasks-valkey": (
        "django-vtasks==3.2.0",
        "django-vcache==3.2.0",
        "ormsgpack==1.13.1",
        "uvloop==0.23.0",
        *_VTASKS_NEEDS,
        *_REDIS,
        *_DJANGO,
    ),
    "django-tasks-db": ("django-tasks-db==0.13.0", "django-stubs-ext==6.1.2", *_DJANGO, *_PSYCOPG),
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
