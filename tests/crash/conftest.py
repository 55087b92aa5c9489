"""The fixture of the crash tests."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.crash.workshop import Workshop, workshop_in
from tests.redis.consistency import assert_consistent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Signals are the runtime's matter more than the store's: on a server they are tried where there is time."""
    for item in items:
        if "test_signals.py" in item.nodeid and ("postgres" in item.name or "redis" in item.name):
            item.add_marker(pytest.mark.slow)


@pytest.fixture(
    params=[
        "sqlite",
        pytest.param("postgres", marks=pytest.mark.postgres),
        pytest.param("redis", marks=pytest.mark.redis),
    ]
)
def workshop(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Workshop]:
    """A fresh store and ledger; every process started here is gone at the end."""
    url = None if request.param == "sqlite" else request.getfixturevalue(f"{request.param}_url")
    with workshop_in(tmp_path, url) as made:
        yield made
        if request.param == "redis":
            assert_consistent(made.url)
