"""By which statements a connection is told to have a session of its own from then on."""

from types import SimpleNamespace

import pytest
from psycopg import sql

from tinyjobs.taskbackend.sessions import changes_session, has_changed, watch


@pytest.mark.parametrize(
    "statement",
    [
        "SET search_path TO shop",
        "  set\n role 'admin'",
        "SET SESSION AUTHORIZATION admin",
        "RESET ALL",
        "LISTEN orders",
        "PREPARE plan AS SELECT 1",
        "CREATE TEMPORARY TABLE t (id int)",
        "create temp view v as select 1",
        "SELECT set_config('search_path', %s, false)",
        "SELECT 1 WHERE pg_try_advisory_lock(7)",
        "SELECT pg_advisory_lock_shared(7)",
        b"SET search_path TO shop",
        sql.SQL("SET ROLE {}").format(sql.Identifier("admin")),
    ],
)
def test_what_lasts(statement):
    assert changes_session(statement)


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT 1",
        "SET LOCAL search_path TO shop",
        "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE",
        "SET CONSTRAINTS ALL IMMEDIATE",
        "UPDATE shop_order SET name = 'SET'",
        "SELECT pg_advisory_xact_lock(7)",
        "SELECT setting FROM shop_settings",
        "SETTLE",
        "CREATE TABLE temporary (id int)",
        sql.SQL("SELECT {}").format(sql.Identifier("SET")),
        None,
    ],
)
def test_what_ends_with_its_transaction(statement):
    assert not changes_session(statement)


def test_it_is_told_once_and_a_projects_own_wrappers_are_left_alone():
    said = []

    def own(execute, sql, params, many, context):
        said.append(sql)
        return execute(sql, params, many, context)

    connection = SimpleNamespace(execute_wrappers=[own])
    watch(connection)
    watch(connection)
    assert len(connection.execute_wrappers) == 2
    assert connection.execute_wrappers.pop() is own  # as the end of the project's own block does

    (watching,) = connection.execute_wrappers
    assert not has_changed(connection)
    assert watching(lambda sql, *rest: f"ran {sql}", "SET x TO y", None, False, {}) == "ran SET x TO y"
    watching(lambda *arguments: None, "SELECT 1", None, False, {})
    assert has_changed(connection)
    assert not has_changed(connection)
