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


def redis(folder, version, name="redis"):
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / f"{name}-server"
    program.write_text(f"#!/bin/sh\necho '{name.title()} server v={version} sha=0:0 malloc=libc bits=64 build=0'\n")
    program.chmod(0o755)
    return program


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """A machine that has nothing but what the test puts into its folder."""
    monkeypatch.delenv(programs.PROGRAMS_VARIABLE, raising=False)
    monkeypatch.delenv(programs.REDIS_VARIABLE, raising=False)
    monkeypatch.setattr(programs, "REDIS_PACKAGES", tmp_path / "packages")
    monkeypatch.setattr(programs, "SYSTEM_FOLDERS", str(tmp_path / "sbin"))
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


def test_a_missing_pgbouncer_says_how_to_get_it(machine):
    with pytest.raises(MissingProgramError, match="apt-get install pgbouncer"):
        programs.pgbouncer_program()


def test_a_missing_redis_says_how_to_get_it(machine):
    with pytest.raises(MissingProgramError, match="apt-get install redis-server"):
        programs.redis_program()
    with pytest.raises(MissingProgramError, match="no program of a Redis server valkey-8 here"):
        programs.redis_program("valkey-8")


def test_of_servers_of_redis_paths_comes_first_and_a_packaged_one_last(machine):
    packaged = redis(machine / "packages/some/bin", "8.2.3")
    assert programs.redis_program() == packaged
    valkey = redis(machine / "sbin", "8.1.8", "valkey")
    assert programs.redis_program() == valkey
    debians = redis(machine / "bin", "7.0.15")
    assert programs.redis_program() == debians


def test_a_redis_is_found_by_its_version(machine):
    found = {
        "7": redis(machine / "bin", "7.0.15"),
        "8.2": redis(machine / "packages/redis/bin", "8.2.3"),
        "valkey-8": redis(machine / "packages/a/bin", "8.1.8", "valkey"),
        "valkey-9": redis(machine / "packages/b/bin", "9.1.2", "valkey"),
    }
    assert {version: programs.redis_program(version) for version in found} == found
    assert programs.redis_program("valkey") == found["valkey-8"]
    assert programs.redis_program("redis-8") == found["8.2"]
    for version in ("6.2", "8.20", "9", "valkey-7", "valkey-8.2"):
        with pytest.raises(MissingProgramError):
            programs.redis_program(version)


def test_a_redis_that_cannot_run_is_passed_over_where_a_version_is_wanted(machine):
    broken = machine / "packages/a/redis-server"
    broken.parent.mkdir(parents=True)
    broken.write_text("#!/bin/sh\necho 'error while loading shared libraries' >&2; exit 127\n")
    broken.chmod(0o755)
    works = redis(machine / "packages/b", "8.2.3")
    assert programs.redis_program("8") == works


def test_the_redis_that_is_named_is_taken_or_refused(machine, monkeypatch):
    redis(machine / "bin", "7.0.15")
    named = redis(machine / "named", "9.1.2", "valkey")
    monkeypatch.setenv(programs.REDIS_VARIABLE, str(named))
    assert programs.redis_program() == programs.redis_program("valkey-9") == named
    with pytest.raises(MissingProgramError, match="no program of a Redis server 7 here"):
        programs.redis_program("7")
    monkeypatch.setenv(programs.REDIS_VARIABLE, str(machine / "nowhere"))
    with pytest.raises(MissingProgramError, match="TINYJOBS_TEST_REDIS_PROGRAM"):
        programs.redis_program()
