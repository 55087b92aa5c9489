"""`--app` and `--import`: what they find, and what they say when they do not."""

import sys

import pytest

from tinyjobs.cli.imports import import_all
from tinyjobs.cli.target import find_app
from tinyjobs.core.errors import ConfigurationError


@pytest.fixture
def tree(tmp_path, monkeypatch):
    """Writes modules, and forgets at the end that they were imported."""
    before = set(sys.modules)
    monkeypatch.syspath_prepend(str(tmp_path))

    def write(files):
        for name, text in files.items():
            path = tmp_path / f"{name.replace('.', '/')}.py"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    yield write
    for name in set(sys.modules) - before:
        if name.split(".")[0].startswith("x"):
            del sys.modules[name]


def names(patterns):
    modules, failures = import_all(patterns)
    return sorted(module.__name__ for module in modules), sorted(failures)


def test_a_module_by_its_name(tree):
    tree({"xshop.__init__": "", "xshop.jobs": ""})
    assert names(["xshop.jobs"]) == (["xshop.jobs"], [])


def test_a_pattern_stands_for_one_part_of_a_name(tree):
    tree({"xp.__init__": "", "xp.a": "", "xp.b": "", "xp.__main__": "raise AssertionError('a program, not a part')"})
    tree({"xp.sub.__init__": "", "xp.sub.c": "", "xp.sub.d": "raise AssertionError('not asked for')"})
    assert names(["xp.*"]) == (["xp.a", "xp.b", "xp.sub"], [])
    assert names(["xp.*.c"]) == (["xp.sub.c"], [])
    assert names(["xp.s*.c*"]) == (["xp.sub.c"], [])


def test_modules_that_fail_are_named_and_the_others_imported(tree):
    tree({"xgood": "", "xexit": "import sys; sys.exit(3)", "xraise": "raise RuntimeError('no')", "xsyntax": "def (:"})
    assert names(["xexit", "xraise", "xsyntax", "xgood"]) == (["xgood"], ["xexit", "xraise", "xsyntax"])


def test_a_package_that_fails_is_the_one_that_is_named(tree):
    tree({"xbad.__init__": "import xmissing_dependency", "xbad.jobs": ""})
    assert names(["xbad.jobs", "xbad.*"]) == ([], ["xbad"])


def test_an_interrupt_is_no_failure_of_a_module(tree):
    tree({"xinterrupted": "raise KeyboardInterrupt"})
    with pytest.raises(KeyboardInterrupt):
        import_all(["xinterrupted"])


@pytest.mark.parametrize("pattern", ["xnowhere", "xnowhere.*", "xnowhere.jobs", "json.nothing", "json.tool.deeper"])
def test_a_pattern_that_names_nothing_is_refused(pattern):
    with pytest.raises(ConfigurationError, match="there is no such module"):
        import_all([pattern])


@pytest.mark.parametrize("pattern", ["", "*", "*.tasks", "a..b", "a-b", "a/b.py", ".tasks", "shop.tasks:app"])
def test_what_is_no_pattern_is_refused(pattern):
    with pytest.raises(ConfigurationError, match="neither a module"):
        import_all([pattern])


APP = "from tinyjobs import TinyJobs\nclass holder:\n    app = TinyJobs('memory://')\napp = holder.app\nother = 3\n"


def test_an_app_is_found_by_module_and_name(tree):
    tree({"xapp": APP})
    assert find_app("xapp:app").name == "xapp:app"
    assert find_app("xapp:holder.app").where == "memory://"


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ("xapp", "write the module and the name of the app"),
        (":app", "write the module and the name of the app"),
        ("xapp:", "write the module and the name of the app"),
        ("xapp:other", "has no app of that name; there is xapp:app"),
        ("xapp:nothing.at.all", "has no app of that name"),
        ("json:app", "it holds no TinyJobs app"),
        ("xnowhere:app", "cannot be imported: ModuleNotFoundError"),
        ("xexit:app", r"cannot be imported: it called exit\(3\)"),
    ],
)
def test_an_app_that_is_not_there(tree, spec, reason):
    tree({"xapp": APP, "xexit": "import sys; sys.exit(3)"})
    with pytest.raises(ConfigurationError, match=f"--app {spec}: .*{reason}"):
        find_app(spec)
