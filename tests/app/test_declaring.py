"""Declaring tasks: names, options, what is no task, and errors that say where the mistake is."""

import asyncio
import inspect
import math
import os
import subprocess
import sys
from datetime import timedelta

import pytest

from tests.house.source import ROOT
from tinyjobs.core.errors import ConfigurationError, UnsupportedCapabilityError


def sample(value: int) -> int:
    return value + 1


async def coroutine_sample() -> None: ...


def test_a_task_is_named_after_its_module_and_function(app):
    assert app.task(sample).name == f"{__name__}.sample"


def test_a_given_name_wins(app):
    task = app.task(name="samples.add")(sample)
    assert (task.name, app.tasks["samples.add"]) == ("samples.add", task)


def test_calling_a_task_runs_the_function_and_makes_no_job(app):
    assert app.task(sample)(2) == 3
    assert app.list().jobs == []


def test_a_task_looks_like_its_function(app):
    task = app.task(sample)
    assert (task.__name__, task.__module__, task.__wrapped__) == ("sample", __name__, sample)


def test_an_async_task_is_seen_as_a_coroutine_function(app):
    task = app.task(coroutine_sample)
    assert inspect.iscoroutinefunction(task)
    assert not inspect.iscoroutinefunction(app.task(sample))
    assert asyncio.run(task()) is None


def test_an_app_shows_no_secret_of_its_url(make_app):
    assert repr(make_app("looponly://user:secret@host/")) == "<TinyJobs looponly, 0 tasks>"


def test_the_catalogue_knows_what_is_registered_and_nothing_else(app):
    app.task(name="plain")(sample)
    app.task(name="async")(coroutine_sample)
    catalogue = app.engine.catalogue
    assert catalogue.names() == {"plain", "async"}
    assert catalogue.thread_names() == {"plain"}
    assert catalogue.find("plain").call is sample
    assert catalogue.find("async").is_coroutine


def test_an_unknown_name_is_not_imported(app):
    assert app.engine.catalogue.find("antigravity.fly") is None
    assert "antigravity" not in sys.modules


def test_a_second_task_of_one_name_is_refused_and_both_are_shown(app):
    app.task(name="twice")(sample)
    with pytest.raises(ConfigurationError, match=r"twice.*test_declaring.py.*is taken by.*test_declaring.py"):
        app.task(name="twice")(coroutine_sample)
    assert app.engine.catalogue.find("twice").call is sample


@pytest.mark.parametrize("wrong", [5, "", "a" * 256, "a\nb"])
def test_names_are_checked(app, wrong):
    with pytest.raises(ConfigurationError, match="name"):
        app.task(name=wrong)(sample)


def generator():
    yield 1


async def async_generator():
    yield 1


class Callable_:
    async def __call__(self):
        return 1


@pytest.mark.parametrize("wrong", [generator, async_generator, int, Callable_, 5])
def test_what_is_no_task_is_refused(app, wrong):
    with pytest.raises(ConfigurationError, match=r"not a function|generator"):
        app.task(name="wrong")(wrong)


def test_a_task_is_not_registered_twice_over(app):
    task = app.task(sample)
    with pytest.raises(ConfigurationError, match="a task already"):
        app.task(name="again")(task)


def test_an_object_called_like_an_async_function_is_one(app):
    with pytest.raises(ConfigurationError, match="no name of its own"):
        app.task(Callable_())
    assert app.task(name="object")(Callable_()).spec.is_coroutine


@pytest.mark.parametrize(
    ("option", "wrong"),
    [
        ("timeout", 0),
        ("timeout", -1),
        ("timeout", math.nan),
        ("timeout", math.inf),
        ("timeout", 10**400),
        ("timeout", True),
        ("timeout", "5"),
        ("max_attempts", 0),
        ("max_attempts", -1),
        ("max_attempts", 1.5),
        ("max_attempts", 2**31),
        ("priority", 2**31),
        ("priority", -(2**31) - 1),
        ("priority", 2**63),
        ("priority", 1.5),
        ("priority", True),
        ("priority", None),
        ("queue", ""),
        ("queue", "a,b"),
        ("queue", "*"),
        ("queue", " x"),
        ("queue", "x" * 256),
        ("queue", 5),
        ("retry_on", "ConnectionError"),
        ("retry_on", (5,)),
        ("retry_backoff", "cubic"),
        ("retry_base", 0),
        ("retry_max", -1),
        ("retry_jitter", 1),
        ("codec", "yaml"),
        ("store_result", "yes"),
    ],
)
def test_a_wrong_option_is_an_error_that_names_task_and_option(app, option, wrong):
    with pytest.raises(ConfigurationError, match=rf"task named \(.*test_declaring.py:\d+\): {option}"):
        app.task(name="named", **{option: wrong})(sample)
    assert "named" not in app.tasks


