"""A database of a test's own, on the store that the suite runs on."""

from urllib.parse import unquote, urlsplit

import pytest
from django.db import DEFAULT_DB_ALIAS, connections


@pytest.fixture
def scratch_url(tmp_path, request):
    """The URL of an empty database."""
    if connections[DEFAULT_DB_ALIAS].vendor == "sqlite":
        return f"sqlite:///{tmp_path}/scratch.sqlite3"
    return request.getfixturevalue("postgres_url")


@pytest.fixture
def scratch(scratch_url, settings, django_db_setup, django_db_blocker):
    """The same database behind the alias `scratch`; with migrations, also in a run without."""
    settings.MIGRATION_MODULES = {}
    entry = connections[DEFAULT_DB_ALIAS].settings_dict
    path = unquote(urlsplit(scratch_url).path)
    name = path[1:]
    connections.settings["scratch"] = {**entry, "NAME": name, "OPTIONS": {**entry["OPTIONS"]}}
    with django_db_blocker.unblock():
        yield connections["scratch"]
        connections["scratch"].close()
    del connections["scratch"]
    del connections.settings["scratch"]
