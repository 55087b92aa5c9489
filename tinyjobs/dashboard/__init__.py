"""The dashboard: pages about the jobs of an alias of `TASKS`, inside the admin or mounted alone.

`services` is what pages ask of a store, `pages` make a dictionary of the answers, which `views` render or send as JSON,
and `actions` change things. `site` puts all of it into an admin site, `alone` does without one. Nothing here knows a
store or speaks SQL.
"""

from collections.abc import Sequence
from typing import Any

from tinyjobs.app.facade import TinyJobs


def wsgi(app: TinyJobs, *, hosts: Sequence[str] = ()) -> Any:
    """The dashboard of an app as a WSGI application, to be mounted at any prefix.

    There is no login: mount it behind what guards the rest. `hosts` are the names that requests may give as their host,
    beside those of the loopback: `"jobs.example.com"`, `".example.com"` for all below it, or `"*"` for any, which lets
    other web sites reach it through a visitor's browser. `ALLOWED_HOSTS` is not asked. Forms may come from pages of
    these hosts, by http or https. Raises `ConfigurationError` if Django is configured and lacks what the pages need.
    """
    from tinyjobs.dashboard.minimal import ready_django

    ready_django()
    from tinyjobs.dashboard.alone import desks_of
    from tinyjobs.dashboard.mounts import Wsgi

    return Wsgi(desks_of(app), hosts)


def asgi(app: TinyJobs, *, hosts: Sequence[str] = ()) -> Any:
    """The same as an ASGI application."""
    from tinyjobs.dashboard.minimal import ready_django

    ready_django()
    from tinyjobs.dashboard.alone import desks_of
    from tinyjobs.dashboard.mounts import Asgi

    return Asgi(desks_of(app), hosts)
