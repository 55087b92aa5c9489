"""From a URL to a store: the scheme picks an entry point of the group `tinyjobs.backends`.

The bundled stores are found without entry points, so a checkout works uninstalled. Knows no store by more than the
path of its factory.
"""

import importlib
from importlib.metadata import entry_points
from typing import Any, cast

from tinyjobs.backends.base import Backend, BackendFactory
from tinyjobs.core.clock import Clock
from tinyjobs.core.errors import ConfigurationError
from tinyjobs.core.url import shown_url

GROUP = "tinyjobs.backends"
#: The schemes of the stores that need a driver.
POSTGRES = ("postgresql", "postgres")
REDIS = ("redis", "rediss", "unix", "valkey", "valkeys")
_BUNDLED = {
    "sqlite": "tinyjobs.backends.sqlite.backend:SQLiteBackend.from_url",
    "memory": "tinyjobs.backends.sqlite.backend:SQLiteBackend.from_url",
    **dict.fromkeys(POSTGRES, "tinyjobs.backends.postgres.backend:PostgresBackend.from_url"),
    **dict.fromkeys(REDIS, "tinyjobs.backends.redis.backend:RedisBackend.from_url"),
}

# What a store needs beside this package is an extra of it.
_EXTRAS = {**dict.fromkeys(POSTGRES, "postgres"), **dict.fromkeys(REDIS, "redis")}


def open_backend(url: str, *, clock: Clock, **options: Any) -> Backend:
    """The store a URL names, not yet connected. Raises `ConfigurationError` for a scheme nobody registers."""
    scheme = scheme_of(url)
    factory = _factory(scheme)
    try:
        return factory(url, clock=clock, **options)
    except ModuleNotFoundError as error:  # of a driver that is imported where it is first needed
        _tell_of_driver(scheme, error)
        raise


def scheme_of(url: object) -> str:
    """The scheme of a store URL, lower case."""
    if not isinstance(url, str) or "://" not in url:
        told = shown_url(url) if isinstance(url, str) else url
        raise ConfigurationError(f"{told!r} is no store URL. Write for example sqlite:///jobs.db or memory://.")
    # Not taken apart further: Python quotes what it cannot read of an address, which may be the password.
    return url.partition("://")[0].strip().lower()


def known_schemes() -> list[str]:
    """Every scheme that can be opened here."""
    return sorted({*_BUNDLED, *(entry.name for entry in entry_points(group=GROUP))})


def _factory(scheme: str) -> BackendFactory:
    if scheme in _BUNDLED:
        module, _, attributes = _BUNDLED[scheme].partition(":")
        try:
            found: Any = importlib.import_module(module)
        except ImportError as error:
            _tell_of_driver(scheme, error)
            raise
        for attribute in attributes.split("."):
            found = getattr(found, attribute)
        return cast(BackendFactory, found)
    for entry in entry_points(group=GROUP, name=scheme):
        return cast(BackendFactory, entry.load())
    raise ConfigurationError(
        f"No store is registered for {scheme}://. Known here: {', '.join(known_schemes())}. A store of another "
        f"package registers itself under the entry point group {GROUP!r}; is that package installed?"
    )


def _tell_of_driver(scheme: str, error: ImportError) -> None:
    if scheme in _EXTRAS and (error.name or "").split(".")[0] != "tinyjobs":
        raise ConfigurationError(
            f"{scheme}:// needs a driver that cannot be imported here: {error}. Install it with "
            f"pip install 'tinyjobs[{_EXTRAS[scheme]}]'."
        ) from error
