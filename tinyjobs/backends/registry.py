"""From a URL to a store: the scheme picks an entry point of the group `tinyjobs.backends`.

The bundled stores are found without entry points, so a checkout works uninstalled. Knows no store by more than the
path of its factory.
"""

import importlib
import re
from importlib.metadata import entry_points
from typing import Any, cast
from urllib.parse import urlsplit

from tinyjobs.backends.base import Backend, BackendFactory
from tinyjobs.core.clock import Clock
from tinyjobs.core.errors import ConfigurationError

GROUP = "tinyjobs.backends"
_BUNDLED = {
    "sqlite": "tinyjobs.backends.sqlite.backend:SQLiteBackend.from_url",
    "memory": "tinyjobs.backends.sqlite.backend:SQLiteBackend.from_url",
    "postgresql": "tinyjobs.backends.postgres.backend:PostgresBackend.from_url",
    "postgres": "tinyjobs.backends.postgres.backend:PostgresBackend.from_url",
}


def open_backend(url: str, *, clock: Clock, **options: Any) -> Backend:
    """The store a URL names, not yet connected. Raises `ConfigurationError` for a scheme nobody registers."""
    scheme = scheme_of(url)
    return _factory(scheme)(url, clock=clock, **options)


def scheme_of(url: object) -> str:
    """The scheme of a store URL, lower case."""
    if not isinstance(url, str) or "://" not in url:
        raise ConfigurationError(f"{url!r} is no store URL. Write for example sqlite:///jobs.db or memory://.")
    return urlsplit(url).scheme.lower()


def shown_url(url: str) -> str:
    """The URL as people may see it, in a banner or a log: without the password."""
    # By its looks and not by its parts: one that cannot be taken apart may hold a password all the same.
    url = re.sub(r"(://[^:/?#@]*:).*@", r"\1***@", url)
    return re.sub(r"([?&][^=&]*(?:pass|pwd|secret|token)[^=&]*=)[^&#]*", r"\1***", url, flags=re.IGNORECASE)


def known_schemes() -> list[str]:
    """Every scheme that can be opened here."""
    return sorted({*_BUNDLED, *(entry.name for entry in entry_points(group=GROUP))})


def _factory(scheme: str) -> BackendFactory:
    if scheme in _BUNDLED:
        module, _, attributes = _BUNDLED[scheme].partition(":")
        found: Any = importlib.import_module(module)
        for attribute in attributes.split("."):
            found = getattr(found, attribute)
        return cast(BackendFactory, found)
    for entry in entry_points(group=GROUP, name=scheme):
        return cast(BackendFactory, entry.load())
    raise ConfigurationError(
        f"No store is registered for {scheme}://. Known here: {', '.join(known_schemes())}. A store of another "
        f"package registers itself under the entry point group {GROUP!r}; is that package installed?"
    )
