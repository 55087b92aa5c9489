"""Many workers over one Postgres, killed at any moment, or all at everything at once: nothing lost, no deadlocks."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.crash.storms import (
    everybody_at_once,
    test_a_hundred_kills_at_random_moments_lose_nothing,  # noqa: F401 - the test
)
from tests.crash.workshop import Workshop, workshop_in
from tests.servers.postgres import Server

pytestmark = [pytest.mark.postgres, pytest.mark.slow]


@pytest.fixture
def workshop(postgres_url: str, tmp_path: Path) -> Iterator[Workshop]:
    with workshop_in(tmp_path, postgres_url) as made:
        yield made


def deadlocks(server: Server, workshop: Workshop) -> int:
    server.execute("SELECT pg_stat_clear_snapshot()")
    name = workshop.url.rpartition("/")[2]
    ((count,),) = server.execute("SELECT deadlocks FROM pg_stat_database WHERE datname = %s", [name])
    return int(count)


def test_grouped_outcomes_heartbeats_reapers_and_cancels_never_wait_for_each_other_in_a_ring(
    workshop, postgres_cluster
):
    before = deadlocks(postgres_cluster, workshop)
    done = everybody_at_once(workshop)
    assert deadlocks(postgres_cluster, workshop) == before
    print(f"{done}, 0 deadlocks")
