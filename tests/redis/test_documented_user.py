"""The user of the server's that the page on Redis shows: it is all that a store needs, and nothing is refused to it."""

from pathlib import Path

import pytest

from tests.crash.telling import SHORT
from tests.crash.workshop import until
from tests.redis.test_scripts_flushed import every_step
from tinyjobs.backends.registry import open_backend
from tinyjobs.core.clock import SystemClock
from tinyjobs.core.inline import finish

pytestmark = pytest.mark.redis
PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "redis.md"


@pytest.fixture
def url_of_user(own_redis):
    (line,) = [line for line in PAGE.read_text().splitlines() if line.startswith("user jobs ")]
    own_redis.execute("ACL SETUSER", *line.split()[1:])
    own_redis.execute("ACL LOG", "RESET")
    return own_redis.url().replace("redis://", "redis://jobs:password@")


def test_every_verb_is_granted(own_redis, url_of_user):
    store = open_backend(url_of_user, clock=SystemClock()).inline()
    finish(every_step(store, lambda: None))
    assert finish(store.audit())
    finish(store.close())
    assert own_redis.execute("ACL LOG") == []


def test_a_worker_is_woken_and_beats(own_redis, url_of_user, open_workshop):
    workshop = open_workshop(url_of_user)
    worker = workshop.worker(**SHORT)
    until(lambda: own_redis.execute("HLEN", "{tinyjobs}:asleep"))
    sent = [workshop.send("note", number) for number in range(3)]
    until(lambda: all(workshop.get(job).status == "success" for job in sent))
    assert own_redis.execute("PUBSUB", "NUMSUB", "{tinyjobs}:wake")[1] == 1
    assert own_redis.execute("HLEN", "{tinyjobs}:workers") == 1
    worker.kill()
    assert worker.errors == "" and own_redis.execute("ACL LOG") == []