@pytest.mark.parametrize(
    ("option", "right", "kept"),
    [
        ("timeout", None, None),
        ("timeout", 0.5, 0.5),
        ("timeout", 10**12, 1e12),
        ("timeout", timedelta(minutes=1), 60.0),
        ("priority", -(2**31), -(2**31)),
        ("priority", 2**31 - 1, 2**31 - 1),
        ("priority", 101, 101),
        ("max_attempts", 2**31 - 1, 2**31 - 1),
        ("retry_on", ConnectionError, (ConnectionError,)),
        ("retry_on", "builtins.OSError", ("builtins.OSError",)),
        ("queue", "a queue: with-signs.", "a queue: with-signs."),
    ],
)
def test_a_right_option_is_kept(app, option, right, kept):
    assert getattr(app.task(**{option: right})(sample).options, option) == kept


@pytest.mark.parametrize("option", ["concurrency", "rate", "isolated", "after"])
def test_an_option_of_a_later_release_is_refused(app, option):
    with pytest.raises(UnsupportedCapabilityError, match=f"{option} is not available in this release"):
        app.task(**{option: 1})(sample)


def test_an_unknown_option_is_refused_with_those_there_are(app):
    with pytest.raises(ConfigurationError, match=r"does not take 'retries'.*max_attempts"):
        app.task(retries=3)(sample)


def test_pickle_needs_the_apps_permission(app):
    with pytest.raises(ConfigurationError, match="allow_pickle"):
        app.task(codec="pickle")(sample)


@pytest.mark.parametrize(
    ("option", "wrong"),
    [
        ("max_result_bytes", -1),
        ("max_result_bytes", 1.5),
        ("unknown_task_delay", 0),
        ("unknown_task_max_delay", "x"),
        ("allow_pickle", 1),
        ("random", 4),
    ],
)
def test_wrong_settings_of_the_app_are_refused(make_app, option, wrong):
    with pytest.raises(ConfigurationError, match=f"TinyJobs: {option}: {wrong!r}"):
        make_app(**{option: wrong})


@pytest.mark.parametrize(("option", "value"), [("loops", 2), ("isolation_setup", "a:b")])
def test_settings_of_a_later_release_are_refused(make_app, option, value):
    with pytest.raises(UnsupportedCapabilityError, match=f"{option} is not available in this release"):
        make_app(**{option: value})


def test_an_unknown_setting_is_refused(make_app):
    with pytest.raises(ConfigurationError, match="does not take 'colour'"):
        make_app(colour="red")


@pytest.mark.parametrize("url", ["jobs.db", None, "oracle://host/db", "sqlite:///"])
def test_a_url_that_names_no_store_is_refused_at_once(make_app, url):
    with pytest.raises(ConfigurationError):
        make_app(url)


def test_importing_the_facade_loads_no_driver_and_no_django():
    program = (
        "import sys, tinyjobs.app.facade as facade\n"
        "assert not {'sqlite3', 'django', 'asgiref'} & {name.split('.')[0] for name in sys.modules}\n"
        "facade.TinyJobs('memory://')\n"
        "assert 'sqlite3' in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)


def test_a_script_names_its_tasks_as_a_worker_will_import_them(tmp_path):
    (tmp_path / "chores.py").write_text(
        "from tinyjobs.app.facade import TinyJobs\n"
        "app = TinyJobs('memory://')\n"
        "@app.task\n"
        "def sweep(): ...\n"
        "if __name__ == '__main__':\n"
        "    print(sweep.name)\n"
    )
    for command in (["chores.py"], ["-m", "chores"]):
        told = subprocess.run(
            [sys.executable, *command],
            cwd=tmp_path,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
            check=True,
            capture_output=True,
            text=True,
        )
        assert told.stdout.strip() == "chores.sweep"
