"""One Django project for all Django programs: the same SQLite settings, the ones a production project would give it.

WAL with `synchronous = NORMAL`, transactions that begin immediate, a bounded wait for the lock. The program says in the
environment which app and which task backend it brings.
"""

from __future__ import annotations

import os
from pathlib import Path

SECRET_KEY = "benchmark"
DEBUG = False
USE_TZ = True
INSTALLED_APPS = ["benchapp", *os.environ["BENCH_APPS"].split(",")]
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": str(Path(os.environ["BENCH_FOLDER"]) / "jobs.db"),
        "CONN_MAX_AGE": None,
        "OPTIONS": {
            "transaction_mode": "IMMEDIATE",
            "timeout": 20,
            "init_command": "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL",
        },
    }
}
TASKS = {"default": {"BACKEND": os.environ["BENCH_BACKEND"]}}
