"""Apps over a Redis, and workshops with processes over one, closed after the test."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.crash.workshop import Workshop, workshop_in
from tests.servers.apps import apps_on
from tinyjobs.app.facade import TinyJobs


@pytest.fixture
def make_app(redis_url: str) -> Iterator[Callable[..., TinyJobs]]:
    """Makes apps on the test's database, or on another URL."""
    with apps_on(redis_url) as make:
        yield make


@pytest.fixture
def app(make_app: Callable[..., TinyJobs]) -> TinyJobs:
    """One app on the test's database."""
    return make_app()


@pytest.fixture
def open_workshop(tmp_path: Path) -> Iterator[Callable[[str], Workshop]]:
    """Opens a workshop over a store's URL; every process started there is gone at the end."""
    with ExitStack() as stack:
        yield lambda url: stack.enter_context(workshop_in(tmp_path, url))
