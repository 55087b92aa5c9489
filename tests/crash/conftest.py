"""The fixture of the crash tests."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.crash.workshop import Workshop, workshop_in


@pytest.fixture
def workshop(tmp_path: Path) -> Iterator[Workshop]:
    """A fresh database and ledger; every process started here is gone at the end."""
    with workshop_in(tmp_path) as made:
        yield made
