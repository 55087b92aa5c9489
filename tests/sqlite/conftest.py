"""The large store that plans and costs are asserted on: made once a run, in both states that planners know."""

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.sqlite.filled import fill
from tests.sqlite.stores import make_store
from tinyjobs.core.inline import finish


@pytest.fixture(scope="session")
def filled_file(tmp_path_factory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("filled")
    fill(folder / "jobs.db")
    yield folder / "jobs.db"
    # Pytest keeps the folders of the last runs, and these files are large.
    shutil.rmtree(folder)


@pytest.fixture(scope="session")
def analyzed_file(filled_file) -> Path:
    path = filled_file.with_name("analyzed.db")
    shutil.copy(filled_file, path)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("ANALYZE")
    return path


@pytest.fixture(params=["before ANALYZE", "after ANALYZE"])
def large_file(request, filled_file) -> Path:
    """The large store as the planner sees it without statistics, and with them. Tests may change single rows."""
    if request.param == "before ANALYZE":
        return filled_file
    return request.getfixturevalue("analyzed_file")


@pytest.fixture(params=[True, False], ids=["returning", "older form"])
def large_store(request, large_file):
    store = make_store(large_file, returning=request.param)
    yield store
    finish(store.inline().close())
