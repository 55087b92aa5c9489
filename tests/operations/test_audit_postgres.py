"""What a Postgres store says of its server's settings, on servers that are set up that way."""

import asyncio

import psycopg
import pytest

from tests.servers.apps import apps_on
from tests.servers.fixtures import skipping_what_is_missing
from tests.servers.postgres import Cluster
from tinyjobs.backends.postgres.audit import audit
from tinyjobs.backends.sql.statements import Statements
from tinyjobs.core.inline import finish

pytestmark = pytest.mark.postgres
SAFE = {"fsync": "on"}


@pytest.fixture(scope="module")
def cluster():
    """A server of this module's own, set up as it should be."""
    with skipping_what_is_missing():
        started = Cluster(settings=SAFE)
    yield started
    started.close()


@pytest.fixture
def audited(cluster):
    """Audits a store on a new database, made with what is set for it; what fails by name, and the line that sums up."""
    with apps_on(cluster.url()) as make:

        def audit(*settings: str, on_a_loop: bool = False):
            name = cluster.create_database()
            for setting in settings:
                cluster.execute(f"ALTER DATABASE {name} SET {setting}")
            app = make(cluster.url(name))
            if on_a_loop:
                store = app.store.apart()

                async def look():
                    try:
                        return await store.audit()
                    finally:
                        await store.close()

                findings = asyncio.run(look())
            else:
                findings = finish(app.store.inline().audit())
            return told(findings)

        yield audit


def told(findings):
    *failed, summary = findings
    assert summary.name == "settings"
    assert summary.ok
    assert all(not finding.ok and finding.remedy for finding in failed)
    return [finding.name for finding in failed], summary


@pytest.mark.parametrize("on_a_loop", [False, True])
def test_a_server_that_is_set_up_well(audited, on_a_loop):
    failed, summary = audited(on_a_loop=on_a_loop)
    assert failed == []
    assert not summary.is_unknown
    for word in ("synchronous_commit on", "fsync on", "primary"):
        assert word in summary.message
    assert "by default" not in summary.message


def test_a_default_of_off_is_told_beside_what_our_own_connections_have(audited):
    failed, summary = audited("synchronous_commit = off")
    assert failed == []
    assert "synchronous_commit on here, off by default" in summary.message


@pytest.mark.parametrize("value", ["local", "remote_write", "remote_apply"])
def test_a_server_that_waits_for_standbys_in_its_own_way_is_left_alone(audited, value):
    failed, summary = audited(f"synchronous_commit = {value}")
    assert failed == []
    assert f"synchronous_commit {value}" in summary.message


def test_transactions_that_are_read_only_by_default(audited):
    assert audited("default_transaction_read_only = on")[0] == ["read_only"]


def test_a_session_in_which_something_turned_synchronous_commit_off(cluster):
    failed, _ = _audited_on(cluster.url(), "SET synchronous_commit = off")
    assert failed == ["synchronous_commit"]


class _Raw:
    """A connection of the driver's behind the interface of the verbs."""

    def __init__(self, raw):
        self._raw = raw

    async def fetch(self, statement, parameters=()):
        return self._raw.execute(statement.format.encode(), parameters or None).fetchall()


def _audited_on(url, *before):
    statements = Statements("tinyjobs.backends.postgres", "tinyjobs")
    with psycopg.connect(url, autocommit=True) as raw:
        for statement in before:
            raw.execute(statement.encode())
        return told(finish(audit(_Raw(raw), statements)))  # type: ignore[arg-type]


def test_fsync_off_fails_but_on_neon(make_cluster):
    unsafe = make_cluster(settings={"fsync": "off"})
    assert _audited_on(unsafe.url())[0] == ["fsync"]
    failed, summary = _audited_on(unsafe.url(), "SET neon.timeline_id = 'a1'")
    assert failed == []
    assert "Neon" in summary.message


class _Answering:
    """A server whose answer is given."""

    def __init__(self, *row):
        self._row = row

    async def fetch(self, statement, parameters=()):
        return [self._row]


def _answered(*row):
    statements = Statements("tinyjobs.backends.postgres", "tinyjobs")
    return told(finish(audit(_Answering(*row), statements)))  # type: ignore[arg-type]


def test_a_standby():
    failed, summary = _answered("on", "on", "on", None, True, "off")
    assert failed == ["recovery"]
    assert "standby" in summary.message


@pytest.mark.parametrize("place", [0, 2, 4, 5])
def test_what_a_server_does_not_tell_is_not_checked(place):
    row = ["on", "on", "on", None, False, "off"]
    row[place] = None
    failed, summary = _answered(*row)
    assert failed == []
    assert summary.is_unknown
    assert "Not checked" in summary.message


def test_each_problem_is_a_finding_of_its_own():
    failed, _ = _answered("off", "off", "off", None, True, "on")
    assert failed == ["synchronous_commit", "fsync", "recovery", "read_only"]
