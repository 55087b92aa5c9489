"""Each line of the table of guarantees names tests, and each of them is there and is run."""

import ast
import re
from functools import cache

import pytest

from tests.docs.pages import ROOT, tables
from tinyjobs.testing import BackendContract

PAGE = "docs/reference/guarantees.md"
ROWS = [(heading, *row) for heading, rows in tables(PAGE).items() for row in rows if heading != "Over time"]
_CONTRACT = "BackendContract."


def named(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


@cache
def found_in(path: str) -> dict[str, bool]:
    """The tests of a file by their names, those of its classes and those it takes from elsewhere; whether it skips."""
    tree = ast.parse((ROOT / path).read_text("utf-8"))
    found: dict[str, bool] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
            found[node.name] = any("mark.skip(" in ast.unparse(one) for one in node.decorator_list)
        elif isinstance(node, ast.ImportFrom):
            found.update({alias.asname or alias.name: False for alias in node.names if alias.name.startswith("test_")})
    return found


def problem_with(name: str) -> str | None:
    if name.startswith(_CONTRACT):
        test = name.removeprefix(_CONTRACT)
        return None if test.startswith("test_") and hasattr(BackendContract, test) else "the contract has no such test"
    path, _, test = name.partition("::")
    if not re.fullmatch(r"tests/(\w+/)*test_\w+\.py", path) or not (ROOT / path).is_file():
        return "there is no such file of tests"
    if test not in found_in(path):
        return "the file has no such test"
    return "the test is skipped" if found_in(path)[test] else None


def test_there_are_guarantees():
    assert len(ROWS) > 20
    assert len({row[0] for row in ROWS}) == 3


@pytest.mark.parametrize(("section", "guarantee", "tests"), ROWS)
def test_each_guarantee_names_tests_that_exist(section, guarantee, tests):
    names = named(tests)
    assert names, f"nothing proves: {guarantee}"
    assert {name: problem for name in names if (problem := problem_with(name))} == {}


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("BackendContract.test_nothing_of_the_kind", "the contract has no such test"),
        ("BackendContract.clients", "the contract has no such test"),
        ("tests/crash/test_nowhere.py::test_x", "there is no such file of tests"),
        (
            "tests/crash/storms.py::test_a_hundred_kills_at_random_moments_lose_nothing",
            "there is no such file of tests",
        ),
        ("tests/crash/test_kills.py::test_x", "the file has no such test"),
        ("tests/crash/test_kills.py::until", "the file has no such test"),
        ("tests/redis/test_kills.py::test_a_hundred_kills_at_random_moments_lose_nothing", None),
    ],
)
def test_what_does_not_exist_is_found(name, problem):
    assert problem_with(name) == problem
