"""Apps over a Postgres, and workshops with processes over one, closed after the test."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.crash.workshop import Workshop, workshop_in
from tinyjobs.app.facade import TinyJobs


@pytest.fixture
def make_app(postgres_url: str) -> Iterator[Callable[..., TinyJobs]]:
    """Makes apps on the test's database, or on another URL."""
    apps: list[TinyJobs] = []

    def make(url: str = postgres_url, **options: object) -> TinyJobs:
        app = TinyJobs(url, **options)
        apps.append(app)
        return app

    yield make
    for app in apps:
        app.close()


@pytest.fixture
def app(make_app: Callable[..., TinyJobs]) -> TinyJobs:
    """One app on the test's database."""
    return make_app()


@pytest.fixture
def open_workshop(tmp_path: Path) -> Iterator[Callable[[str], Workshop]]:
    """Opens a workshop over a store's URL; every process started there is gone at the end."""
    with ExitStack() as stack:
        yield lambda url: stack.enter_context(workshop_in(tmp_path, url))
