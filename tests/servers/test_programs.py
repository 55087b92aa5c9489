"""Which programs are taken when there are several, or none."""

import pytest

from tests.servers import programs
from tests.servers.processes import MissingProgramError


def server(folder, version):
    folder.mkdir(parents=True)
    for name in ("initdb", "postgres"):
        (folder / name).write_text(f"#!/bin/sh\necho '{name} (PostgreSQL) {version}'\n")
        (folder / name).chmod(0o755)
    return folder


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """A machine that has nothing but what the test puts into its folder."""
    monkeypatch.delenv(programs.PROGRAMS_VARIABLE, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setattr(
        programs.glob, "glob", lambda pattern: [str(found) for found in tmp_path.glob(pattern.lstrip("/"))]
    )
    return tmp_path


def test_the_newest_of_debians_is_taken(machine):
    for version in ("9.6.24", "15.4", "14.9"):
        server(machine / "usr/lib/postgresql" / version.split(".")[0] / "bin", version)
    assert programs.postgres_programs() == machine / "usr/lib/postgresql/15/bin"
    assert programs.postgres_programs(14) == machine / "usr/lib/postgresql/14/bin"


def test_what_pg_config_and_path_say_comes_first(machine):
    server(machine / "usr/lib/postgresql/15/bin", "15.4")
    server(machine / "bin", "16.1")
    assert programs.postgres_programs() == machine / "bin"
    told = server(machine / "told", "17.2")
    (machine / "bin" / "pg_config").write_text(f"#!/bin/sh\necho {told}\n")
    (machine / "bin" / "pg_config").chmod(0o755)
    assert programs.postgres_programs() == told
    assert programs.postgres_programs(15) == machine / "usr/lib/postgresql/15/bin"


def test_a_pg_config_without_a_server_is_passed_over(machine):
    (machine / "bin").mkdir()
    (machine / "bin" / "pg_config").write_text("#!/bin/sh\necho /nowhere\n")
    (machine / "bin" / "pg_config").chmod(0o755)
    with pytest.raises(MissingProgramError, match="apt-get install postgresql"):
        programs.postgres_programs()
    server(machine / "usr/lib/postgresql/15/bin", "15.4")
    assert programs.postgres_programs() == machine / "usr/lib/postgresql/15/bin"


def test_the_folder_that_is_named_is_taken_or_refused(machine, monkeypatch):
    server(machine / "bin", "16.1")
    monkeypatch.setenv(programs.PROGRAMS_VARIABLE, str(server(machine / "named", "14.1")))
    assert programs.postgres_programs() == machine / "named"
    with pytest.raises(MissingProgramError, match="Postgres 16"):
        programs.postgres_programs(16)
    monkeypatch.setenv(programs.PROGRAMS_VARIABLE, str(machine))
    with pytest.raises(MissingProgramError, match="TINYJOBS_TEST_POSTGRES_PROGRAMS"):
        programs.postgres_programs()


def test_a_missing_pgbouncer_says_how_to_get_it(machine, monkeypatch):
    monkeypatch.setattr(programs.shutil, "which", lambda name, path=None: None)
    with pytest.raises(MissingProgramError, match="apt-get install pgbouncer"):
        programs.pgbouncer_program()
