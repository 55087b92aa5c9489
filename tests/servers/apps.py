"""Apps over the stores of private servers, closed when the test is over."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tinyjobs.app.facade import TinyJobs


@contextmanager
def apps_on(store_url: str) -> Iterator[Callable[..., TinyJobs]]:
    """Give what makes apps, on this store or on another URL, with the options of `TinyJobs`; close them in the end."""
    apps: list[TinyJobs] = []

    def make(url: str = store_url, **options: Any) -> TinyJobs:
        app = TinyJobs(url, **options)
        apps.append(app)
        return app

    yield make
    for app in apps:
        app.close()
