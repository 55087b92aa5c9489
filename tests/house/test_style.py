"""How modules and names look, and what no file of the repository may mention."""

import ast
import re

from tests.house.source import PACKAGE, ROOT, modules, tracked_files

LONGEST_MODULE = 400
EMPTY_NAMES = {"util", "utils", "helper", "helpers", "common", "misc"}


def test_every_module_opens_with_its_purpose():
    silent = [module.place for module in modules() if not (ast.get_docstring(module.tree) or "").strip()]
    assert not silent, "say what it is for, what it may assume, what it must not know:\n" + "\n".join(silent)


def test_modules_stay_short():
    long = [
        f"{module.place}: {lines} lines"
        for module in modules()
        if (lines := module.text.count("\n")) > LONGEST_MODULE and "migrations" not in module.path.parts
    ]
    assert not long, f"split these, {LONGEST_MODULE} lines are the limit:\n" + "\n".join(long)


def test_names_say_something():
    empty = [
        path.relative_to(ROOT).as_posix()
        for path in sorted(PACKAGE.rglob("*"))
        if "__pycache__" not in path.parts and EMPTY_NAMES & set(re.split(r"[_.]", path.name))
    ]
    assert not empty, "name a module for what it holds:\n" + "\n".join(empty)


def test_no_file_names_the_place_where_it_was_written():
    # Put together from pieces, or this file would be the first to be found.
    marks = [
        "/wor" + "k/",
        "share" + "d/(rulings|design|spec|cases|django_contract|performance)",
        r"\brulin" + r"gs? \d",
        r"\bissu" + r"e \d",
        r"design-note" + r"s\.txt",
        r"known_failure" + r"s\.md",
        r"\.librar" + r"y/",
    ]
    pattern = re.compile("|".join(marks), re.IGNORECASE)
    found = []
    for path in tracked_files():
        try:
            text = path.read_text("utf-8")
        except UnicodeDecodeError:
            continue
        for number, line in enumerate(text.splitlines(), 1):
            if match := pattern.search(line):
                found.append(f"{path.relative_to(ROOT).as_posix()}:{number}: {match[0]!r}")
    assert not found, "\n".join(found)
