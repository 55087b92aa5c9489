"""Workers whose clocks are wrong, beside one Postgres."""

from collections.abc import Callable

import pytest

from tests.crash.workshop import Workshop
from tests.crash.wrong_clocks import (  # noqa: F401 - the tests
    test_a_job_of_a_killed_worker_comes_back_after_its_lease_whatever_the_clocks_say,
    test_instants_that_a_worker_reports_are_moved_onto_the_servers_clock,
    test_two_workers_with_wrong_clocks_take_every_job_at_its_time_and_no_lease,
)

pytestmark = pytest.mark.postgres


@pytest.fixture
def store_url(postgres_url: str) -> str:
    return postgres_url


@pytest.fixture
def workshop(postgres_url: str, open_workshop: Callable[[str], Workshop]) -> Workshop:
    return open_workshop(postgres_url)
