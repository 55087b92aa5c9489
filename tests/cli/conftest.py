"""Programs and projects for the tests of the command line."""

from contextlib import ExitStack

import pytest

from tests.cli.processes import DjangoProgram, Gate, Program, StandaloneProgram
from tinyjobs.app.facade import TinyJobs


@pytest.fixture
def start():
    """Starts processes, and ends those that a test left running."""
    with ExitStack() as stack:
        yield lambda *args, **options: stack.enter_context(Program(*args, **options))


@pytest.fixture
def program(tmp_path, start) -> StandaloneProgram:
    return StandaloneProgram(tmp_path, start)


@pytest.fixture(scope="session")
def migrated(tmp_path_factory):
    """A database on which `migrate` was run."""
    folder = tmp_path_factory.mktemp("migrated")
    with ExitStack() as stack:
        DjangoProgram(folder, lambda *args, **options: stack.enter_context(Program(*args, **options))).migrate()
    return folder / "db.sqlite3"


@pytest.fixture
def project(tmp_path, start, migrated) -> DjangoProgram:
    return DjangoProgram(tmp_path, start, migrated)


@pytest.fixture
def gate(tmp_path) -> Gate:
    return Gate(tmp_path / "gate")


@pytest.fixture
def jobs(program):
    """The program's store, from this process: `send` enqueues by name."""
    with TinyJobs(program.url) as app:
        yield app


@pytest.fixture(params=["database", pytest.param("redis", marks=pytest.mark.redis)])
def each_store(request, settings):
    """Jobs are in the test's database, or in Redis, where a send does not wait for the end of the test."""
    if request.param == "redis":
        options = {"url": request.getfixturevalue("redis_url"), "enqueue_on_commit": False}
        settings.TASKS = {"default": {"BACKEND": "tinyjobs.TinyJobsBackend", "OPTIONS": options}}
    return request.param
