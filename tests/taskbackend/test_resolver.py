"""Which functions a stored job may run, and how the apps' tasks are found."""

import sys
import types

import pytest
from django.apps import apps
from django.tasks import default_task_backend

from tests.taskbackend.shop import tasks
from tinyjobs.taskbackend.resolver import locate
from tinyjobs.taskbackend.shared import forget

HERE = "tests.taskbackend.shop.tasks"
OURS = "tinyjobs.TinyJobsBackend"


@pytest.fixture
def catalogue():
    forget()
    yield default_task_backend.shared.catalogue
    forget()


def test_discovery_finds_the_tasks_of_every_app(catalogue):
    assert catalogue.discover() == {}
    assert f"{HERE}.add" in catalogue.names()
    assert f"{HERE}.plain" in catalogue.names()
    assert f"{HERE}.add" in catalogue.thread_names()
    assert f"{HERE}.aadd" not in catalogue.thread_names()
    assert f"{HERE}.under_another_name" not in catalogue.names()


def test_a_tasks_module_that_fails_is_named_and_the_others_go_on(catalogue, monkeypatch):
    def fail(name, *args):
        if name == "django.contrib.auth.tasks":
            raise SystemExit(2)
        return real(name, *args)

    import tinyjobs.taskbackend.resolver as resolver

    real = resolver._import_if_there
    monkeypatch.setattr(resolver, "_import_if_there", fail)
    failed = catalogue.discover()
    assert list(failed) == ["django.contrib.auth.tasks"]
    assert isinstance(failed["django.contrib.auth.tasks"], SystemExit)
    assert f"{HERE}.add" in catalogue.names()


@pytest.mark.parametrize(
    "path",
    [
        "os.system",
        "tests.taskbackend.test_resolver.HERE",
        f"{HERE}.not_a_task",
        f"{HERE}.under_another_name",
        f"{HERE}.ran",
        f"{HERE}.nothing",
        f"{HERE}.add.func",
        "tests.taskbackend.shop",
        "tests.taskbackend.shopping.tasks.add",
        "",
        ".",
        "a.",
        ".a",
        "x" * 300 + ".y",
        "tests.taskbackend.shop.ta\0sks.add",
    ],
)
def test_what_is_not_a_task_of_an_installed_app_is_unknown(catalogue, path):
    assert catalogue.find(path) is None
    assert catalogue.find(path) is None


def test_nothing_outside_of_the_apps_is_imported(catalogue):
    sys.modules.pop("antigravity", None)
    assert catalogue.find("antigravity.fly") is None
    assert "antigravity" not in sys.modules


def test_a_module_that_raises_is_logged_with_its_traceback(monkeypatch, caplog):
    def explode(name):
        raise RuntimeError("at import")

    monkeypatch.setattr("tinyjobs.taskbackend.resolver.importlib.import_module", explode)
    assert locate("tests.taskbackend.shop.broken.task") is None
    assert "at import" in caplog.text


def test_names_nobody_knows_are_kept_within_bounds(catalogue):
    for number in range(1_200):
        catalogue.find(f"{HERE}.nothing_{number}")
    assert len(catalogue._specs) <= 1_000


def test_options_come_from_the_task_and_the_settings_over_them(settings):
    path = f"{HERE}.flaky"
    settings.TASKS = {"default": {"BACKEND": OURS, "OPTIONS": {"tasks": {path: {"timeout": 5, "retry_base": 2}}}}}
    options = default_task_backend.shared.catalogue.find(path).options
    assert (options.timeout, options.retry_base, options.max_attempts) == (5, 2, 3)
    assert options.retry_on == (ConnectionError,)
    assert options.store_result


def test_a_setting_for_a_task_that_does_not_exist(settings):
    settings.TASKS = {"default": {"BACKEND": OURS, "OPTIONS": {"tasks": {f"{HERE}.ad": {}}}}}
    (problem,) = default_task_backend.shared.catalogue.check_settings()
    assert f"['{HERE}.ad']" in problem


def test_a_policy_that_cannot_be_imported_makes_the_task_unusable_here(settings, caplog):
    path = f"{HERE}.add"
    settings.TASKS = {"default": {"BACKEND": OURS, "OPTIONS": {"tasks": {path: {"retry_on": ["shop.errors.Gone"]}}}}}
    assert default_task_backend.shared.catalogue.find(path) is None
    assert "shop.errors.Gone" in caplog.text


def test_a_task_declared_for_another_alias_is_found_here(settings):
    settings.TASKS = {
        "default": {"BACKEND": "django.tasks.backends.dummy.DummyBackend"},
        "ours": {"BACKEND": OURS},
    }
    from django.tasks import task_backends

    assert task_backends["ours"].shared.catalogue.find(f"{HERE}.add").call.task is tasks.add


def test_an_app_is_known_by_the_whole_of_its_name():
    assert apps.get_containing_app_config(f"{HERE}.add").label == "shop"
    assert locate("tests.taskbackend.shopkeeper.tasks.add") is None
    assert isinstance(sys.modules[HERE], types.ModuleType)
