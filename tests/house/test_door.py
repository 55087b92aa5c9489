"""The public door: light to open, complete, and honest about what breaks behind it."""

import ast
import importlib
import inspect
import subprocess
import sys
from types import ModuleType

import pytest

import tinyjobs
from tests.house.source import PACKAGE, Source
from tinyjobs.core import errors


def test_importing_the_package_loads_neither_django_nor_a_driver():
    loaded = subprocess.run(
        [sys.executable, "-c", "import sys, tinyjobs; print(*sorted({name.split('.')[0] for name in sys.modules}))"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split()
    assert "tinyjobs" in loaded
    assert not {"django", "asgiref", "sqlite3", "psycopg", "redis", "asyncio"} & set(loaded)


def test_the_engines_own_words_need_no_django():
    program = (
        "import sys\n"
        "from tinyjobs import Abandon, FrozenClock, Job, JobStatus, Retry, StoreError, TinyJobs\n"
        "assert not [name for name in sys.modules if name.split('.')[0] == 'django'], 'Django was loaded'\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)


@pytest.mark.parametrize("name", tinyjobs.__all__)
def test_every_name_is_there(name):
    value = getattr(tinyjobs, name)
    assert not isinstance(value, ModuleType), f"{name} is a module, not what the door promises"


def test_every_exception_is_public():
    defined = {
        name
        for name, value in inspect.getmembers(errors, inspect.isclass)
        if issubclass(value, Exception) and value.__module__ == errors.__name__
    }
    assert defined <= set(tinyjobs.__all__)


def test_type_checkers_see_the_same_names():
    source = Source(PACKAGE / "__init__.py", (PACKAGE / "__init__.py").read_text("utf-8"))
    block = next(
        node
        for node in source.tree.body
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
    )
    declared = {}
    for node in block.body:
        assert isinstance(node, ast.ImportFrom)
        declared.update({alias.name: node.module for alias in node.names})
    assert declared == {name: tinyjobs._OWNERS.get(name, tinyjobs._ERRORS) for name in tinyjobs.__all__}


def test_no_submodule_is_named_like_a_public_name():
    # Importing such a submodule would replace the name on the package by the module.
    submodules = {path.stem for path in PACKAGE.iterdir() if path.is_dir() or path.suffix == ".py"}
    assert not submodules & set(tinyjobs.__all__)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'Nonsense'"):
        tinyjobs.Nonsense  # noqa: B018


@pytest.fixture
def breaking(monkeypatch):
    """Make the import behind one public name fail with a given error."""

    def arrange(error: Exception) -> None:
        def fail(name: str) -> ModuleType:
            raise error

        monkeypatch.delitem(vars(tinyjobs), "Retry", raising=False)
        monkeypatch.setattr(tinyjobs, "import_module", fail)

    yield arrange
    monkeypatch.undo()
    assert tinyjobs.Retry is importlib.import_module("tinyjobs.core.retry").Retry


@pytest.mark.parametrize(
    "error", [ModuleNotFoundError("no module of that name", name="elsewhere"), RuntimeError("odd")]
)
def test_a_failing_import_is_shown_as_it_is(breaking, error):
    breaking(error)
    with pytest.raises(type(error)) as caught:
        from tinyjobs import Retry  # noqa: F401
    assert caught.value is error


def test_an_attribute_error_while_importing_is_not_taken_for_a_missing_name(breaking):
    breaking(AttributeError("module 'thing' has no attribute 'part'"))
    with pytest.raises(ImportError, match=r"tinyjobs\.core\.retry failed: module 'thing' has no attribute 'part'"):
        from tinyjobs import Retry  # noqa: F401
