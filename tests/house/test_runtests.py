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
    monkeypatch.setattr(runtests, "has_settings", lambda store: False)
    with pytest.raises(SystemExit) as stopped:
        runtests.run_everything(sys.executable, runtests.parse(["--store", "redis"]))
    assert stopped.value.code == 2
    assert "no redis store" in capsys.readouterr().err


@pytest.mark.parametrize(("codes", "outcome"), [([0, 5], 0), ([0, 0], 0), ([0, 1], 1), ([5, 0], 1), ([1, 0], 1)])
def test_a_failure_of_either_run_fails_the_command(monkeypatch, capsys, codes, outcome):
    remaining = iter(codes)
    monkeypatch.setattr(runtests, "run", lambda python, arguments: next(remaining))
    assert runtests.run_everything(sys.executable, runtests.parse(["--store", "sqlite"])) == outcome


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
