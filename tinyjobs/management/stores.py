"""The store behind an alias of `TASKS`, as a URL and options: for processes that know nothing of the project.

Named in full, since what is to be done there asks for an empty store. A URL stands for itself.
"""

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, urlencode

from django.db import connections

from tinyjobs.backends.postgres.options import libpq_only
from tinyjobs.core.errors import ConfigurationError, StoreError
from tinyjobs.management.target import AliasTarget
from tinyjobs.taskbackend.backend import backend_of
from tinyjobs.taskbackend.vendors import PREFIX


def store_of(text: str) -> tuple[str, Mapping[str, Any]]:
    """The URL and the options of the store that a URL or an alias names.

    Of an alias whose jobs are in a database of the project the tables have to be there. Raises `ConfigurationError`.
    """
    if "://" in text:
        return text, {}
    target = AliasTarget(text)
    settings = backend_of(text).shared.settings
    if settings.url is not None:
        return settings.url, settings.store
    try:
        target.check_layout()
    except StoreError as error:
        raise ConfigurationError(str(error)) from error
    assert settings.database is not None
    return _url_of(settings.database), {"prefix": PREFIX, **settings.store}


def _url_of(alias: str) -> str:
    connection = connections[alias]
    place = connection.settings_dict
    if connection.vendor == "sqlite":
        return f"sqlite:///{quote(str(place['NAME']), safe='/')}"
    if place["OPTIONS"].get("assume_role"):
        raise ConfigurationError(
            f"DATABASES[{alias!r}] takes another role with assume_role, which no URL can say. Give verify a URL."
        )
    return "postgresql:///?" + urlencode(libpq_only(connection.get_connection_params()), quote_via=quote)
