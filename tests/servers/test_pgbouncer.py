"""The private PgBouncer: sessions in session mode, borrowed connections in transaction mode."""

import psycopg
import pytest


def backend(connection):
    return connection.execute("SELECT pg_backend_pid()").fetchone()[0]


def test_session_mode_keeps_what_a_session_has_set(make_pgbouncer, postgres_url):
    name = postgres_url.rpartition("/")[2]
    bouncer = make_pgbouncer()
    with psycopg.connect(bouncer.url(name), autocommit=True) as connection:
        connection.execute("CREATE TEMPORARY TABLE kept (a int)")
        connection.execute("SET work_mem = '5MB'")
        assert len({backend(connection) for _ in range(5)}) == 1
        assert connection.execute("SHOW work_mem").fetchone() == ("5MB",)
        assert connection.execute("SELECT count(*) FROM kept").fetchone() == (0,)
        assert [pool["pool_mode"] for pool in bouncer.show("pools") if pool["database"] == name] == ["session"]


def test_transaction_mode_lends_one_connection_to_two_clients(make_pgbouncer, postgres_url):
    name = postgres_url.rpartition("/")[2]
    bouncer = make_pgbouncer(mode="transaction", pool_size=1)
    with (
        psycopg.connect(bouncer.url(name), autocommit=True) as one,
        psycopg.connect(bouncer.url(name), autocommit=True) as two,
    ):
        assert backend(one) == backend(two)


def test_a_restart_ends_every_connection_and_the_port_stays(make_pgbouncer, postgres_url):
    name = postgres_url.rpartition("/")[2]
    bouncer = make_pgbouncer()
    with psycopg.connect(bouncer.url(name), autocommit=True) as connection:
        bouncer.restart()
        with pytest.raises(psycopg.OperationalError):
            connection.execute("SELECT 1")
    with psycopg.connect(bouncer.url(name)) as connection:
        assert backend(connection)
