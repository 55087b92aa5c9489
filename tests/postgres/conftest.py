"""Apps over a Postgres, closed after the test."""

from collections.abc import Callable, Iterator

import pytest

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
