"""What every test gets. Django is set up by pytest-django, with the settings that pyproject.toml names.

Nothing here is specific to a store or a feature; fixtures live beside the tests that use them.
"""

import signal

import pytest
from django.test import TransactionTestCase

pytest_plugins = ["tests.servers.fixtures"]
#: Whoever asks for one of these fixtures needs a Postgres, or a Redis.
NEED_POSTGRES = frozenset({"postgres_cluster", "postgres_url", "make_cluster", "own_cluster", "make_pgbouncer"})
NEED_REDIS = frozenset({"redis_server", "redis_url", "make_redis", "own_redis", "make_redis_pair"})


def pytest_configure() -> None:
    """Heed Ctrl-C and the like, and let the processes that tests start heed them.

    A shell that starts the tests in the background has them ignore SIGINT and SIGQUIT, `nohup` has them ignore SIGHUP,
    and whatever they start inherits that.
    """
    for number, usual in (
        (signal.SIGINT, signal.default_int_handler),
        (signal.SIGQUIT, signal.SIG_DFL),
        (signal.SIGHUP, signal.SIG_DFL),
    ):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, usual)


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark what uses a Django test database, and what needs a Postgres or a Redis: each run picks by these."""
    owner = getattr(item, "cls", None)
    if item.get_closest_marker("django_db") or (isinstance(owner, type) and issubclass(owner, TransactionTestCase)):
        item.add_marker(pytest.mark.database)
    asked_for = set(getattr(item, "fixturenames", ()))
    if NEED_POSTGRES & asked_for:
        item.add_marker(pytest.mark.postgres)
    if NEED_REDIS & asked_for:
        item.add_marker(pytest.mark.redis)
