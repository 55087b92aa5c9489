"""The suite on SQLite: two databases, each a file, because tests use them from other threads and processes.

A process that a test starts is pointed at the test's own database by TINYJOBS_TEST_DATABASE, a path.
"""

import os

from tests.settings.base import *  # noqa: F403
from tests.settings.base import run_directory

RUN_DIRECTORY = run_directory()


def database(name: str) -> dict[str, object]:
    """One database of the run. Transactions begin by taking the write lock, as a project beside a worker should."""
    return {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": str(RUN_DIRECTORY / f"{name}.sqlite3"),
        "OPTIONS": {
            "transaction_mode": "IMMEDIATE",
            "timeout": 20,
            "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL",
        },
        "TEST": {"NAME": str(RUN_DIRECTORY / f"test_{name}.sqlite3")},
    }


DATABASES = {"default": database("default"), "other": database("other")}
if "TINYJOBS_TEST_DATABASE" in os.environ:
    DATABASES["default"]["NAME"] = os.environ["TINYJOBS_TEST_DATABASE"]
