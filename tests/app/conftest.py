"""Apps for the facade's tests: on a file, in memory, and over stores that need an event loop."""

import asyncio
from collections.abc import Callable

import pytest

from tinyjobs.app.facade import TinyJobs
from tinyjobs.backends import registry
from tinyjobs.core.clock import FrozenClock


@pytest.fixture
def clock():
    return FrozenClock()


@pytest.fixture(autouse=True)
def other_stores(monkeypatch):
    """Make the stores of `stores.py` known by their schemes, as an installed package would."""
    for scheme, name in {"looponly": "LoopOnly", "loopbound": "LoopBound", "meagre": "Meagre"}.items():
        monkeypatch.setitem(registry._BUNDLED, scheme, f"tests.app.stores:{name}.from_url")


@pytest.fixture
def make_app(clock):
    """Makes apps and closes them at the end, whatever state a test left them in."""
    apps: list[TinyJobs] = []

    def make(url: str = "memory://", **options) -> TinyJobs:
        app = TinyJobs(url, **({"clock": clock} | options))
        apps.append(app)
        return app

    yield make
    for app in apps:
        app.close()


@pytest.fixture
def app(make_app) -> TinyJobs:
    return make_app()


@pytest.fixture(
    params=[
        *["file", "memory", "looponly", "loopbound"],
        *[pytest.param(store, marks=getattr(pytest.mark, store)) for store in ("postgres", "redis")],
    ]
)
def any_app(request, tmp_path) -> TinyJobs:
    """One app over each kind of store."""
    url = f"{request.param}://"
    if request.param == "file":
        url = f"sqlite:///{tmp_path}/jobs.db"
    elif request.param in ("postgres", "redis"):
        # Asked for before the maker of apps, so that the database goes after the app was closed.
        url = request.getfixturevalue(f"{request.param}_url")
    return request.getfixturevalue("make_app")(url)


@pytest.fixture(params=["sync", "async"])
def call(request) -> Callable:
    """Calls a verb of an object through either face: `call(app, "get", job_id)`."""

    def sync(owner, verb, *args, **kwargs):
        return getattr(owner, verb)(*args, **kwargs)

    def awaited(owner, verb, *args, **kwargs):
        return asyncio.run(getattr(owner, "a" + verb)(*args, **kwargs))

    return sync if request.param == "sync" else awaited
