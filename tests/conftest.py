"""What every test gets. Django is set up by pytest-django, with the settings that pyproject.toml names.

Nothing here is specific to a store or a feature; fixtures live beside the tests that use them.
"""

import signal

import pytest
from django.test import TransactionTestCase

pytest_plugins = ["tests.servers.fixtures"]
#: Whoever asks for one of these fixtures needs a Postgres.
NEED_POSTGRES = frozenset({"postgres_cluster", "postgres_url", "make_cluster", "own_cluster", "make_pgbouncer"})


def pytest_configure() -> None:
    """Heed Ctrl-C, and let the processes that tests start heed it.

    A shell that starts the tests in the background has them ignore SIGINT, and whatever they start inherits that.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark what uses a Django test database, and what needs a Postgres: each run picks by these."""
    owner = getattr(item, "cls", None)
    if item.get_closest_marker("django_db") or (isinstance(owner, type) and issubclass(owner, TransactionTestCase)):
        item.add_marker(pytest.mark.database)
    if NEED_POSTGRES & set(getattr(item, "fixturenames", ())):
        item.add_marker(pytest.mark.postgres)
