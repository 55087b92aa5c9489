"""Apps over a Postgres, and workshops with processes over one, closed after the test."""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from tests.crash.workshop import Workshop, workshop_in
from tests.servers.apps import apps_on
from tests.servers.postgres import Server
from tinyjobs.app.facade import TinyJobs


def run_sql(url: str, *statements: str) -> None:
    """Run statements in autocommit, on a connection of their own."""
    with psycopg.connect(url, autocommit=True) as raw:
        for statement in statements:
            raw.execute(statement.encode())


@pytest.fixture
def make_app(postgres_url: str) -> Iterator[Callable[..., TinyJobs]]:
    """Makes apps on the test's database, or on another URL."""
    with apps_on(postgres_url) as make:
        yield make


@pytest.fixture
def app(make_app: Callable[..., TinyJobs]) -> TinyJobs:
    """One app on the test's database."""
    return make_app()


@pytest.fixture
def open_workshop(tmp_path: Path) -> Iterator[Callable[[str], Workshop]]:
    """Opens a workshop over a store's URL; every process started there is gone at the end."""
    with ExitStack() as stack:
        yield lambda url: stack.enter_context(workshop_in(tmp_path, url))


@pytest.fixture
def role(postgres_cluster: Server, postgres_url: str) -> Iterator[str]:
    """A role that may connect and nothing else."""
    name = f"plain_{os.getpid()}_{id(postgres_url)}"
    postgres_cluster.execute(sql.SQL("CREATE ROLE {} LOGIN").format(sql.Identifier(name)))
    yield name
    run_sql(postgres_url, f"DROP OWNED BY {name} CASCADE")
    postgres_cluster.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(name)))
