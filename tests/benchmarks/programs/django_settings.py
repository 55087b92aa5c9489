"""One Django project for all Django programs, with the settings a production project would give its database.

On SQLite: WAL with `synchronous = NORMAL`, transactions that begin immediate, a bounded wait for the lock. On Postgres:
Django's own, with connections that are kept. With jobs in Redis the project has a SQLite file beside them. The program
says in the environment which app and task backend it brings.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from urllib.parse import urlsplit

SECRET_KEY = "benchmark"
DEBUG = False
USE_TZ = True
INSTALLED_APPS = ["benchapp", *os.environ["BENCH_APPS"].split(",")]
_store = os.environ["BENCH_STORE"]
_url = urlsplit(_store)
if _url.scheme == "postgresql":
    _database = {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": _url.path.removeprefix("/"),
        "HOST": _url.hostname or "",
        "PORT": str(_url.port or ""),
        "USER": _url.username or "",
        "PASSWORD": _url.password or "",
    }
else:
    _database = {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": str(Path(os.environ["BENCH_FOLDER"], "project.db") if _url.scheme == "redis" else Path(_store)),
        "OPTIONS": {
            "transaction_mode": "IMMEDIATE",
            "timeout": 20,
            "init_command": "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL",
        },
    }
DATABASES = {"default": {**_database, "CONN_MAX_AGE": None}}
TASKS = {"default": {"BACKEND": os.environ["BENCH_BACKEND"], "OPTIONS": json.loads(os.environ["BENCH_OPTIONS"])}}
globals().update(json.loads(os.environ["BENCH_SETTINGS"]))
