"""A Django project whose Postgres does not answer: each command ends with one line, on either driver."""

import os
import socket

import pytest

from tinyjobs.core.errors import (
    DataRefusedError,
    SchemaMissingError,
    StoreBusyError,
    StoreError,
    StoreUnavailableError,
)
from tinyjobs.taskbackend.postgres import VENDOR

pytestmark = pytest.mark.skipif(os.name != "posix", reason="processes as tests.cli.processes starts them")

DATABASES = """
DATABASES = {{"default": {{
    "ENGINE": "django.db.backends.postgresql",
    "NAME": "shop", "USER": "me", "PASSWORD": "s3cr3t", "HOST": "127.0.0.1", "PORT": "{port}",
}}}}
"""


@pytest.fixture
def nowhere():
    """A port on which nobody listens, and nobody else will."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]


@pytest.mark.parametrize(
    "command", ["worker", "scheduler", "queues", "stats", "jobs list", "jobs show x", "schedules", "purge --dry-run"]
)
def test_a_command_says_in_one_line_that_the_server_does_not_answer(project, nowhere, command):
    settings = project.folder / "project.py"
    settings.write_text(settings.read_text() + DATABASES.format(port=nowhere))
    status, output = project.run("tinyjobs", *command.split())
    assert status == 1
    (line,) = output.splitlines()
    assert line.startswith("CommandError: DATABASES['default']: ") and "refused" in line
    assert "s3cr3t" not in line


class Error(Exception):
    __module__ = "psycopg2"
    pgcode = None


class OperationalError(Error):
    __module__ = "psycopg2"


class InterfaceError(Error):
    __module__ = "psycopg2"


class DataError(Error):
    __module__ = "psycopg2"


class UndefinedTable(Error):
    __module__ = "psycopg2.errors"
    pgcode = "42P01"


class DeadlockDetected(OperationalError):
    __module__ = "psycopg2.errors"
    pgcode = "40P01"


class SyntaxErrorInStatement(Error):
    __module__ = "psycopg2.errors"
    pgcode = "42601"


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (OperationalError("connection refused\n\tIs the server running?"), StoreUnavailableError),
        (InterfaceError("connection already closed"), StoreUnavailableError),
        (DataError("integer out of range"), DataRefusedError),
        (UndefinedTable('relation "tinyjobs_jobs" does not exist\nLINE 1: SELECT 1'), SchemaMissingError),
        (DeadlockDetected("deadlock detected"), StoreBusyError),
        (SyntaxErrorInStatement("syntax error"), StoreError),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else value.__name__,
)
def test_the_older_drivers_errors_have_their_kinds(error, kind):
    """As psycopg2 raises them; it is not installed here, and known by the names of its exceptions."""
    told = VENDOR.translate(error, "DATABASES['default']")
    assert type(told) is kind
    assert str(told).startswith("DATABASES['default']: ")
    assert "\n" not in str(told) and "LINE 1" not in str(told)
