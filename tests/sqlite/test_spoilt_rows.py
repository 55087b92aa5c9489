"""Rows that somebody changed by hand: SQLite keeps any value anywhere, and one bad row must not hold up the others."""

import pytest

from tests.sqlite.stores import connection_of, make_job, make_store, request
from tinyjobs.core.errors import StoreError
from tinyjobs.core.inline import finish

SPOILT = [
    "payload = 5",
    "priority = 'high'",
    "run_at = 'soon'",
    "created_at = x'ff'",
    "max_attempts = 'three'",
    "task = x'ff'",
    "queue = x'c3'",
]


@pytest.fixture(params=[True, False], ids=["returning", "older form"])
def store(request, tmp_path):
    made = make_store(tmp_path / "jobs.db", returning=request.param).inline()
    yield made
    finish(made.close())


def change(store, job, change):
    connection_of(store)._raw.execute(f"UPDATE tinyjobs_jobs SET {change} WHERE id = ?", [job.id])


def sent(store, count=2):
    jobs = [make_job(store.clock, key=f"key {number}") for number in range(count)]
    finish(store.enqueue_many(jobs))
    return jobs


def test_a_payload_written_as_text_is_read(store):
    spoilt, _ = sent(store)
    change(store, spoilt, "payload = '[[1],{}]'")
    assert finish(store.claim(request(1))).jobs[0].payload == b"[[1],{}]"


@pytest.mark.parametrize("how", SPOILT)
def test_a_spoilt_row_fails_and_the_others_run(store, how, caplog):
    first, spoilt, last = sent(store, 3)
    change(store, spoilt, how)
    claimed = finish(store.claim(request(3))).jobs
    assert {job.id for job in claimed} == {first.id, last.id}
    assert spoilt.id in caplog.text
    assert finish(store.get(spoilt.id)).status == "failed"
    assert not finish(store.enqueue(make_job(store.clock, key=spoilt.key))).existing


def test_a_claim_of_one_goes_on_behind_the_spoilt_row(store):
    spoilt, sound = sent(store)
    change(store, spoilt, "max_attempts = 'three'")
    assert [job.id for job in finish(store.claim(request(1))).jobs] == [sound.id]


@pytest.mark.parametrize("how", ["max_attempts = 'three'", "status = 'weird'", "claims = 'x'"])
def test_the_reaper_takes_back_the_others(store, how):
    sent(store, 3)
    jobs = finish(store.claim(request(3))).jobs
    change(store, jobs[0], how)
    store.clock.advance(61)
    assert {job.id for job in finish(store.reap_expired(10))} == {job.id for job in jobs[1:]}
    assert finish(store.reap_expired(10)) == []


@pytest.mark.parametrize("how", ["status = 'weird'", "payload = 5"])
def test_a_spoilt_row_is_named_when_it_is_read(store, how):
    spoilt, _ = sent(store)
    change(store, spoilt, how)
    with pytest.raises(StoreError, match=rf"{spoilt.id}.*changed by hand"):
        finish(store.get(spoilt.id))


@pytest.mark.parametrize("column", ["metadata", "last_error", "task"])
def test_a_text_that_is_not_utf8_holds_up_nobody(store, column, caplog):
    first, spoilt, last = sent(store, 3)
    change(store, spoilt, f"{column} = CAST(x'61ff' AS TEXT)")
    claimed = finish(store.claim(request(3))).jobs
    assert [job.id for job in claimed] == [first.id, spoilt.id, last.id]
    assert [job.claims for job in claimed] == [1, 1, 1]
    assert getattr(claimed[1], column) == "a\ufffd"
    assert "Could not decode" in caplog.text
