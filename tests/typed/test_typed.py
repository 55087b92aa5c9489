"""The arguments of an enqueue are checked by mypy and by pyright, for the facade's tasks and for Django's.

The examples are checked from outside the repository, as a project's own code would be. Pyright comes as basedpyright,
which brings everything it needs, in pyright's standard mode.
"""

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from collections import defaultdict
from importlib import resources
from pathlib import Path
from typing import get_type_hints

import pytest

from tests.house.source import ROOT
from tinyjobs.taskbackend.task import TASK_OPTIONS
from tinyjobs.taskbackend.typed import Declaration

HERE = Path(__file__).parent
EXAMPLES = [path.name for path in sorted(HERE.glob("*_passes.py")) + sorted(HERE.glob("*_fails.py"))]
_MARK = re.compile(r"# E: (?P<mypy>[\w-]+), (?P<pyright>\w+)$")

# What mypy says besides, since a decorator that was refused gives nothing to go by.
_FOLLOWS = {"untyped-decorator"}

type Found = dict[str, dict[int, set[str]]]


def require(module: str) -> None:
    """Skip without the checker; in CI, where it has to be, fail."""
    if importlib.util.find_spec(module) is None:
        reason = f"{module} is not installed, so nothing holds the types of tasks; it is in the group test"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)


@pytest.fixture(scope="session")
def project(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("typed")
    for name in [*EXAMPLES, "mypy.ini", "pyrightconfig.json"]:
        shutil.copy(HERE / name, folder)
    return folder


def run(folder: Path, *command: str) -> str:
    """What a checker prints. Its exit status is 1 when it found something, and 2 when it could not check."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MYPY")}
    environment["PYTHONPATH"] = str(ROOT)
    done = subprocess.run([sys.executable, *command], cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="session")
def by_mypy(project) -> Found:
    require("mypy")
    found: Found = defaultdict(lambda: defaultdict(set))
    for line in run(project, "-m", "mypy", *EXAMPLES).splitlines():
        if match := re.match(r"(\w+\.py):(\d+): error: .*\[([\w-]+)\]$", line):
            found[match[1]][int(match[2])].add(match[3])
    return found


@pytest.fixture(scope="session")
def by_pyright(project) -> Found:
    require("basedpyright")
    found: Found = defaultdict(lambda: defaultdict(set))
    output = run(project, "-m", "basedpyright", "--outputjson", "--pythonpath", sys.executable, *EXAMPLES)
    for problem in json.loads(output)["generalDiagnostics"]:
        if problem["severity"] == "error":
            line = problem["range"]["start"]["line"] + 1
            found[Path(problem["file"]).name][line].add(problem.get("rule", problem["message"]))
    return found


@pytest.fixture(params=["mypy", "pyright"])
def checker(request) -> tuple[str, Found]:
    return request.param, request.getfixturevalue(f"by_{request.param}")


@pytest.mark.parametrize("example", EXAMPLES)
def test_what_a_checker_finds_is_what_is_marked(checker, example):
    name, found = checker
    lines = (HERE / example).read_text("utf-8").splitlines()
    marked = {number: match[name] for number, line in enumerate(lines, 1) if (match := _MARK.search(line))}
    assert bool(marked) is example.endswith("_fails.py")
    told = {number: rules - _FOLLOWS for number, rules in found[example].items() if rules - _FOLLOWS}
    missed = {number: lines[number - 1] for number in marked if marked[number] not in told.get(number, ())}
    assert not missed, f"{name} found nothing of the kind here"
    surplus = {number: told[number] for number in told if number not in marked}
    assert not surplus, f"{name} found more than is marked"


def test_the_options_that_a_checker_knows_are_those_of_a_task():
    assert set(get_type_hints(Declaration)) == TASK_OPTIONS | {"priority", "queue_name", "backend"}


def test_the_package_says_that_it_is_typed():
    assert resources.files("tinyjobs").joinpath("py.typed").is_file()
