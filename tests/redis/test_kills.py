"""Many workers over one Redis, killed at any moment, or all at everything at once: nothing lost, no key left over."""

from collections.abc import Callable, Iterator

import pytest

from tests.crash.storms import (
    everybody_at_once,
    test_a_hundred_kills_at_random_moments_lose_nothing,  # noqa: F401 - the test
)
from tests.crash.workshop import Workshop
from tests.redis.consistency import assert_consistent

pytestmark = [pytest.mark.redis, pytest.mark.slow]


@pytest.fixture
def workshop(redis_url: str, open_workshop: Callable[[str], Workshop]) -> Iterator[Workshop]:
    made = open_workshop(redis_url)
    yield made
    assert_consistent(redis_url)


def test_grouped_outcomes_heartbeats_reapers_and_cancels_at_once(workshop):
    print(everybody_at_once(workshop))
